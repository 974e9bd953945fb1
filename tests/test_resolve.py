"""uv: the best wheel for the target, and its failures as one error each."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pipeline import resolve as module
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.resolve import compile_pins, resolve, wheels_of
from pipeline.wheels.target import Target

DEBIAN = Target(python="3.11.2", glibc=(2, 36))


def offered(*filenames: str, name: str = "x", marker: str = "") -> dict[str, object]:
    wheels = [
        {"url": f"https://index.invalid/a/b/{f}", "size": 1, "hashes": {"sha256": f"{i}" * 64}}
        for i, f in enumerate(filenames)
    ]
    package = {"name": name, "version": "1", "wheels": wheels}
    return {"packages": [package | ({"marker": marker} if marker else {})]}


def test_the_best_tag_wins_whatever_the_order() -> None:
    names = [
        "x-1-py3-none-any.whl",
        "x-1-cp311-cp311-manylinux_2_28_aarch64.whl",
        "x-1-cp311-cp311-manylinux_2_34_aarch64.whl",
        "x-1-cp311-cp311-manylinux_2_39_aarch64.whl",
        "x-1-cp312-cp312-manylinux_2_34_aarch64.whl",
    ]
    for order in (names, names[::-1]):
        found = wheels_of(offered(*order), DEBIAN, subject="a test")["x"]
        assert found.filename == "x-1-cp311-cp311-manylinux_2_34_aarch64.whl"


def test_nothing_of_the_index_stays() -> None:
    found = wheels_of(offered("x-1%2Bcu130-py3-none-any.whl"), DEBIAN, subject="a test")["x"]
    assert (found.filename, found.url) == ("x-1+cu130-py3-none-any.whl", None)


def test_what_the_target_does_not_need_is_left_out() -> None:
    document = offered("x-1-py3-none-any.whl", marker="sys_platform == 'win32'")
    assert wheels_of(document, DEBIAN, subject="a test") == {}


def test_every_package_without_a_wheel_is_named() -> None:
    document = offered("x-1-cp311-cp311-manylinux_2_28_x86_64.whl")
    document["packages"] = [*document["packages"], {"name": "y", "version": "2"}]  # type: ignore[misc]
    with pytest.raises(Refusal) as caught:
        wheels_of(document, DEBIAN, subject="a test")
    assert caught.value.details == (
        "x 1: 1 wheels, none fits",
        "y 2: 0 wheels, none fits",
    )


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in uv's place that does what its text says."""
    program = tmp_path / "uv"
    monkeypatch.setattr(module, "find_uv", lambda: str(program))
    return program


def write(program: Path, body: str) -> None:
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_no_solution_is_a_refusal_with_the_causes(fake_uv: Path) -> None:
    write(
        fake_uv,
        "echo 'warning: noise' >&2; echo 'error: No solution' >&2; echo '  cause: a wants b' >&2\n"
        "exit 1",
    )
    with pytest.raises(Refusal) as caught:
        compile_pins(DEBIAN, ["a"], subject="a test")
    assert caught.value.message == "uv finds no solution for a test"
    assert caught.value.details == ("error: No solution", "  cause: a wants b")


def test_an_index_that_cannot_be_reached_is_outside_trouble(fake_uv: Path) -> None:
    write(fake_uv, "echo 'error: Failed to fetch: x' >&2; exit 2")
    with pytest.raises(OutsideTrouble) as caught:
        compile_pins(DEBIAN, ["a"], subject="a test")
    assert caught.value.exit_status == 3
    assert caught.value.details == ("error: Failed to fetch: x",)


def test_yanked_packages_are_told_with_the_reason(fake_uv: Path) -> None:
    lines = 'warning: `a==1` is yanked (reason: "broken")\nwarning: `B_c==2` is yanked'
    answer = 'lock-version = \\"1.0\\"'
    write(
        fake_uv,
        f"echo '{lines}' >&2\n"
        f'while [ "$1" != --output-file ]; do shift; done; echo "{answer}" > "$2"',
    )
    found = compile_pins(DEBIAN, ["a"], subject="a test")
    assert dict(found.yanked) == {"a": 'reason: "broken"', "b-c": ""}


def test_what_uv_is_asked(fake_uv: Path, tmp_path: Path) -> None:
    write(
        fake_uv,
        f'echo "$@" > {tmp_path}/arguments; cat "$3" > {tmp_path}/asked; cat "$5" > {tmp_path}/over'
        '\nwhile [ "$1" != --output-file ]; do shift; done; : > "$2"',
    )
    resolve(
        DEBIAN,
        ["a==1"],
        ["b[x]==2"],
        exclude_newer="2026-11-01T00:00:00Z",
        newer={"c": "2026-11-02T00:00:00Z"},
        subject="a test",
    )
    arguments = (tmp_path / "arguments").read_text(encoding="utf-8")
    assert "--python-version 3.11.2 --python-platform aarch64-manylinux_2_36" in arguments
    assert (
        "--only-binary :all: --no-python-downloads --exclude-newer=2026-11-01T00:00:00Z"
        in arguments
    )
    assert "--exclude-newer-package=c=2026-11-02T00:00:00Z" in arguments
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "a==1\n"
    assert (tmp_path / "over").read_text(encoding="utf-8") == "b[x]==2\n"


@pytest.mark.skipif(
    not os.environ.get("SM121_CHAIN_NETWORK"),
    reason="asks the package index: set SM121_CHAIN_NETWORK=1 to run it",
)
def test_the_real_index_gives_the_published_hash() -> None:
    found = resolve(
        DEBIAN,
        ["nvidia-nccl-cu13==2.30.7"],
        [],
        exclude_newer="2026-11-28T00:00:00Z",
        dependencies=False,
        subject="NCCL",
    )
    sha256 = "ca786ffa5a647c75d4d1f5cc72a6c4f537947e2ba8823d7c8aaf768e7a7b9f77"
    assert [(w.filename, w.sha256) for w in found.values()] == [
        ("nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_aarch64.whl", sha256)
    ]
