"""What was asked of source files, by their content: no file is read twice for one question.

The images of a chain hold nearly the same files, so an audit takes answers from three places: from
what this process has asked before, from what its parent's audit handed on, and from what is kept of
a layer by the layer's digest. None of them has any influence on an answer, but for its time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pipeline.oci.kept import keep, kept, text_of
from pipeline.oci.view import ImageView

Answer = TypeVar("Answer")
Table = dict[str, dict[str, Any]]
"""Answers as JSON: question -> hex sha256 of the file -> answer."""

# Whose functions answer. What another version of them found out is never used.
_ASKED = ("pipeline.inventory.imports", "pipeline.inventory.modules", "pipeline.inventory.names")


@dataclass
class AnswerMemo:
    """What this process knows. `layers` are the digests of those whose kept answers are in it."""

    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    layers: set[str] = field(default_factory=set)


@dataclass
class Answers:
    """The answers that one audit needs.

    `given` returns those that the parent's audit hands on, and is called when one is missing.
    `cache` is the directory in which answers are kept, None for none.
    """

    memo: AnswerMemo = field(default_factory=AnswerMemo)
    cache: Path | None = None
    given: Callable[[], Table] = dict
    _used: Table = field(default_factory=dict)
    _new: dict[str, Table] = field(default_factory=dict)  # by layer

    def of(
        self,
        view: ImageView,
        paths: Collection[str],
        question: str,
        ask: Callable[[bytes], Answer],
    ) -> dict[str, Answer]:
        """Return the answers by path; files of which one is not known are read, all at once.

        `question` names what `ask` finds out, with all that this depends on beside the bytes; the
        answer is of JSON. Raises KeyError for a path that is no file of the image.
        """
        nodes, known = view.tree.nodes, self.memo.known
        hashes = {path: nodes[path].entry.sha256 for path in paths}
        for take in (self._take_kept, self._take_given):
            if missing := [path for path in paths if (question, hashes[path]) not in known]:
                take({_layer(view, path) for path in missing})
        new = {sha: path for path, sha in hashes.items() if (question, sha) not in known}
        contents = view.read_many(sorted(new.values())) if new else {}
        for sha256, path in new.items():
            answer = known[question, sha256] = ask(contents[path])
            layer = self._new.setdefault(_layer(view, path), {})
            layer.setdefault(question, {})[sha256] = answer
        found = {path: known[question, sha256] for path, sha256 in hashes.items()}
        used = self._used.setdefault(question, {})
        used.update(zip(hashes.values(), found.values(), strict=True))
        return found

    def handed_on(self) -> Table:
        """Return what was asked: a function of the image alone, whoever knew the answers before."""
        return self._used

    def keep(self) -> None:
        """Keep what is new, by layer, for other processes."""
        for layer, table in self._new.items():
            if layer and self.cache is not None:
                before = _table(self.cache, layer)
                merged = {name: {**before.get(name, {}), **table[name]} for name in table}
                rows = {"asked": _asked(), "answers": before | merged}
                keep(self.cache, layer, json.dumps(rows, separators=(",", ":")).encode("ascii"))
        self._new.clear()

    def _take_kept(self, layers: set[str]) -> None:
        for layer in layers - self.memo.layers - {""}:
            self.memo.layers.add(layer)
            self._take(_table(self.cache, layer))

    def _take_given(self, layers: set[str]) -> None:
        """Take what the parent's audit hands on, be it of whatever layers; once."""
        self._take(self.given())
        self.given = dict

    def _take(self, table: Table) -> None:
        for question, answers in table.items():
            for sha256, answer in answers.items():
                self.memo.known.setdefault((question, sha256), answer)


def _layer(view: ImageView, path: str) -> str:
    """Return the digest of the layer that brought a path, "" where there are no layers."""
    number = view.tree.nodes[path].layer
    return view.layers[number].digest if number < len(view.layers) else ""


def _table(cache: Path | None, layer: str) -> Table:
    data = kept(cache, layer)
    document = json.loads(data) if data is not None else {}
    table: Table = document["answers"] if document.get("asked") == _asked() else {}
    return table


def _asked() -> str:
    """Return a digest of the program text that answers."""
    return text_of(*_ASKED)
