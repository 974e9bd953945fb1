"""Making a lock anew: what is asked, what is kept, what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pipeline.errors import FaultyFile, Refusal, UsageError
from pipeline.lock.model import LockedDeb, LockedWheel
from pipeline.lock.update import group_parents, update
from pipeline.pins import load_lock
from pipeline.wheels.target import Target

SOUND = Path(__file__).parent.parent / "fixtures" / "locks" / "sound.toml"
PATHS = [(), ("v3",), ("v3", "v4")]


def wheel(name: str, version: str, tag: str, size: int, digit: str) -> LockedWheel:
    filename = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return LockedWheel(name, version, filename, size, digit * 64)


class Index:
    """Stands for uv and its index; holds what the fixture locks."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []

    def __call__(
        self,
        target: Target,
        requirements: Sequence[str],
        overrides: Sequence[str],
        *,
        exclude_newer: str,
        newer: Mapping[str, str] | None = None,
        dependencies: bool = True,
        subject: str,
    ) -> dict[str, LockedWheel]:
        self.asked.append(
            {"requirements": [*requirements], "overrides": [*overrides], "newer": dict(newer or {})}
        )
        python = "{}{}".format(*target.python_version)
        digit, size = ("5", 102) if python == "311" else ("6", 103)
        tag = f"cp{python}-cp{python}-manylinux2014_aarch64"
        blas = wheel("nvidia-blas", "13.0", tag, size, digit)
        if not dependencies:
            return {"nvidia-blas": blas}
        held = "comms==2.0" in overrides
        version, digit, size = ("2.0", "4", 101) if held else ("1.0", "3", 100)
        comms = wheel("comms", version, "py3-none-manylinux_2_18_aarch64", size, digit)
        server = wheel("server", "1.0", "cp38-abi3-manylinux_2_28_aarch64", 104, "8")
        return {one.name: one for one in (blas, comms, server)}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The sound lock, with what an image base holds named in its ledger."""
    more = """[[tool.sm121-chain.overrides]]
base = "day0"
group = ""
requirement = "nvidia-blas==13.0"
against = []
why = "as the vendor has it"
review = "2027-03-01"

[[tool.sm121-chain.removals]]"""
    text = SOUND.read_text(encoding="utf-8").replace("[[tool.sm121-chain.removals]]", more, 1)
    text = text.replace(
        '[[packages]]\nname = "nvidia-blas"',
        '# held in day0 from the start\n[[packages]]\nname = "nvidia-blas"',
    )
    path = tmp_path / "pins.toml"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def quiet(_: str) -> None:
    pass


def no_debs(*_: object, **__: object) -> list[LockedDeb]:
    raise AssertionError("the .deb list is not to be resolved")


def renew(path: Path, **options: object) -> str:
    settings: dict[str, object] = {"say": quiet, "resolver": Index(), "deb_resolver": no_debs}
    return update(path, PATHS, **{**settings, **options})  # type: ignore[arg-type]


def test_unchanged_inputs_give_unchanged_bytes(lock: Path) -> None:
    assert renew(lock) == lock.read_text(encoding="utf-8")


def test_what_people_wrote_stays_and_the_entries_are_written_anew(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    lock.write_text(text[: text.index("[[packages]]")], encoding="utf-8", newline="\n")
    assert renew(lock).replace("# held in wheels v4", "").count("[[packages]]") == 5
    assert renew(lock).startswith(text[: text.index("[[packages]]")].rstrip("\n"))


def test_the_new_lock_reads_well(lock: Path) -> None:
    lock.write_text(renew(lock), encoding="utf-8", newline="\n")
    assert [w.version for w in load_lock(lock).select("wheels", ["v3", "v4"])] == [
        "2.0",
        "13.0",
        "1.0",
    ]


def test_the_same_question_is_asked_once(lock: Path) -> None:
    index = Index()
    renew(lock, resolver=index)
    # wheels: the base and v4; day0: the base and v3. v3 overrides nothing on wheels.
    asked = sorted(str(question) for question in index.asked)
    assert len(asked) == 4
    assert sum("comms==2.0" in question for question in asked) == 1


def test_upgrade_lets_one_package_be_newer_and_says_so(lock: Path) -> None:
    index = Index()
    text = lock.read_text(encoding="utf-8").replace('["server==1.0"]', '["server"]')
    lock.write_text(text, encoding="utf-8", newline="\n")
    text = renew(lock, resolver=index, upgrade=["server"], moment="2026-11-05T00:00:00Z")
    assert 'newer = {server = "2026-11-05T00:00:00Z"}' in text
    assert all(question["newer"] == {"server": "2026-11-05T00:00:00Z"} for question in index.asked)


def test_the_first_upgrade_leaves_the_comments_where_they_are(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace('["server==1.0"]', '["server"]')
    old = text.replace("newer = {}\n", "").replace(
        "[tool.sm121-chain.bases.day0]", "# the vendor\n[tool.sm121-chain.bases.day0]"
    )
    lock.write_text(old, encoding="utf-8", newline="\n")
    new = renew(lock, upgrade=["server"], moment="2026-11-05T00:00:00Z")
    line = 'newer = {server = "2026-11-05T00:00:00Z"}\n'
    assert new == old.replace('requirements = ["server"]', f'{line}requirements = ["server"]')


def test_upgrade_refuses_what_the_lock_itself_holds(lock: Path) -> None:
    with pytest.raises(Refusal) as caught:
        renew(lock, upgrade=["comms", "server"], moment="2026-11-05T00:00:00Z")
    assert caught.value.details == (
        "comms==2.0 (wheels v4): 1.0 hangs",
        "server==1.0 is a requirement of the lock",
    )


def test_upgrade_refuses_what_the_lock_does_not_hold(lock: Path) -> None:
    with pytest.raises(UsageError, match="the lock holds no package conms"):
        renew(lock, upgrade=["conms"], moment="2026-11-05T00:00:00Z")


def test_debs_are_resolved_when_asked_for(lock: Path) -> None:
    new = LockedDeb("python3", "3.11.2-2", "pool/main/p/python3_3.11.2-2_arm64.deb", 7, "9" * 64)
    text = renew(lock, upgrade=["debs"], deb_resolver=lambda *_, **__: [new])
    lock.write_text(text, encoding="utf-8", newline="\n")
    assert load_lock(lock).base("wheels").debs == (new,)
    assert 'packages = ["python3"] # the interpreter' in text


def test_debs_are_resolved_when_one_that_is_wanted_is_not_there(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    wanted = text.replace('packages = ["python3"]', 'packages = ["g++", "python3"]')
    lock.write_text(wanted, encoding="utf-8", newline="\n")
    asked = []

    def resolver(suite: str, platform: str, packages: Sequence[str], **_: str) -> list[LockedDeb]:
        asked.append((suite, platform, tuple(packages)))
        return []

    renew(lock, deb_resolver=resolver)
    assert asked == [("bookworm", "linux/arm64", ("g++", "python3"))]


def test_faulty_inputs_are_refused_before_anything_is_asked(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace("level = 3", "level = 0")
    lock.write_text(text, encoding="utf-8")
    with pytest.raises(FaultyFile) as caught:
        renew(lock, resolver=no_debs)
    assert caught.value.details == ("tool.sm121-chain.zstd.level: 0 is below 1",)


def test_parents_of_groups_follow_from_the_stages() -> None:
    paths = [(), ("a",), ("a", "b"), ("a", "c")]
    assert group_parents(["a", "b", "c"], paths) == {"a": "", "b": "a", "c": "a"}


def test_a_group_that_no_stage_selects_builds_on_the_one_before() -> None:
    assert group_parents(["a", "b"], [("a",)]) == {"a": "", "b": "a"}


def test_stages_that_disagree_with_the_lock_are_refused() -> None:
    with pytest.raises(Refusal, match="which the lock does not declare so"):
        group_parents(["a", "b"], [("b", "a")])
    with pytest.raises(Refusal, match="group c builds on"):
        group_parents(["a", "b", "c"], [("a", "c"), ("b", "c")])
