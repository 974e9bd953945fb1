"""Wheels from an index on the loopback: what comes, what is refused, and in which words."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.pins import LockedWheel
from pipeline.progress import Progress
from pipeline.transfer.haul import Haul
from pipeline.transfer.workspace import workspace
from pipeline.wheels.fetch import WheelFetcher, batches
from pipeline.wheels.house import Wheelhouse

Make = Callable[..., tuple[LockedWheel, bytes]]
DATED = "as of 2026-11-28T00:00:00Z"


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "cache")


@pytest.fixture
def bring(
    house: Wheelhouse, pip_asks: None
) -> Callable[[Sequence[LockedWheel]], tuple[Haul, Progress, list[str]]]:
    def fetch(wheels: Sequence[LockedWheel]) -> tuple[Haul, Progress, list[str]]:
        haul, progress = Haul(), Progress()
        with workspace(house.cache) as space:
            untried = WheelFetcher(
                house, space, python="3.11.2", dated=DATED, jobs=2, progress=progress
            ).fetch(wheels, haul)
        assert list((house.cache / "tmp").iterdir()) == []
        return haul, progress, untried

    return fetch


def stored(house: Wheelhouse) -> set[str]:
    directory = house.cache / "files/sha256"
    return {p.name for p in directory.iterdir()} if directory.exists() else set()


def wheel_of(number: int, size: int | None, name: str = "") -> LockedWheel:
    name = name or f"p{number}"
    return LockedWheel(name, "1", f"{name}-{number}-py3-none-any.whl", size, f"{number:064x}")


def test_batches_big_first_and_small_together() -> None:
    wheels = [wheel_of(i, 1000 + i) for i in range(30)] + [wheel_of(99, 500_000_000)]
    made = batches(wheels)
    assert [len(batch) for batch in made] == [1, 12, 12, 6]
    assert sorted(w for batch in made for w in batch) == sorted(wheels)
    shuffled = wheels.copy()
    random.Random(1).shuffle(shuffled)
    assert batches(shuffled) == made


def test_batches_hold_one_version_of_a_project() -> None:
    two = [wheel_of(1, 10, "nvidia-nccl-cu13"), wheel_of(2, 10, "nvidia-nccl-cu13")]
    assert [len(batch) for batch in batches(two)] == [1, 1]


def test_right_bytes_come(site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make) -> None:
    pairs = [
        tiny_wheel("plain", "1.0"),
        tiny_wheel("abi3-one", "2.0", "cp38-abi3-manylinux_2_28_aarch64"),
        tiny_wheel("own", "3.0", "cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64"),
        tiny_wheel("dev", "0.6.18.dev20260819"),
        tiny_wheel("local", "2.13.0+cu130", "py3-none-manylinux_2_18_aarch64"),
    ]
    for wheel, data in pairs:
        site.publish(wheel, data)
    haul, progress, untried = bring([wheel for wheel, _ in pairs])
    assert haul.faults == []
    assert untried == []
    assert sorted(haul.fetched) == sorted(wheel.filename for wheel, _ in pairs)
    assert progress.files == 5
    assert progress.size == haul.size == sum(len(data) for _, data in pairs)
    assert all(house.path(wheel.sha256).read_bytes() == data for wheel, data in pairs)


def test_own_platform_tag_decides_when_the_index_gives_no_digest(
    site: Any, bring: Any, tiny_wheel: Make
) -> None:
    """Of several files that fit, pip takes the one whose --platform comes first."""
    locked, data = tiny_wheel("many", "1.0", "cp311-cp311-manylinux_2_17_aarch64")
    site.publish(locked, data, digest=False)
    for tag in ("manylinux_2_34_aarch64", "manylinux_2_28_aarch64", "manylinux_2_28_x86_64"):
        site.publish(*tiny_wheel("many", "1.0", f"cp311-cp311-{tag}"), digest=False)
    assert bring([locked])[0].faults == []


def test_two_versions_of_one_project_come(site: Any, bring: Any, tiny_wheel: Make) -> None:
    pairs = [tiny_wheel("nccl", "2.29.7"), tiny_wheel("nccl", "2.30.7")]
    for wheel, data in pairs:
        site.publish(wheel, data)
    assert bring([wheel for wheel, _ in pairs])[0].faults == []


def fault_of(haul: Haul) -> ChainError:
    (fault,) = haul.faults
    return fault


def test_altered_bytes_are_refused_and_the_rest_of_the_batch_comes(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make
) -> None:
    good, data = tiny_wheel("good", "1.0")
    altered, _ = tiny_wheel("altered", "1.0")
    other, other_data = tiny_wheel("altered", "1.0", text="other")
    site.publish(good, data)
    site.publish(other, other_data)
    haul, progress, _ = bring([good, altered])
    refusal = fault_of(haul)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("hash-mismatch: altered (altered-1.0-py3-none-any.whl)")
    assert f"locked sha256 {altered.sha256}" in refusal.details
    assert f"sha256 of what came {other.sha256}" in refusal.details
    assert haul.fetched == [good.filename]
    assert stored(house) == {good.sha256}
    assert progress.size == len(data)  # what was thrown away does not count


def test_truncated_file_is_outside_trouble(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
    wheel, data = tiny_wheel("cut", "1.0")
    site.publish(wheel, data)
    site.cut.add(f"/files/{wheel.filename}")
    trouble = fault_of(bring([wheel])[0])
    assert isinstance(trouble, OutsideTrouble)
    assert "cut-1.0-py3-none-any.whl cannot be fetched" in trouble.message
    assert "Traceback" not in trouble.message
    assert stored(house) == set()


def test_only_another_architecture_left_is_gone(site: Any, bring: Any, tiny_wheel: Make) -> None:
    locked, _ = tiny_wheel("arch", "1.0", "cp38-abi3-manylinux_2_28_aarch64")
    site.publish(*tiny_wheel("arch", "1.0", "cp38-abi3-manylinux_2_28_x86_64"))
    refusal = fault_of(bring([locked])[0])
    assert refusal.message.startswith(f"gone: {locked.filename}")
    assert not any(path.startswith("/files/") for path in site.asked)


def test_project_that_the_index_does_not_know_is_gone(bring: Any, tiny_wheel: Make) -> None:
    refusal = fault_of(bring([tiny_wheel("deleted", "1.0")[0]])[0])
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("gone: deleted-1.0-py3-none-any.whl")


def test_index_that_fails_is_not_taken_for_gone(site: Any, bring: Any, tiny_wheel: Make) -> None:
    site.refuse["/simple/plain/"] = 503
    trouble = fault_of(bring([tiny_wheel("plain", "1.0")[0]])[0])
    assert isinstance(trouble, OutsideTrouble)
    assert "/simple/plain" in trouble.message


def test_index_that_wants_a_password_is_not_taken_for_gone(
    site: Any, bring: Any, tiny_wheel: Make
) -> None:
    site.refuse["/simple/plain/"] = 403
    trouble = fault_of(bring([tiny_wheel("plain", "1.0")[0]])[0])
    assert isinstance(trouble, OutsideTrouble)
    assert "403" in trouble.message


def test_dead_port_is_outside_trouble_and_ends_the_fetch(
    bring: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    many = [wheel_of(i, 20_000_000) for i in range(6)]
    haul, _, untried = bring(many)
    assert all(isinstance(fault, OutsideTrouble) for fault in haul.faults)
    assert "127.0.0.1:9" in haul.faults[0].message
    assert "refused" in haul.faults[0].message
    assert haul.faults[0].hint is not None
    assert len(haul.faults) + len(untried) == 6
    assert len(untried) >= 3


def test_settings_of_the_user_do_not_change_what_is_asked(
    site: Any, bring: Any, tiny_wheel: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "constraints").write_text("plain<1\n", encoding="utf-8")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints"))
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    monkeypatch.setenv("PIP_DEST", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_QUIET", "3")
    wheel, data = tiny_wheel("plain", "1.0")
    site.publish(wheel, data)
    assert bring([wheel])[0].faults == []
    assert not (tmp_path / "elsewhere").exists()


def test_url_entry_is_streamed_and_may_have_no_size(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make
) -> None:
    wheel, data = tiny_wheel("nightly", "0.6.18.dev20260819", url=f"{site.url}/assets/n.whl")
    site.files["/assets/n.whl"] = data
    haul, _, _ = bring([replace(wheel, size=None)])
    assert haul.faults == []
    assert house.has(wheel.sha256, len(data))
    assert site.asked == ["/assets/n.whl"]


def test_url_entry_with_other_bytes_is_refused(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make
) -> None:
    wheel, data = tiny_wheel("nightly", "1.0", url=f"{site.url}/assets/n.whl")
    site.files["/assets/n.whl"] = data + b"x"
    assert fault_of(bring([wheel])[0]).message.startswith("hash-mismatch: nightly-1.0")
    assert stored(house) == set()


@pytest.mark.parametrize(
    ("status", "kind", "word"), [(404, Refusal, "gone: "), (503, OutsideTrouble, "503")]
)
def test_url_entry_that_is_not_served(
    site: Any, bring: Any, tiny_wheel: Make, status: int, kind: type[ChainError], word: str
) -> None:
    wheel, _ = tiny_wheel("nightly", "1.0", url=f"{site.url}/assets/n.whl")
    site.refuse["/assets/n.whl"] = status
    fault = fault_of(bring([wheel])[0])
    assert isinstance(fault, kind)
    assert word in fault.message


def test_url_entry_that_breaks_off_is_tried_once_more(
    site: Any, bring: Any, tiny_wheel: Make
) -> None:
    wheel, data = tiny_wheel("nightly", "1.0", url=f"{site.url}/assets/n.whl")
    site.files["/assets/n.whl"] = data
    site.cut.add("/assets/n.whl")
    haul, progress, _ = bring([wheel])
    assert isinstance(fault_of(haul), OutsideTrouble)
    assert site.asked == ["/assets/n.whl"] * 2
    assert progress.size == 0


def test_case_34_index_moved_on(site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make) -> None:
    aarch64, x86_64 = "cp38-abi3-manylinux_2_28_aarch64", "cp38-abi3-manylinux_2_28_x86_64"
    cuda = "0.23.1rc1.dev1403+g4080263bb.cu129"
    right, right_data = tiny_wheel("a-right", "1.0")
    altered, _ = tiny_wheel("b-other-bytes", "1.0")
    came, came_data = tiny_wheel("b-other-bytes", "1.0", text="other bytes")
    yanked, yanked_data = tiny_wheel("c-yanked", "2.11.2")
    listed, listed_data = tiny_wheel("d-listed-but-404", "0.10.2")
    nightly, _ = tiny_wheel("e-nightly-gone", "0.6.18.dev20260819")
    arch, _ = tiny_wheel("f-only-other-arch-left", cuda, aarch64)
    plus, plus_data = tiny_wheel("g-plus-in-the-name", "2.13.0+cu130")
    bare, bare_data = tiny_wheel("h-index-gives-no-hash", "1.0")
    site.publish(right, right_data)
    site.publish(came, came_data)  # the index vouches for the new bytes
    site.publish(yanked, yanked_data, yanked="merged by mistake")
    site.publish(*tiny_wheel("c-yanked", "2.11.3"))
    site.publish(listed, listed_data, present=False)
    site.publish(*tiny_wheel("e-nightly-gone", "0.6.18.dev20260901"))
    site.publish(*tiny_wheel("e-nightly-gone", "0.6.18"))
    site.publish(*tiny_wheel("f-only-other-arch-left", cuda, x86_64))
    site.publish(plus, plus_data)
    site.publish(bare, bare_data, digest=False)

    haul, _, _ = bring([right, altered, yanked, listed, nightly, arch, plus, bare])

    kept = {right, yanked, plus, bare}
    assert set(haul.fetched) == {wheel.filename for wheel in kept}
    assert stored(house) == {wheel.sha256 for wheel in kept}  # never another file in its place
    (warning,) = haul.warnings
    assert warning.startswith("yanked: c-yanked 2.11.2")
    assert "merged by mistake" in warning
    faults = {fault.message.split(":")[1].split()[0]: fault for fault in haul.faults}
    mismatch = faults.pop("b-other-bytes")
    assert mismatch.message.startswith("hash-mismatch: ")
    assert f"locked sha256 {altered.sha256}" in mismatch.details
    assert f"sha256 of what came {came.sha256}" in mismatch.details
    assert set(faults) == {listed.filename, nightly.filename, arch.filename}
    for wheel in (listed, nightly, arch):
        fault = faults[wheel.filename]
        assert isinstance(fault, Refusal)
        assert fault.message.startswith("gone: ")
        assert f"asked {site.url}/simple/{wheel.name}/" in fault.details
        assert any(DATED in line for line in fault.details)


def test_case_34_kept_file_is_used_when_the_index_lost_it(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make
) -> None:
    wheel, data = tiny_wheel("kept", "1.0")
    site.publish(wheel, data)
    bring([wheel])
    site.files.clear()
    assert house.missing([wheel]) == []


def test_read_only_directory_of_the_store_is_outside_trouble(
    site: Any, house: Wheelhouse, bring: Any, tiny_wheel: Make
) -> None:
    if os.geteuid() == 0:
        (house.cache / "files").mkdir(parents=True)
        (house.cache / "files/sha256").write_text("a file where a directory should be")
    else:
        (house.cache / "files/sha256").mkdir(parents=True, mode=0o555)
    wheel, data = tiny_wheel("plain", "1.0")
    site.publish(wheel, data)
    assert "cannot be stored" in fault_of(bring([wheel])[0]).message
