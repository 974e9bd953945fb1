"""What a container starts with: the parts of two image configs that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipeline.drift.changes import Setting

# What decides over which program runs and which libraries it finds comes first.
_ORDER = ("architecture", "os", "Env", "Entrypoint", "Cmd", "User", "WorkingDir")
_TIMES = ("org.opencontainers.image.created",)


def settings(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    meant: Mapping[str, tuple[str, str]] | None = None,
) -> tuple[Setting, ...]:
    """Return every setting that differs, what can hurt most first, labels last.

    `meant` are the variables that somebody means to be set: (value, reason) by name; one with that
    very value has the reason. Absent, null and empty are one (as for the fingerprint); so are two
    orders of the environment.
    """
    found = (_explained(one, meant or {}) for one in _settings(before, after))
    return tuple(sorted(found, key=_rank))


def _explained(one: Setting, meant: Mapping[str, tuple[str, str]]) -> Setting:
    value, reason = meant.get(one.key, ("", "")) if one.name == "Env" else ("", "")
    return replace(one, reason=reason) if one.after == value else one


def _rank(one: Setting) -> tuple[int, str, str]:
    place = _ORDER.index(one.name) if one.name in _ORDER else len(_ORDER) + (one.name == "Labels")
    return place, one.name, one.key


def _settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Setting]:
    for name in ("architecture", "os", "variant"):
        if (was := before.get(name) or "") != (now := after.get(name) or ""):
            yield Setting(name, "", _text(was), _text(now))
    one, other = _process(before), _process(after)
    for name in sorted({*one, *other}):
        was, now = one.get(name), other.get(name)
        if name in ("Env", "Labels"):
            left, right = _pairs(was), _pairs(now)
            for key in sorted({*left, *right} - {*_TIMES}):
                if left.get(key) != right.get(key):
                    yield Setting(name, key, left.get(key), right.get(key))
        elif (was or None) != (now or None):
            yield Setting(name, "", _text(was), _text(now))


def _process(config: Mapping[str, Any]) -> Mapping[str, Any]:
    process = config.get("config")
    return process if isinstance(process, dict) else {}


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): str(item) for key, item in value.items()}
    if isinstance(value, list):  # of one name twice the last one counts
        texts = [str(item).partition("=") for item in value]
        return {key: item for key, _, item in texts}
    return {}


def _text(value: Any) -> str | None:
    if not value:
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
