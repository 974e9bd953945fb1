"""Which variant of a patch fits the installed versions: exactly one must."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.patching.model import Patch, Variant
from pipeline.patching.outcomes import Outcome


def choose_variant(
    patch: Patch, versions: Mapping[str, Version]
) -> tuple[Variant | None, Outcome, str]:
    """The fitting variant, or None with the outcome and the reason.

    Development, local and pre-releases fit like any other (PEP 440 comparison): what is installed
    is installed. `vllm==0.1.dev20051` therefore fits `0.1.dev20051+g487ecf187`.
    """
    fitting = [variant for variant in patch.variants if _fits(variant, versions)]
    if len(fitting) == 1:
        return fitting[0], Outcome.FITS, ""
    labels = ", ".join(variant.label for variant in fitting or patch.variants)
    names = sorted({canonicalize_name(variant.requirement.name) for variant in patch.variants})
    installed = " and ".join(f"{name} {versions.get(name, 'not installed')}" for name in names)
    if fitting:
        return None, Outcome.VARIANT_AMBIGUOUS, f"{installed}: fits {labels}"
    return None, Outcome.NO_VARIANT, f"{installed}: fits none of {labels}"


def _fits(variant: Variant, versions: Mapping[str, Version]) -> bool:
    version = versions.get(canonicalize_name(variant.requirement.name))
    return version is not None and variant.requirement.specifier.contains(version, prereleases=True)
