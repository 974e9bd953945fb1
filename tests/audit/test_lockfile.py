"""Lock files of the standard format, whoever wrote them."""

from pathlib import Path

import pytest

from pipeline.audit.lockfile import read_lockfile
from pipeline.errors import ChainError, FaultyFile, UsageError
from tests.audit.images import ENVIRONMENT

HEAD = 'lock-version = "1.0"\ncreated-by = "test"\n'


def lock(tmp_path: Path, *packages: str, head: str = HEAD) -> Path:
    path = tmp_path / "pylock.toml"
    path.write_text(head + "".join(f"[[packages]]\n{one}\n" for one in packages), encoding="utf-8")
    return path


def package(name: str, version: str, marker: str = "") -> str:
    file = f"{name}-{version}-py3-none-any.whl"
    return (
        f'name = "{name}"\nversion = "{version}"\n'
        + (f'marker = "{marker}"\n' if marker else "")
        + f'wheels = [{{ path = "{file}", hashes = {{ sha256 = "ab" }} }}]'
    )


def test_markers_choose_for_the_image(tmp_path: Path) -> None:
    path = lock(
        tmp_path,
        package("a", "1", "platform_machine == 'x86_64'"),
        package("a", "2", "platform_machine == 'aarch64'"),
        package("b", "1", "'x' in extras"),
        'name = "c"\narchive = { path = "c.zip", hashes = { sha256 = "cd" } }',
    )
    expectation = read_lockfile(path, ENVIRONMENT)
    assert [(pin.name, pin.version, pin.sha256) for pin in expectation.distributions or ()] == [
        ("a", "2", ("ab",)),
        ("c", None, ("cd",)),
    ]
    assert expectation.label == str(path) and expectation.ledger is None


@pytest.mark.parametrize(
    ("text", "error", "word"),
    [
        ("a = [", FaultyFile, "not TOML"),
        ("", FaultyFile, "PEP 751"),
        ('lock-version = "2.0"\ncreated-by = "x"\npackages = []\n', FaultyFile, "PEP 751"),
    ],
)
def test_what_is_no_lock_file_is_said(
    tmp_path: Path, text: str, error: type[ChainError], word: str
) -> None:
    with pytest.raises(error) as caught:
        read_lockfile(lock(tmp_path, head=text), ENVIRONMENT)
    assert word in caught.value.details[0]


def test_a_lock_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_lockfile(tmp_path / "pylock.toml", ENVIRONMENT)


def test_two_versions_of_one_project_are_refused(tmp_path: Path) -> None:
    path = lock(tmp_path, package("a", "1"), package("a", "2"))
    with pytest.raises(UsageError, match="selects a twice"):
        read_lockfile(path, ENVIRONMENT)


def test_every_marker_that_cannot_be_judged_is_a_fault(tmp_path: Path) -> None:
    odd = ("os_name ~= 'posix'", "extra == 'x'", "extras in 'x'", "platform_version === 'x'")
    path = lock(tmp_path, package("a", "1"), *(package("b", "1", marker) for marker in odd))
    with pytest.raises(FaultyFile) as caught:
        read_lockfile(path, ENVIRONMENT)
    assert [fault.where for fault in caught.value.faults] == [
        f"packages[{number}].marker" for number in (1, 2, 3, 4)
    ]


def test_a_marker_that_cannot_be_judged_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(FaultyFile) as caught:
        read_lockfile(lock(tmp_path, package("b", "1", "os_name ~= 'posix'")), ENVIRONMENT)
    assert caught.value.faults[0].problem.startswith('cannot be judged: os_name ~= "posix": ')
