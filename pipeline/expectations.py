"""What an image of the chain should hold, from lock and patches, as an audit's Expectation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.lock.model import Base, Lock, LockedWheel
from pipeline.patching.model import Edit, Patch
from pipeline.patching.variants import choose_variant


def expectation_params(
    lock: Lock,
    base: Base,
    groups: Sequence[str],
    wheels: Sequence[LockedWheel],
    patches: Sequence[Patch],
    label: str,
) -> dict[str, Any]:
    """Return the expectation of an image as JSON; `steps.params.expectation_from` reads it.

    `groups` are the lock groups on the image's path, `wheels` what the lock selects for them,
    `patches` all that the image and those below it apply.
    """
    overrides = [
        override
        for override in lock.overrides
        if override.base in ("", base.name) and (not override.group or override.group in groups)
    ]
    asked = [Requirement(text) for text in lock.requirements]
    asked += [override.requirement for override in overrides]
    extras: dict[str, set[str]] = {}
    for requirement in asked:
        if requirement.extras:
            extras.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    versions = {wheel.name: Version(wheel.version) for wheel in wheels}
    return {
        "label": label,
        "environment": dict(base.target.environment()),
        "sites": [base.site_packages.lstrip("/")],
        "distributions": [[wheel.name, wheel.version, wheel.sha256] for wheel in wheels],
        "ledger": [
            {
                "requirement": str(override.requirement),
                "against": list(override.against),
                "why": override.why,
                "group": override.group,
            }
            for override in overrides
        ],
        "known": [known_params(known) for known in lock.known],
        "patches": [item for patch in patches for item in _patch_params(patch, base, versions)],
        "extras": {name: sorted(names) for name, names in extras.items()},
    }


def known_params(known: Any) -> dict[str, str]:
    """Return a `known` entry of the lock as JSON."""
    return {
        "rule": known.rule,
        "distribution": known.distribution,
        "why": known.why,
        "path": known.path,
        "sha256": known.sha256,
        "owner": known.owner,
    }


def _patch_params(
    patch: Patch, base: Base, versions: Mapping[str, Version]
) -> list[dict[str, Any]]:
    variant, _, _ = choose_variant(patch, versions)
    if variant is None:  # the stage that applies it refuses, with the reason
        return []
    site = base.site_packages.lstrip("/")
    if not variant.edits:  # the release has the change itself, and must keep it
        return [
            {
                "name": patch.name,
                "file": f"{site}/{test.file}",
                "must_contain": [[test.contains, test.within or "", 1]],
                "must_not": [],
            }
            for test in variant.upstream
        ]
    by_file: dict[str, list[Edit]] = {}
    for edit in variant.edits:
        by_file.setdefault(edit.file, []).append(edit)
    return [
        {
            "name": patch.name,
            "file": f"{site}/{file}",
            "must_contain": [[e.replace, e.within or "", e.count] for e in edits if e.replace],
            # A replacement may keep its anchor; then the anchor's presence shows nothing.
            "must_not": [[e.find, e.within or "", 1] for e in edits if e.find not in e.replace],
        }
        for file, edits in by_file.items()
    ]
