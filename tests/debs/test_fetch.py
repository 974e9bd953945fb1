""".debs from a mirror on the loopback, and through apt with a mirror on the loopback."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.debs import fetch as module
from pipeline.debs.fetch import APT_HELPER, DebFetcher, apt_archives
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.pins import LockedDeb
from pipeline.progress import Progress
from pipeline.transfer.haul import Haul
from pipeline.transfer.workspace import workspace
from pipeline.wheels.house import Wheelhouse

DATED = "as of 2026-11-28T00:00:00Z"
WAYS = [
    "mirror",
    pytest.param(
        "apt", marks=pytest.mark.skipif(not APT_HELPER.exists(), reason="there is no apt here")
    ),
]
Bring = Callable[[Sequence[LockedDeb]], Haul]


def deb(name: str, data: bytes, version: str = "1.0-1") -> LockedDeb:
    path = f"pool/main/{name[0]}/{name}/{name}_{version}_arm64.deb"
    return LockedDeb(name, version, path, len(data), hashlib.sha256(data).hexdigest())


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "cache")


def fetcher(house: Wheelhouse, mirror: str | None) -> Bring:
    def fetch(debs: Sequence[LockedDeb]) -> Haul:
        haul = Haul()
        with workspace(house.cache) as space:
            DebFetcher(house, space, mirror=mirror, dated=DATED, jobs=2, progress=Progress()).fetch(
                debs, haul
            )
        return haul

    return fetch


@pytest.fixture
def bring(request: Any, house: Wheelhouse, site: Any, monkeypatch: pytest.MonkeyPatch) -> Bring:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    if request.param == "mirror":
        return fetcher(house, f"{site.url}/debian/")
    monkeypatch.setattr(module, "apt_archives", lambda: [f"{site.url}/debian"])
    return fetcher(house, None)


@pytest.mark.parametrize("bring", WAYS, indirect=True)
def test_right_bytes_come(site: Any, house: Wheelhouse, bring: Bring) -> None:
    bytes_of = {f"lib{i}": f"package {i}".encode() * (i + 1) for i in range(40)}
    debs = [deb(name, data) for name, data in bytes_of.items()]
    for one in debs:
        site.files[f"/debian/{one.path}"] = bytes_of[one.name]
    haul = bring(debs)
    assert haul.faults == []
    assert sorted(haul.fetched) == sorted(one.path for one in debs)
    assert haul.size == sum(one.size for one in debs)
    assert house.missing(debs) == []


@pytest.mark.parametrize("bring", WAYS, indirect=True)
def test_vanished_file_is_artifact_gone(site: Any, house: Wheelhouse, bring: Bring) -> None:
    here, gone = deb("here", b"here"), deb("libc6", b"superseded", "2.41-12")
    site.files[f"/debian/{here.path}"] = b"here"
    haul = bring([here, gone])
    (fault,) = haul.faults
    assert isinstance(fault, Refusal)
    assert fault.message == f"artifact-gone: {gone.path} has left the archive"
    assert fault.hint == "`sm121-chain lock --upgrade debs`"
    assert f"asked {site.url}/debian/{gone.path}" in fault.details
    assert any(DATED in line for line in fault.details)
    assert haul.fetched == [here.path]


@pytest.mark.parametrize("bring", WAYS, indirect=True)
def test_altered_file_is_refused(site: Any, house: Wheelhouse, bring: Bring) -> None:
    locked = deb("altered", b"right bytes")
    site.files[f"/debian/{locked.path}"] = b"other bytes"
    (fault,) = bring([locked]).faults
    assert isinstance(fault, Refusal)
    assert fault.message.startswith(f"hash-mismatch: {locked.path}")
    assert f"locked sha256 {locked.sha256}" in fault.details
    assert f"sha256 of what came {hashlib.sha256(b'other bytes').hexdigest()}" in fault.details
    assert not house.path(locked.sha256).exists()


@pytest.mark.parametrize("bring", WAYS, indirect=True)
def test_archive_that_fails_is_outside_trouble(site: Any, bring: Bring) -> None:
    locked = [deb("one", b"1"), deb("two", b"2")]
    for one in locked:
        site.refuse[f"/debian/{one.path}"] = 403
    (fault,) = bring(locked).faults
    assert isinstance(fault, OutsideTrouble)
    assert "403" in fault.message
    assert "--debian-mirror" in (fault.hint or "")


def test_dead_mirror_is_one_trouble_that_names_the_files(house: Wheelhouse) -> None:
    locked = [deb("one", b"1"), deb("two", b"2")]
    (fault,) = fetcher(house, "http://127.0.0.1:9")(locked).faults
    assert isinstance(fault, OutsideTrouble)
    assert "refused" in fault.message
    assert set(fault.details) == {f"not fetched: {one.path}" for one in locked}


def test_without_apt_and_mirror_the_next_step_is_named(
    house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "APT_HELPER", Path("/nowhere/apt-helper"))
    (fault,) = fetcher(house, None)([deb("one", b"1")]).faults
    assert isinstance(fault, OutsideTrouble)
    assert "--debian-mirror URL" in (fault.hint or "")


@pytest.mark.skipif(not APT_HELPER.exists(), reason="there is no apt here")
def test_next_archive_is_asked_for_what_the_first_lacks(
    site: Any, house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = deb("two", b"2")
    site.files[f"/b/{locked.path}"] = b"2"
    monkeypatch.setattr(module, "apt_archives", lambda: [f"{site.url}/a", f"{site.url}/b"])
    haul = fetcher(house, None)([locked])
    assert haul.faults == []
    assert haul.fetched == [locked.path]


def test_archives_of_apt_are_debians_first_and_no_other_makers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "apt-get"
    script.write_text(
        "#!/bin/sh\ncat <<'E'\n"
        "||http://127.0.0.1/never-updated/\n"
        "Debian|Debian-Security|http://127.0.0.1/security/\n"
        "Debian|Debian|http://127.0.0.1/debian/\n"
        "Debian|Debian|http://127.0.0.1/debian/\n"
        "Ubuntu|Ubuntu|http://127.0.0.1/ubuntu/\n"
        "E\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(module, "APT_HELPER", script)
    assert apt_archives() == ["http://127.0.0.1/debian", "http://127.0.0.1/never-updated"]
    script.write_text("#!/bin/sh\nexit 100\n", encoding="utf-8")
    assert apt_archives() == []
