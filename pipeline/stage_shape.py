"""What a stage's TOML may hold: every fault of one file, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.chain import BASE_TAG, BASES, BUILT, STATES
from pipeline.payloads import file_faults

_NAME = re.compile(r"v[1-9][0-9]{0,5}")
# distribution-spec 1.1, "Pulling manifests": the grammar of a tag.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# What a release gives to one image (docs/release.md): a stage of that tag would take it away.
_FOR_ONE_IMAGE = re.compile(r".*(-[0-9a-f]{12}|-unproven)")
_PROBE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_VARIABLE = re.compile(r"[^\s=\0]+")
_WORDS: dict[type, str] = {str: "a string", list: "an array", dict: "a table"}
_KEYS: dict[str, type] = {
    "name": str,
    "title": str,
    "why": str,
    "parent": str,
    "tag": str,
    "environment": str,
    "patches": list,
    "files": list,
    "env": dict,
    "labels": dict,
    "checks": list,
    "status": dict,
    "smoke": list,
}
_REQUIRED = ("name", "title", "why", "parent", "tag")
CHECKS: dict[str, tuple[str, ...]] = {
    "contains": ("file", "text"),
    "absent": ("file", "text"),
    "compiles": ("file",),
    "version": ("distribution", "version"),
}


def shape_faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (place, problem) for everything that is wrong with the shape of a stage."""
    for key in _REQUIRED:
        if key not in data:
            yield key, "is missing"
    for key, value in data.items():
        if key not in _KEYS:
            yield key, f"unknown key; known are {', '.join(_KEYS)}"
        elif not isinstance(value, _KEYS[key]):
            yield key, f"must be {_WORDS[_KEYS[key]]}"
        elif isinstance(value, str) and not value.strip():
            yield key, "is empty"
    name, tag, title = data.get("name"), data.get("tag"), data.get("title")
    if isinstance(name, str) and name.strip() and not _NAME.fullmatch(name):
        yield "name", f"{name!r} is not v and a number"
    if isinstance(tag, str) and tag.strip() and not _TAG.fullmatch(tag):
        yield "tag", f"{tag!r} is no tag: letters, digits, '_', '.', '-', at most 128"
    elif tag == BASE_TAG:
        yield "tag", f"{tag!r} is the base's"
    elif isinstance(tag, str) and _FOR_ONE_IMAGE.fullmatch(tag):
        yield "tag", f"{tag!r} looks like the tag of one image: <tag>[-unproven]-<12 hex>"
    if isinstance(title, str) and not title.isprintable():
        yield "title", "must be one line without control characters"
    for key in ("patches", "smoke"):
        yield from _string_faults(key, data.get(key))
    for key in ("env", "labels"):
        value = data.get(key)
        if isinstance(value, dict):
            for inner, text in value.items():
                if not isinstance(text, str):
                    yield f"{key}.{inner}", "must be a string"
                elif "\0" in text:
                    yield f"{key}.{inner}", "holds a NUL character"
                if key == "env" and not _VARIABLE.fullmatch(inner):
                    yield f"{key}.{inner!r}", "is no name of a variable: no '=', no white space"
                elif not inner.strip() or not inner.isprintable():
                    yield f"{key}.{inner!r}", "is no name of a label"
    files = data.get("files")
    for number, key, problem in file_faults(files if isinstance(files, list) else (), BASES):
        yield f"files[{number}]{key}", problem
    yield from _check_faults(data.get("checks"))
    yield from _status_faults(data.get("status"))


def _string_faults(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            if not isinstance(item, str):
                yield f"{key}[{number}]", "must be a string"
            elif item in value[:number]:
                yield f"{key}[{number}]", f"{item!r} stands twice"
            elif key == "smoke" and not _PROBE.fullmatch(item):
                yield f"{key}[{number}]", f"{item!r} is no name of a probe, as nope_mla"


def _tables(key: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield f"{key}[{number}]", item if isinstance(item, dict) else None


def _check_faults(value: Any) -> Iterator[tuple[str, str]]:
    for where, item in _tables("checks", value):
        kind = item.get("kind") if item is not None else None
        if item is None or not isinstance(kind, str) or kind not in CHECKS:
            yield f"{where}.kind", f"must be one of {', '.join(CHECKS)}"
            continue
        if item.get("base", BASES[0]) not in BASES:
            yield f"{where}.base", f"must be one of {', '.join(BASES)}"
        for key in sorted(item.keys() - {"kind", "base", *CHECKS[kind]}):
            yield f"{where}.{key}", f"unknown key for kind {kind}"
        for key in CHECKS[kind]:
            text = item.get(key)
            if not isinstance(text, str) or not text:
                yield f"{where}.{key}", "must be a string with something in it"
            elif key == "file" and {"", ".", ".."} & {*text.split("/")}:
                yield f"{where}.{key}", f"{text!r} must be relative and in its one spelling"
            elif key == "version" and not _is_version(text):
                yield f"{where}.{key}", f"{text!r} is no version"
            elif key == "distribution" and canonicalize_name(text) != text:
                yield f"{where}.{key}", f"{text!r} is spelled {canonicalize_name(text)!r}"


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _status_faults(value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        return
    for base, item in value.items():
        where = f"status.{base}"
        if base not in BASES:
            yield where, f"unknown base; known are {', '.join(BASES)}"
        elif not isinstance(item, dict) or item.get("state") not in STATES:
            yield f"{where}.state", f"must be one of {', '.join(STATES)}"
        else:
            for key in item.keys() - {"state", "reason"}:
                yield f"{where}.{key}", "unknown key; known are state, reason"
            reason = item.get("reason", "")
            if not isinstance(reason, str):
                yield f"{where}.reason", "must be a string"
            elif item["state"] != BUILT and not reason.strip():
                yield f"{where}.reason", f"a stage that is {item['state']} says why"
