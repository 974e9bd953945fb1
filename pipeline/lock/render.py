"""The text of a lock file: the head that people edit, kept as it is, and entries written anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import tomlkit
from tomlkit.items import AbstractTable, Array, Trivia

from pipeline.lock.compose import Entry
from pipeline.lock.entries import WHEELHOUSE
from pipeline.lock.model import LockedDeb, LockedWheel, Override


def render(
    text: str,
    entries: Iterable[Entry],
    debs: Mapping[str, Sequence[LockedDeb]],
    overrides: Sequence[Override],
    *,
    newer: Mapping[str, str],
) -> str:
    """The new text of the lock whose text is `text`.

    `debs` holds the new lists by base; bases that it does not name keep theirs. `newer` are the
    packages that may be newer than the rest. Comments, order and
    spacing of everything but the entries and those lists stay.
    """
    if newer and not re.search(r"^newer\s*=", text, re.MULTILINE):
        # tomlkit can only append, which takes the comments of the table that follows
        text = re.sub(r"^(exclude-newer\s*=.*)$", r"\1\nnewer = {}", text, count=1, flags=re.M)
    document = tomlkit.parse(text)
    document.pop("packages", None)
    for base, listed in debs.items():
        table = _at(document, "tool", "sm121-chain", "bases", base)
        table["debs"] = _array(_deb(deb) for deb in listed)
    for name, moment in newer.items():
        _at(document, "tool", "sm121-chain", "newer")[name] = moment
    head = tomlkit.dumps(document).rstrip("\n")
    return "\n\n".join([head, *render_entries(entries, overrides)]) + "\n"


def render_entries(entries: Iterable[Entry], overrides: Sequence[Override] = ()) -> list[str]:
    """The `[[packages]]` tables, with a comment at each that the ledger holds."""
    return [_entry(entry, overrides) for entry in entries]


def _at(table: AbstractTable | tomlkit.TOMLDocument, *keys: str) -> AbstractTable:
    found = table
    for key in keys:
        found = found[key]
    assert isinstance(found, AbstractTable)
    return found


def _array(items: Iterable[str]) -> Array:
    """An array of inline tables, one a line."""
    body = "".join(f"    {item},\n" for item in items)
    array = tomlkit.parse(f"a = [\n{body}]\n")["a"]
    assert isinstance(array, Array)
    array._trivia = Trivia(trail="\n")
    return array


def quoted(text: str) -> str:
    """A TOML basic string."""
    return tomlkit.string(text).as_string()


def _deb(deb: LockedDeb) -> str:
    return (
        f"{{ name = {quoted(deb.name)}, version = {quoted(deb.version)}, "
        f'path = {quoted(deb.path)}, size = {deb.size}, sha256 = "{deb.sha256}" }}'
    )


def _entry(entry: Entry, overrides: Sequence[Override]) -> str:
    """One `[[packages]]` table, below a comment that says which entries of the ledger hold it."""
    lines = []
    for held in overrides:
        if (held.name, held.version) == (entry.name, entry.version):
            against = f": {'; '.join(held.against)}" if held.against else ""
            lines.append(f"# held in {held.base} {held.group or 'from the start'}{against}")
    lines += ["[[packages]]", f"name = {quoted(entry.name)}", f"version = {quoted(entry.version)}"]
    if entry.marker:
        lines.append(f"marker = {quoted(entry.marker)}")
    wheels = [_wheel(wheel) for wheel in entry.wheels]
    if len(wheels) == 1:
        lines.append(f"wheels = [{wheels[0]}]")
    else:
        lines += ["wheels = [", *(f"    {wheel}," for wheel in wheels), "]"]
    return "\n".join(lines)


def _wheel(wheel: LockedWheel) -> str:
    place = (
        f"url = {quoted(wheel.url)}"
        if wheel.url
        else f"path = {quoted(WHEELHOUSE + wheel.filename)}"
    )
    size = f", size = {wheel.size}" if wheel.size is not None else ""
    return f'{{ {place}{size}, hashes = {{ sha256 = "{wheel.sha256}" }} }}'
