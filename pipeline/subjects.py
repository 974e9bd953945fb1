"""SUBJECT arguments: what an audit can look into, in the transports that container tools share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import UsageError
from pipeline.oci.archive import open_archive
from pipeline.oci.blob import Blob
from pipeline.oci.identity import Identity, identify
from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.reading import find_image, open_layout
from pipeline.oci.references import parse_reference
from pipeline.oci.view import ImageView, RootfsView
from pipeline.progress import Progress

if TYPE_CHECKING:
    from pipeline.oci.registry.elsewhere import Elsewhere

_TRANSPORT = re.compile(r"(?P<transport>oci|rootfs|docker-archive|docker):(?P<rest>.*)", re.DOTALL)
_HINT = (
    "a subject is oci:DIR[:TAG], docker-archive:FILE[:TAG], docker://REF, rootfs:DIR, "
    "or the name of a stage that stands in dist/"
)


@dataclass(frozen=True)
class Subject:
    """A parsed SUBJECT: `transport` is "oci", "docker-archive", "docker", "rootfs" or "stage".

    `tag` is a stage's name, or the reference of an image in a registry. `source` is where layers
    are that a layout leaves out, if that is known.
    """

    transport: str
    path: Path
    tag: str = ""
    source: str = ""


def parse_subject(text: str) -> Subject:
    """Parse a SUBJECT. Raises UsageError for anything that is none."""
    match = _TRANSPORT.fullmatch(text)
    if not match:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
            raise UsageError(f"{text!r} is no subject", hint=_HINT)
        return Subject("stage", Path(), text)
    transport, rest = match["transport"], match["rest"]
    if not rest:
        raise UsageError(f"{text}: no path", hint=_HINT)
    if transport == "docker":
        if not rest.startswith("//"):
            raise UsageError(f"{text}: an image of a registry is docker://REF", hint=_HINT)
        return Subject("docker", Path(), str(parse_reference(rest[2:])))
    if transport == "oci" and not Path(rest).is_dir() and ":" in rest:
        directory, _, tag = rest.rpartition(":")
        return Subject("oci", Path(directory), tag)
    if transport == "docker-archive":
        return _archive(rest)
    return Subject(transport, Path(rest))


def _archive(rest: str) -> Subject:
    """Split FILE[:REFERENCE]; both may hold colons, so what is there decides."""
    cuts = [at for at, char in enumerate(rest) if char == ":"]
    if cuts and not Path(rest).exists():
        cut = next((at for at in cuts if Path(rest[:at]).is_file()), cuts[0])
        return Subject("docker-archive", Path(rest[:cut]), rest[cut + 1 :])
    return Subject("docker-archive", Path(rest))


def open_subject(subject: Subject, cache: Path, *, progress: Progress | None = None) -> ImageView:
    """Open any subject but a stage. What comes from a registry, and layer indexes, are kept in
    `cache`.

    Raises UsageError when it is not there, Refusal when it is damaged, OutsideTrouble.
    """
    indexes = cache / "indexes"
    if subject.transport == "rootfs":
        return RootfsView(subject.path)
    if subject.transport == "docker-archive":
        return open_archive(subject.path, subject.tag, index_cache=indexes)
    if subject.transport == "docker":
        # Not before it is needed: what a client of HTTP imports takes longer than a comparison.
        from pipeline.oci.registry.client import Repository
        from pipeline.oci.registry.remote import find_remote, open_remote
        from pipeline.oci.registry.store import BlobStore

        reference, store = parse_reference(subject.tag), BlobStore(cache)
        repository = Repository(reference)
        image = find_remote(repository, reference)
        return open_remote(repository, image, store, index_cache=indexes, meter=progress)
    return open_layout(
        subject.path, subject.tag, index_cache=indexes, elsewhere=_elsewhere(cache, subject.source)
    )


def _elsewhere(cache: Path, source: str) -> Callable[[ImageFile, Descriptor], Blob]:
    """Return what finds the layers that a layout leaves out."""

    @lru_cache(maxsize=1)
    def finder() -> Elsewhere:
        # It can ask a registry, and nearly every layout holds all of its layers.
        from pipeline.oci.registry.elsewhere import Elsewhere

        return Elsewhere(cache, source)

    return lambda image, layer: finder().blob(image, layer)


def describe_subject(subject: Subject) -> tuple[Identity, dict[str, Any]]:
    """Return the ids and the config of any subject that is an image, as its documents say them.

    Of a registry and of a layout only manifest and config are read; an archive has no digests of
    its own, so its layers are. Raises UsageError for a tree, which is no image.
    """
    if subject.transport == "docker":
        from pipeline.oci.registry.client import Repository
        from pipeline.oci.registry.remote import find_remote

        reference = parse_reference(subject.tag)
        image = find_remote(Repository(reference), reference)
        return Identity.of(image), dict(image.document)
    if subject.transport == "oci":
        image = find_image(subject.path, subject.tag)[0]
        return Identity.of(image), dict(image.document)
    if subject.transport == "docker-archive":
        view = open_archive(subject.path, subject.tag)
        return identify(view), dict(view.config)
    raise UsageError(
        f"{subject.transport}:{subject.path}: a tree of files has no identity of an image",
        hint="name an image: a stage, oci:, docker-archive: or docker://",
    )


def identify_subject(subject: Subject) -> Identity:
    """Return the ids of any subject that is an image; see `describe_subject`."""
    return describe_subject(subject)[0]
