"""The target's tags, markers and paths."""

import pytest
from packaging.tags import Tag, mac_platforms
from packaging.utils import parse_wheel_filename

from pipeline.wheels.target import Target


def fits(target: Target, tag: str) -> bool:
    tags = parse_wheel_filename(f"x-1-{tag}.whl")[3]
    return not tags.isdisjoint(target.tags())


@pytest.mark.parametrize(
    ("tag", "answer"),
    [
        ("cp311-cp311-manylinux_2_36_aarch64", True),
        ("cp311-cp311-manylinux_2_37_aarch64", False),
        ("cp311-cp311-manylinux2014_aarch64", True),
        ("cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64", True),
        ("cp311-cp311-manylinux_2_16_aarch64", False),
        ("cp311-cp311-linux_aarch64", True),
        ("cp38-abi3-manylinux_2_28_aarch64", True),
        ("cp312-abi3-manylinux_2_28_aarch64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp311-cp311-musllinux_1_2_aarch64", False),
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py2-none-any", False),
        ("py3-none-manylinux_2_18_aarch64", True),
        ("cp311-none-any", True),
    ],
)
def test_tags_are_judged_for_the_target(tag: str, answer: bool) -> None:
    assert fits(Target(), tag) is answer


def test_the_best_tag_comes_first() -> None:
    assert Target().tags()[0] == Tag("cp311", "cp311", "manylinux_2_36_aarch64")


def test_x86_64_reaches_back_to_manylinux1() -> None:
    target = Target(machine="x86_64")
    assert fits(target, "cp311-cp311-manylinux1_x86_64")
    assert not fits(Target(), "cp311-cp311-manylinux1_aarch64")


def test_this_machine_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Target().tags()
    monkeypatch.setattr("packaging.tags.platform_tags", lambda: mac_platforms((14, 0), "arm64"))
    monkeypatch.setattr("sys.platform", "darwin")
    assert Target().tags() == expected


def test_markers_are_the_images() -> None:
    environment = Target(python="3.12.11").environment()
    assert environment["python_full_version"] == "3.12.11"
    assert environment["python_version"] == "3.12"
    assert environment["platform_machine"] == "aarch64"
    assert environment["sys_platform"] == "linux"


def test_scheme_is_debians_local_one() -> None:
    scheme = Target().scheme("greenlet")
    assert scheme["headers"] == "/usr/local/include/python3.11/greenlet"
    assert scheme["scripts"] == "/usr/local/bin"
    assert scheme["purelib"] == scheme["platlib"] == "/usr/local/lib/python3.11/dist-packages"
