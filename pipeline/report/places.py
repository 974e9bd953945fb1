"""Where in the project's files a finding is to be mended: a file and a line for code scanning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline.audit.findings import Finding
from pipeline.inventory.families import FAMILIES

_ENTRY = re.compile(r'^\s*(?:\[\[packages\]\]|name\s*=\s*"(?P<name>[^"]*)"|version\s*=\s*'
                    r'"(?P<version>[^"]*)")')  # fmt: skip
_REQUIREMENTS = re.compile(r"^requirements\s*=")
_STAGE = re.compile(r"\b(v[1-9][0-9]*):? ")


@dataclass(frozen=True)
class Place:
    """A line, from 1, of a file whose path from the project's root is `file`."""

    file: str
    line: int = 1


@dataclass(frozen=True)
class Places:
    """Finds places in a checkout at `root`.

    `lock` is the lock file and `stages` the directory of the stages, both from the root; `versions`
    are the locked versions by normalised name, since a name may have several entries. Files that
    are not there give no places but the lock's first line.
    """

    root: Path
    lock: str
    stages: str = "stages"
    versions: Mapping[str, str] = field(default_factory=dict)

    def of(self, finding: Finding, layer: str = "") -> Place:
        """Return the place of a finding; `layer` says what its layer is.

        That is the patch, the pin of the distribution, or of a member of the family, or the stage
        that made the layer; otherwise where the lock says what is wanted at all.
        """
        if finding.rule == "baseline-unused":
            return self._entry_of_baseline(finding)
        patch = f"patches/{finding.subject}.toml"
        if finding.rule == "patch-lost" and (self.root / patch).is_file():
            return Place(patch)
        pin = self._pin(finding.subject)
        if pin:
            return Place(self.lock, pin)
        stage = _STAGE.search(layer)
        if stage and stage[1] in self._stage_files:
            return Place(self._stage_files[stage[1]])
        return Place(self.lock, self._requirements)

    def _entry_of_baseline(self, finding: Finding) -> Place:
        """The number of the entry is in the message: accepted[3]."""
        number = re.search(r"\[(\d+)\]", finding.message)
        heads = [
            at
            for at, line in enumerate(_lines(self.root / finding.path), 1)
            if line.strip() == "[[accepted]]"
        ]
        wanted = int(number[1]) if number else 0
        return Place(finding.path, heads[wanted] if wanted < len(heads) else 1)

    def _pin(self, subject: str) -> int:
        members = next((one.members for one in FAMILIES if one.name == subject), (subject,))
        for name in map(canonicalize_name, members):
            lines = self._pins.get(name, {})
            if lines:
                return lines.get(self.versions.get(name, ""), min(lines.values()))
        return 0

    @cached_property
    def _pins(self) -> Mapping[str, Mapping[str, int]]:
        """Lines of the lock's packages: name -> version -> line of its name."""
        found: dict[str, dict[str, int]] = {}
        name, at = "", 0
        for number, line in enumerate(_lines(self.root / self.lock), 1):
            match = _ENTRY.match(line)
            if match is None:
                continue
            if match["name"]:
                name, at = canonicalize_name(match["name"]), number
                found.setdefault(name, {}).setdefault("", number)
            elif match["version"] and name:
                found[name].pop("", None)
                found[name].setdefault(match["version"], at)
            else:
                name = ""
        return found

    @cached_property
    def _requirements(self) -> int:
        lines = enumerate(_lines(self.root / self.lock), 1)
        return next((number for number, line in lines if _REQUIREMENTS.match(line)), 1)

    @cached_property
    def _stage_files(self) -> Mapping[str, str]:
        """Files of the stages, by name: v4 is v04-….toml."""
        found = {}
        for file in sorted((self.root / self.stages).glob("v*.toml")):
            if match := re.match(r"v0*([1-9][0-9]*)-", file.name):
                found[f"v{match[1]}"] = f"{self.stages}/{file.name}"
        return found


def _lines(path: Path) -> Iterator[str]:
    if path.is_file():
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()
