"""JSON for other programs: sorted, versioned, the same bytes for the same result."""

from __future__ import annotations

import json
from typing import Any


def render(document: dict[str, Any]) -> str:
    """Return a document as JSON text of one line for each value, ending with a newline."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
