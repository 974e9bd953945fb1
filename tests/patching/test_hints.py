"""What is said of an anchor that is not in its scope: the nearest text, how it differs, where."""

from __future__ import annotations

import pytest

from pipeline.patching import hints
from pipeline.patching.hints import holders, line_of, near_misses

TWO = b"def f():\n    x = 1\n\n\ndef g():\n    y = 2\n\n\ndef h():\n    x = 1\n"


def near(data: bytes, find: bytes, scope: bytes | None = None) -> tuple[str, tuple[int, ...]]:
    """Of an anchor in the first place of a text that is its scope; without one, in the file."""
    start = 0 if scope is None else data.index(scope)
    return near_misses("a.py", data, (start, start + len(data if scope is None else scope)), find)


@pytest.mark.parametrize(
    ("data", "scope", "find", "expected"),
    [
        (TWO, b"y = 2", b"x = 1", ("it stands outside the scope, at lines 2, 10 (f)", (2, 10))),
        (TWO, b"x = 1", b"y = 2", ("it stands outside the scope, at line 6 (g)", (6,))),
        (b"x\ny\n", b"y", b"x", ("it stands outside the scope, at line 1 (no scope)", (1,))),
        (b"y\nx\n", b"y\n", b"x", ("it stands outside the scope, at line 2 (no scope)", (2,))),
        (
            b"\nxyz\n",
            b"xy",
            b"xyz",
            ("it starts at line 2 and runs past the end of the scope", (2,)),
        ),
        (
            b"\nxyz\n",
            b"xy",
            b"yz",
            ("it starts at line 2 and runs past the end of the scope", (2,)),
        ),
    ],
)
def test_anchor_beside_its_scope(
    data: bytes, scope: bytes, find: bytes, expected: tuple[str, tuple[int, ...]]
) -> None:
    assert near(data, find, scope) == expected


@pytest.mark.parametrize(
    ("find", "data", "difference", "line"),
    [
        (b"a\nb\nc", b"\na\r\nb\r\nc", "line ends", 2),
        (b"a\nb\n", b"\ra\rb\r", "line ends", 2),
        (b"a\nb\nc", b"a\nb  \nc", "trailing whitespace", 2),
        (b"a\nb \nc", b"a\nb\nc", "trailing whitespace", 2),
        (b"a\t\nb\nc\nd", b"a\nb\nc\nd", "trailing whitespace", 1),
        (b"a\n b\nc", b"a\n b\t\nc", "trailing whitespace", 2),
        (b"x =\n  1", b"y.x =\n1", "indentation", 2),
        (b"    x", b"y = x\n  x", "indentation", 2),
        (b"\tx", b"y = x\n  x", "indentation", 2),
        (b"    x\n    y", b"  x\n  y", "indentation", 1),
        (b"if a:\n    b\n", b"if a:\n      b\n", "indentation", 2),
        (b"if a:\n    b\n", b"if a:\n\tb\n", "indentation characters", 2),
        (b"    b\n", b"\tb\r\n", "indentation characters", 1),
        (b"f(a, b)\n    c", b"f(a,  b) c", "white space", 1),
        (b"f(a, b)\ng(c)", b"f(a, b)\ng(c\n)", "", 0),
        (b"a\n\nb", b"a\nb", "white space", 2),
        (b"Abc\nDef", b"Abc\nDEF", "case", 2),
    ],
)
def test_anchor_that_differs_in_one_thing(
    find: bytes, data: bytes, difference: str, line: int
) -> None:
    said, lines = near(data, find)
    if difference:
        assert (said, lines) == (f"differs only in {difference}, line {line}", (line,))
    else:
        assert not said.startswith("differs")


@pytest.mark.parametrize(
    ("scope", "where"),
    [
        (b"one\ntwo  \nthree", ""),
        (b"\none\ntwo  \nthree\n\n", ""),
        (b"0", ", outside the scope"),
        (b"4", ", outside the scope"),
        (b"0\none\n", ", outside the scope"),
    ],
)
def test_it_is_said_when_the_nearest_text_stands_elsewhere(scope: bytes, where: str) -> None:
    data = b"0\none\ntwo  \nthree\n\n4"
    said = f"differs only in trailing whitespace, line 3{where}"
    assert near(data, b"one\ntwo\nthree", scope) == (said, (3,))


def test_of_two_near_texts_the_one_in_the_scope_is_told() -> None:
    data = b"a \nb\n\na  \nb\n"
    assert near(data, b"a\nb", b"a  \nb")[1] == (4,)


@pytest.mark.parametrize(("most", "told"), [(8, True), (7, False)])
def test_in_a_huge_scope_only_exact_text_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, most: int, told: bool
) -> None:
    monkeypatch.setattr(hints, "_MOST_BYTES", most)
    assert bool(near(b"1\n2\n3\n4\n5\na \nb 7 9", b"a\nb", b"a \nb 7 9")[0]) is told


@pytest.mark.parametrize(
    ("find", "data", "expected"),
    [
        # the longest line of the anchor is looked for
        (b"no\nfirst = prepare(device)\nz", b"1\nfirst = prepare(gadget)\n", (2,)),
        # and found in three readings at most, in five places at most
        (
            b"value_of_a = 10",
            b"value_of_a = 1\nvalue_of_a = 2\nvalue_of_a = 3\nvalue_of_a = 4\n",
            3,
        ),
        (b"value_of_a = 10", b"\n" + b"value_of_a = 1\n" * 6, (2, 3, 4, 5, 6)),
        (b"value_of_a = 10", b"\n  value_of_a = 1\r\n\rvalue_of_a = 2\n", (2, 4)),
        (b"value_of_a = 10", b"completely = other()\n", ()),
        (b"\n\n\n", b"a\n\nb\n", ()),
    ],
)
def test_lines_that_look_like_the_anchor(
    find: bytes, data: bytes, expected: int | tuple[int, ...]
) -> None:
    said, lines = near(data, find)
    if isinstance(expected, int):
        assert len(lines) == expected
    else:
        assert lines == expected
    many = "s" if len(lines) > 1 else ""
    assert said == (f"like it: line{many} {', '.join(map(str, lines))}" if lines else "")


def test_likeness_is_looked_for_in_the_scope_only() -> None:
    data = b"value_of_a = 1\ndef f():\n    value_of_a = 2\n"
    assert near(data, b"value_of_a = 10", b"value_of_a = 2\n") == ("like it: line 3", (3,))


@pytest.mark.parametrize(("most", "told"), [(3, True), (2, False)])
def test_likeness_is_not_looked_for_in_too_many_lines(
    monkeypatch: pytest.MonkeyPatch, most: int, told: bool
) -> None:
    monkeypatch.setattr(hints, "_MOST_LINES", most)
    assert bool(near(b"value_of_a = 1\n2\n3", b"value_of_a = 10")[0]) is told


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"x", 1), (b"\nx", 2), (b"\rx", 2), (b"\r\nx", 2), (b"a\r\nb\rc\n\r\nx", 5), (b"a\nbx", 2)],
)
def test_every_kind_of_line_end_ends_one_line(data: bytes, line: int) -> None:
    assert line_of(data, data.index(b"x")) == line


def test_files_that_hold_a_text() -> None:
    files = {"b": b"one two", "a": b"two", "c": None}
    wanted = {1: b"one", 2: b"two", 3: b"three"}
    assert holders(wanted, files, files.get) == {1: ["b"], 2: ["a", "b"], 3: []}
