"""From an index to the manifest of one platform; attestations are no images (image-spec 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.documents import Malformed, parse_json
from pipeline.errors import Refusal

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ATTESTATION = "vnd.docker.reference.type"
_MAX_DEPTH = 4  # indexes inside indexes; more is a fault or an attack
_AGAIN = "make or copy it again"

Fetch = Callable[[Mapping[str, Any]], bytes]
"""A descriptor -> the bytes that it names, held against its digest."""


@dataclass(frozen=True)
class Platform:
    """What an image is for, as OCI spells it; a variant of None fits any of `variants`."""

    os: str = "linux"
    architecture: str = "arm64"
    variants: tuple[str, ...] = ("", "v8")  # arm64 without a variant means v8

    def fits(self, found: Mapping[str, Any]) -> bool:
        """Whether a platform object of a descriptor or a config is this one."""
        return (
            found.get("os") == self.os
            and found.get("architecture") == self.architecture
            and (found.get("variant") or "") in self.variants
        )

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


def parse_object(data: bytes, where: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises Refusal for anything else."""
    try:
        document = parse_json(data)
    except Malformed as error:
        raise Refusal(f"{where}: {error}", hint=_AGAIN) from error
    if not isinstance(document, dict):
        raise Refusal(f"{where}: no JSON object", hint=_AGAIN)
    return document


def parse_manifests(document: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    """Return the descriptors of an index. Raises Refusal when it has none, or they are none."""
    entries = document.get("manifests")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Refusal(f"{where}: no list of manifests", hint=_AGAIN)
    for number, entry in enumerate(entries):
        for key in ("platform", "annotations"):
            if not isinstance(entry.get(key) or {}, dict):
                raise Refusal(f"{where}: manifests[{number}].{key} is no object", hint=_AGAIN)
    return entries


def images_below(
    descriptor: Mapping[str, Any], platform: Platform, fetch: Fetch, where: str, depth: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Yield (digest, manifest) of every image below a descriptor that fits the platform."""
    if _ATTESTATION in (descriptor.get("annotations") or {}):
        return
    given = descriptor.get("platform")
    is_index = descriptor.get("mediaType") in INDEX_TYPES
    if given and not is_index and not platform.fits(given):
        return
    data = fetch(descriptor)
    document = parse_object(data, f"{where}: {descriptor.get('digest')}")
    if is_index or document.get("mediaType") in INDEX_TYPES:
        if depth >= _MAX_DEPTH:
            raise Refusal(f"{where}: indexes inside indexes without end")
        for inner in parse_manifests(document, f"{where}: {descriptor.get('digest')}"):
            yield from images_below(inner, platform, fetch, where, depth + 1)
    elif isinstance(document.get("config"), dict) and "layers" in document:
        config = document["config"]
        if given or platform.fits(parse_object(fetch(config), f"{where}: its config")):
            yield descriptor["digest"], data


def the_one(found: Mapping[str, bytes], platform: Platform, where: str) -> tuple[str, bytes]:
    """Return the only image that was found. Raises Refusal for none, or for several."""
    if len(found) != 1:
        raise Refusal(
            f"{where}: {'no image' if not found else f'{len(found)} images'} for {platform}",
            hint="name one that holds one" if found else "build or copy it for that platform",
            details=sorted(found),
        )
    return next(iter(found.items()))
