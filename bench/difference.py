"""Say where two OCI layouts differ: image, layer, entry, and the first byte."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import zstandard

_REF = "org.opencontainers.image.ref.name"


def differences(one: Path, other: Path) -> Iterator[str]:
    """Yield a line for each difference between the images of two layouts with the same tag."""
    left, right = _images(one), _images(other)
    for tag in sorted(left.keys() ^ right.keys()):
        yield f"{tag}: only in {one if tag in left else other}"
    seen: set[tuple[str, str]] = set()
    for tag in sorted(left.keys() & right.keys()):
        if left[tag]["digest"] == right[tag]["digest"]:
            continue
        a, b = (
            _json(root, entry["digest"]) for root, entry in ((one, left[tag]), (other, right[tag]))
        )
        for key in sorted(a.keys() | b.keys()):
            if key != "layers" and a.get(key) != b.get(key):
                yield f"{tag}: manifest.{key}: {a.get(key)!r} and {b.get(key)!r}"
        pairs = zip_longest(a["layers"], b["layers"], fillvalue={"digest": ""})
        for number, (x, y) in enumerate(pairs):
            pair = (x["digest"], y["digest"])
            if pair[0] != pair[1] and pair not in seen:
                seen.add(pair)
                yield from (f"{tag}: layer {number}: {t}" for t in _layer(one, other, *pair))


def _images(root: Path) -> dict[str, dict[str, Any]]:
    index = json.loads((root / "index.json").read_bytes())
    return {entry["annotations"][_REF]: entry for entry in index["manifests"]}


def _blob(root: Path, digest: str) -> Path:
    return root / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _json(root: Path, digest: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_blob(root, digest).read_bytes())
    return document


def _layer(one: Path, other: Path, left: str, right: str) -> Iterator[str]:
    if not left or not right:
        yield f"only in {one if left else other}"
        return
    found = False
    with _open(_blob(one, left)) as a, _open(_blob(other, right)) as b:
        for x, y in zip_longest(a, b):
            if x is None or y is None:
                yield f"entry {(x or y).name!r} is in one of them only"
                return
            for attribute in ("name", "type", "mode", "uid", "gid", "mtime", "size", "linkname"):
                if getattr(x, attribute) != getattr(y, attribute):
                    found = True
                    yield (
                        f"{x.name}: {attribute} {getattr(x, attribute)!r}"
                        f" and {getattr(y, attribute)!r}"
                    )
            at = _first_byte(a.extractfile(x), b.extractfile(y)) if x.isreg() and y.isreg() else -1
            if at >= 0:
                found = True
                yield f"{x.name}: content differs from byte {at} on"
    if not found:
        yield "equal entries: the compression differs"


def _open(path: Path) -> tarfile.TarFile:
    reader = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True)
    return tarfile.open(fileobj=io.BufferedReader(reader), mode="r|")


def _first_byte(a: Any, b: Any) -> int:
    position = 0
    while True:
        x, y = a.read(1 << 20), b.read(1 << 20)
        if x != y:
            short = min(len(x), len(y))
            same = next((i for i in range(short) if x[i] != y[i]), short)
            return position + same
        if not x:
            return -1
        position += len(x)
