"""SUBJECT arguments: what an audit can look into, in the transports that container tools share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.oci.archive import open_archive
from pipeline.oci.reading import open_layout
from pipeline.oci.view import ImageView, RootfsView

_TRANSPORT = re.compile(r"(?P<transport>oci|rootfs|docker-archive|docker):(?P<rest>.*)", re.DOTALL)
_HINT = (
    "a subject is oci:DIR[:TAG], docker-archive:FILE[:TAG], rootfs:DIR, "
    "or the name of a stage that stands in dist/"
)


@dataclass(frozen=True)
class Subject:
    """A parsed SUBJECT: `transport` is "oci", "docker-archive", "rootfs" or "stage", whose name is
    its `tag`."""

    transport: str
    path: Path
    tag: str = ""


def parse_subject(text: str) -> Subject:
    """Parse a SUBJECT. Raises UsageError for anything that is none."""
    match = _TRANSPORT.fullmatch(text)
    if not match:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
            raise UsageError(f"{text!r} is no subject", hint=_HINT)
        return Subject("stage", Path(), text)
    transport, rest = match["transport"], match["rest"]
    if transport not in ("oci", "docker-archive", "rootfs"):
        raise UsageError(f"{transport}: subjects of this kind cannot be opened", hint=_HINT)
    if not rest:
        raise UsageError(f"{text}: no path", hint=_HINT)
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


def open_subject(subject: Subject, *, index_cache: Path | None = None) -> ImageView:
    """Open an "oci", "docker-archive" or "rootfs" subject.

    Raises UsageError when it is not there, Refusal when it is damaged.
    """
    if subject.transport == "rootfs":
        return RootfsView(subject.path)
    if subject.transport == "docker-archive":
        return open_archive(subject.path, subject.tag, index_cache=index_cache)
    return open_layout(subject.path, subject.tag, index_cache=index_cache)
