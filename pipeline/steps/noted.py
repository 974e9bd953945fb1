"""The notes that the plans of a stage keep for the next time: one file a stage, of the last run."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.oci.kept import keep, kept, text_of
from pipeline.patching.notes import Notes

# Whose functions answer, here and elsewhere. What other versions of them found is never used.
_MODULES = tuple(
    f"pipeline.patching.{name}" for name in ("definitions", "encoding", "scopes", "syntax")
)
_LIBRARIES = ("ruff", "tree-sitter", "tree-sitter-cpp", "tree-sitter-cuda", "tree-sitter-python")


def read_notes(cache: Path | None, stage: str) -> Notes:
    """Return the notes of a stage; none where nothing is kept that this program has found."""
    data = kept(_place(cache), _digest(stage))
    document: dict[str, Any] = json.loads(data) if data is not None else {}
    return Notes(document["notes"] if document.get("found_by") == _found_by() else {})


def keep_notes(cache: Path | None, stage: str, notes: Notes) -> None:
    """Keep what this run has asked for, if that is anything new."""
    if notes.used != notes.known:
        document = {"found_by": _found_by(), "notes": notes.used}
        data = json.dumps(document, sort_keys=True, separators=(",", ":"))
        keep(_place(cache), _digest(stage), data.encode("ascii"))


def _place(cache: Path | None) -> Path | None:
    return cache and cache / "notes"


def _digest(stage: str) -> str:
    return f"sha256:{hashlib.sha256(stage.encode('utf-8')).hexdigest()}"


@cache
def _found_by() -> str:
    """Return what tells the program text and the libraries that answer from all others."""
    libraries = [f"{name} {version(name)}" for name in _LIBRARIES]
    return " ".join([text_of(*_MODULES), *libraries])
