"""RECORDs against the bytes of the image. Version drift alone shows nothing of this."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping

from pipeline.audit.context import Context
from pipeline.audit.findings import NOTE, WARNING, Finding
from pipeline.inventory.bytecode import CACHE, source_of
from pipeline.inventory.ownership import Claim


def rows(context: Context) -> Iterator[Finding]:
    """Every distribution has a readable RECORD whose rows stay in the image."""
    outside: dict[str, list[str]] = {}
    for distribution, row in context.ownership.outside:
        outside.setdefault(distribution.path, []).append(row)
    for one in context.inventory.distributions:
        path = f"{one.path}/RECORD"
        if one.path in outside:
            yield context.finding(
                "record-row-outside-root",
                one.name,
                f"its RECORD leaves the installation: {', '.join(outside[one.path])}",
                path=path,
                layer=one.layer,
                fix="do not trust this wheel; nothing that these rows name was looked at",
            )
        if one.record_fault:
            yield context.finding(
                "broken-record",
                one.name,
                f"RECORD: {one.record_fault}",
                path=path,
                layer=one.layer,
                fix="install the distribution anew; until then its files are not checked",
            )
        elif one.record is None:
            by = f" (installed by {one.installer})" if one.installer else ""
            yield context.finding(
                "record-missing",
                one.name,
                f"{one.version} has no RECORD{by}: its files are not checked",
                path=one.path,
                layer=one.layer,
            )


def files(context: Context) -> Iterator[Finding]:
    """Every file that a RECORD names is there with the bytes that it names.

    Compiled files may be missing: the interpreter makes them again. Where two distributions claim a
    file, it is enough that one of them is right: the other one is the conflict's matter.
    """
    patched = _patched(context)
    other = _other_hashes(context)
    for claim in _suspects(context, other):
        if claim.located is None:
            if not claim.path.endswith(".pyc"):
                yield _missing(context, claim)
        else:
            owners = context.ownership.claims_on(claim.path)
            if not any(_right(rival, other) for rival in owners if rival is not claim):
                yield _modified(context, claim, patched.get(claim.path))


def _suspects(context: Context, other: Mapping[str, str]) -> Iterator[Claim]:
    """Yield claims whose file is missing or wrong; distributions that are as they were are known.

    Where other hashes play a part, contents were read, and nothing is remembered.
    """
    for claims in context.ownership.by_record:
        facts = context.memo.of(claims)
        wrong = facts.wrong
        if other or wrong is None:
            found = [one for one in claims if one.located is None or not _right(one, other)]
            wrong = tuple(found)
            if not other:
                facts.wrong = wrong
        yield from wrong


def conflicts(context: Context) -> Iterator[Finding]:
    """No two distributions claim one file with different bytes."""
    for path, claims in context.ownership.shared.items():
        if len({claim.row.digest for claim in claims if claim.row.digest}) < 2:
            continue
        there = claims[0].located.entry.sha256 if claims[0].located else ""
        for claim in claims:
            if claim.row.digest == there:
                continue
            rivals = sorted({one.distribution.name for one in claims} - {claim.distribution.name})
            yield context.finding(
                "file-conflict",
                claim.distribution.name,
                f"{_name(path)} is also {' and '.join(rivals)}'s, with other bytes that won",
                path=path,
                layer=claim.located.layer if claim.located else None,
                fix="name the owner in the lock's `known` table, or drop one of the two",
            )


def unowned(context: Context) -> Iterator[Finding]:
    """Files of site-packages that no RECORD names, where every distribution has a RECORD.

    The files of a dist-info are its own, whether or not RECORD names them.
    """
    inventory, nodes = context.inventory, context.view.tree.nodes
    unclear = {one.site for one in inventory.distributions if one.record is None}
    unclear |= {posixpath.dirname(one.path) for one in inventory.broken}
    sites = tuple(f"{site}/" for site in inventory.sites if site not in unclear)
    infos = tuple(f"{one.path}/" for one in inventory.distributions)
    is_owned = context.ownership.is_owned
    for path in sorted(path for path in context.ownership.unowned if path.startswith(sites)):
        if not nodes[path].entry.has_content:
            continue
        if path.startswith(infos) or (CACHE in path and is_owned(source_of(path))):
            continue
        site = next(one for one in sites if path.startswith(one))
        yield context.finding(
            "unowned-file",
            path[len(site) :].split("/", 1)[0],
            f"{_name(path)} belongs to no distribution",
            path=path,
            layer=nodes[path].layer,
        )


def _right(claim: Claim, other: Mapping[str, str]) -> bool:
    """Whether the file is what the row says; a row without hash and size says nothing."""
    assert claim.located is not None
    entry, row = claim.located.entry, claim.row
    if row.digest:
        found = entry.sha256 if row.algorithm == "sha256" else other[claim.path]
        return found == row.digest
    return row.size in (-1, entry.size)


def _other_hashes(context: Context) -> dict[str, str]:
    """Hashes, by path, of files whose rows use another algorithm than the index does."""
    wanted = {
        claim.path: claim.row.algorithm
        for claims in context.ownership.by_record
        if context.memo.of(claims).wrong is None  # otherwise there are none
        for claim in claims
        if claim.located and claim.row.digest and claim.row.algorithm != "sha256"
    }
    contents = context.view.read_many(sorted(wanted)) if wanted else {}
    return {
        path: hashlib.new(algorithm, contents[path]).hexdigest()
        if algorithm in hashlib.algorithms_guaranteed
        else f"unknown algorithm {algorithm}"
        for path, algorithm in wanted.items()
    }


def _patched(context: Context) -> dict[str, list[tuple[str, bool]]]:
    """Patches that stand in a file, by its path: name, and whether nothing else was edited."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for state in context.patch_states:
        if state.located is not None and not state.lost:
            path = state.located.entry.path
            found.setdefault(path, []).append((state.patch.name, state.exact))
    return found


def _missing(context: Context, claim: Claim) -> Finding:
    return context.finding(
        "file-missing",
        claim.distribution.name,
        f"{_name(claim.path)} is in its RECORD and not in the image",
        path=claim.path,
        layer=claim.distribution.layer,
        fix="install the distribution anew after whatever removed the file",
    )


def _modified(context: Context, claim: Claim, by: list[tuple[str, bool]] | None) -> Finding:
    names = ", ".join(name for name, _ in by or ())
    exact = all(exact for _, exact in by or ())
    message = f"{_name(claim.path)} differs from its RECORD"
    if by and not exact:
        message += f": patch {names} stands in it, and something else was edited"
    return context.finding(
        "file-modified",
        claim.distribution.name,
        message if by else f"{message} and no patch explains it",
        path=claim.path,
        layer=claim.located.layer if claim.located else None,
        severity="" if not by else NOTE if exact else WARNING,
        reason=f"patch {names}" if by and exact else "",
        fix="" if by and exact else "make the edit a patch, or install the file anew",
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
