"""The strict source: what it lets through, and every way in which it says no."""

from __future__ import annotations

import hashlib
import re
import stat
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.wheels.member import WHOLE, Member
from pipeline.wheels.source import StrictWheel
from tests.wheels.makewheel import Item, KnownEntry, Row, make_wheel, row

BIG = bytes(range(256)) * (3 * WHOLE // 256) + b"end"


def contents(
    path: Path, filename: str | None = None, known: Sequence[KnownEntry] = ()
) -> dict[str, bytes]:
    """Read everything as an installation does."""
    found = {}
    with StrictWheel.open(path, filename or path.name, known) as wheel:
        for (name, _, _), stream, _ in wheel.get_contents():
            found[name] = cast("Member", stream).read_verified()
    return found


def refused(path: Path, filename: str | None = None, known: Sequence[KnownEntry] = ()) -> str:
    """Return the message and details of the refusal, which names the wheel."""
    with pytest.raises(Refusal) as caught:
        contents(path, filename, known)
    assert (filename or path.name) in caught.value.message
    return "\n".join([caught.value.message, *caught.value.details])


def test_contents_come_in_zip_order(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"z.py": "z", "a/b.py": "", "big": BIG})
    found = contents(path)
    assert list(found)[:3] == ["z.py", "a/b.py", "big"]
    assert found["big"] == BIG and found["a/b.py"] == b""


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [0, 1, WHOLE - 1, WHOLE, WHOLE + 1, len(BIG)])
def test_every_size_is_read_whole(tmp_path: Path, method: int, size: int) -> None:
    path = make_wheel(tmp_path, files={"x": Item(BIG[:size], method=method)})
    assert contents(path)["x"] == BIG[:size]


def test_the_name_on_disk_plays_no_part(tmp_path: Path) -> None:
    path = make_wheel(tmp_path).rename(tmp_path / "0123abcd")
    with StrictWheel.open(path, "demo-1.0-py3-none-any.whl") as wheel:
        assert (wheel.name, str(wheel.parsed_version)) == ("demo", "1.0")


def test_executable_bits(tmp_path: Path) -> None:
    modes = {"a": 0o744, "b": 0o600, "c": 0o777, "d": 0o666}
    path = make_wheel(tmp_path, files={k: Item(b"", stat.S_IFREG | m) for k, m in modes.items()})
    with StrictWheel.open(path, path.name) as wheel:
        found = {}
        for (name, _, _), stream, executable in wheel.get_contents():
            cast("Member", stream).pass_over()
            found[name] = executable
    assert [found[name] for name in "abcd"] == [True, False, True, False]


def test_content_that_nobody_verified_is_a_fault_of_the_program(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with StrictWheel.open(path, path.name) as wheel, pytest.raises(RuntimeError):
        list(wheel.get_contents())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../evil.py", "climbs"),
        ("a/../../evil.py", "climbs"),
        ("/etc/passwd", "absolute"),
        ("C:/evil.py", "absolute"),
        ("a//b.py", "normal"),
        ("./a.py", "normal"),
        ("a/./b.py", "normal"),
        (".", "normal"),
        ("a\\b.py", "backslash"),
        ("a\nb.py", "control"),
        ("a/.wh.b", "whiteout"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, name: str, problem: str) -> None:
    text = refused(make_wheel(tmp_path, files={name: ""}))
    assert problem in text
    assert (repr(name) if "\n" in name or "\\" in name else name) in text


def test_nul_in_a_name(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path, files={"a@b.py": ""}, damage=lambda data: data.replace(b"a@b.py", b"a\0b.py")
    )
    assert "control character" in refused(path)


def test_all_faults_in_one_refusal(tmp_path: Path) -> None:
    text = refused(make_wheel(tmp_path, files={"../a": "", "/b": "", "c": ""}))
    assert "../a: climbs" in text and "/b: is an absolute" in text and "and 1 more" in text


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.py": "1"}, extra=[("a.py", Item(b"2"))])
    assert "a.py: is in the wheel twice" in refused(path)


def test_a_member_that_is_file_and_directory(tmp_path: Path) -> None:
    assert "a: is a file and a directory" in refused(
        make_wheel(tmp_path, files={"a": "", "a/b": ""})
    )


@pytest.mark.parametrize(
    ("kind", "problem"),
    [(stat.S_IFLNK, "symbolic link"), (stat.S_IFIFO, "neither"), (stat.S_IFCHR, "neither")],
)
def test_a_member_that_is_no_file(tmp_path: Path, kind: int, problem: str) -> None:
    path = make_wheel(tmp_path, files={"link": Item(b"/etc/passwd", kind | 0o777)})
    assert f"link: is {'a ' if 'link' in problem else ''}{problem}" in refused(path)


def test_directory_members_are_fine_and_hold_nothing(tmp_path: Path) -> None:
    folder = Item(b"", stat.S_IFDIR | 0o755, zipfile.ZIP_STORED)
    path = make_wheel(tmp_path, files={"a/": folder, "a/b.py": ""})
    assert "a/b.py" in contents(path)
    full = Item(b"x", stat.S_IFDIR | 0o755, zipfile.ZIP_STORED)
    assert "directory with content" in refused(make_wheel(tmp_path, files={"a/": full}))


def test_encrypted_members(tmp_path: Path) -> None:
    def encrypt(data: bytes) -> bytes:
        changed = bytearray(data)
        at = changed.index(b"PK\x01\x02")
        changed[at + 8] |= 1
        return bytes(changed)

    assert "a.py: is encrypted" in refused(make_wheel(tmp_path, files={"a.py": ""}, damage=encrypt))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(tmp_path: Path, method: int) -> None:
    path = make_wheel(tmp_path, files={"a.py": Item(b"x", method=method)})
    assert f"a.py: is compressed with method {method}" in refused(path)


def test_no_dist_info_two_and_another_ones(tmp_path: Path) -> None:
    def rename(data: bytes) -> bytes:
        return data.replace(b"demo-1.0.dist-info", b"demo-1.0.dust-info")

    assert "has no dist-info" in refused(make_wheel(tmp_path, damage=rename))
    path = make_wheel(tmp_path, files={"other-2.dist-info/METADATA": ""})
    assert "has 2 dist-info directories: demo-1.0.dist-info, other-2.dist-info" in refused(path)
    for wrong in ("other-1.0.dist-info", "demo-1.1.dist-info", "demo.dist-info"):
        assert wrong in refused(make_wheel(tmp_path, dist_info=wrong))


def test_spellings_of_one_name_and_version(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, dist_info="Demo-1.0.0.dist-info")
    assert "Demo-1.0.0.dist-info/WHEEL" in contents(path)


def test_another_data_directory(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"demo-1.1.data/scripts/x": ""})
    assert "demo-1.1.data: is a data directory beside demo-1.0.data" in refused(path)


@pytest.mark.parametrize("filename", ["demo.whl", "demo-1.0.zip", "demo-x-py3-none-any.whl", ""])
def test_file_names_that_are_none(tmp_path: Path, filename: str) -> None:
    path = make_wheel(tmp_path)
    with pytest.raises(Refusal), StrictWheel.open(path, filename):
        pass


def test_no_such_file_is_outside_trouble(tmp_path: Path) -> None:
    with pytest.raises(OutsideTrouble), StrictWheel.open(tmp_path / "x", "demo-1-py3-none-any.whl"):
        pass


def test_a_member_that_record_does_not_know(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, extra=[("sneaked.py", Item(b"x"))])
    assert "sneaked.py: is not in RECORD" in refused(path)


def test_a_row_without_member(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, record=lambda rows: [*rows, row("gone.py", b"")])
    assert "gone.py: is in RECORD, and not in the wheel" in refused(path)


def test_a_row_that_is_there_twice(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a": ""}, record=lambda rows: [rows[0], *rows])
    assert "a: is in RECORD twice" in refused(path)


@pytest.mark.parametrize(
    "bad",
    [
        ("a", "", ""),
        ("a", "md5=1B2M2Y8AsgTpgAmY7PhCfg", "0"),
        ("a", "sha256=short", "0"),
        ("a", "sha256=!!!", "0"),
        ("a", row("a", b"")[1], "-1"),
        ("a", row("a", b"")[1], "many"),
    ],
)
def test_rows_that_say_nothing(tmp_path: Path, bad: Row) -> None:
    path = make_wheel(tmp_path, files={"a": ""}, record=lambda rows: [bad, *rows[1:]])
    assert "a: has hash" in refused(path)


def test_rows_of_other_width(tmp_path: Path) -> None:
    wide = cast("Row", ("a", "b"))
    path = make_wheel(tmp_path, record=lambda rows: [*rows, wide])
    assert "has 2 columns" in refused(path)


def test_record_that_is_no_text(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path, record=lambda rows: rows, damage=lambda d: d.replace(b"RECORD", b"RECXRD")
    )
    assert "RECORD: is not there" in refused(path)


@pytest.mark.parametrize("file", ["WHEEL", "METADATA"])
def test_metadata_that_is_not_there(tmp_path: Path, file: str) -> None:
    other = file.lower().encode()
    path = make_wheel(
        tmp_path, damage=lambda data: data.replace(b"/" + file.encode(), b"/" + other)
    )
    assert "RECORD" in refused(path)
    path = make_wheel(
        tmp_path,
        record=lambda rows: [
            (r[0].replace(f"/{file}", f"/{other.decode()}"), *r[1:]) for r in rows
        ],
        damage=lambda data: data.replace(b"/" + file.encode(), b"/" + other),
    )
    assert f"demo-1.0.dist-info/{file}: is not there" in refused(path)


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_better_hashes_are_checked_too(tmp_path: Path, algorithm: str) -> None:
    def with_data(data: bytes) -> Path:
        return make_wheel(
            tmp_path, files={"a": "1"}, record=lambda rows: [row("a", data, algorithm), *rows[1:]]
        )

    assert contents(with_data(b"1"))["a"] == b"1"
    assert "a: differs from RECORD" in refused(with_data(b"2"))


def test_sizes_in_record_that_lie_and_that_are_left_out(tmp_path: Path) -> None:
    def with_size(size: str) -> Path:
        return make_wheel(
            tmp_path, files={"a": "123"}, record=lambda rows: [(*rows[0][:2], size), *rows[1:]]
        )

    assert "a: has 3 bytes, RECORD says 4" in refused(with_size("4"))
    assert contents(with_size(""))["a"] == b"123"


def test_content_that_differs_from_record(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a": "1"}, record=lambda rows: [row("a", b"2"), *rows[1:]])
    sha256 = hashlib.sha256(b"1").hexdigest()
    assert f"a: differs from RECORD: its sha256 is {sha256}" in refused(path)


def test_a_known_mismatch_is_taken_by_its_hash_alone(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a": "12"}, record=lambda rows: [row("a", b"2"), *rows[1:]])
    right = hashlib.sha256(b"12").hexdigest()
    wrong = hashlib.sha256(b"2").hexdigest()
    assert contents(path, known=[KnownEntry("record-mismatch", "Demo", "a", sha256=right)])["a"]
    assert "known record-mismatch says" in refused(
        path, known=[KnownEntry("record-mismatch", "demo", "a", sha256=wrong)]
    )
    assert "RECORD says" in refused(
        path, known=[KnownEntry("record-mismatch", "other", "a", sha256=right)]
    )
    assert "b: is named by a known record-mismatch" in refused(
        path, known=[KnownEntry("record-mismatch", "demo", p, sha256=right) for p in "ab"]
    )


def _patch_directory(data: bytes, name: bytes, offset: int, value: bytes) -> bytes:
    """Change a field of the central directory entry of a member."""
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(name))
    return data[: at + offset] + value + data[at + offset + len(value) :]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("change", [-1, 1])
def test_sizes_in_the_directory_that_lie(
    tmp_path: Path, big: bool, method: int, change: int
) -> None:
    data = BIG if big else b"0123456789"
    size = len(data) + change
    path = make_wheel(
        tmp_path,
        files={"a-member": Item(data, method=method)},
        record=lambda rows: [(*rows[0][:2], str(size)), *rows[1:]],
        damage=lambda d: _patch_directory(d, b"a-member", 24, struct.pack("<L", size)),
    )
    text = refused(path)
    assert re.search(r"a-member: holds (more than|\d+ bytes)", text)


def test_wrong_crc(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path,
        files={"a-member": "x"},
        damage=lambda d: _patch_directory(d, b"a-member", 16, b"\1\2\3\4"),
    )
    assert "a-member: is damaged: wrong CRC" in refused(path)


def test_damaged_data(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path, files={"big": BIG}, damage=lambda d: d[:5000] + b"\xff" * 64 + d[5064:]
    )
    assert "big: " in refused(path)


def test_another_name_in_the_local_header(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path, files={"a-member": "x"}, damage=lambda d: d.replace(b"a-member", b"b-member", 1)
    )
    assert "a-member: has another name in its local header" in refused(path)


def test_no_damage_whatever_ends_in_a_traceback(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a/b.py": "x = 1\n" * 40, "c": Item(b"y", method=0)})
    whole, data = contents(path), path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        refused(path)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            assert contents(path) == whole  # a date, say
        except Refusal as error:
            assert path.name in error.message


@pytest.mark.parametrize(
    "text",
    [
        "[console_scripts]\nx = \n",
        "[console_scripts]\nx = module\n",
        "[console_scripts]\n../x = m:f\n",
        "[console_scripts]\na/b = m:f\n",
        "no section\n",
        "[console_scripts]\nx = m:f\nx = m:g\n",
    ],
)
def test_entry_points_that_cannot_be(tmp_path: Path, text: str) -> None:
    assert "entry_points.txt: " in refused(make_wheel(tmp_path, info={"entry_points.txt": text}))


def test_what_is_left_out_has_a_reason(tmp_path: Path) -> None:
    path = make_wheel(
        tmp_path,
        files={"m/a.py": "", "m/__pycache__/a.cpython-311.pyc": "", "m/a.pyc": ""},
        info={"INSTALLER": "pip\n", "REQUESTED": "", "direct_url.json": "{}"},
        extra=[("demo-1.0.dist-info/RECORD.jws", Item(b"{}"))],
    )
    with StrictWheel.open(path, path.name) as wheel:
        assert sorted(wheel.left_out) == [
            "demo-1.0.dist-info/INSTALLER",
            "demo-1.0.dist-info/RECORD.jws",
            "demo-1.0.dist-info/REQUESTED",
            "demo-1.0.dist-info/direct_url.json",
            "m/__pycache__/a.cpython-311.pyc",
            "m/a.pyc",
        ]
        assert all(wheel.left_out.values())
    assert sorted(contents(path)) == [
        "demo-1.0.dist-info/METADATA",
        "demo-1.0.dist-info/WHEEL",
        "m/a.py",
    ]


def test_bytecode_without_source(tmp_path: Path) -> None:
    assert "m.pyc: is bytecode without its source" in refused(
        make_wheel(tmp_path, files={"m.pyc": ""})
    )
