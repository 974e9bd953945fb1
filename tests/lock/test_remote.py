"""What is gone or yanked, and what could not be asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.audit.findings import Finding
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock import remote
from pipeline.lock.model import Base, LockedWheel
from pipeline.lock.remote import ask, batches, judge_image
from pipeline.oci.image import sha256
from pipeline.pins import Lock, load_lock
from pipeline.resolve import Answer
from tests.oci.registry.server import Registry

SOUND = Path(__file__).parent.parent / "fixtures" / "locks" / "sound.toml"


class World:
    """Index, archive and release page: everything is there, until a test takes it away."""

    def __init__(self, lock: Lock) -> None:
        self.hashes = {
            f"{package.name}=={package.version}": [w.hashes["sha256"] for w in package.wheels or ()]
            for package in lock.pylock.packages
        }
        self.yanked: dict[str, str] = {}
        self.debs = {(deb.path, deb.sha256) for deb in lock.base("wheels").debs}
        self.status = 200
        self.unreachable: set[str] = set()

    def compile_pins(self, _: object, pins: list[str], *options: str, subject: str) -> Answer:
        if "index" in self.unreachable:
            raise OutsideTrouble("uv could not ask the index")
        if any(pin not in self.hashes for pin in pins):
            raise Refusal(f"uv finds no solution for {subject}")
        wheels = [{"hashes": {"sha256": sha256}} for pin in pins for sha256 in self.hashes[pin]]
        return Answer({"packages": [{"wheels": wheels}]}, self.yanked)

    def offered(self, suite: str, platform: str, *, mirror: str) -> set[tuple[str, str]]:
        if "archive" in self.unreachable:
            raise OutsideTrouble("apt could not read Debian")
        assert (suite, platform) == ("bookworm", "linux/arm64")
        return self.debs

    def head(self, url: str, **_: Any) -> Any:
        if "release" in self.unreachable:
            raise remote.requests.ConnectionError("no route")
        answer = remote.requests.Response()
        answer.status_code = self.status
        return answer


@pytest.fixture
def lock() -> Lock:
    return load_lock(SOUND)


@pytest.fixture
def world(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(lock)
    monkeypatch.setattr(remote, "judge_image", lambda base: iter(()))
    monkeypatch.setattr(remote, "compile_pins", world.compile_pins)
    monkeypatch.setattr(remote, "offered", world.offered)
    monkeypatch.setattr(remote.requests, "head", world.head)
    return world


def asked(lock: Lock) -> tuple[list[str], list[str]]:
    findings, troubles = ask(lock, say=lambda _: None)
    return [line(finding) for finding in findings], [trouble.message for trouble in troubles]


def line(finding: Finding) -> str:
    return f"{finding.severity} {finding.rule}: {finding.message} -> {finding.fix}"


def test_nothing_is_said_while_all_is_there(lock: Lock, world: World) -> None:
    assert asked(lock) == ([], [])


def test_a_batch_never_holds_two_versions_of_a_package(lock: Lock) -> None:
    def names(base: Base) -> list[list[str]]:
        return [[f"{w.name} {w.version}" for w in batch] for batch in batches(lock, base)]

    assert names(lock.base("wheels")) == [
        ["comms 1.0", "nvidia-blas 13.0", "server 1.0"],
        ["comms 2.0"],
    ]
    assert names(lock.base("day0")) == [["nvidia-blas 13.0"]]


def test_releases_that_are_gone_are_all_named(lock: Lock, world: World) -> None:
    del world.hashes["comms==1.0"], world.hashes["server==1.0"]
    assert asked(lock)[0] == [
        "error artifact-gone: comms 1.0: the index no longer has comms-1.0-py3-none-manylinux_2_18_"
        "aarch64.whl with the locked sha256 -> lock --upgrade comms, or keep the cached file",
        "error artifact-gone: server 1.0: the index no longer has server-1.0-cp38-abi3-manylinux_2_"
        "28_aarch64.whl with the locked sha256 -> lock --upgrade server, or keep the cached file",
    ]


def test_a_file_with_other_bytes_is_gone(lock: Lock, world: World) -> None:
    world.hashes["comms==2.0"] = ["0" * 64]
    (found,) = asked(lock)[0]
    assert found.startswith("error artifact-gone: comms 2.0: the index no longer has")


def test_yanked_is_a_warning(lock: Lock, world: World) -> None:
    world.yanked["server"] = "broken"
    assert asked(lock)[0] == [
        "warning artifact-yanked: server 1.0 was withdrawn by its makers: broken -> lock --upgrade "
        "server, or hold it knowingly"
    ]


def test_debs_that_are_gone(lock: Lock, world: World) -> None:
    world.debs = {deb for deb in world.debs if "libc6" not in deb[0]}
    assert asked(lock)[0] == [
        "error artifact-gone: libc6 2.36-9: Debian bookworm no longer lists "
        "pool/main/g/glibc/libc6_2.36-9_arm64.deb -> lock --upgrade debs"
    ]


@pytest.mark.parametrize("status", [404, 410])
def test_release_files_that_are_gone(lock: Lock, world: World, status: int) -> None:
    world.status = status
    (found,) = asked(lock)[0]
    assert found.startswith("error artifact-gone: kernels 1.1.dev3: https://example.org/kernels")


@pytest.mark.parametrize("status", [403, 500])
def test_a_release_page_that_does_not_answer_is_no_finding(
    lock: Lock, world: World, status: int
) -> None:
    world.status = status
    findings, troubles = asked(lock)
    assert findings == []
    assert len(troubles) == 1


def test_what_cannot_be_reached_hides_nothing_of_the_rest(lock: Lock, world: World) -> None:
    world.unreachable = {"archive", "release"}
    del world.hashes["server==1.0"]
    findings, troubles = asked(lock)
    assert len(findings) == 1
    assert troubles == [
        "apt could not read Debian",
        "https://example.org/kernels-1.1.dev3-py3-none-any.whl cannot be asked for: no route",
    ]


def test_a_yanked_name_of_another_batch_is_not_meant(lock: Lock) -> None:
    wheel = LockedWheel("a", "1", "a-1-py3-none-any.whl", 1, "1" * 64)
    answer = Answer({"packages": [{"wheels": [{"hashes": {"sha256": "1" * 64}}]}]}, {"b": ""})
    assert list(remote.judge(answer, [wheel])) == []


def test_a_base_tag_that_moved_and_an_image_that_is_gone(registry: Registry) -> None:
    kind = "application/vnd.oci.image.manifest.v1+json"
    digests = []
    for data in (b'{"layers":[]}', b'{"layers":[1]}'):
        digests.append(sha256(data))
        registry.manifests[digests[-1]] = (data, kind)
    registry.tags["day0"] = digests[0]
    locked = load_lock(SOUND).base("day0")
    base = replace(locked, image=f"{registry.host}/vendor/image:day0", digest=digests[0])
    assert list(judge_image(base)) == []
    registry.tags["day0"] = digests[1]
    (moved,) = judge_image(base)
    assert (moved.rule, moved.severity, moved.subject) == ("base-tag-moved", "warning", "day0")
    assert moved.message.endswith(f":day0 is {digests[1]} now; locked is {digests[0]}")
    assert list(judge_image(replace(base, image=base.image.removesuffix(":day0")))) == []
    del registry.manifests[digests[0]]
    registry.tags.clear()
    gone, moved = judge_image(base)
    assert (gone.rule, gone.severity) == ("artifact-gone", "error")
    assert gone.message.endswith(f"no longer has {digests[0]}")
    assert moved.message.endswith(f":day0 is gone now; locked is {digests[0]}")
