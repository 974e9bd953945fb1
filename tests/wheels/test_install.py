"""Installing a wheel into a layer."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Refusal
from pipeline.oci.files import read_files
from pipeline.oci.index import LayerIndex
from pipeline.oci.layer import LayerWriter
from pipeline.wheels.install import Installed, install_wheel
from pipeline.wheels.layer import WheelFile, plan_wheel
from pipeline.wheels.member import WHOLE
from pipeline.wheels.target import Target
from tests.wheels.makewheel import AARCH64, CUDA, X86_64, Item, KnownEntry, elf, make_wheel, row

SITE = "usr/local/lib/python3.11/dist-packages"
AA = "cp311-cp311-manylinux2014_aarch64"


class Outcome:
    """A layer with one wheel in it."""

    def __init__(self, blob: Path, index: LayerIndex, installed: Installed):
        self.index, self.installed, self._blob = index, installed, blob
        self.entries = {entry.path: entry for entry in index.entries}
        self.files = sorted(entry.path for entry in index.entries if entry.has_content)

    def read(self, path: str) -> bytes:
        return read_files(self._blob, self.index, [path])[path]

    def record(self) -> list[list[str]]:
        return list(csv.reader(io.StringIO(self.read(self.installed.record).decode())))


def install(wheel: Path, target: Target | None = None, **options: Any) -> Outcome:
    blob = wheel.parent / "blob"
    blob.unlink(missing_ok=True)
    with LayerWriter(blob, epoch=0, level=1, threads=1) as writer:
        installed = install_wheel(wheel, wheel.name, writer, target or Target(), **options)
        return Outcome(blob, writer.close(), installed)


def refused(wheel: Path, target: Target | None = None, **options: Any) -> str:
    with pytest.raises(Refusal) as caught:
        install(wheel, target, **options)
    assert not (wheel.parent / "blob").exists(), "a refused layer leaves nothing"
    assert wheel.name in caught.value.message
    return "\n".join([caught.value.message, *caught.value.details])


def test_files_go_where_the_images_scheme_says(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        files={
            "demo/__init__.py": "",
            "demo-1.0.data/purelib/pure.py": "",
            "demo-1.0.data/platlib/plat.py": "",
            "demo-1.0.data/scripts/tool": "#!python\nprint()\n",
            "demo-1.0.data/headers/demo.h": "",
            "demo-1.0.data/data/share/man/man1/demo.1": "",
        },
        info={"entry_points.txt": "[console_scripts]\nrun = demo.cli:main.inner\n"},
    )
    outcome = install(wheel)
    assert outcome.files == sorted(
        [
            f"{SITE}/demo-1.0.dist-info/{name}"
            for name in ("INSTALLER", "METADATA", "RECORD", "WHEEL", "entry_points.txt")
        ]
        + [f"{SITE}/demo/__init__.py", f"{SITE}/pure.py", f"{SITE}/plat.py"]
        + ["usr/local/bin/tool", "usr/local/bin/run", "usr/local/include/python3.11/demo/demo.h"]
        + ["usr/local/share/man/man1/demo.1"]
    )
    assert outcome.read(f"{SITE}/demo-1.0.dist-info/INSTALLER") == b"sm121-chain\n"


def test_scripts_get_the_images_interpreter(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        files={
            "demo-1.0.data/scripts/a": "#!pythonw -E\r\nbody\n",
            "demo-1.0.data/scripts/b": "#!/bin/sh\nbody\n",
            "demo-1.0.data/scripts/c": Item(elf(AARCH64), stat.S_IFREG | 0o600),
        },
        info={"entry_points.txt": "[console_scripts]\nrun = demo.cli:main.inner [extra]\n"},
        tag=AA,
    )
    outcome = install(wheel)
    assert outcome.read("usr/local/bin/a") == b"#!/usr/bin/python3\nbody\n"
    assert outcome.read("usr/local/bin/b") == b"#!/bin/sh\nbody\n"
    assert outcome.read("usr/local/bin/c") == elf(AARCH64)
    launcher = outcome.read("usr/local/bin/run").decode()
    assert launcher.startswith("#!/usr/bin/python3\n")
    assert "from demo.cli import main\n" in launcher and "main.inner()" in launcher
    assert {outcome.entries[f"usr/local/bin/{name}"].mode for name in ("a", "b", "c", "run")} == {
        0o755
    }


def test_modes_are_two(tmp_path: Path) -> None:
    modes = {"a": 0o744, "b": 0o600, "c": 0o777, "d": 0o666, "e": 0o4755}
    wheel = make_wheel(
        tmp_path, files={f"m/{k}": Item(b"", stat.S_IFREG | m) for k, m in modes.items()}
    )
    outcome = install(wheel)
    found = [outcome.entries[f"{SITE}/m/{name}"].mode for name in modes]
    assert found == [0o755, 0o644, 0o755, 0o644, 0o755]
    assert outcome.entries[f"{SITE}/m"].mode == 0o755


def test_record_is_sorted_and_true(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        files={
            "z.py": "z",
            "a,b.txt": "comma",
            "ä.py": "u",
            "A.py": "",
            "big.bin": bytes(3 * WHOLE),
            "demo-1.0.data/scripts/tool": "#!python\n",
            "demo-1.0.data/data/x.txt": "x",
        },
        info={"entry_points.txt": "[gui_scripts]\nrun = demo:main\n"},
    )
    outcome = install(wheel)
    rows = outcome.record()
    paths = [path for path, _, _ in rows]
    assert paths == sorted(paths)
    assert "../../../bin/tool" in paths and "../../../bin/run" in paths
    assert "../../../x.txt" in paths and "a,b.txt" in paths and "ä.py" in paths
    assert ["demo-1.0.dist-info/RECORD", "", ""] in rows
    assert len(rows) == outcome.installed.files == len(outcome.files)
    for path, digest, size in rows:
        if path == "demo-1.0.dist-info/RECORD":
            continue
        where = f"usr/local/{path.removeprefix('../../../')}" if ".." in path else f"{SITE}/{path}"
        data = outcome.read(where)
        raw = hashlib.sha256(data).digest()
        assert digest == "sha256=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
        assert size == str(len(data))


def test_bytecode_is_left_out_and_said(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"m/a.py": "", "m/__pycache__/a.cpython-311.pyc": "x"})
    outcome = install(wheel)
    assert not any(path.endswith(".pyc") for path in outcome.files)
    assert not any("__pycache__" in path for path, _, _ in outcome.record())
    assert any("a.cpython-311.pyc is left out" in note for note in outcome.installed.notes)


def test_a_known_mismatch_gives_a_true_record(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a": "12"}, record=lambda r: [row("a", b"old"), *r[1:]])
    known = KnownEntry("record-mismatch", "demo", "a", sha256=hashlib.sha256(b"12").hexdigest())
    assert "a: " in refused(wheel)
    outcome = install(wheel, known=[known])
    assert list(row("a", b"12")) in outcome.record()
    assert any(known.why in note for note in outcome.installed.notes)


def test_content_that_differs_leaves_no_layer(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a": "12"}, record=lambda r: [row("a", b"21"), *r[1:]])
    assert "a: differs from RECORD" in refused(wheel)


def test_overrides_replace_content_and_show_in_record(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"m/a.py": "old", "m/b.py": "b"})
    outcome = install(wheel, overrides={f"{SITE}/m/a.py": b"patched"})
    assert outcome.read(f"{SITE}/m/a.py") == b"patched"
    assert list(row("m/a.py", b"patched")) in outcome.record()


def test_what_is_left_out_is_in_neither_layer_nor_record(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"m/a.py": "old", "m/b.py": "b"})
    outcome = install(wheel, leave_out={f"{SITE}/m/a.py": "other owns it"})
    assert f"{SITE}/m/a.py" not in outcome.files
    assert "m/a.py" not in [path for path, _, _ in outcome.record()]
    assert f"/{SITE}/m/a.py is left out: other owns it" in outcome.installed.notes


@pytest.mark.parametrize("option", [{"overrides": {"x/y": b""}}, {"leave_out": {"x/y": "why"}}])
def test_a_change_of_a_file_that_is_not_there(tmp_path: Path, option: dict[str, Any]) -> None:
    assert "x/y: is no file of it" in refused(make_wheel(tmp_path), **option)


def test_two_files_for_one_place(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.py": "1", "demo-1.0.data/purelib/a.py": "2"})
    assert "file-conflict" in refused(wheel)
    with pytest.raises(Refusal, match="two of its files"):
        plan_wheel(WheelFile(wheel, wheel.name), Target())


def test_wheel_version_and_unknown_scheme(tmp_path: Path) -> None:
    new = make_wheel(tmp_path, info={"WHEEL": "Wheel-Version: 2.0\nRoot-Is-Purelib: true\n"})
    assert "Wheel-Version" in refused(new)
    odd = make_wheel(tmp_path, files={"demo-1.0.data/etc/x": ""})
    assert "data" in refused(odd)


def test_tags_of_the_wheel_file_may_differ_from_the_file_name(tmp_path: Path) -> None:
    info = {"WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp39-cp39-linux_x86_64\n"}
    assert install(make_wheel(tmp_path, info=info, tag=AA)).files


def test_the_plan_is_what_an_installation_writes(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        files={
            "z.py": "z",
            "demo-1.0.data/scripts/tool": "#!python\nx\n",
            "demo-1.0.data/data/x.txt": "x",
            "m/__pycache__/z.cpython-311.pyc": "",
        },
        info={"entry_points.txt": "[console_scripts]\nrun = demo:main\n"},
        record=lambda rows: [row("z.py", b"z", "sha512"), *rows[1:]],
    )
    plan = plan_wheel(WheelFile(wheel, wheel.name), Target())
    outcome = install(wheel)
    assert sorted(plan.files) == outcome.files
    for path, planned in plan.files.items():
        if not path.endswith("/RECORD"):
            entry = outcome.entries[path]
            assert (planned.sha256, planned.size) == (entry.sha256, entry.size), path


# --- case 31 -------------------------------------------------------------------------------------

TARGET_31 = Target(python="3.12.3", glibc=(2, 39))
AA_31 = "cp312-cp312-manylinux2014_aarch64"


@pytest.mark.parametrize(
    ("name", "files", "tag", "reason"),
    [
        ("a-fits", {"a/_c.so": elf(AARCH64)}, AA_31, ""),
        ("b-x86", {"b/_c.so": elf(X86_64)}, AA_31, "b/_c.so: wrong-arch: 62"),
        ("c-any", {"c/_c.so": elf(X86_64), "c.py": b""}, "py3-none-any", "c/_c.so: wrong-arch: 62"),
        (
            "d-tag",
            {"d/_c.so": elf(X86_64)},
            "cp312-cp312-manylinux_2_28_x86_64",
            "tag-does-not-fit",
        ),
        ("e-cubin", {"e/_c.so": elf(AARCH64), "e/k.cubin": elf(CUDA)}, AA_31, ""),
        ("f-python", {"f/_c.so": elf(AARCH64)}, AA, "tag-does-not-fit"),
        ("g-abi3", {"g/_c.abi3.so": elf(AARCH64)}, "cp310-abi3-manylinux_2_28_aarch64", ""),
        (
            "h-glibc",
            {"h/c.so": elf(AARCH64)},
            "cp312-cp312-manylinux_2_41_aarch64",
            "tag-does-not-fit",
        ),
        ("i-any-arm", {"i/_c.so": elf(AARCH64)}, "py3-none-any", ""),
        ("j-plain", {"j/bin/tool": elf(X86_64)}, AA_31, "j/bin/tool: wrong-arch: 62"),
        ("k-32-bit", {"k.so": elf(AARCH64, bits=1)}, AA_31, "k.so: wrong-arch: 183"),
        ("l-big-endian", {"l.so": elf(AARCH64, order=2)}, AA_31, "l.so: wrong-arch: 183"),
        ("m-arm", {"m.so": elf(40, bits=1)}, AA_31, "m.so: wrong-arch: 40"),
        ("n-short", {"n.so": b"\x7fELF"}, AA_31, ""),
        ("o-big", {"o.so": elf(X86_64) + bytes(2 * WHOLE)}, AA_31, "o.so: wrong-arch: 62"),
        ("p-amdgpu", {"p.hsaco": elf(224)}, AA_31, ""),
        ("q-windows", {"q.exe": b"MZ" + bytes(100)}, AA_31, ""),
    ],
)
def test_case_31_wrong_architecture(
    tmp_path: Path, name: str, files: dict[str, bytes], tag: str, reason: str
) -> None:
    wheel = make_wheel(tmp_path, name=name, files=dict(files), tag=tag)
    if not reason:
        notes = install(wheel, TARGET_31).installed.notes
        warned = any("host binary in a wheel tagged for any platform" in note for note in notes)
        assert warned == (name == "i-any-arm")
        return
    text = refused(wheel, TARGET_31)
    for part in reason.split(": "):
        assert part in text


def test_case_31_the_machine_that_builds_plays_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[str]:
        raise AssertionError("asked for this machine's tags")

    for name in ("platform_tags", "sys_tags", "interpreter_version"):
        monkeypatch.setattr(f"packaging.tags.{name}", fail)
    wheel = make_wheel(tmp_path, files={"a.so": elf(AARCH64)}, tag=AA)
    assert install(wheel).files


def test_a_foreign_binary_that_is_known(tmp_path: Path) -> None:
    data = elf(X86_64)
    wheel = make_wheel(tmp_path, files={"a/tool": data}, tag=AA)
    known = KnownEntry("wrong-arch", "demo", "a/tool", sha256=hashlib.sha256(data).hexdigest())
    assert any(known.why in note for note in install(wheel, known=[known]).installed.notes)
    other = KnownEntry("wrong-arch", "demo", "a/tool", sha256="0" * 64)
    assert "wrong-arch" in refused(wheel, known=[other])
