"""A patch as JSON: what an edit does, without the prose that explains it.

So a better explanation changes no image, and an engine elsewhere needs no files of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.requirements import Requirement

from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant


def patch_to_json(patch: Patch) -> dict[str, Any]:
    """Return the patch as JSON; `patch_from_json` gives it back with empty prose."""
    return {
        "name": patch.name,
        "distribution": patch.distribution,
        "variants": [
            {
                "for": variant.label,
                "not_needed": variant.not_needed,
                "upstream": [
                    {"file": test.file, "contains": test.contains, "within": test.within}
                    for test in variant.upstream
                ],
                "edits": [
                    {
                        "id": edit.id,
                        "file": edit.file,
                        "find": edit.find,
                        "replace": edit.replace,
                        "within": edit.within,
                        "count": edit.count,
                    }
                    for edit in variant.edits
                ],
            }
            for variant in patch.variants
        ],
    }


def patch_from_json(document: Mapping[str, Any]) -> Patch:
    """Read what `patch_to_json` wrote."""
    return Patch(
        name=document["name"],
        title="",
        why="",
        upstream="",
        distribution=document["distribution"],
        variants=tuple(
            Variant(
                requirement=Requirement(variant["for"]),
                edits=tuple(Edit(**edit) for edit in variant["edits"]),
                upstream=tuple(UpstreamTest(**test) for test in variant["upstream"]),
                not_needed=variant["not_needed"],
            )
            for variant in document["variants"]
        ),
    )
