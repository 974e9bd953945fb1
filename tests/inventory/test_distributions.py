"""What counts as an installed distribution, and what does not."""

from collections.abc import Collection
from pathlib import Path

from pipeline.inventory.distributions import Memo, read_inventory
from pipeline.inventory.infos import find_sites
from pipeline.oci.view import LayersView
from tests.audit.images import GONE, SITE, Link, distribution, image


class Counting:
    """A view that counts what is read."""

    def __init__(self, view: LayersView):
        self._view = view
        self.reads: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._view, name)

    def read_many(self, paths: Collection[str]) -> dict[str, bytes]:
        self.reads.append(len(paths))
        return self._view.read_many(paths)


def names(view: LayersView, *sites: str) -> dict[str, str]:
    return {one.name: one.version for one in read_inventory(view, sites).distributions}


def test_a_removed_distribution_does_not_count(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        distribution("a", "1") | distribution("b", "1"),
        {f"{SITE}/a-1.dist-info": GONE},
    )
    assert names(view) == {"b": "1"}


def test_the_layer_is_the_one_that_brought_the_metadata(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        distribution("a", "1"),
        distribution("b", "1"),
        {f"{SITE}/a-1.dist-info/REQUESTED": ""},
    )
    found = {one.name: one for one in read_inventory(view).distributions}
    assert {name: one.layer for name, one in found.items()} == {"a": 0, "b": 1}
    assert found["a"].requested and not found["b"].requested


def test_vendored_copies_and_source_trees_do_not_count(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        distribution("setuptools", "80.1")
        | distribution("wheel", "0.45", site=f"{SITE}/setuptools/_vendor")
        | {"src/x/x.egg-info/PKG-INFO": "Name: x\nVersion: 1\n"},
    )
    assert names(view) == {"setuptools": "80.1"}


def test_egg_infos_count(tmp_path: Path) -> None:
    site = "usr/lib/python3/dist-packages"
    view = image(
        tmp_path,
        {
            f"{site}/PyYAML-6.0.egg-info/PKG-INFO": "Name: PyYAML\nVersion: 6.0\n",
            f"{site}/six-1.16-py3.11.egg-info": "Name: six\nVersion: 1.16\n",
        },
    )
    assert names(view) == {"pyyaml": "6.0", "six": "1.16"}


def test_sites_are_found_by_name_and_by_links_and_the_fullest_is_first(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        distribution("a", "1", site="data/packages")
        | distribution("b", "1")
        | distribution("c", "1")
        | {"opt/lib/site-packages": Link("/data/packages")},
    )
    assert find_sites(view.tree) == (SITE, "data/packages")
    assert names(view) == {"a": "1", "b": "1", "c": "1"}
    assert names(view, "opt/lib/site-packages") == {"a": "1"}


def test_a_memo_spares_the_reading_of_equal_files(tmp_path: Path) -> None:
    memo = Memo()
    parent = image(tmp_path, distribution("a", "1") | distribution("b", "1"))
    child = image(tmp_path, distribution("a", "1") | distribution("b", "2"))
    first, second = Counting(parent), Counting(child)
    read_inventory(first, memo=memo)  # type: ignore[arg-type]
    # INSTALLER is the same file twice, so each distribution has METADATA and RECORD of its own.
    assert first.reads == [5]
    found = read_inventory(second, memo=memo)  # type: ignore[arg-type]
    assert second.reads == [2]
    assert found == read_inventory(child)


def test_metadata_behind_links_is_read(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        {
            f"{SITE}/a-1.dist-info/METADATA": Link("/store/METADATA"),
            "store/METADATA": "Name: a\nVersion: 1\n",
        },
    )
    assert names(view) == {"a": "1"}
