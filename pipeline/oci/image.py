"""Config, manifest and fingerprint of an image: pure functions from layers to bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MEDIA_TYPE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MEDIA_TYPE_CONFIG = "application/vnd.oci.image.config.v1+json"
MEDIA_TYPE_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Layer:
    """A layer as a manifest and a config name it; `created_by` is its line in the history."""

    digest: str
    diff_id: str
    size: int
    media_type: str
    created_by: str


@dataclass(frozen=True)
class Runtime:
    """What a container starts with (image-spec config.md, "config")."""

    env: Mapping[str, str]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    working_directory: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Below:
    """An image that another one stands on: its parsed config, its descriptors of layers."""

    config: Mapping[str, Any]
    descriptors: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Image:
    """An image's own bytes. `digest` is the manifest's; `fingerprint` see `fingerprint`."""

    config: bytes
    manifest: bytes
    digest: str
    fingerprint: str
    media_type: str = MEDIA_TYPE_MANIFEST


def canonical(document: Any) -> bytes:
    """Serialise JSON so that equal documents give equal bytes: sorted keys, no white space.

    A lone surrogate, which stands for a byte of a name that is no UTF-8, comes out as JSON's own
    escape for it.
    """
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8", "backslashreplace")


def sha256(data: bytes) -> str:
    """Return the digest of bytes, as "sha256:<hex>"."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def rfc3339(epoch: int) -> str:
    """Return seconds since 1970 as RFC 3339 text in UTC."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_image(
    layers: Sequence[Layer],
    runtime: Runtime,
    *,
    epoch: int,
    architecture: str,
    annotations: Mapping[str, str],
    below: Below | None = None,
) -> Image:
    """Make config and manifest (image-spec 1.1). Nothing but the arguments is in their bytes.

    With an image `below`, whose layers are the first ones, all that it says is kept as it is: its
    descriptors, its history, and what its config holds beside the things that change.
    """
    created = rfc3339(epoch)
    kept = dict(below.config) if below else {}
    descriptors = list(below.descriptors) if below else []
    new = layers[len(descriptors) :]
    process: dict[str, Any] = {
        **(kept.get("config") or {}),
        "Env": [f"{key}={value}" for key, value in runtime.env.items()],
        "Labels": dict(runtime.labels),
    }
    if runtime.entrypoint:
        process["Entrypoint"] = list(runtime.entrypoint)
    if runtime.command:
        process["Cmd"] = list(runtime.command)
    if runtime.user:
        process["User"] = runtime.user
    if runtime.working_directory:
        process["WorkingDir"] = runtime.working_directory
    config = {
        **kept,
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [
            *(kept.get("history") or ()),
            *({"created": created, "created_by": layer.created_by} for layer in new),
        ],
    }
    config_bytes = canonical(config)
    manifest = canonical(
        {
            "schemaVersion": 2,
            "mediaType": MEDIA_TYPE_MANIFEST,
            "config": {
                "mediaType": MEDIA_TYPE_CONFIG,
                "digest": sha256(config_bytes),
                "size": len(config_bytes),
            },
            "layers": [
                *descriptors,
                *(
                    {"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size}
                    for layer in new
                ),
            ],
            "annotations": dict(annotations),
        }
    )
    return Image(config_bytes, manifest, sha256(manifest), fingerprint(config))


def runtime_of(config: Mapping[str, Any]) -> Runtime:
    """Return what a container of an image config starts with."""
    process = config.get("config") or {}
    return Runtime(
        env=dict(item.split("=", 1) for item in process.get("Env") or () if "=" in item),
        entrypoint=tuple(process.get("Entrypoint") or ()),
        command=tuple(process.get("Cmd") or ()),
        user=process.get("User") or "",
        working_directory=process.get("WorkingDir") or "",
        labels=process.get("Labels") or {},
    )


def fingerprint(config: Mapping[str, Any]) -> str:
    """Return the identity of an image's content: "sha256:<hex>".

    It is the digest of canonical JSON of os, architecture, Env, Entrypoint, Cmd, User, WorkingDir,
    Labels and diff-ids, where absent, null and empty are one. All of it is in `docker image
    inspect` too, and none of it changes with save, load or another compression.
    """
    process = config.get("config") or {}
    identity = {
        "os": config.get("os"),
        "architecture": config.get("architecture"),
        **{
            key: process.get(key)
            for key in ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels")
        },
        "diff_ids": (config.get("rootfs") or {}).get("diff_ids"),
    }
    return sha256(canonical({key: value for key, value in identity.items() if value}))
