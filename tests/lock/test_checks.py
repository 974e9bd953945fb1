"""What `lock --check` says against locks that read well."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from pipeline.audit.findings import Finding
from pipeline.errors import UsageError
from pipeline.lock.checks import check
from pipeline.lock.explain import explain
from pipeline.lock.export import export, link_wheels
from pipeline.lock.metadata import Metadata
from pipeline.pins import Lock, load_lock
from pipeline.wheels.house import Wheelhouse

SOUND = Path(__file__).parent.parent / "fixtures" / "locks" / "sound.toml"
PATHS = {"base": (), "v1": (), "v3": ("v3",), "v4": ("v3", "v4")}
TODAY = date(2026, 11, 29)

Write = Callable[..., Lock]


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "cache")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def lock(*edits: tuple[str, str]) -> Lock:
        text = SOUND.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "pins.toml"
        path.write_text(text, encoding="utf-8")
        return load_lock(path)

    return lock


def lines(findings: list[Finding]) -> list[str]:
    return [f"{f.severity} {f.rule}: {f.message}" for f in findings if f.rule != "not-checked"]


def test_nothing_is_said_against_a_sound_lock(write: Write, house: Wheelhouse) -> None:
    findings = check(write(), PATHS, Metadata(house), TODAY)
    assert lines(findings) == []
    assert [f"{f.severity} {f.message} -> {f.fix}" for f in findings] == [
        "note day0: what the image's other distributions want is not known from the lock -> audit "
        "an image of it",
        "note wheels: 4 of 4 wheels are not here, so what they want of each other is not known -> "
        "run fetch",
    ]


def test_a_hold_that_the_entries_do_not_follow(write: Write, house: Wheelhouse) -> None:
    lock = write(('requirement = "comms==2.0"', 'requirement = "comms==2.1"'))
    assert lines(check(lock, PATHS, Metadata(house), TODAY)) == [
        "error ledger-not-in-lock: comms==2.1 is held, but wheels v3 v4 selects 2.0"
    ]


@pytest.mark.parametrize(
    ("against", "message"),
    [
        (
            "server 0.9 wants ==1.0",
            "'server 0.9 wants ==1.0' is said of comms==2.0, but no selection holds that",
        ),
        (
            "server 1.0 wants >=1.0",
            "'server 1.0 wants >=1.0' is said against comms==2.0, which it allows",
        ),
    ],
)
def test_a_reason_that_has_gone(
    write: Write, house: Wheelhouse, against: str, message: str
) -> None:
    lock = write(("server 1.0 wants ==1.0", against))
    assert lines(check(lock, PATHS, Metadata(house), TODAY)) == [f"warning ledger-stale: {message}"]


def test_a_hold_whose_day_has_come(write: Write, house: Wheelhouse) -> None:
    found = lines(check(write(), PATHS, Metadata(house), date(2027, 3, 1)))
    assert found[0] == (
        "warning ledger-review-due: comms==2.0 was to be looked at again on 2027-03-01"
    )
    assert len(found) == 2


def test_a_group_that_no_stage_selects(write: Write, house: Wheelhouse) -> None:
    found = lines(check(write(), {"base": (), "v3": ("v3",)}, Metadata(house), TODAY))
    assert found == ["warning group-unused: no stage selects the group v4"]


def test_a_removal_of_what_is_not_there(write: Write, house: Wheelhouse) -> None:
    lock = write(('inventory = ["kernel-cache==1.0", ', "inventory = ["))
    assert lines(check(lock, PATHS, Metadata(house), TODAY)) == [
        "error removal-not-in-base: kernel-cache is removed by v3, but day0 does not hold it"
    ]


def test_a_removal_of_what_the_lock_selects(write: Write, house: Wheelhouse) -> None:
    lock = write(('distribution = "kernel-cache"', 'distribution = "kernels"'))
    assert "error removal-selected: kernels is removed by v3, and selected as well" in lines(
        check(lock, PATHS, Metadata(house), TODAY)
    )


def test_an_exception_for_what_is_not_there(write: Write, house: Wheelhouse) -> None:
    lock = write(('owner = "comms"', 'owner = "gone"'))
    assert lines(check(lock, PATHS, Metadata(house), TODAY)) == [
        "warning known-unused: file-conflict is tolerated for gone, which the lock does not hold"
    ]


def test_a_requirement_that_the_entries_do_not_meet(write: Write, house: Wheelhouse) -> None:
    lock = write(('requirements = ["server==1.0"]', 'requirements = ["server==2.0", "extra"]'))
    assert lines(check(lock, PATHS, Metadata(house), TODAY)) == [
        "error requirement-unsatisfied: the lock asks for extra, and wheels holds none",
        "error requirement-unsatisfied: the lock asks for server==2.0, and wheels holds 1.0",
    ]


def fill(house: Wheelhouse, wishes: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    """Put wheels of the base `wheels` into the house; edits that lock them as they are."""
    edits = {}
    files = {
        "comms-1.0-py3-none-manylinux_2_18_aarch64.whl": ("3", "100"),
        "comms-2.0-py3-none-manylinux_2_18_aarch64.whl": ("4", "101"),
        "nvidia_blas-13.0-cp311-cp311-manylinux2014_aarch64.whl": ("5", "102"),
        "server-1.0-cp38-abi3-manylinux_2_28_aarch64.whl": ("8", "104"),
    }
    for filename, (digit, size) in files.items():
        name, version = filename.split("-")[:2]
        headers = [f"Name: {name}", f"Version: {version}"]
        headers += [f"Requires-Dist: {wish}" for wish in wishes.get(name, ())]
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(headers) + "\n\n")
        data = buffer.getvalue()
        sha256 = hashlib.sha256(data).hexdigest()
        house.path(sha256).parent.mkdir(parents=True, exist_ok=True)
        house.path(sha256).write_bytes(data)
        edits[f'size = {size}, hashes = {{ sha256 = "{digit * 64}"'] = (
            f'size = {len(data)}, hashes = {{ sha256 = "{sha256}"'
        )
    return edits  # type: ignore[return-value]


def test_requirements_of_the_wheels_that_are_here(write: Write, house: Wheelhouse) -> None:
    edits = fill(house, {"server": ["comms==1.0", "nvidia-blas>=14", "win; os_name == 'nt'"]})
    findings = check(write(*edits.items()), PATHS, Metadata(house), TODAY)
    assert lines(findings) == [
        "error requirement-unsatisfied: server wants nvidia-blas>=14, found 13.0",
        "note requirement-unsatisfied: server wants comms==1.0, found 2.0",
    ]
    assert findings[-1].reason == "1.0 hangs"


def test_explain_says_who_wants_it_what_moves_it_and_why(write: Write, house: Wheelhouse) -> None:
    edits = fill(house, {"server": ["comms==1.0"]})
    lock = write(*edits.items())
    told = explain(lock, "Comms", PATHS, Metadata(house))
    assert [line for line in told if "sha256" not in line] == [
        "wheels (the base): 1.0",
        "  comms-1.0-py3-none-manylinux_2_18_aarch64.whl",
        "  server 1.0 wants comms==1.0",
        "wheels v4: 1.0 -> 2.0",
        "  comms-2.0-py3-none-manylinux_2_18_aarch64.whl",
        "  server 1.0 wants comms==1.0 (not met)",
        "held in wheels v4: comms==2.0, to be looked at again on 2027-03-01",
        "  against: server 1.0 wants ==1.0",
        "  why: 1.0 hangs",
        "tolerated: file-conflict of build_backend.py: both ship it",
    ]


def test_explain_without_the_wheels_says_what_it_does_not_know(
    write: Write, house: Wheelhouse
) -> None:
    told = explain(write(), "server", PATHS, Metadata(house))
    assert (
        "  who else wants it is not known: 3 wheels are not here, run fetch --base wheels" in told
    )
    assert "asked for by the lock itself: server==1.0" in told


def test_explain_knows_removals_and_debs(write: Write, house: Wheelhouse) -> None:
    assert explain(write(), "kernel-cache", PATHS, Metadata(house)) == [
        "day0: the image holds 1.0",
        "removed from day0 by v3: of 1.0",
    ]
    (libc,) = explain(write(), "libc6", PATHS, Metadata(house))
    assert libc.startswith("Debian bookworm: libc6 2.36-9 (essential, or what another one depends")


def test_explain_refuses_what_it_does_not_know(write: Write, house: Wheelhouse) -> None:
    with pytest.raises(UsageError, match="no package 'nope'"):
        explain(write(), "nope", PATHS, Metadata(house))


def test_export_is_a_lock_without_markers(write: Write) -> None:
    text = export(write(), "wheels", ("v3", "v4"), "v4")
    assert text == (SOUND.parent.parent / "exports" / "pylock.v4.toml").read_text(encoding="utf-8")


def test_exported_paths_lead_to_the_wheels_that_are_here(
    write: Write, house: Wheelhouse, tmp_path: Path
) -> None:
    edits = fill(house, {})
    wheels = write(*edits.items()).select("wheels", ("v3", "v4"))
    house.path(wheels[0].sha256).unlink()
    place = tmp_path / "project"
    place.mkdir()
    assert link_wheels(wheels, house, place) == 1
    assert sorted(path.name for path in (place / "wheelhouse").iterdir()) == [
        wheel.filename for wheel in wheels[1:]
    ]
    for wheel in wheels[1:]:
        data = (place / "wheelhouse" / wheel.filename).read_bytes()
        assert hashlib.sha256(data).hexdigest() == wheel.sha256
    assert link_wheels(wheels, house, place) == 1
