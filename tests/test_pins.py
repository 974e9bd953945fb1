"""The reader of the lock: what it refuses, each fault by its path, and what it selects."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from pipeline.errors import FaultyFile, UsageError
from pipeline.lock.model import Captured
from pipeline.pins import Lock, load_lock, lock_path

ROOT = Path(__file__).parent.parent
LOCKS = Path(__file__).parent / "fixtures" / "locks"

# What the chain's five paths of groups select, see stages/*.toml.
PATHS = [(), ("v3",), ("v3", "v4"), ("v3", "v4", "v5"), ("v3", "v4", "v5", "v9")]

FAULTS = {
    "artifact-faults": [
        "tool.sm121-chain.artifacts[0].name: 'Comms' is not normalized: comms",
        "tool.sm121-chain.artifacts[0].filename: "
        "'comms-1.0-py3-none-any.whl' is not of version 2.0",
        "tool.sm121-chain.artifacts[0].size: 0 is below 1",
        "tool.sm121-chain.artifacts[0].sha256: 'abc' is not 64 lower-case hex digits",
        "tool.sm121-chain.artifacts[0].why: missing",
    ],
    "base-undeclared": ["extras: the base 'day0' is missing"],
    "captured-faults": [
        "tool.sm121-chain.bases.day0.captured.path: '../day0.captured' is not in its one spelling",
        "tool.sm121-chain.bases.day0.captured.size: 0 is below 1",
        "tool.sm121-chain.bases.day0.captured.sha256: 'abc' is not 64 lower-case hex digits",
        "tool.sm121-chain.bases.day0.captured.image: unknown key",
    ],
    "deb-not-listed": ["tool.sm121-chain.bases.wheels.packages[0]: g++ is not among the debs"],
    "double-entry": ["packages[1]: double: comms 2.0 stands after comms 2.0"],
    "five-faults": [
        "tool.sm121-chain.zstd.level: an integer is needed, this is '3'",
        "tool.sm121-chain.overrides[0].why: missing",
        f"packages[0].wheels[0].hashes.sha256: '{'3' * 63}' is not 64 lower-case hex digits",
        "packages[1].wheels[0].size: missing",
        "packages[3].version: nvidia-blas 0.0.1 is a placeholder that holds nothing",
    ],
    "image-faults": [
        "tool.sm121-chain.bases.day0.image: 'Vendor/image:cu130+local' is no image reference: "
        "+ is not allowed in a tag (cu130+local), although a local version has one"
    ],
    "marker-broken": [
        "packages[4].marker: Expected marker operator, one of <=, <, !=, ==, >=, >, ~=, ===, in, "
        "not in"
    ],
    "not-toml": ["line 2, column 14: not TOML: Invalid value"],
    "not-utf-8": ["byte 25: not UTF-8"],
    "nvidia-placeholder": [
        "packages[3].version: nvidia-blas 0.0.0 is a placeholder that holds nothing"
    ],
    "override-twice": ["tool.sm121-chain.overrides[2]: comms stands twice for the same group"],
    "override-without-reason": [
        "tool.sm121-chain.overrides[0].group: no dependency group 'v7' in this lock",
        "tool.sm121-chain.overrides[0].requirement: 'comms>=2.0' is not <name>==<version>",
        "tool.sm121-chain.overrides[0].against[0]: "
        "'somebody' is not '<distribution> <version> wants <specifier>'",
        "tool.sm121-chain.overrides[0].why: empty",
        "tool.sm121-chain.overrides[0].review: '2027-02-30' is no day",
    ],
    "path-and-url": [
        "packages[0].wheels[0]: comms 1.0: exactly one of path and url is needed",
        "packages[1].wheels[0].path: comms 2.0: not wheelhouse/<file name>",
    ],
    "python-excluded": [
        "base wheels: python_full_version '3.11.2' in provided environment does not satisfy the "
        "Python version requirement '>=3.12'"
    ],
    "sha256-missing": [
        "packages[4].wheels[0].hashes.sha256: missing",
        "packages[4].wheels[0].hashes.md5: unknown key",
    ],
    "sha256-upper-case": [
        f"packages[3].wheels[1].hashes.sha256: '{'A' * 64}' is not 64 lower-case hex digits"
    ],
    "size-missing": ["packages[4].wheels[0].size: missing"],
    "size-zero": ["packages[4].wheels[0].size: 0 is below 1"],
    "source-only": [
        "packages[4].sdist: server 1.0: only wheels can be locked",
        "packages[4].wheels: server 1.0 has no wheel for linux/arm64, Python 3.11.2, glibc 2.36 "
        "or linux/arm64, Python 3.12, glibc 2.35 (source only?)",
    ],
    "tool-table-missing": ["tool.sm121-chain: missing"],
    "two-entries-for-one-name": [
        "packages[1]: comms 2.0: selected together with packages[0] (1.0) by base wheels, groups v4"
    ],
    "unknown-keys": [
        "tool.sm121-chain.bases.wheels.suit: unknown key",
        "tool.sm121-chain.overrides[0].reviews: unknown key",
        "tool.sm121-chain.epoc: unknown key",
        "packages[4].index: unknown key",
    ],
    "unsorted": [
        "tool.sm121-chain.bases.wheels.debs[1]: not sorted: python3 stands after zlib1g",
        "packages[4]: not sorted: aserver 1.0 stands after nvidia-blas 13.0",
    ],
    "wheel-for-another-machine": [
        "packages[3].wheels[1]: nvidia-blas 13.0: "
        "nvidia_blas-13.0-cp312-cp312-manylinux2014_x86_64.whl does not fit linux/arm64, "
        "Python 3.11.2, glibc 2.36 or linux/arm64, Python 3.12, glibc 2.35"
    ],
    "wheel-for-newer-glibc": [
        "packages[4].wheels[0]: server 1.0: server-1.0-cp38-abi3-manylinux_2_39_aarch64.whl does "
        "not fit linux/arm64, Python 3.11.2, glibc 2.36 or linux/arm64, Python 3.12, glibc 2.35"
    ],
}


@pytest.fixture(scope="module")
def real() -> Lock:
    return load_lock(ROOT / "pins.toml")


@pytest.fixture(scope="module")
def sound() -> Lock:
    return load_lock(LOCKS / "sound.toml")


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_fault_is_reported_with_its_path(fault: str) -> None:
    with pytest.raises(FaultyFile) as caught:
        load_lock(LOCKS / f"{fault}.toml")
    assert list(caught.value.details) == FAULTS[fault]
    assert caught.value.exit_status == 2


def test_every_faulty_fixture_is_asked_for() -> None:
    assert {path.stem for path in LOCKS.glob("*.toml")} - {"sound"} == set(FAULTS)


def test_one_wheel_of_another_machine_leaves_a_base_without(tmp_path: Path) -> None:
    text = (LOCKS / "sound.toml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "nvidia_blas-13.0-cp312" in line)
    path = tmp_path / "pins.toml"
    path.write_text(text.replace(f"{line}\n", ""), encoding="utf-8")
    with pytest.raises(FaultyFile) as caught:
        load_lock(path)
    assert list(caught.value.details) == [
        "packages[3].wheels: nvidia-blas 13.0: no wheel for linux/arm64, Python 3.12, glibc 2.35 "
        "(base day0)"
    ]


def test_a_missing_lock_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_lock(tmp_path / "pins.toml")
    assert caught.value.message.endswith("pins.toml: no such file")
    assert caught.value.hint


def test_a_line_has_its_own_lock(tmp_path: Path) -> None:
    assert lock_path(tmp_path) == tmp_path / "pins.toml"
    assert lock_path(tmp_path, "sglang") == tmp_path / "pins.sglang.toml"


def test_unknown_base_and_group_are_usage_errors(sound: Lock) -> None:
    with pytest.raises(UsageError, match="no base 'day1'"):
        sound.select("day1")
    with pytest.raises(UsageError, match="no dependency group v9"):
        sound.select("wheels", ["v3", "v9"])


def test_a_selection_takes_the_wheel_of_the_base_not_of_the_host(sound: Lock) -> None:
    (day0,) = sound.select("day0")
    assert day0.filename == "nvidia_blas-13.0-cp312-cp312-manylinux2014_aarch64.whl"
    names = {wheel.filename for wheel in sound.select("wheels", ["v4"])}
    assert names == {
        "comms-2.0-py3-none-manylinux_2_18_aarch64.whl",
        "nvidia_blas-13.0-cp311-cp311-manylinux2014_aarch64.whl",
        "server-1.0-cp38-abi3-manylinux_2_28_aarch64.whl",
    }


def test_a_release_file_may_have_no_size(sound: Lock) -> None:
    kernels = {wheel.name: wheel for wheel in sound.select("day0", ["v3"])}["kernels"]
    assert kernels.size is None
    assert kernels.url == "https://example.org/kernels-1.1.dev3-py3-none-any.whl"


def test_ledger_bases_and_debs_are_read(sound: Lock) -> None:
    assert [(o.base, o.group, o.name, o.version) for o in sound.overrides] == [
        ("wheels", "v4", "comms", "2.0"),
        ("day0", "v3", "kernels", "1.1.dev3"),
    ]
    assert sound.base("day0").inventory == (("kernel-cache", "1.0"), ("kernels", "1.0"))
    assert sound.base("day0").captured == Captured("bases/day0.captured", "9" * 64, 77)
    wheels = sound.base("wheels")
    assert (wheels.platform, wheels.python, wheels.target.glibc) == (
        "linux/arm64",
        "3.11.2",
        (2, 36),
    )
    assert [deb.filename for deb in wheels.debs] == [
        "libc6_2.36-9_arm64.deb",
        "python3_3.11.2-1+b1_arm64.deb",
    ]


# The lock of this project.


@pytest.mark.parametrize("path", PATHS)
def test_base_wheels_has_197_distributions_on_every_path(real: Lock, path: tuple[str, ...]) -> None:
    assert len(real.select("wheels", path)) == 197


def test_every_choice_of_groups_selects_one_entry_a_package(real: Lock) -> None:
    for count in range(len(real.groups) + 1):
        for groups in itertools.combinations(real.groups, count):
            for base in real.bases:
                names = [wheel.name for wheel in real.select(base, groups)]
                assert names == sorted(set(names))


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ((), ("v3",), {"flashinfer-python": ("0.6.17", "0.6.18.post1")}),
        (("v3",), ("v3", "v4"), {"nvidia-nccl-cu13": ("2.29.7", "2.30.7")}),
        (
            ("v3", "v4"),
            ("v3", "v4", "v5"),
            {
                "nvidia-cutlass-dsl": ("4.7.1", "4.6.2"),
                "nvidia-cutlass-dsl-libs-base": ("4.7.1", "4.6.2"),
                "nvidia-cutlass-dsl-libs-core": ("4.7.1", "4.6.2"),
                "nvidia-cutlass-dsl-libs-cu12": ("4.7.1", "4.6.2"),
                "nvidia-cutlass-dsl-libs-cu13": ("4.7.1", "4.6.2"),
                "quack-kernels": ("0.6.5", "0.6.4"),
            },
        ),
        (("v3", "v4", "v5"), ("v3", "v4", "v5", "v9"), {}),
    ],
)
def test_each_group_moves_exactly_its_own_pins(
    real: Lock,
    before: tuple[str, ...],
    after: tuple[str, ...],
    moves: dict[str, tuple[str, str]],
) -> None:
    old, new = ({w.name: w for w in real.select("wheels", path)} for path in (before, after))
    assert set(old) == set(new)
    changed = {
        name: (old[name].version, new[name].version) for name in old if old[name] != new[name]
    }
    assert changed == moves


def test_v4_and_v5_have_nothing_to_do_on_day0(real: Lock) -> None:
    assert real.select("day0", ["v3"]) == real.select("day0", ["v3", "v4", "v5"])
    family = [w for w in real.select("day0") if w.name.startswith("nvidia-cutlass-dsl")]
    assert [wheel.version for wheel in family] == ["4.6.2"] * 5


@pytest.mark.parametrize(
    ("base", "groups", "name", "sha256"),
    [
        (
            "day0",
            ("v3",),
            "flashinfer-cubin",
            "277c3f2ef478dd8da5f315f21c3ce56c4437dbb47b170ceb4b47185f9c46560b",
        ),
        (
            "day0",
            ("v3",),
            "flashinfer-python",
            "50ad966220b5160f17fcb9e064bdfbcda726ec779fb0c74fd3449b3c48c66600",
        ),
        (
            "wheels",
            ("v3",),
            "flashinfer-python",
            "adb6d2952b47131138e108bd2999b1fe18b71f1a4c0b2684f168753db9563991",
        ),
        (
            "wheels",
            ("v3", "v4"),
            "nvidia-nccl-cu13",
            "ca786ffa5a647c75d4d1f5cc72a6c4f537947e2ba8823d7c8aaf768e7a7b9f77",
        ),
        (
            "wheels",
            (),
            "nvidia-nccl-cu13",
            "674a12383e3c38a1bcccae7d4f3633b37852230b6047883cb2f4c2d1b36d9bf5",
        ),
        (
            "day0",
            (),
            "nvidia-cutlass-dsl-libs-base",
            "e129db7155d56ba4478be098c0f819e37690a6ce5d43a9a9a83bf1300d32c57f",
        ),
        (
            "day0",
            ("v9",),
            "instanttensor",
            "94dabc13981fe89982a807572593c4f697a3a3bae02fa13cb469960885901247",
        ),
    ],
)
def test_published_hashes(
    real: Lock, base: str, groups: tuple[str, ...], name: str, sha256: str
) -> None:
    assert {wheel.name: wheel.sha256 for wheel in real.select(base, groups)}[name] == sha256


def test_artifacts_are_for_files_only(real: Lock) -> None:
    wheel = real.artifact("vllm", "0.28.0")
    assert wheel is not None and wheel.filename.startswith("vllm-0.28.0-")
    assert real.artifact("vllm", "0.30.0") is None
    assert not any(wheel in real.select(base) for base in real.bases)


def test_no_package_index_is_named() -> None:
    text = (ROOT / "pins.toml").read_text(encoding="utf-8")
    hosts = {part.split("/")[0] for part in text.split("https://")[1:]}
    assert hosts == {"github.com"}
    assert text.endswith("]\n")
