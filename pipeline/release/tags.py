"""The tags of a release, and the only code that writes one.

`<tag>-<12 hex of the manifest digest>` never changes its meaning; `<tag>` is made once and moved
only from a digest that is named. A registry has no compare-and-swap, so a tag is read before it is
written and read again after: whoever lost a race is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.registry.client import Repository
from pipeline.verification import check_blobs

_HEX = 12
# Longer than what lies between somebody else's look at a tag and their write: of two that write one
# tag at once, the first one then reads back what the second one wrote.
_SETTLE = 0.5
_MOST = 128  # distribution-spec: the longest tag


@dataclass(frozen=True)
class TagNames:
    """The tags of one release: the moving one is "" where none may be touched."""

    immutable: str
    moving: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every tag, in the order in which they are written."""
        return tuple(name for name in (self.immutable, self.moving) if name)


def proven_names(tag: str, digest: str) -> TagNames:
    """Return the tags of an image that passed. Raises UsageError when one would be too long."""
    return TagNames(_named(f"{tag}-{short(digest)}"), tag)


def unproven_names(tag: str, digest: str) -> TagNames:
    """Return the one tag that an image may have without a smoke run."""
    return TagNames(_named(f"{tag}-unproven-{short(digest)}"))


def short(digest: str) -> str:
    """Return the first 12 hex digits of a digest."""
    return digest.removeprefix("sha256:")[:_HEX]


def _named(name: str) -> str:
    if len(name) > _MOST:
        raise UsageError(
            f"the tag {name} would be longer than {_MOST} characters",
            hint="give the stage a shorter tag",
        )
    return name


def read_tag(repository: Repository, tag: str) -> str:
    """Return the digest that a tag has now, by the bytes that it names; "" without such a tag."""
    came = repository.manifest(repository.reference.at(tag=tag))
    return came[1] if came else ""


def check_tags(repository: Repository, names: TagNames, digest: str, move_from: str = "") -> None:
    """Refuse what would give a tag another meaning. `move_from` is what the moving tag may leave.

    Raises Refusal, OutsideTrouble.
    """
    now = read_tag(repository, names.immutable)
    if now not in ("", digest):
        raise Refusal(
            f"{names.immutable} is {now} already, and is immutable",
            hint="nothing was written; find out who wrote that tag",
        )
    if names.moving:
        _check_moving(repository, names.moving, digest, move_from)


def _check_moving(repository: Repository, tag: str, digest: str, move_from: str) -> None:
    now = read_tag(repository, tag)
    if now in (digest, move_from) and now:
        return
    if now:
        said = f", not {move_from}" if move_from else ""
        raise Refusal(
            f"{tag} is {now} already{said}",
            hint=f"if it is to move from there: --move --from {now}",
        )
    if move_from:
        raise Refusal(
            f"{tag} is not there, so it cannot move from {move_from}",
            hint="leave --move --from away: the tag is made",
        )


def check_published(repository: Repository, image: ImageFile) -> None:
    """Refuse to name what is not all there: the manifest, byte for byte, and every blob.

    Raises Refusal, OutsideTrouble.
    """
    came = repository.manifest(repository.reference.at(digest=image.digest))
    if came is None or came[0] != image.manifest:
        raise Refusal(
            f"{repository.reference.name} does not have {image.digest}",
            hint="push it first",
        )
    missing = [str(one) for one in check_blobs(repository, image)]
    if missing:
        raise Refusal(
            f"{repository.reference.name} lacks blobs of {image.digest}",
            details=missing,
            hint="push it again",
        )


def write_tags(
    repository: Repository,
    image: ImageFile,
    names: TagNames,
    move_from: str = "",
    tell: Callable[[str], None] = lambda line: None,
) -> Sequence[str]:
    """Write the tags that do not name the image yet, and return them.

    The image must have been found to be all there (`check_published`). Each tag is asked for just
    before, and read back after. Raises Refusal when it is, or has become, another image's;
    OutsideTrouble.
    """
    written = []

    def check() -> None:
        check_tags(repository, names, image.digest, move_from)

    for tag in names.all:
        if read_tag(repository, tag) == image.digest:
            tell(f"{tag} is there already")
            continue
        check()
        repository.put_tag(tag, image.manifest, image.media_type, check)
        if tag == names.moving:
            time.sleep(_SETTLE)
        found = read_tag(repository, tag)
        if not found:
            raise OutsideTrouble(f"{tag} was taken, but cannot be read back", hint="run it again")
        if found != image.digest:
            raise Refusal(
                f"{tag} is {found} after it was written: somebody else wrote it meanwhile",
                hint="find out who, then decide which of the two is to have it",
            )
        written.append(tag)
        tell(f"{tag} written")
    return written
