"""The strict loader says every fault of a file at once, each with its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import FaultyFile
from pipeline.patching.loading import load_patch, load_patches

GOOD = """
name = "good"
title = "one line"
why = "because"
upstream = ""
distribution = "Flashinfer_Python"
[[variants]]
for = "vllm==0.30.*"
[[variants.upstream]]
file = "a.py"
contains = "fixed"
[[variants.edits]]
id = "v1.a"
file = "a/b.py"
within = "C.f"
find = "x = 1"
replace = "x = 2"
"""


def write(directory: Path, text: str, name: str = "good.toml") -> Path:
    path = directory / name
    path.write_bytes(text.encode("utf-8"))
    return path


def faults(directory: Path, text: str) -> dict[str, str]:
    with pytest.raises(FaultyFile) as caught:
        load_patch(write(directory, text))
    return {fault.where: fault.problem for fault in caught.value.faults}


def test_good_patch(tmp_path: Path) -> None:
    patch = load_patch(write(tmp_path, GOOD))
    assert patch.distribution == "flashinfer-python"
    (variant,) = patch.variants
    assert variant.label == "vllm==0.30.*"
    assert variant.edits[0].count == 1
    assert variant.upstream[0].within is None


def test_edits_may_be_missing_where_upstream_shows_the_change(tmp_path: Path) -> None:
    (variant,) = load_patch(write(tmp_path, GOOD[: GOOD.index("[[variants.edits]]")])).variants
    assert variant.edits == ()
    neither = GOOD[: GOOD.index("[[variants.upstream]]")]
    assert faults(tmp_path, neither) == {"variants[0].edits": "is missing"}


def test_unverified_says_why(tmp_path: Path) -> None:
    label = 'for = "vllm==0.30.*"'
    text = GOOD.replace(label, f'{label}\nunverified = "no image here"')
    assert load_patch(write(tmp_path, text)).variants[0].unverified == "no image here"
    assert load_patch(write(tmp_path, GOOD)).variants[0].unverified == ""
    for value in ('""', "true"):
        text = GOOD.replace(label, f"{label}\nunverified = {value}")
        assert list(faults(tmp_path, text)) == ["variants[0].unverified"]


OLDER = """
[[variants]]
for = "vllm==0.1.dev20051"
"""
SAME = OLDER + 'edits-of = "vllm==0.30.*"\n'


def test_edits_of_another_variant(tmp_path: Path) -> None:
    one, other = load_patch(write(tmp_path, GOOD + SAME)).variants
    assert other.edits == one.edits
    assert other.upstream == ()
    own = """[[variants.edits]]
id = "v1.a"
file = "a/b.py"
find = "y = 1"
replace = "y = 2"
[[variants.edits]]
id = "v1.b"
file = "a/b.py"
find = "z = 1"
replace = "z = 2"
"""
    _, other = load_patch(write(tmp_path, GOOD + SAME + own)).variants
    assert [(edit.id, edit.find) for edit in other.edits] == [("v1.a", "y = 1"), ("v1.b", "z = 1")]


@pytest.mark.parametrize("label", ["vllm==0.31.*", "vllm==0.1.dev20051", "vllm==2.*"])
def test_edits_of_no_such_variant(tmp_path: Path, label: str) -> None:
    chained = SAME.replace("0.1.dev20051", "2.*") + OLDER + f'edits-of = "{label}"\n'
    assert "variants[2].edits-of" in faults(tmp_path, GOOD + chained.replace("0.30.*", "9.*"))


def test_not_needed_stands_alone(tmp_path: Path) -> None:
    text = GOOD + OLDER + 'not-needed = "it never had the fault"\n'
    assert load_patch(write(tmp_path, text)).variants[1].not_needed == "it never had the fault"
    both = text + 'edits-of = "vllm==0.30.*"\n'
    assert list(faults(tmp_path, both)) == ["variants[1].not-needed"]


def test_line_ends_of_the_patch_file_do_not_matter(tmp_path: Path) -> None:
    text = GOOD.replace('find = "x = 1"', "find = '''\nx = 1\ny\n'''")
    one = load_patch(write(tmp_path, text))
    assert load_patch(write(tmp_path, text.replace("\n", "\r\n"))) == one


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('title = "one line"', "", "title"),
        ('title = "one line"', "title = 3", "title"),
        ('title = "one line"', 'title = "two\\nlines"', "title"),
        ('name = "good"', 'name = "other"', "name"),
        ('upstream = ""', 'upstream = "#123"', "upstream"),
        ('"Flashinfer_Python"', '"-"', "distribution"),
        ('why = "because"', 'why = "because"\nwho = "me"', "who"),
        ('for = "vllm==0.30.*"', 'for = "vllm"', "variants[0].for"),
        ('for = "vllm==0.30.*"', 'for = "vllm=0.30"', "variants[0].for"),
        ('for = "vllm==0.30.*"', "for = \"vllm==1; python_version > '3'\"", "variants[0].for"),
        ('for = "vllm==0.30.*"', 'for = "vllm[x]==1"', "variants[0].for"),
        ('for = "vllm==0.30.*"', 'for = "vllm==0.30.*"\nfro = "x"', "variants[0].fro"),
        ('contains = "fixed"', 'contains = "fixed"\nlike = "x"', "variants[0].upstream[0].like"),
        ('contains = "fixed"', "", "variants[0].upstream[0].contains"),
        ('contains = "fixed"', 'contains = ""', "variants[0].upstream[0].contains"),
        ('id = "v1.a"', "", "variants[0].edits[0].id"),
        ('file = "a/b.py"', 'file = "/a/b.py"', "variants[0].edits[0].file"),
        ('file = "a/b.py"', 'file = "a/../../b.py"', "variants[0].edits[0].file"),
        ('file = "a/b.py"', 'file = "a//b.py"', "variants[0].edits[0].file"),
        ('file = "a/b.py"', 'file = "./b.py"', "variants[0].edits[0].file"),
        ('file = "a/b.py"', "file = 'a\\b.py'", "variants[0].edits[0].file"),
        ('within = "C.f"', 'within = "C..f"', "variants[0].edits[0].within"),
        ('within = "C.f"', 'within = ""', "variants[0].edits[0].within"),
        ('find = "x = 1"', 'find = ""', "variants[0].edits[0].find"),
        ('find = "x = 1"', "find = 1", "variants[0].edits[0].find"),
        ('replace = "x = 2"', 'replace = "x = 1"', "variants[0].edits[0].replace"),
        ('replace = "x = 2"', 'replace = ""', "variants[0].edits[0].replace"),
        ('replace = "x = 2"', 'replace = "x ="', "variants[0].edits[0].replace"),
        ('replace = "x = 2"', "", "variants[0].edits[0].replace"),
        ('replace = "x = 2"', 'replace = "y"\ncount = 0', "variants[0].edits[0].count"),
        ('replace = "x = 2"', 'replace = "y"\ncount = true', "variants[0].edits[0].count"),
        ('replace = "x = 2"', 'replace = "y"\ncount = "1"', "variants[0].edits[0].count"),
        (
            'replace = "x = 2"',
            'replace = "y"\nreplace-file = "p"',
            "variants[0].edits[0].replace-file",
        ),
        ('replace = "x = 2"', 'replace-file = "p"', "variants[0].edits[0].replace-file"),
        ('replace = "x = 2"', 'replace-file = "../p"', "variants[0].edits[0].replace-file"),
        ('replace = "x = 2"', 'replace = "y"\nfuzz = 2', "variants[0].edits[0].fuzz"),
    ],
)
def test_one_fault(tmp_path: Path, old: str, new: str, where: str) -> None:
    assert old in GOOD
    assert list(faults(tmp_path, GOOD.replace(old, new))) == [where]


def test_all_faults_come_together(tmp_path: Path) -> None:
    text = GOOD.replace('why = "because"', "").replace('"x = 1"', '""').replace("==0.30", "=")
    assert set(faults(tmp_path, text)) == {
        "why",
        "variants[0].for",
        "variants[0].edits[0].find",
    }


def test_equal_ids_and_equal_variants(tmp_path: Path) -> None:
    edit = GOOD[GOOD.index("[[variants.edits]]") :]
    assert list(faults(tmp_path, GOOD + edit)) == ["variants[0].edits[1].id"]
    variant = GOOD[GOOD.index("[[variants]]") :]
    assert list(faults(tmp_path, GOOD + variant)) == ["variants[1].for"]


@pytest.mark.parametrize("text", ["variants = 1", "variants = []", "variants = [1]", ""])
def test_variants_of_another_type(tmp_path: Path, text: str) -> None:
    head = GOOD[: GOOD.index("[[variants]]")]
    assert next(iter(faults(tmp_path, head + text))).startswith("variants")


def test_replace_file(tmp_path: Path) -> None:
    (tmp_path / "body.txt").write_bytes("größe\r\n".encode())
    patch = load_patch(
        write(tmp_path, GOOD.replace('replace = "x = 2"', 'replace-file = "body.txt"'))
    )
    assert patch.variants[0].edits[0].replace == "größe\r\n"
    assert patch.payloads == ("body.txt",)


def test_replace_file_may_not_be_a_link_out(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("other", encoding="utf-8")
    inner = tmp_path / "patches"
    inner.mkdir()
    (inner / "p").symlink_to(tmp_path / "outside.txt")
    found = faults(inner, GOOD.replace('replace = "x = 2"', 'replace-file = "p"'))
    assert "leaves" in found["variants[0].edits[0].replace-file"]


@pytest.mark.parametrize("data", [b"\xff", b"name = ", b"\xef\xbb\xbfname=1", b"a=1\na=2"])
def test_not_readable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "good.toml"
    path.write_bytes(data)
    with pytest.raises(FaultyFile):
        load_patch(path)


def test_directory_reports_every_file(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert list(load_patches(tmp_path)) == ["good"]
    write(tmp_path, "name = 1", "bad.toml")
    write(tmp_path, "=", "worse.toml")
    with pytest.raises(FaultyFile) as caught:
        load_patches(tmp_path)
    where = [fault.where for fault in caught.value.faults]
    assert "bad.toml: name" in where
    assert any(text.startswith("worse.toml: line") for text in where)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(FaultyFile):
        load_patches(tmp_path / "none")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            'for = "vllm==0.30.*"',
            'for = "vllm=0.30"',
            "'vllm=0.30' is no requirement (PEP 508): Exp",
        ),
        ('find = "x = 1"', "find = 1", "must be a string, not an integer"),
        ('find = "x = 1"', "find = 1.5", "must be a string, not a float"),
        ('find = "x = 1"', "find = true", "must be a string, not a boolean"),
        ('find = "x = 1"', "find = [1]", "must be a string, not an array"),
        ('find = "x = 1"', "find = {}", "must be a string, not a table"),
        ('find = "x = 1"', "find = 2026-01-01", "must be a string, not a date or time"),
        ('replace = "x = 2"', "count = 'x'\nreplace = 'y'", "must be an integer, not a string"),
        ('replace = "x = 2"', 'replace-file = "../p"', "'../p' must be relative and may not climb"),
        ('replace = "x = 2"', 'replace-file = ""', "is empty"),
        ('replace = "x = 2"', 'replace-file = "latin"', "'latin' is not UTF-8 at byte 1"),
        ('replace = "x = 2"', 'replace-file = "same"', "equals find: nothing would change"),
        ('replace = "x = 2"', 'replace = ""', "stands inside find, so an applied edit could not"),
    ],
)
def test_each_fault_is_said_once_and_says_what_is_wrong(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    (tmp_path / "latin").write_bytes(b"a\xe9")
    (tmp_path / "same").write_bytes(b"x = 1")
    with pytest.raises(FaultyFile) as caught:
        load_patch(write(tmp_path, GOOD.replace(old, new)))
    (fault,) = caught.value.faults
    assert fault.problem.startswith(problem)
    assert "\n" not in fault.problem


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FaultyFile) as caught:
        load_patch(tmp_path / "none.toml")
    assert [fault.problem for fault in caught.value.faults] == ["No such file or directory"]
