"""The work order of a stage: everything that its layer will hold, decided and verified before.

The step `stage` writes it, the step `stage-layer` carries it out and reads nothing else but the
wheels that it names. So a layer is made again only when what goes into it has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.oci.image import canonical
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Located, Tree

FILE = "order.json"
CONTENTS = "contents"


@dataclass(frozen=True)
class NewFile:
    """A file whose content is in the order: image path, mode, hex sha256, size in bytes."""

    path: str
    mode: int
    sha256: str
    size: int


@dataclass(frozen=True)
class Order:
    """What a stage's layer holds.

    `whiteouts` are image paths that go, `files` come with their content, `wheels` are the
    distributions to install: `leave_out` {name: {image path: reason}}, `overrides` {name: {image
    path: hex sha256 of the content}}. `directories` are modes (other than 0755) that directories
    of the parent have: a layer that repeats one must not change it.
    """

    whiteouts: Sequence[str]
    files: Sequence[NewFile]
    wheels: Sequence[Mapping[str, str]]
    leave_out: Mapping[str, Mapping[str, str]]
    overrides: Mapping[str, Mapping[str, str]]
    directories: Mapping[str, int]

    def write(self, directory: Path, contents: Mapping[str, bytes]) -> None:
        """Write the order, and each content under its hex sha256."""
        (directory / FILE).write_bytes(canonical(asdict(self)))
        (directory / CONTENTS).mkdir()
        for sha256, data in contents.items():
            (directory / CONTENTS / sha256).write_bytes(data)

    @classmethod
    def read(cls, directory: Path) -> Order:
        """Read what `write` wrote."""
        data = json.loads((directory / FILE).read_bytes())
        return cls(**{**data, "files": [NewFile(**item) for item in data["files"]]})


def content(directory: Path, sha256: str) -> bytes:
    """Return a content of the order in `directory`."""
    return (directory / CONTENTS / sha256).read_bytes()


def own_modes(tree: Tree) -> dict[str, int]:
    """Return the directories of a tree with another mode than 0755, which a layer must repeat."""
    return {path: node.entry.mode for path, node in tree.select(_has_own_mode).items()}


def _has_own_mode(node: Located) -> bool:
    return node.entry.type == DIRECTORY and node.entry.mode != 0o755
