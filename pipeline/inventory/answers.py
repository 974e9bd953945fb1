"""What was asked of source files, by their content: no file is read twice for one question.

The images of a chain hold nearly the same files, so an audit takes answers from three places: from
what this process has asked before, from what its parent's audit handed on, and from what is kept of
a layer by the layer's digest. None of them has any influence on an answer, but for its time.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pipeline.oci.kept import keep, kept
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

    `given` are the parent's; with those that were asked for they are handed on. `cache` is the
    directory in which answers are kept, None for none.
    """

    memo: AnswerMemo = field(default_factory=AnswerMemo)
    cache: Path | None = None
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
        given = self.given.get(question, {})
        missing: dict[str, str] = {}
        for path, sha256 in hashes.items():
            if (question, sha256) not in known:
                if sha256 in given:
                    known[question, sha256] = given[sha256]
                else:
                    missing[sha256] = path
        if missing:
            self._take_kept({_layer(view, path) for path in missing.values()})
            new = {sha: path for sha, path in missing.items() if (question, sha) not in known}
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
        """Return what was given with what was asked: a function of the two alone."""
        return {
            question: {**self.given.get(question, {}), **self._used.get(question, {})}
            for question in sorted(self.given.keys() | self._used.keys())
        }

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
            for question, answers in _table(self.cache, layer).items():
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


@cache
def _asked() -> str:
    """Return a digest of the program text that answers."""
    hashed = hashlib.sha256()
    for name in _ASKED:
        file = importlib.import_module(name).__file__
        assert file is not None
        hashed.update(Path(file).read_bytes())
    return hashed.hexdigest()
