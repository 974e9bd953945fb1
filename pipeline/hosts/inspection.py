"""What a runtime shows of its images (`docker image inspect` and its likes), as identities.

Docker's own store shows the config's digest as the image id, its containerd store the manifest's
(there is a `Descriptor` then); podman shows the config's, and the manifest's as `Digest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pipeline.oci.identity import Identity, known_digest
from pipeline.oci.image import fingerprint

_KEYS = ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels")
_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True)
class Inspected:
    """An image as a runtime shows it: its identity, its names, its config as an image config.

    `handle` is the id by which that runtime knows it, of whatever kind.
    """

    identity: Identity
    names: tuple[str, ...]
    config: Mapping[str, Any]
    handle: str = ""

    @property
    def title(self) -> str:
        """What the image calls itself, "" if it does not."""
        labels = (self.config.get("config") or {}).get("Labels") or {}
        return str(labels.get(_TITLE, ""))


def read_inspection(document: Mapping[str, Any], place: str) -> Inspected:
    """Read one image of an inspection. What it does not show is unknown, never equal."""
    shown = document.get("Config") or {}
    diff_ids = (document.get("RootFS") or {}).get("Layers") or []
    config = {
        "os": document.get("Os"),
        "architecture": document.get("Architecture"),
        "config": {key: shown.get(key) for key in _KEYS},
        "rootfs": {"diff_ids": diff_ids},
    }
    names = tuple(
        str(name) for key in ("RepoTags", "RepoDigests") for name in document.get(key) or ()
    )
    own, manifest = _id(document.get("Id")), _id(document.get("Digest"))
    descriptor = document.get("Descriptor")
    if isinstance(descriptor, dict):
        own, manifest = "", _id(descriptor.get("digest"))
    known = bool(diff_ids and document.get("Os") and document.get("Architecture"))
    identity = Identity(
        name=place,
        config=own,
        manifest=manifest,
        fingerprint=fingerprint(config) if known else "",
        diff_ids=tuple(str(one) for one in diff_ids),
    )
    return Inspected(identity, names, config, str(document.get("Id") or ""))


def _id(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return known_digest(text if ":" in text else f"sha256:{text}")


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Say in what two image configs differ, as far as the fingerprint goes."""
    found = []
    for key in ("os", "architecture"):
        if (one.get(key) or None) != (other.get(key) or None):
            found.append(f"{key}: {one.get(key)} and {other.get(key)}")
    left, right = one.get("config") or {}, other.get("config") or {}
    for key in _KEYS:
        if (left.get(key) or None) != (right.get(key) or None):
            found += _in_detail(key, left.get(key) or None, right.get(key) or None)
    layers = [(config.get("rootfs") or {}).get("diff_ids") or [] for config in (one, other)]
    for number, (a, b) in enumerate(zip_longest(*layers)):
        if a != b:
            found.append(f"layer {number}: {a or 'none'} and {b or 'none'}")
            break
    return found


def _in_detail(key: str, left: Any, right: Any) -> list[str]:
    a, b = _pairs(left), _pairs(right)
    if a is None or b is None:
        return [f"{key}: {left} and {right}"]
    lines = [
        f"{key} {name}: {a.get(name, 'absent')} and {b.get(name, 'absent')}"
        for name in sorted(a.keys() | b.keys())
        if a.get(name) != b.get(name)
    ]
    return lines or [f"{key}: in another order"]


def _pairs(value: Any) -> dict[str, str] | None:
    """Return labels, or an environment, as a mapping; None for what is neither."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(key): str(text) for key, text in value.items()}
    if isinstance(value, Sequence) and all("=" in str(item) for item in value):
        return dict(str(item).split("=", 1) for item in value)
    return None
