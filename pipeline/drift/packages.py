"""How distributions and Debian packages moved from one side to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import InvalidVersion, Version

from pipeline.drift.changes import (
    ADDED,
    BUILD,
    DEBIAN,
    DISTRIBUTION,
    DOWN,
    FILES,
    INHERITED,
    INTENDED,
    MET,
    MOVED,
    NEW,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
    Files,
    Wish,
)
from pipeline.drift.files import Differences, Group
from pipeline.drift.images import Layer
from pipeline.drift.sides import Side
from pipeline.drift.stages import Deeds
from pipeline.inventory.debian import compare_versions
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.families import RENAMES, family_of, talks_to_gpu
from pipeline.oci.binary import ELF
from pipeline.oci.index import OPAQUE, WHITEOUT
from pipeline.oci.view import LayersView

# Ranks of changes: the GPU's families, what launches kernels, other binaries, Python, the system.
FAMILY, KERNELS, BINARY, PYTHON, SYSTEM = range(5)
_ELF = ELF.hex()
_IDENTITY = ("METADATA", "WHEEL")  # other bytes of these: another wheel, whatever its version


def direction(before: str, after: str) -> str | None:
    """Return how a version moved (PEP 440, the local part counting), None for not at all.

    Texts that are no versions have no order.
    """
    if before == after:
        return None
    try:
        old, new = Version(before), Version(after)
    except InvalidVersion:
        return MOVED
    if old == new:
        return None
    if old.public == new.public:
        return BUILD
    return UP if new > old else DOWN


class Packages:
    """Makes the changes between two sides."""

    def __init__(self, before: Side, after: Side, found: Differences, did: Deeds):
        self._before, self._after, self._found, self._did = before, after, found, did
        old = {
            (one.dependant, one.requirement, one.found)
            for one in before.requirements.unsatisfied(frozenset())
        }
        unmet = after.requirements.unsatisfied(frozenset(old))
        self._unmet = {(one.target, one.dependant, one.requirement): one for one in unmet}

    def distributions(self) -> Iterator[Change]:
        """Yield what changed of the distributions, in no order."""
        before, after = self._before.inventory.by_name, self._after.inventory.by_name
        unclear = {one.name for one in self._after.inventory.broken}
        gone = set(before) - set(after) - unclear
        come = set(after) - set(before)
        renamed = {old: new for old, new in RENAMES.items() if old in gone and new in come}
        for old, new in renamed.items():
            yield self._change(new, RENAMED, before[old], after[new], was=old)
        for name in gone - set(renamed):
            yield self._change(name, REMOVED, before[name], ())
        for name in come - set(renamed.values()):
            yield self._change(name, ADDED, (), after[name])
        for name in set(before) & set(after):
            yield from self._moved(name, before[name], after[name])
        for name in set(before) & unclear - set(after):
            yield self._change(name, MOVED, before[name], ())

    def _moved(
        self, name: str, before: Sequence[Distribution], after: Sequence[Distribution]
    ) -> Iterator[Change]:
        group = self._found.distributions.get(name, Group())
        how = direction(_versions(before), _versions(after))
        files = group.files
        if how is None and files.count:
            how = BUILD if _rebuilt(group) else FILES
        if how is not None:
            yield self._change(name, how, before, after, group=group)
        both = self._before.view is not None and self._after.view is not None
        if both and how in (None, FILES) and _origins(before) != _origins(after):
            yield self._change(name, ORIGIN, before, after)

    def _change(
        self,
        name: str,
        how: str,
        before: Sequence[Distribution],
        after: Sequence[Distribution],
        *,
        was: str = "",
        group: Group | None = None,
    ) -> Change:
        old, new = _versions(before), _versions(after)
        number = max((one.layer for one in after), default=-1)
        files = Files()
        reason = self._did.moved(name, old, new)
        if how in (FILES, BUILD) and group is not None:
            files = group.files if _versions(before) == _versions(after) else Files()
            number = max(number, group.layer) if how == BUILD else group.layer
            reason = self._edits(group) if how == FILES else reason
        layer = self._after.layer(number)
        if layer is None and before:
            layer = self._remover([one.path for one in before])
        return Change(
            kind=DISTRIBUTION,
            name=name,
            direction=how,
            before=old,
            after=new,
            rank=rank(name, [*before, *after]),
            layer=layer,
            was=was,
            family=family_of(name),
            gpu=talks_to_gpu(name),
            origin_before=_origins(before) if how == ORIGIN else "",
            origin_after=_origins(after) if how == ORIGIN else "",
            wishes=() if how in (FILES, ORIGIN) else self._wishes(name, old, new),
            files=files,
            reason=reason,
        )

    def _edits(self, group: Group) -> str:
        files = group.files
        if files.removed:
            return ""
        named = {*files.changed, *files.added}
        return self._did.edits(
            {
                one.path: one.after.entry.sha256
                for one in group.found
                if one.after is not None and one.path in named
            }
        )

    def _wishes(self, name: str, before: str, after: str) -> tuple[Wish, ...]:
        """Return who wants it otherwise, then who wanted exactly this and had something else."""
        unmet = sorted(
            Wish(
                one.dependant,
                self._version(one.dependant),
                one.requirement.partition(";")[0].strip(),
                {INTENDED: INTENDED, INHERITED: INHERITED}.get(one.kind, NEW),
                one.why,
            )
            for (target, _, _), one in self._unmet.items()
            if target == name
        )
        met = sorted(
            Wish(wish.dependant.name, wish.dependant.version, str(wish), MET)
            for wish in self._after.requirements.wishes(name)
            if after and wish.is_exact and wish.accepts(after) and not wish.accepts(before or "0")
        )
        return (*unmet, *met)

    def _version(self, name: str) -> str:
        found = self._after.inventory.by_name.get(name, ())
        return found[0].version if found else ""

    def _remover(self, paths: Sequence[str]) -> Layer | None:
        """Return the highest layer of the image that takes one of these paths away."""
        view = self._after.view
        if not isinstance(view, LayersView):
            return None
        above = {
            path[:at]
            for path in paths
            for at in range(len(path) + 1)
            if path[at : at + 1] in ("/", "")
        }
        for number in range(len(view.blobs) - 1, -1, -1):
            for entry in view.blobs[number][1].entries:
                if entry.type in (WHITEOUT, OPAQUE) and entry.path in above:
                    return self._after.layer(number)
        return None

    def debian(self) -> Iterator[Change]:
        """Yield what changed of the Debian packages, in no order."""
        if self._before.view is None or self._after.view is None:
            return
        before, after = self._before.packages, self._after.packages
        for name in {*before, *after}:
            old = before[name].version if name in before else ""
            new = after[name].version if name in after else ""
            group = self._found.packages.get(name, Group())
            how = _debian_direction(old, new)
            if how is None and group.files.count:
                how = FILES
            if how is None:
                continue
            number = group.layer if how == FILES else after[name].layer if new else -1
            yield Change(
                kind=DEBIAN,
                name=name,
                direction=how,
                before=old,
                after=new,
                rank=SYSTEM,
                layer=self._after.layer(number),
                files=group.files if how == FILES else Files(),
            )


def _debian_direction(before: str, after: str) -> str | None:
    if not before or not after:
        return None if before == after else ADDED if after else REMOVED
    order = compare_versions(before, after)
    return None if not order else UP if order < 0 else DOWN


def _versions(found: Sequence[Distribution]) -> str:
    """Return the version; of several copies all of them, which is no version."""
    return " and ".join(sorted({one.version for one in found}))


def _origins(found: Sequence[Distribution]) -> str:
    return " and ".join(sorted({str(one.origin or "an index") for one in found}))


def _rebuilt(group: Group) -> bool:
    """Whether files of one version differ because another wheel was installed: its metadata does,
    or a binary, which nobody edits."""
    for one in group.found:
        if one.before is None or one.after is None:
            continue
        if one.path.rpartition("/")[2] in _IDENTITY and "-info/" in one.path:
            return True
        if one.after.entry.start.startswith(_ELF):
            return True
    return False


def rank(name: str, found: Sequence[Distribution]) -> int:
    """Return how much a move of a distribution can hurt, 0 the most."""
    if family_of(name):
        return FAMILY
    if talks_to_gpu(name):
        return KERNELS
    rows = (row for one in found for row in one.record or ())
    return BINARY if any(".so" in row.path for row in rows) else PYTHON
