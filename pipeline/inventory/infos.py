"""Where dist-infos and egg-infos stand in a tree, and where their files really are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from pipeline.oci.index import SYMLINK
from pipeline.oci.tree import Located, Tree

FILES = ("METADATA", "RECORD", "INSTALLER", "direct_url.json")
"""What an inventory reads of a dist-info; an egg-info's PKG-INFO counts as METADATA."""

_SITE_NAMES = ("site-packages", "dist-packages")
_INFO = re.compile(r"(?P<site>.+?)/(?P<base>[^/]+\.(?:dist|egg)-info)(?:/|$)")


class Info(NamedTuple):
    """A dist-info or egg-info and where its files really are: parser -> place."""

    path: str
    site: str
    files: Mapping[str, Located]
    requested: bool
    layer: int


def find_sites(tree: Tree) -> tuple[str, ...]:
    """Return every site-packages directory that holds a dist-info, the fullest first.

    A directory is one by its name, or by the name of a link that leads to it.
    """
    linked = {tree.real_path(path) for path in tree.select(_is_site_link)}
    counts: dict[str, int] = {}
    for site in _info_paths(tree).values():
        if site.rpartition("/")[2] in _SITE_NAMES or site in linked:
            counts[site] = counts.get(site, 0) + 1
    return tuple(sorted(counts, key=lambda site: (-counts[site], site)))


def _is_site_link(node: Located) -> bool:
    return node.entry.type == SYMLINK and node.entry.path.rpartition("/")[2] in _SITE_NAMES


def _is_of_info(node: Located) -> bool:
    return "-info" in node.entry.path and _INFO.match(node.entry.path) is not None


def _info_paths(tree: Tree) -> dict[str, str]:
    """Return every dist-info and egg-info of the tree with the directory that holds it."""
    found: dict[str, str] = {}
    for path in tree.select(_is_of_info):
        if match := _INFO.match(path):
            found[f"{match['site']}/{match['base']}"] = match["site"]
    return found


def find_infos(tree: Tree, sites: Collection[str]) -> Iterator[Info]:
    """Yield every dist-info and egg-info that stands directly in one of `sites`."""
    found = {path: site for path, site in _info_paths(tree).items() if site in sites}
    for path in sorted(found):
        real = tree.real_path(path)
        if real is None or (real != path and real in found):
            continue  # a link to another one of the list
        yield _info(tree, path, found[path])


def _info(tree: Tree, path: str, site: str) -> Info:
    here = tree.resolve(path)
    if here is not None and here.entry.has_content:  # an egg-info can be one file
        return Info(path, site, {"METADATA": here}, False, here.layer)
    metadata = "METADATA" if path.endswith(".dist-info") else "PKG-INFO"
    files = {}
    for parser in FILES:
        name = metadata if parser == "METADATA" else parser
        located = tree.resolve(f"{path}/{name}")
        if located is not None and located.entry.has_content:
            files[parser] = located
    # What has no METADATA was brought by whatever of it came last.
    brought = [files["METADATA"]] if "METADATA" in files else tree.under(path)
    layer = max((one.layer for one in brought), default=here.layer if here else 0)
    return Info(path, site, files, tree.get(f"{path}/REQUESTED") is not None, layer)
