"""What the stages of an image say that they did: each leaves a file in the image.

It is the image's own word, and explains a difference to people; whether it is true is for `audit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name

from pipeline.documents import Malformed, parse_json
from pipeline.drift.files import STAGES
from pipeline.drift.sides import Side
from pipeline.inventory.distributions import same_version

_MAX_FILE = 4 * 1024 * 1024


@dataclass
class Deeds:
    """`installed` and `removed` are (stage, version) by distribution; `edited` are (what did it,
    the hex sha256 that it left) by path."""

    installed: dict[str, tuple[str, str]] = field(default_factory=dict)
    removed: dict[str, tuple[str, str]] = field(default_factory=dict)
    edited: dict[str, tuple[str, str]] = field(default_factory=dict)

    def moved(self, name: str, before: str, after: str) -> str:
        """Say which stage brought a version, or removed one; "" for none."""
        if after:
            stage, version = self.installed.get(name, ("", ""))
            return f"{stage} installs it from the lock" if same(version, after) else ""
        stage, version = self.removed.get(name, ("", ""))
        return f"{stage} removes it" if same(version, before) else ""

    def edits(self, sha256: Mapping[str, str]) -> str:
        """Say what changed all of these files (hex sha256 by path); "" if one was not."""
        found = [self.edited.get(path, ("", "")) for path in sha256]
        left = [after for _, after in found]
        if not found or left != list(sha256.values()):
            return ""
        return "; ".join(sorted({what for what, _ in found}))


def same(one: str, other: str) -> bool:
    """Whether both are one version."""
    return bool(one) and same_version(one, other)


def deeds(before: Side, after: Side) -> Deeds:
    """Return what the stages did that `after` has and `before` has not, or has otherwise."""
    result = Deeds()
    if after.view is None:
        return result
    found = {}
    for located in after.tree.under(STAGES):
        entry, was = located.entry, before.tree.get(located.entry.path)
        if not entry.has_content or not 0 < entry.size < _MAX_FILE:
            continue
        if was is None or was.entry.sha256 != entry.sha256:
            found[entry.path] = located.layer
    contents = after.view.read_many(list(found))
    for path in sorted(found, key=lambda path: found[path]):
        try:
            _take(result, parse_json(contents[path]))
        except (Malformed, KeyError, TypeError, AttributeError, ValueError):
            continue  # of another maker: it explains nothing
    return result


def _take(result: Deeds, document: Any) -> None:
    stage = str(document["stage"])
    for one in document["installed"]:
        result.installed[canonicalize_name(one["name"])] = (stage, str(one["version"]))
    for text in document["removed"]:
        name, _, version = str(text).partition("==")
        result.removed[canonicalize_name(name)] = (stage, version)
    patches: dict[str, list[str]] = {}
    for patch in document["patches"]:
        for edit in patch["edits"]:
            patches.setdefault(str(edit["file"]), []).append(str(patch["name"]))
    for file in document["files"]:
        path = str(file["path"])
        # An edit names its file from site-packages.
        by = [names for end, names in patches.items() if path.endswith(f"/{end}")]
        names = ", ".join(dict.fromkeys(name for some in by for name in some))
        result.edited[path] = (f"{stage}: {names}" if names else stage, str(file["after"]))
