"""The merged tree, by rule, by case, and against umoci."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.oci.index import DIRECTORY, Entry
from pipeline.oci.tree import Located, Tree
from pipeline.oci.view import RootfsView
from tests.examples import examples
from tests.oci.makelayer import (
    Item,
    file,
    folder,
    hardlink,
    indexed,
    opaque,
    symlink,
    tar,
    whiteout,
)

SP = "usr/local/lib/python3.12/dist-packages/"
Layers = Sequence[Sequence[Item]]


def merge(directory: Path, *layers: Sequence[Item]) -> Tree:
    return Tree.merge(index.entries for _, index in indexed(directory, *layers))


def paths(tree: Tree) -> list[str]:
    return [node.entry.path for node in tree]


def dist(name: str, version: str, prefix: str = "") -> list[Item]:
    info = f"{prefix}{SP}{name}-{version}.dist-info"
    return [folder(info), file(f"{info}/METADATA", f"{name} {version}\n"), file(f"{info}/RECORD")]


L0 = [folder(SP), *dist("alpha", "1.0"), *dist("beta", "1.0"), *dist("gamma", "1.0")]
CASE_20: dict[str, tuple[list[list[Item]], dict[str, str]]] = {
    "a-opaque-first": (
        [L0, [folder(SP), opaque(SP), *dist("alpha", "2.0")]],
        {"alpha": "2.0"},
    ),
    "b-opaque-last": (
        [L0, [folder(SP), *dist("alpha", "2.0"), opaque(SP)]],
        {"alpha": "2.0"},
    ),
    "c-whiteout-then-readd": (
        [L0, [whiteout(SP + "beta-1.0.dist-info"), *dist("beta", "1.0")]],
        {"alpha": "1.0", "beta": "1.0", "gamma": "1.0"},
    ),
    "d-readd-then-whiteout": (
        [L0, [*dist("beta", "1.0"), whiteout(SP + "beta-1.0.dist-info")]],
        {"alpha": "1.0", "beta": "1.0", "gamma": "1.0"},
    ),
    "e-parent-removed-in-the-middle": (
        [L0, [whiteout(SP.rstrip("/"))], [folder(SP), *dist("delta", "1.0")]],
        {"delta": "1.0"},
    ),
    "f-file-replaces-directory": (
        [L0, [file(SP + "gamma-1.0.dist-info", "not a directory\n")]],
        {"alpha": "1.0", "beta": "1.0"},
    ),
    "g-dot-slash-names": (
        [
            L0,
            [
                folder("./" + SP),
                file("./" + SP + ".wh.beta-1.0.dist-info"),
                *dist("epsilon", "1.0", "./"),
            ],
        ],
        {"alpha": "1.0", "gamma": "1.0", "epsilon": "1.0"},
    ),
}


@pytest.mark.parametrize("name", sorted(CASE_20))
def test_case_20_opaque_and_readd(tmp_path: Path, name: str) -> None:
    layers, expected = CASE_20[name]
    tree = merge(tmp_path, *layers)
    found = {}
    for node in tree.under(SP):
        info, _, last = node.entry.path.removeprefix(SP).partition("/")
        if last == "METADATA":
            distribution, version = info.removesuffix(".dist-info").split("-")
            found[distribution] = version
    assert found == expected


def test_the_later_layer_wins_and_says_so(tmp_path: Path) -> None:
    tree = merge(tmp_path, [file("a", "1"), file("b", "1")], [file("a", "22")])
    assert [(n.entry.path, n.entry.size, n.layer) for n in tree] == [("a", 2, 1), ("b", 1, 0)]


def test_a_directory_again_keeps_what_is_below(tmp_path: Path) -> None:
    tree = merge(tmp_path, [folder("d"), file("d/x")], [folder("d", 0o700)])
    assert paths(tree) == ["d", "d/x"]
    assert tree.nodes["d"].entry.mode == 0o700


def test_what_is_no_directory_hides_what_was_below(tmp_path: Path) -> None:
    lower = [folder("d"), file("d/x"), folder("d/e"), file("d/e/y"), file("dx")]
    assert paths(merge(tmp_path, lower, [file("d")])) == ["d", "dx"]
    assert paths(merge(tmp_path, lower, [symlink("d", "dx")])) == ["d", "dx"]


def test_a_directory_replaces_a_link(tmp_path: Path) -> None:
    lower = [folder("usr/lib"), file("usr/lib/x"), symlink("lib", "usr/lib")]
    tree = merge(tmp_path, lower, [folder("lib"), file("lib/y")])
    assert tree.nodes["lib"].entry.type == DIRECTORY
    assert "lib/y" in tree.nodes and "usr/lib/y" not in tree.nodes


def test_entries_below_a_link_go_where_it_leads(tmp_path: Path) -> None:
    lower = [folder("usr/lib"), file("usr/lib/x"), file("usr/lib/z"), symlink("lib", "/usr/lib")]
    tree = merge(tmp_path, lower, [file("lib/y", "new"), whiteout("lib/x"), file("lib/z", "zz")])
    assert "usr/lib/y" in tree.nodes and "lib/y" not in tree.nodes
    assert "usr/lib/x" not in tree.nodes
    assert tree.nodes["usr/lib/z"].entry.size == 2


def test_opaque_markers_and_replacements_below_a_link(tmp_path: Path) -> None:
    lower = [folder("usr/lib/d"), file("usr/lib/d/x"), symlink("lib", "usr/lib")]
    assert "usr/lib/d/x" not in merge(tmp_path, lower, [opaque("lib/d")]).nodes
    assert "usr/lib/d/x" not in merge(tmp_path, lower, [file("lib/d")]).nodes
    assert "usr/lib/d/x" not in merge(tmp_path, lower, [whiteout("lib/d")]).nodes


def test_opaque_root(tmp_path: Path) -> None:
    assert paths(merge(tmp_path, [file("a")], [file("b"), Item(".wh..wh..opq")])) == ["b"]


def test_a_whiteout_of_nothing_is_fine(tmp_path: Path) -> None:
    assert paths(merge(tmp_path, [file("a")], [whiteout("b/c"), whiteout("x")])) == ["a"]


def test_a_whiteout_takes_what_is_below_a_directory_that_no_entry_names(tmp_path: Path) -> None:
    assert paths(merge(tmp_path, [file("d/x"), file("e")], [whiteout("d")])) == ["e"]


def test_a_hard_link_into_a_lower_layer_has_that_files_content(tmp_path: Path) -> None:
    tree = merge(tmp_path, [file("a", "data")], [hardlink("b", "a")])
    assert tree.nodes["b"].entry.sha256 == hashlib.sha256(b"data").hexdigest()
    assert tree.nodes["b"].entry.size == 4


@pytest.mark.parametrize(
    ("path", "leads_to"),
    [
        ("etc/os-release", "usr/lib/os-release"),
        ("lib/os-release", "usr/lib/os-release"),
        ("climb", "usr/lib/os-release"),
        ("lib/../lib/os-release", "usr/lib/os-release"),
        ("/usr/lib/os-release", "usr/lib/os-release"),
        ("loop", None),
        ("loop/x", None),
        ("dangling", None),
        ("usr/lib/none", None),
    ],
)
def test_links_stay_inside(tmp_path: Path, path: str, leads_to: str | None) -> None:
    tree = merge(
        tmp_path,
        [
            folder("usr/lib"),
            file("usr/lib/os-release"),
            symlink("lib", "usr/lib"),
            folder("etc"),
            symlink("etc/os-release", "../lib/os-release"),
            symlink("climb", "../../../../../etc/os-release"),
            symlink("loop", "loop2"),
            symlink("loop2", "/loop"),
            symlink("dangling", "/none/at/all"),
        ],
    )
    found = tree.resolve(path)
    assert (found.entry.path if found else None) == leads_to


def test_merging_on_top_is_merging_at_once(tmp_path: Path) -> None:
    layers, _ = CASE_20["e-parent-removed-in-the-middle"]
    entries = [index.entries for _, index in indexed(tmp_path, *layers)]
    stepwise = Tree.merge(entries[2:], Tree.merge(entries[1:2], Tree.merge(entries[:1])))
    assert stepwise == Tree.merge(entries)


def is_file(node: Located) -> bool:
    return node.entry.has_content


@settings(max_examples=examples(200), deadline=None)
@given(layers=st.lists(st.lists(st.deferred(lambda: ITEM), max_size=7), min_size=2, max_size=4))
def test_what_a_tree_takes_over_is_what_it_would_find(layers: list[list[Item]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        entries = [
            index.entries for _, index in indexed(Path(name), *(plausible(one) for one in layers))
        ]
    tree = Tree({}, 0)
    for number, one in enumerate(entries):
        below = tree
        assert below.select(is_file) is below.select(is_file) and below.under("a") is not None
        tree = Tree.merge([one], below)
        whole = Tree.merge(entries[: number + 1])
        assert tree == whole
        assert tree.select(is_file) == whole.select(is_file)
        assert tree.under("a") == whole.under("a")
        assert [node.entry.path for node in tree] == sorted(whole.nodes)
        for path in ("a", "b", "a/a", "c"):
            assert tree.has_below(path) == bool(whole.under(path))
        changed = tree.changed_since(below)
        assert changed is not None and tree.changed_since(whole) is None
        for path in (tree.nodes.keys() | below.nodes.keys()) - changed:
            assert tree.get(path) == below.get(path)


def test_under_is_below_and_sorted(tmp_path: Path) -> None:
    tree = merge(
        tmp_path, [file(n) for n in ("a/z", "a/b/c", "a-b", "a.b/x", "a0", "ab", "a/ü", "b")]
    )
    for directory in ("a", "a/"):
        assert [n.entry.path for n in tree.under(directory)] == ["a/b/c", "a/z", "a/ü"]
    assert tree.under("none") == [] and tree.under("b") == []


def test_layers_that_only_add(tmp_path: Path) -> None:
    tree = merge(tmp_path, [folder("d"), file("d/a")], [file("d/b", "b")], [file("c"), file("d/a")])
    assert [(node.entry.path, node.layer) for node in tree] == [
        ("c", 2),
        ("d", 0),
        ("d/a", 2),
        ("d/b", 1),
    ]


def test_what_several_layers_on_top_of_a_tree_change(tmp_path: Path) -> None:
    below = merge(tmp_path, [folder("d"), file("d/x"), file("e")])
    assert below.under("d")  # what is sorted of a tree is handed on; it must not be out of date
    layers = [[file("d/y"), file("f")], [whiteout("d")], [file("e", "new")]]
    tree = Tree.merge([index.entries for _, index in indexed(tmp_path, *layers)], below)
    assert paths(tree) == ["e", "f"]
    assert tree.changed_since(below) == {"d", "d/x", "d/y", "e", "f"}
    assert tree.changed_since(tree) is None


def test_nodes_that_are_selected(tmp_path: Path) -> None:
    tree = merge(tmp_path, [folder("d"), file("d/x"), symlink("l", "d/x"), hardlink("h", "d/x")])
    for _ in range(2):
        assert tree.select(is_file) == {path: tree.nodes[path] for path in ("d/x", "h")}


def test_a_layer_of_files_goes_through_links_below_the_first_directory(tmp_path: Path) -> None:
    lower = [folder("usr/lib"), file("usr/lib/x"), symlink("usr/lib64", "lib")]
    tree = merge(tmp_path, lower, [file("usr/lib64/y"), file("usr/lib64/x", "new")])
    assert paths(tree) == ["usr/lib", "usr/lib/x", "usr/lib/y", "usr/lib64"]
    assert tree.nodes["usr/lib/x"].entry.size == 3


def test_below_a_link_that_its_own_layer_removes(tmp_path: Path) -> None:
    lower = [folder("usr/lib"), symlink("lib", "usr/lib")]
    tree = merge(tmp_path, lower, [file("lib/y"), whiteout("lib")])
    assert paths(tree) == ["lib/y", "usr/lib"]


def test_below_a_link_that_its_own_layer_brings(tmp_path: Path) -> None:
    tree = merge(tmp_path, [folder("usr/lib")], [symlink("lib", "usr/lib"), file("lib/y")])
    assert paths(tree) == ["lib", "usr/lib", "usr/lib/y"]


def test_a_symbolic_link_to_a_file_has_no_content_of_its_own(tmp_path: Path) -> None:
    tree = merge(tmp_path, [file("a", "data")], [symlink("b", "a")])
    assert (tree.nodes["b"].entry.size, tree.nodes["b"].entry.sha256) == (0, "")


@pytest.mark.parametrize("ordered", [True, False])
def test_what_is_below_a_loop_of_links_stays_where_it_is(tmp_path: Path, ordered: bool) -> None:
    below = merge(tmp_path, [symlink("loop", "loop"), file("loop/d/x"), file("loop/e")])
    assert not ordered or below.under("loop/d")
    ((_, index),) = indexed(tmp_path, [opaque("loop/d"), file("loop/d/y")])
    assert paths(Tree.merge([index.entries], below)) == ["loop", "loop/d/y", "loop/e"]


# --- the same layers through umoci ----------------------------------------------------------------

needs_umoci = pytest.mark.skipif(shutil.which("umoci") is None, reason="umoci is not installed")


def unpack(directory: Path, layers: Layers) -> Tree:
    """Let umoci unpack the layers, and read what it made."""
    image, bundle = directory / "image", directory / "bundle"
    blobs = image / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes, kind: str) -> dict[str, object]:
        sha256 = hashlib.sha256(data).hexdigest()
        (blobs / sha256).write_bytes(data)
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{sha256}", "size": len(data)}

    descriptors = [put(tar(items), "layer.v1.tar") for items in layers]
    config = {
        "architecture": "arm64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [d["digest"] for d in descriptors]},
    }
    manifest = {
        "schemaVersion": 2,
        "config": put(json.dumps(config).encode(), "config.v1+json"),
        "layers": descriptors,
    }
    entry = put(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "t"}
    (image / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "manifests": [entry]}), encoding="utf-8"
    )
    (image / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    command = ["umoci", "raw", "unpack", "--rootless", "--image", f"{image}:t", str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return RootfsView(bundle).tree


def facts(tree: Tree) -> dict[str, tuple[str, str]]:
    """Return path -> what is there; directories that only hold others may have no entry."""

    def fact(entry: Entry) -> tuple[str, str]:
        kind = "file" if entry.has_content else entry.type
        return kind, entry.sha256 or entry.link

    found = {node.entry.path: fact(node.entry) for node in tree}
    for path in list(found):
        while path := path.rpartition("/")[0]:
            found.setdefault(path, (DIRECTORY, ""))
    return found


@needs_umoci
@pytest.mark.parametrize("name", sorted(CASE_20))
def test_case_20_umoci_says_the_same(tmp_path: Path, name: str) -> None:
    layers, _ = CASE_20[name]
    assert facts(unpack(tmp_path, layers)) == facts(merge(tmp_path, *layers))


NAME = st.sampled_from(["a", "b", "a/a", "a/b", "b/a", "a/a/a", "a/a/b", "b/a/b"])
ITEM = st.one_of(
    NAME.map(folder),
    st.builds(file, NAME, st.sampled_from(["", "1", "22"])),
    NAME.map(whiteout),
    NAME.map(opaque),
)


def plausible(items: list[Item]) -> list[Item]:
    """Keep what the tar of a layer can hold: no path twice, parents first, and directories."""
    kept: dict[str, Item] = {}
    for item in items:
        marker = item.name.endswith(".wh..wh..opq")
        target = item.name.replace("/.wh..wh..opq", "").replace(".wh.", "")
        parts = target.split("/")
        parents = ["/".join(parts[:n]) for n in range(1, len(parts))] + [target] * marker
        taken = target in kept and not (marker and kept[target].kind == folder("x").kind)
        if taken or any(
            kept.get(parent, folder("x")).kind != folder("x").kind for parent in parents
        ):
            continue
        for parent in parents:
            kept.setdefault(parent, folder(parent))
        kept[item.name if marker else target] = item
    return list(kept.values())


@needs_umoci
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(layers=st.lists(st.lists(ITEM, max_size=7).map(plausible), min_size=1, max_size=3))
def test_any_layers_merge_as_umoci_unpacks_them(layers: list[list[Item]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        assert facts(unpack(directory, layers)) == facts(merge(directory, *layers))
