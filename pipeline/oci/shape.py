"""The shape of an image's config (image-spec, config.md), asked for before anything is believed.

Whoever reads a member later may take it for what the specification says it is. Absent and null are
one, as they are for every tool that writes or reads these documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.errors import Refusal


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _command(value: Any) -> bool:
    return _text(value) or _texts(value)  # Docker reads a lone text as well


def _pairs(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


_Test = tuple[Callable[[Any], bool], str]
_TEXT: _Test = (_text, "text")
_OUTER = dict.fromkeys(("architecture", "os", "variant", "created", "author"), _TEXT)
_PROCESS: Mapping[str, _Test] = {
    "Env": (_texts, "a list of texts"),
    "Entrypoint": (_command, "a list of texts"),
    "Cmd": (_command, "a list of texts"),
    "User": _TEXT,
    "WorkingDir": _TEXT,
    "Labels": (_pairs, "an object of texts"),
}
_STEP: Mapping[str, _Test] = {"created_by": _TEXT, "empty_layer": (_flag, "true or false")}


def check_config(config: Any, name: str, hint: str) -> Mapping[str, Any]:
    """Return the config of an image, which is as a config must be.

    Raises Refusal that names the first member that is not, with `hint`.
    """
    fault = next(_faults(config), None)
    if fault is not None:
        raise Refusal(f"{name}: its config is no image config: {fault}", hint=hint)
    document: Mapping[str, Any] = config
    return document


def _faults(config: Any) -> Iterator[str]:
    if not isinstance(config, dict):
        yield "no JSON object"
        return
    yield from _members(config, _OUTER, "")
    process = config.get("config")
    if process is not None and not isinstance(process, dict):
        yield "config is no object"
    yield from _members(process or {}, _PROCESS, "config.")
    root = config.get("rootfs")
    if not isinstance(root, dict) or not _texts(root.get("diff_ids")):
        yield "rootfs.diff_ids is no list of texts"
    history = config.get("history")
    if history is not None and not isinstance(history, list):
        yield "history is no list"
        return
    for number, step in enumerate(history or ()):
        if not isinstance(step, dict):
            yield f"history[{number}] is no object"
        else:
            yield from _members(step, _STEP, f"history[{number}].")


def _members(value: Mapping[str, Any], tests: Mapping[str, _Test], where: str) -> Iterator[str]:
    for key, (fits, what) in tests.items():
        if value.get(key) is not None and not fits(value[key]):
            yield f"{where}{key} is no {what.removeprefix('a ').removeprefix('an ')}"
