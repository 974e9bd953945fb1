"""What was asked of files, by their content: the images of a chain hold nearly the same files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pipeline.oci.view import ImageView

Answer = TypeVar("Answer")


@dataclass
class Answers:
    """Answers that depend on nothing but a question and a file's bytes; they are kept by both."""

    _known: dict[tuple[Hashable, str], Any] = field(default_factory=dict)

    def of(
        self,
        view: ImageView,
        paths: Collection[str],
        question: Hashable,
        ask: Callable[[bytes], Answer],
    ) -> dict[str, Answer]:
        """Return the answers by path; files of which one is not known are read, all at once.

        `question` names what `ask` finds out, with all that this depends on beside the bytes.
        Raises KeyError for a path that is no file of the image.
        """
        keys = {path: (question, view.tree.nodes[path].entry.sha256) for path in paths}
        unknown = {key: path for path, key in keys.items() if key not in self._known}
        contents = view.read_many(sorted(unknown.values())) if unknown else {}
        for key, path in unknown.items():
            self._known[key] = ask(contents[path])
        return {path: self._known[key] for path, key in keys.items()}
