"""Single files out of a layer blob of any maker, without more of it than must be read."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection
from typing import BinaryIO, cast

import zstandard

from pipeline.errors import Refusal
from pipeline.oci.blob import Blob, opened
from pipeline.oci.content import CHUNK, DAMAGE, decompressed, media_type_of, normal_path
from pipeline.oci.index import MEDIA_TYPE_TAR, Entry, LayerIndex
from pipeline.oci.tarstream import read_tar
from pipeline.oci.texts import MAX_TEXT, Keep, Texts

_FRAMES = 3  # of 16 MiB at most: the start of a large file, its end, and the file beside it


def read_files(
    blob: Blob, index: LayerIndex, paths: Collection[str], texts: Texts | None = None
) -> dict[str, bytes]:
    """Return the content of files of one layer, by their paths in it.

    Our own layers are read frame by frame. Blobs of other makers take one pass, which keeps its
    small text files in `texts`, so that the next one is for large or binary files only. Raises
    KeyError for a path that is no file of this layer, Refusal when content does not hash as
    indexed.
    """
    wanted = {path: index.files[path] for path in paths}
    if not wanted:
        return {}
    if index.frames or index.media_type == MEDIA_TYPE_TAR:
        found = _read_frames(blob, index, wanted)
    else:
        found = _read_kept(blob, index, wanted, texts)
    for path, entry in wanted.items():
        if path not in found or hashlib.sha256(found[path]).hexdigest() != entry.sha256:
            raise Refusal(f"{blob}: {path} is not what its index says", hint="remove the blob")
    return found


def _read_frames(blob: Blob, index: LayerIndex, wanted: dict[str, Entry]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with opened(blob) as file:
        read = plain_reader(file) if not index.frames else frame_reader(blob, file, index)
        for entry in sorted(wanted.values(), key=lambda entry: entry.offset):
            parts: list[bytes] = []
            position, left = entry.offset, entry.size
            while left:
                part = read(position, left)
                if not part:
                    raise Refusal(f"{blob}: {entry.path} lies outside of it")
                parts.append(part)
                position += len(part)
                left -= len(part)
            found[entry.path] = b"".join(parts)
    return found


Reader = Callable[[int, int], bytes]
"""(position in the tar, bytes wanted) -> some of them, none at the end."""


def plain_reader(file: BinaryIO) -> Reader:
    """Return a reader of a plain tar."""

    def read(position: int, size: int) -> bytes:
        file.seek(position)
        return file.read(size)

    return read


def frame_reader(blob: Blob, file: BinaryIO, index: LayerIndex) -> Reader:
    """Return a reader of the tar in a blob of frames; the last few frames stay in memory."""
    starts = [0]
    for size in index.frames:
        starts.append(starts[-1] + size)
    recent: dict[int, bytes] = {}

    def read(position: int, size: int) -> bytes:
        number = position // index.frame_size
        frame = recent.pop(number, None)
        if frame is None:
            if number >= len(index.frames):
                return b""
            file.seek(starts[number])
            frame = _decompress(blob, file.read(index.frames[number]), number, index.frame_size)
        recent[number] = frame
        if len(recent) > _FRAMES:
            del recent[next(iter(recent))]
        at = position % index.frame_size
        return frame[at : at + size]

    return read


def _decompress(blob: Blob, data: bytes, number: int, size: int) -> bytes:
    try:
        # What a frame declares is allocated at once, so it is asked before.
        if not 0 <= zstandard.frame_content_size(data) <= size:
            raise Refusal(f"{blob}: damaged at frame {number}: it declares another size")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Refusal(f"{blob}: damaged at frame {number}: {error}") from error


def _read_kept(
    blob: Blob, index: LayerIndex, wanted: dict[str, Entry], texts: Texts | None
) -> dict[str, bytes]:
    if texts is None:
        return _read_scanning(blob, wanted)
    found = _texts(texts, index, wanted)
    if left := _rest(wanted, found):
        opened(blob).close()  # it may not be here, which is said before anything else
        if texts.has(index.digest):
            return found | _read_scanning(blob, left)
        with texts.collect(index.digest) as keep:
            if keep is not None:
                return found | _read_scanning(blob, left, keep)
        # another process has just kept them
        found |= _texts(texts, index, left)
        if left := _rest(left, found):
            found |= _read_scanning(blob, left)
    return found


def _texts(texts: Texts, index: LayerIndex, wanted: dict[str, Entry]) -> dict[str, bytes]:
    asked = {one.sha256 for one in wanted.values() if one.size <= MAX_TEXT}
    kept = {
        sha256: data
        for sha256, data in texts.read(index.digest, asked).items()
        if hashlib.sha256(data).hexdigest() == sha256
    }
    return {path: kept[one.sha256] for path, one in wanted.items() if one.sha256 in kept}


def _rest(wanted: dict[str, Entry], found: Collection[str]) -> dict[str, Entry]:
    return {path: entry for path, entry in wanted.items() if path not in found}


def _read_scanning(
    blob: Blob, wanted: dict[str, Entry], keep: Keep | None = None
) -> dict[str, bytes]:
    # A hard link has no bytes of its own: read the file of this layer that it names.
    names: dict[str, list[str]] = {}
    for path, entry in wanted.items():
        names.setdefault(entry.link or path, []).append(path)
    found: dict[str, bytes] = {}
    try:
        with opened(blob) as file, decompressed(file, media_type_of(blob)) as plain:
            for member, stream in read_tar(io.BufferedReader(cast(io.RawIOBase, plain), CHUNK)):
                path = normal_path(member.name)
                if keep is not None and stream is not None and member.size <= MAX_TEXT:
                    data = stream.read()
                    keep.text(hashlib.sha256(data).hexdigest(), data)
                    stream = io.BytesIO(data)
                if stream is None or path not in names:
                    continue
                # A tar may hold a path twice, and then the last one counts.
                if all(wanted[name].size != member.size for name in names[path]):
                    continue
                data = stream.read()
                found.update(dict.fromkeys(names[path], data))
                sha256 = hashlib.sha256(data).hexdigest()
                if all(wanted[name].sha256 == sha256 for name in names[path]):
                    del names[path]
                if not names and keep is None:
                    break
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    return found
