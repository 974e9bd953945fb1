"""Several copies of a shared library, and the configuration of installers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.findings import Finding
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.inventory.facts import read_binaries
from pipeline.inventory.loader import Loader
from tests.audit.images import Content, distribution, expect, image
from tests.inventory.test_loader import NCCL, OTHER, RPATH, SYSTEM, TORCH, elf, opened


def judged(
    directory: Path, files: dict[str, Content], env: dict[str, str] | None = None
) -> list[Finding]:
    view = opened(directory, files, env)
    report = audit(view, expect(), loader=Loader(view, read_binaries(view, None)))
    return [one for one in report.findings if one.rule == "library-copies"]


TORCH_FILE: dict[str, Content] = {TORCH: elf("libtorch.so", ("libnccl.so.2",), RPATH)}


def test_two_copies_of_which_users_take_one_each_is_a_warning(tmp_path: Path) -> None:
    files = TORCH_FILE | {NCCL: elf("libnccl.so.2", salt="1"), SYSTEM: elf("libnccl.so.2")}
    (finding,) = judged(tmp_path, files)
    assert finding.severity == "warning" and finding.subject == "libnccl.so.2"
    assert f"/{NCCL} is taken by libtorch.so (by RPATH)" in finding.message
    assert f'dlopen("libnccl.so.2") takes /{SYSTEM} (by the system)' in finding.message


def test_a_path_in_the_environment_makes_everybody_take_one(tmp_path: Path) -> None:
    torch: dict[str, Content] = {TORCH: elf("libtorch.so", ("libnccl.so.2",), runpath=RPATH)}
    copies = {NCCL: elf("libnccl.so.2", salt="1"), OTHER: elf("libnccl.so.2")}
    (finding,) = judged(tmp_path, torch | copies, {"LD_LIBRARY_PATH": "/opt/nccl"})
    assert finding.severity == "note"
    assert f"/{OTHER} is taken by libtorch.so (by LD_LIBRARY_PATH)" in finding.message


def test_a_copy_that_nobody_finds_is_a_note(tmp_path: Path) -> None:
    copies = {NCCL: elf("libnccl.so.2", salt="1"), OTHER: elf("libnccl.so.2")}
    (finding,) = judged(tmp_path, TORCH_FILE | copies)
    assert finding.severity == "note"
    assert 'dlopen("libnccl.so.2") finds none that is not loaded already' in finding.message


def test_equal_copies_and_single_ones_are_none(tmp_path: Path) -> None:
    same = elf("libnccl.so.2")
    assert judged(tmp_path, TORCH_FILE | {NCCL: same, SYSTEM: same}) == []


def test_its_distribution_is_the_subject_so_that_it_can_be_known(tmp_path: Path) -> None:
    owner = distribution("nvidia-nccl-cu13", "2.30.7")
    record = next(path for path in owner if path.endswith("RECORD"))
    owner[record] += b"nvidia/nccl/lib/libnccl.so.2,,\n"  # type: ignore[operator]
    copies = {NCCL: elf("libnccl.so.2", salt="1"), SYSTEM: elf("libnccl.so.2")}
    (finding,) = judged(tmp_path, TORCH_FILE | copies | owner)
    assert (finding.subject, finding.path) == ("nvidia-nccl-cu13", NCCL)


def test_what_is_said_of_copies_in_full(tmp_path: Path) -> None:
    # Five that want it by their RPATH, of which three are named; the rest take the system's.
    names = [f"usr/local/lib/python3.12/dist-packages/torch/lib/lib{n}.so" for n in "edcba"]
    users = {name: elf(name.rpartition("/")[2], ("libnccl.so.2",), RPATH) for name in names}
    copies = {NCCL: elf("libnccl.so.2", salt="1"), SYSTEM: elf("libnccl.so.2")}
    (finding,) = judged(tmp_path, users | copies | {"usr/bin/tool": elf("", ("libnccl.so.2",))})
    assert (finding.subject, finding.path, finding.severity) == ("libnccl.so.2", SYSTEM, "warning")
    assert finding.message == (
        f"libnccl.so.2 is there in 2 builds; /{SYSTEM} is taken by tool (by the system); "
        f"/{NCCL} is taken by liba.so, libb.so, libc.so and 2 more (by RPATH); "
        f'dlopen("libnccl.so.2") takes /{SYSTEM} (by the system)'
    )
    assert finding.fix == "keep one of them, or name it as known with a reason"
    three = {name: users[name] for name in names[:3]}
    (finding,) = judged(tmp_path, three | {NCCL: copies[NCCL], OTHER: copies[SYSTEM]})
    assert "taken by libc.so, libd.so, libe.so (by RPATH)" in finding.message
    assert (finding.severity, finding.fix) == ("note", "")


def configured(directory: Path, files: dict[str, Content], *env: str) -> list[Finding]:
    view = image(directory, {"x": "1"} | files)
    view = replace(view, config={**view.config, "config": {"Env": list(env)}})
    report: AuditReport = audit(view, expect())
    return [one for one in report.findings if one.rule == "installer-configured"]


@pytest.mark.parametrize(
    ("path", "text", "severity", "keys"),
    [
        ("etc/pip.conf", "[global]\nindex-url = https://u:secret@h\n", "warning", "index-url"),
        ("root/.config/pip/pip.conf", "[install]\nfind_links=/w\n", "warning", "find-links"),
        ("root/.pip/pip.conf", "[global]\ntimeout = 60\n", "note", "timeout"),
        ("home/me/.config/uv/uv.toml", "[[index]]\nurl = 'secret'\n", "warning", "index"),
        ("etc/uv/uv.toml", "offline=true\n[pip]\nproxy='secret'\n", "warning", "offline, proxy"),
        ("etc/uv/uv.toml", "not toml secret", "warning", "what cannot be read"),
        ("etc/pip.conf", "no section = secret", "warning", "what cannot be read"),
    ],
)  # fmt: skip
def test_configuration_that_an_image_carries_is_said_without_its_values(
    tmp_path: Path, path: str, text: str, severity: str, keys: str
) -> None:
    (finding,) = configured(tmp_path, {path: text})
    assert (finding.severity, finding.path) == (severity, path)
    assert f"sets {keys}:" in finding.message and "secret" not in finding.message


def test_variables_count_and_other_files_do_not(tmp_path: Path) -> None:
    env = ("PIP_INDEX_URL=https://secret.invalid", "UV_SYSTEM_PYTHON=1", "PIP_EMPTY=", "PIPX=1")
    (finding,) = configured(tmp_path, {"srv/pip.conf": "[global]\n", "etc/pip.conf.d/x": ""}, *env)
    assert finding.severity == "warning" and finding.subject == "environment"
    assert "sets index-url, system-python:" in finding.message and "secret" not in finding.message
    assert configured(tmp_path / "..", {}) == []
