"""An error of a step in a form that crosses processes and engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline import errors
from pipeline.errors import ChainError, OutsideTrouble


@dataclass(frozen=True)
class Failure:
    """What an error says. `kind` is its class's name in `pipeline.errors`."""

    kind: str
    message: str
    hint: str | None = None
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: ChainError) -> Failure:
        """Return what crosses for an error."""
        return cls(type(error).__name__, error.message, error.hint, tuple(error.details))

    def raised(self) -> ChainError:
        """Return the error again, to be raised on this side."""
        error = OutsideTrouble(self.message, hint=self.hint, details=self.details)
        # FaultyFile has a constructor of its own; its message and status are UsageError's.
        error.__class__ = getattr(errors, self.kind if self.kind != "FaultyFile" else "UsageError")
        return error

    def cut(self, most: int) -> Failure:
        """Return it with so many details, from the first on, that they have `most` bytes or less.

        What is left out is counted in the last line: nothing is dropped in silence.
        """
        kept: list[str] = []
        size = len(self.message.encode())
        for detail in self.details:
            size += len(detail.encode()) + 8
            if size > most:
                kept.append(f"… and {len(self.details) - len(kept)} more")
                break
            kept.append(detail)
        return replace(self, details=tuple(kept))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "kind": self.kind,
            "message": self.message,
            "hint": self.hint,
            "details": list(self.details),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Failure:
        """Read what `to_json` wrote."""
        return cls(
            document["kind"], document["message"], document["hint"], tuple(document["details"])
        )
