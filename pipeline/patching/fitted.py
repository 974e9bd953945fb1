"""A variant tried on a release that it does not name: the edits as if it were made for that one."""

from __future__ import annotations

from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.patching.model import Patch, Variant


def as_if(patch: Patch, variant: Variant, version: Version) -> Patch:
    """The patch with this one variant, made to fit exactly `version`."""
    requirement = Requirement(f"{variant.requirement.name}=={version}")
    return replace(patch, variants=(replace(variant, requirement=requirement),))


def nearest_variant(patch: Patch, version: Version) -> Variant | None:
    """The variant for the newest release up to `version`, else for the oldest one after it.

    Only variants about the patch's own distribution are asked, by the highest version that each
    names, and that change something or know what upstream's change looks like: that one release
    does without a patch says nothing about another. None when there is none.
    """
    known = [
        (max(versions), variant)
        for variant in patch.variants
        if canonicalize_name(variant.requirement.name) == patch.distribution
        and not variant.not_needed
        and (versions := _named(variant))
    ]
    below = [item for item in known if item[0] <= version]
    if below:
        return max(below, key=lambda item: item[0])[1]
    return min(known, key=lambda item: item[0])[1] if known else None


def _named(variant: Variant) -> list[Version]:
    """Versions that the specifier names: `==0.30.*` names 0.30; `!=` says nothing."""
    return [
        Version(specifier.version.removesuffix(".*"))
        for specifier in variant.requirement.specifier
        if specifier.operator not in ("!=", "===")
    ]
