"""What was found out about texts, by their content: a chain is planned again for every edit of it.

Most files that its stages patch are as they were the last time, and so is what is found in them.
An answer depends on nothing but its question and the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Notes:
    """Answers as JSON, by question and content. `used` are those that this run has asked for."""

    known: Mapping[str, Any] = field(default_factory=dict)
    used: dict[str, Any] = field(default_factory=dict)

    def recall(self, question: str, data: bytes) -> Any:
        """Return what is noted of some bytes, None where nothing is."""
        key = _key(question, data)
        if key in self.used:
            return self.used[key]
        if key in self.known:
            self.used[key] = self.known[key]
            return self.known[key]
        return None

    def note(self, question: str, data: bytes, answer: Any) -> None:
        """Note an answer, which is not None."""
        self.used[_key(question, data)] = answer


def _key(question: str, data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()} {question}"
