"""What a registry asks for with a 401: the header WWW-Authenticate (RFC 9110, 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PARAMETER = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
_SCHEME = re.compile(r"\s*(Bearer|Basic)(?:\s+|\s*,|\s*$)", re.IGNORECASE)


@dataclass(frozen=True)
class Challenge:
    """A scheme, in lower case, with its parameters."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """Return the challenges that this program can answer; what it cannot read ends the list."""
    challenges: list[Challenge] = []
    rest = header
    while match := _SCHEME.match(rest):
        rest = rest[match.end() :]
        parameters: dict[str, str] = {}
        while not _SCHEME.match(rest) and (found := _PARAMETER.match(rest)):
            quoted, plain = found[2], found[3]
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            parameters[found[1].lower()] = value
            rest = rest[found.end() :]
        challenges.append(Challenge(match[1].lower(), parameters))
    return challenges
