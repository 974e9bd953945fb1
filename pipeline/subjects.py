"""SUBJECT arguments: what an audit can look into, in the transports that container tools share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.oci.reading import open_layout
from pipeline.oci.view import ImageView, RootfsView

_TRANSPORT = re.compile(r"(?P<transport>oci|rootfs|docker-archive|docker):(?P<rest>.*)", re.DOTALL)
_HINT = "a subject is oci:DIR[:TAG], rootfs:DIR, or the name of a stage that stands in dist/"


@dataclass(frozen=True)
class Subject:
    """A parsed SUBJECT: `transport` is "oci", "rootfs" or "stage"; a stage's name is its `tag`."""

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
    if transport not in ("oci", "rootfs"):
        raise UsageError(f"{transport}: subjects of this kind cannot be opened", hint=_HINT)
    if not rest:
        raise UsageError(f"{text}: no directory", hint=_HINT)
    if transport == "oci" and not Path(rest).is_dir() and ":" in rest:
        directory, _, tag = rest.rpartition(":")
        return Subject("oci", Path(directory), tag)
    return Subject(transport, Path(rest))


def open_subject(subject: Subject, *, index_cache: Path | None = None) -> ImageView:
    """Open an "oci" or "rootfs" subject.

    Raises UsageError when it is not there, Refusal when it is damaged.
    """
    if subject.transport == "rootfs":
        return RootfsView(subject.path)
    return open_layout(subject.path, subject.tag, index_cache=index_cache)
