"""How an image would install more packages: the configuration of pip and uv that it carries.

Places and names: pip's user guide, "Configuration"; uv's reference, "Configuration files". Values
are never shown: an index's address may hold a password.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.documents import Malformed, parse_toml
from pipeline.oci.view import ImageView

_PIP = re.compile(
    r"(?:etc(?:/xdg/pip)?|(?:root|home/[^/]+)/(?:\.config/pip|\.pip)|usr(?:/local)?)/pip\.conf"
)
_UV = re.compile(r"(?:etc(?:/xdg)?|(?:root|home/[^/]+)/\.config)/uv/uv\.toml")
_ENVIRONMENT = re.compile(r"(?:PIP|UV)_[A-Z0-9_]+")
_MAX_FILE = 1024 * 1024
# What decides where packages come from.
_SOURCES = frozenset(
    {
        "allow-insecure-host", "default-index", "extra-index-url", "find-links", "index",
        "index-strategy", "index-url", "no-index", "proxy", "trusted-host",
    }
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Configuration:
    """One place that configures pip or uv: `path` of a file, or "" for the environment. `keys` are
    what it sets, spelled as options ("index-url"); none where it cannot be read."""

    path: str
    layer: int
    keys: tuple[str, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys that decide where packages come from."""
        return tuple(key for key in self.keys if key in _SOURCES)


def configurations(view: ImageView) -> tuple[Configuration, ...]:
    """Return every configuration of pip and uv in an image, by path, the environment last."""
    found = {
        path: located
        for path, located in view.tree.nodes.items()
        if path.endswith(("/pip.conf", "/uv.toml"))
        and (_PIP.fullmatch(path) or _UV.fullmatch(path))
        and located.entry.has_content
        and located.entry.size < _MAX_FILE
    }
    contents = view.read_many(list(found)) if found else {}
    files = [
        Configuration(path, found[path].layer, tuple(sorted(_keys(path, contents[path]))))
        for path in sorted(found)
    ]
    names = sorted(set(_environment(view.config)))
    return (*files, *([Configuration("", -1, tuple(names))] if names else ()))


def _keys(path: str, data: bytes) -> set[str]:
    if path.endswith(".toml"):
        try:
            document = parse_toml(data)
        except Malformed:
            return set()
        tables = [document, document.get("pip")]
        return {key for table in tables if isinstance(table, dict) for key in table} - {"pip"}
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return set()
    return {
        key.replace("_", "-") for section in parser.sections() for key, _ in parser.items(section)
    }


def _environment(config: Mapping[str, object]) -> Iterator[str]:
    process = config.get("config")
    texts = process.get("Env") if isinstance(process, dict) else None
    for text in texts or ():
        name, _, value = str(text).partition("=")
        if value and _ENVIRONMENT.fullmatch(name):
            yield name.partition("_")[2].lower().replace("_", "-")
