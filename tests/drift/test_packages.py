"""How packages move: direction, layer, who wants what, and what can hurt first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

from pipeline.audit.expectation import LedgerEntry
from pipeline.drift.changes import MOVED, Wish
from pipeline.drift.packages import direction
from pipeline.inventory.debian import compare_versions
from pipeline.inventory.families import FAMILIES, RENAMES
from tests.audit.images import GONE, SITE, Content, distribution
from tests.drift.compared import compared, moves, only

ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"


def gone(*names: str) -> dict[str, Content]:
    """Whiteouts of the dist-infos of distributions, given as name-version."""
    return {
        f"{SITE}/{name.replace('-', '_', name.count('-') - 1)}.dist-info": GONE for name in names
    }


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        ("2.29.7", "2.30.7", "up"),
        ("4.7.1", "4.6.2", "down"),
        ("2.13.0", "2.13.0+cu130", "changed-build"),
        ("2.13.0+cu130", "2.13.0", "changed-build"),
        ("2.13.0+cu130", "2.13.0+cu132", "changed-build"),
        ("2.13.0+cu132", "2.13.1", "up"),
        ("0.6.18.dev20260819", "0.6.18", "up"),
        ("0.6.18.post1", "0.6.18", "down"),
        ("1.0", "1.0.0", None),
        ("1.0-1", "1.0.post1", None),
        ("1!0.1", "2.0", "down"),
        ("garbage", "1.0", "moved"),
        ("garbage", "garbage", None),
    ],
)
def test_16_versions_move_by_pep_440_with_the_local_part(
    before: str, after: str, how: str | None
) -> None:
    assert direction(before, after) == how


_NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))
_VERSIONS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "1!"]),
        _NUMBERS,
        st.sampled_from(["", "a1", "rc2", ".post1", ".dev3", "a1.dev2", ".post2.dev1"]),
        st.sampled_from(["", "+cu130", "+cu132", "+g1.2"]),
    ),
)


@given(_VERSIONS | st.text(max_size=6), _VERSIONS | st.text(max_size=6))
def test_any_two_versions_move_as_packaging_orders_them(one: str, other: str) -> None:
    try:
        old, new = Version(one), Version(other)
    except InvalidVersion:
        assert direction(one, other) == (None if one == other else MOVED)
        return
    how = direction(one, other)
    assert (how is None) == (old == new)
    if how in ("up", "down"):
        assert (how == "up") == (new > old) and old.public != new.public
    elif how is not None:
        assert how == "changed-build" and old.public == new.public


def test_14_a_later_layer_takes_a_package_down_and_who_wants_it_so_is_said(tmp_path: Path) -> None:
    torch = distribution("torch", "2.13.0", requires=["nvidia-nccl-cu13==2.29.7"])
    base = torch | distribution("nvidia-nccl-cu13", "2.30.7")
    down = distribution("nvidia-nccl-cu13", "2.29.7") | gone("nvidia_nccl_cu13-2.30.7")
    comparison = compared(tmp_path, [base], [base, down])
    change = only(comparison)
    assert (change.name, change.direction) == ("nvidia-nccl-cu13", "down")
    assert (change.before, change.after) == ("2.30.7", "2.29.7")
    assert change.layer is not None and change.layer.created_by == "step 1"
    assert change.wishes == (Wish("torch", "2.13.0", "nvidia-nccl-cu13==2.29.7", "met"),)
    assert [one.rule for one in comparison.findings] == ["drift-down"]
    assert comparison.worst == "error"
    assert (len(comparison.shared), len(comparison.new), len(comparison.gone)) == (1, 1, 0)
    assert comparison.base_changed is False


@pytest.mark.parametrize(
    ("ledger", "state"),
    [
        (None, "new"),
        ((), "new"),
        (("nvidia-nccl-cu13==2.30.7", "torch 2.13.0 wants ==2.29.7"), "intended"),
        (("nvidia-nccl-cu13==2.30.7", "vllm 0.30.0 wants ==2.29.7"), "new"),
        (("nvidia-nccl-cu13==2.31.0", "torch 2.13.0 wants ==2.29.7"), "new"),
    ],
)
def test_who_wants_it_otherwise_is_intended_only_by_the_ledger(
    tmp_path: Path, ledger: tuple[str, str] | tuple[()] | None, state: str
) -> None:
    torch = distribution("torch", "2.13.0", requires=["nvidia-nccl-cu13==2.29.7"])
    before = torch | distribution("nvidia-nccl-cu13", "2.29.7")
    after = torch | distribution("nvidia-nccl-cu13", "2.30.7")
    entries = (LedgerEntry(ledger[0], (ledger[1],), "meant"),) if ledger else ledger
    comparison = compared(tmp_path, [before], [after], ledger=entries)  # type: ignore[arg-type]
    change = only(comparison)
    assert change.direction == "up"
    assert [(one.dependant, one.state) for one in change.wishes] == [("torch", state)]
    rules = [one.rule for one in comparison.findings]
    assert ("requirement-unsatisfied" in rules) == (state == "new")


def test_a_requirement_that_was_not_met_before_is_inherited(tmp_path: Path) -> None:
    torch = distribution("torch", "2.13.0", requires=["a==1"])
    before = torch | distribution("a", "2")
    rebuilt = torch | distribution("a", "2", requires=["b; python_version < '3'"])
    comparison = compared(tmp_path, [before], [rebuilt])
    assert [wish.state for wish in only(comparison).wishes] == ["inherited"]
    assert {one.rule for one in comparison.findings} == {"drift-build", "drift-base"}


def test_renames_come_from_the_table_and_nothing_else_is_one(tmp_path: Path) -> None:
    before = (
        distribution("nvidia-nccl-cu12", "2.27.3")
        | distribution("nvidia-cublas-cu12", "12.8.4")
        | distribution("cupy-cuda12x", "13.0")
    )
    after = (
        distribution("nvidia-nccl-cu13", "2.29.7")
        | distribution("nvidia-cublas", "13.0.0")
        | distribution("cupy-cuda13x", "13.0")
    )
    comparison = compared(tmp_path, [before], [after])
    assert moves(comparison) == {
        "nvidia-cublas": ("renamed", "12.8.4", "13.0.0"),
        "nvidia-nccl-cu13": ("renamed", "2.27.3", "2.29.7"),
        "cupy-cuda12x": ("removed", "13.0", ""),
        "cupy-cuda13x": ("added", "", "13.0"),
    }
    assert {one.name: one.was for one in comparison.changes if one.was} == {
        "nvidia-cublas": "nvidia-cublas-cu12",
        "nvidia-nccl-cu13": "nvidia-nccl-cu12",
    }


def test_what_is_still_there_was_not_renamed(tmp_path: Path) -> None:
    old, new = (
        distribution("nvidia-nccl-cu12", "2.27.3"),
        distribution("nvidia-nccl-cu13", "2.29.7"),
    )
    assert moves(compared(tmp_path, [old], [old | new])) == {
        "nvidia-nccl-cu13": ("added", "", "2.29.7")
    }


def test_the_table_renames_into_families_one_to_one() -> None:
    members = {member for family in FAMILIES for member in family.members}
    assert {*RENAMES, *RENAMES.values()} <= members
    assert len(set(RENAMES.values())) == len(RENAMES)
    # Both stand side by side in the chain: the suffix alone is no rename.
    assert "nvidia-cutlass-dsl-libs-cu12" not in RENAMES


def test_the_layer_that_removes_a_package_is_named(tmp_path: Path) -> None:
    base = distribution("flashinfer-jit-cache", "0.6.17") | distribution("a", "1")
    away = {
        f"{SITE}/flashinfer_jit_cache-0.6.17.dist-info": GONE,
    }
    change = only(compared(tmp_path, [base], [base, {"x": "1"}, away]))
    assert (change.direction, change.rank, change.family) == ("removed", 0, "flashinfer")
    assert change.layer is not None and change.layer.number == 2


@pytest.mark.parametrize("name", ["METADATA", "WHEEL", "ELF"])
def test_one_version_with_another_wheel_is_another_build(tmp_path: Path, name: str) -> None:
    def build(text: str) -> dict[str, Content]:
        extra = {"WHEEL": f"Wheel-Version: 1.0\nGenerator: {text if name == 'WHEEL' else ''}\n"}
        requires = [f"x{text}"] if name == "METADATA" else []
        found = distribution("k", "1", {"k/__init__.py": text}, requires=requires, extra=extra)
        found[f"{SITE}/k/k.so"] = ELF + (text.encode() if name == "ELF" else b"")
        found[f"{SITE}/k-1.dist-info/RECORD"] += b"k/k.so,,\n"  # type: ignore[operator]
        return found

    change = only(compared(tmp_path, [build("1")], [build("2")]))
    assert (change.direction, change.before, change.after) == ("changed-build", "1", "1")
    assert f"{SITE}/k/__init__.py" in change.files.changed


def test_11_files_that_change_inside_an_unchanged_version_are_named_with_the_layer(
    tmp_path: Path,
) -> None:
    base = distribution("vllm", "0.30.0", {"vllm/a.py": "1", "vllm/b.py": "1"})
    edit: dict[str, Content] = {f"{SITE}/vllm/a.py": "2", f"{SITE}/vllm/__pycache__/a.pyc": b"\0"}
    comparison = compared(tmp_path, [base], [base, edit])
    change = only(comparison)
    assert (change.direction, change.files.changed) == ("files-changed", (f"{SITE}/vllm/a.py",))
    assert change.layer is not None and change.layer.number == 1
    assert [(one.rule, one.severity) for one in comparison.findings] == [("drift-files", "error")]
    # And back: the patch is lost.
    back = only(compared(tmp_path / "2", [base, edit], [base, edit, base]))
    assert back.direction == "files-changed" and back.layer is not None and back.layer.number == 2


def test_18_an_origin_that_changed_is_drift_although_the_version_is_equal(tmp_path: Path) -> None:
    def build(commit: str) -> dict[str, Content]:
        vcs = '{"url": "https://x.invalid/m", "vcs_info": {"vcs": "git", "commit_id": "%s"}}'
        return distribution("flash-mla", "1.0.0", extra={"direct_url.json": vcs % commit})

    change = only(compared(tmp_path, [build("1" * 40)], [build("2" * 40)]))
    assert change.direction == "origin-changed"
    assert "2" * 40 in change.origin_after and "1" * 40 in change.origin_before


def test_15_two_copies_and_broken_metadata_are_no_removal(tmp_path: Path) -> None:
    one, two = distribution("a", "1"), distribution("a", "2", directory="a-2")
    broken: dict[str, Content] = {f"{SITE}/a-1.dist-info/METADATA": "nothing"}
    assert moves(compared(tmp_path, [one], [one | two])) == {"a": ("moved", "1", "1 and 2")}
    assert moves(compared(tmp_path / "2", [one], [one, broken])) == {"a": ("moved", "1", "")}


def test_what_can_hurt_stands_first(tmp_path: Path) -> None:
    names = ("zipp", "numpy", "vllm", "torch", "nvidia-cublas")
    found: dict[str, Content] = {}
    for name in names:
        found |= distribution(name, "1", {"numpy.libs/x.so": ""} if name == "numpy" else {})
    comparison = compared(tmp_path, [{"x": "1"}], [found])
    order = ["nvidia-cublas", "torch", "vllm", "numpy", "zipp"]
    assert [one.name for one in comparison.changes] == order
    assert [one.rank for one in comparison.changes] == [0, 0, 1, 2, 3]


def status(*packages: tuple[str, str]) -> dict[str, Content]:
    text = "".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n"
        for name, version in packages
    )
    return {"var/lib/dpkg/status": text}


def test_debian_packages_move_by_dpkgs_order(tmp_path: Path) -> None:
    old = status(("libc6", "2.36-9+deb12u9"), ("bash", "5.2~rc1-1"), ("gone", "1"))
    new = status(("libc6", "2.36-9+deb12u13"), ("bash", "5.1-9"), ("new", "1:0"))
    base = {"var/lib/dpkg/info/bash.list": "/.\n/bin/bash\n", "bin/bash": "a"}
    comparison = compared(tmp_path, [old, base], [old, base, new | {"bin/bash": "b"}])
    assert moves(comparison) == {
        "bash": ("down", "5.2~rc1-1", "5.1-9"),
        "gone": ("removed", "1", ""),
        "libc6": ("up", "2.36-9+deb12u9", "2.36-9+deb12u13"),
        "new": ("added", "", "1:0"),
    }
    assert comparison.files == ()  # bash has moved, and its file is its own
    change = only(compared(tmp_path / "2", [old, base], [old, base, {"bin/bash": "b"}]))
    assert (change.kind, change.direction, change.files.changed) == (
        "debian",
        "files-changed",
        ("bin/bash",),
    )


_DEBIAN = st.text("0123456789abz.+~", min_size=1, max_size=8).map(lambda text: f"1{text}")


def _dpkg() -> bool:
    try:
        return (
            subprocess.run(["dpkg", "--version"], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False


@pytest.mark.skipif(not _dpkg(), reason="dpkg is not installed")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.0", "1.0-0"), ("1.0~rc1", "1.0"), ("1:0", "2"), ("1.0-1+b1", "1.0-1"),
        ("1.10", "1.9"), ("1.0a", "1.0+"), ("1.0-1~deb12u1", "1.0-1"), ("0", "00"),
        ("2.36-9+deb12u9", "2.36-9+deb12u13"), ("1.0.", "1.0"), ("1-2-3", "1-2-4"),
    ],
)  # fmt: skip
def test_debian_versions_compare_as_dpkg_says(one: str, other: str) -> None:
    for left, right in ((one, other), (other, one)):
        mine = compare_versions(left, right)
        for word, holds in (("lt", mine < 0), ("eq", mine == 0), ("gt", mine > 0)):
            asked = subprocess.run(["dpkg", "--compare-versions", left, word, right], check=False)
            assert (asked.returncode == 0) == holds


@given(_DEBIAN, _DEBIAN, _DEBIAN)
def test_debian_versions_are_in_one_order(one: str, two: str, three: str) -> None:
    assert (compare_versions(one, two) > 0) == (compare_versions(two, one) < 0)
    if compare_versions(one, two) <= 0 and compare_versions(two, three) <= 0:
        assert compare_versions(one, three) <= 0


def test_18_the_source_tree_of_an_editable_installation_is_its_own(tmp_path: Path) -> None:
    told = '{"dir_info": {"editable": true}, "url": "file:///src/sgl/python"}'
    base: dict[str, Content] = {
        **distribution("sglang", "0.5.5", extra={"direct_url.json": told}),
        "src/sgl/python/sglang/glm.py": "1",
        "src/sgl/README": "1",
    }
    later: dict[str, Content] = {
        "src/sgl/python/sglang/glm.py": "2",
        "src/sgl/python/sglang/new.py": "2",
        "src/sgl/README": "2",
    }
    comparison = compared(tmp_path, [base], [base, later])
    change = only(comparison)
    assert (change.name, change.direction) == ("sglang", "files-changed")
    assert change.files.changed == ("src/sgl/python/sglang/glm.py",)
    assert change.files.added == ("src/sgl/python/sglang/new.py",)
    assert change.layer is not None and change.layer.number == 1
    assert [one.path for one in comparison.files] == ["src/sgl/README"]
    assert comparison.worst == "error"
