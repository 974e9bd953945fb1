"""Drift: where an old text stands in a scope that has changed, and what becomes of its edit."""

from __future__ import annotations

import pytest

from pipeline.patching import drift
from pipeline.patching.drift import Base, base_of, find_drift, indent_at, reindented
from pipeline.patching.matching import Span

HEAD, TAIL = b"import os\n\n", b"\nend = 1\n"


def whole_lines(text: str) -> bytes:
    return text.encode() + b"\n"


def found(
    old: str | None, new: str, find: str, replace: str, number: int = 0, tail: bytes = TAIL
) -> tuple[str, str] | None:
    """The text that is found in a scope `new` which was `old` (None: not known), and the scope with
    the edit made, "" when it cannot be made. `number` says which of the anchors in `old` is meant.
    """
    data = HEAD + whole_lines(new) + tail if tail else HEAD + new.encode()
    scope = (len(HEAD), len(data) - len(tail))
    anchor = find.encode()
    if old is None:
        base = base_of(anchor, replace.encode(), None, (0, 0), (0, 0))
    else:
        origin = 2 * HEAD + whole_lines(old) + TAIL
        first, last = 2 * len(HEAD), len(origin) - len(TAIL)
        start = first
        for _ in range(number + 1):
            at = origin.index(anchor, start)
            start = at + 1
        base = base_of(anchor, replace.encode(), origin, (first, last), (at, at + len(anchor)))
    made = find_drift(data, scope, base, anchor)
    if made is None:
        return None
    text = data[slice(*made.span)].decode()
    if made.edit is None:
        return text, ""
    (start, end), replacement = made.edit
    assert data.count(data[start:end], *scope) == 1
    assert scope[0] <= start <= end <= scope[1]
    whole = data[scope[0] : start] + replacement + data[end : scope[1]]
    return text, whole.decode().rstrip("\n")


@pytest.mark.parametrize(
    ("origin", "scope", "find", "text", "made"),
    [
        ("a = 1\nb = 2\nc = 3\n", (0, 18), "2", "b = 2\n", "b = X\n"),
        ("a = 1\nb = 2\nc = 3\n", (6, 18), "2", "b = 2\n", "b = X\n"),
        ("\na = 1\nb = 2\n", (0, 13), "1", "a = 1\n", "a = X\n"),
        ("a = f(\n) + 1\nb = 2\n", (0, 19), "f(\n)", "a = f(\n) + 1\n", "a = X + 1\n"),
        ("a = f(\n    1) + 2\nb\n", (0, 20), "f(\n    1", "a = f(\n    1) + 2\n", "a = X) + 2\n"),
        ("a = 1\nb = 2\nc = 3\n", (0, 18), "2\n", "b = 2\n", "b = X"),
        ("a = 1\nb = 2", (0, 11), "2", "b = 2", "b = X"),
        ("a = 1; b = 2; c = 3\n", (7, 13), "2", "b = 2;", "b = X;"),
    ],
)
def test_an_edit_is_remembered_in_whole_lines_of_its_scope(
    origin: str, scope: Span, find: str, text: str, made: str
) -> None:
    data, anchor = origin.encode(), find.encode()
    start = data.index(anchor)
    base = base_of(anchor, b"X", data, scope, (start, start + len(anchor)))
    assert (base.text.decode(), base.made.decode()) == (text, made)
    assert base.scope == data[slice(*scope)]
    assert base.scope[slice(*base.span)] == base.text
    assert base.span == (base.scope.index(base.text), base.scope.index(base.text) + len(base.text))


def test_of_a_release_that_is_not_at_hand_only_the_anchor_is_known() -> None:
    assert base_of(b"a", b"b", None, (3, 4), (5, 6)) == Base(b"a", b"b")


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (4, "if a:\n        b\n\n      c\n    d"),
        (1, "if a:\n     b\n\n   c\n d"),
        (0, "if a:\n    b\n\n  c\nd"),
        (-1, "if a:\n   b\n\n c\nd"),
        (-4, "if a:\nb\n\n  c\nd"),
    ],
)
def test_lines_are_moved_where_there_is_room_and_empty_ones_stay(by: int, expected: str) -> None:
    assert reindented(b"if a:\n    b\n\n  c\nd", by).decode() == expected


def test_lines_of_blanks_stay_where_others_move_to_the_right() -> None:
    assert reindented(b"if a:\n      \n  b", 2) == b"if a:\n      \n    b"


@pytest.mark.parametrize(
    ("data", "offset", "depth"),
    [(b"    x = 1\n  y", 6, 4), (b"\n    x", 5, 4), (b"x\n\t\ty\nz", 4, 2), (b"x\n  y\nz", 6, 0)],
)
def test_how_deep_the_line_of_a_byte_is(data: bytes, offset: int, depth: int) -> None:
    assert indent_at(data, offset) == depth


OLD = "one()\ntwo()\ntarget(first, second)\nthree()\nfour()"


def test_a_line_that_was_changed_where_it_stood_is_taken_whole() -> None:
    new = OLD.replace("target(first, second)", "    value = target(first, second, more)")
    made = found(OLD, new, "first, second", "first, 2")
    assert made == (
        "    value = target(first, second, more)\n",
        new.replace("second", "2"),
    )


def test_of_a_release_that_is_not_at_hand_only_the_words_are_taken() -> None:
    new = OLD.replace("target(first, second)", "value = target(first , second, more)")
    made = found(None, new, "target(first, second", "target(first, 2")
    assert made == ("target(first , second", new.replace("second", "2"))


@pytest.mark.parametrize(
    "new",
    [
        # a changed line beside the old place, before it or behind it
        "one()\ngo(target(first, second))\ntarget(first, second, 3)\nthree()\nfour()",
        "one()\ntwo()\ntarget(first, second, 3)\nthree()\nfour()\ngo(target(first, second))",
        "go(target(first, second))\none()\ntwo()\ntarget(first, second, 3)\nthree()\nfour()",
        # others that are gone with it
        "one()\ntarget(first, second, 3)\nthree()\nfour()\ngo(target(first, second))",
        "one()\ntwo()\ntarget(first, second, 3)\nfour()\ngo(target(first, second))",
        "go(target(first, second))\none()\ntwo()\ntarget(first, second, 3)\nfour()",
        "target(first, second, 3)\nfour()\ngo(target(first, second))",
    ],
)
def test_the_old_place_is_surer_than_another_line_that_is_alike(new: str) -> None:
    made = found(OLD, new, "target(first, second)", "target(first)")
    assert made and "target(first, second" in made[0]
    if new.startswith("one()\ngo"):  # both lines stand where two() and the old text stood
        assert made[0] == "go(target(first, second))\n"
    else:
        assert made[0] == "target(first, second, 3)\n"


SHORT = "zero()\none()\ngo(target(1))\ntarget(1)\ntwo()\nthree()"


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        # what stands twice now, and did before: its line has not changed, one like it is near
        (SHORT, SHORT.replace("zero", "other"), 1),
        (SHORT, SHORT + "\ntarget(1)", 1),
        (SHORT.replace("go(target(1))", "first()"), SHORT, 0),
        (SHORT.replace("go(target(1))", "first()"), SHORT.replace("two()", "two(target(1))"), 0),
        (SHORT.replace("go(target(1))\n", ""), SHORT, 0),
    ],
)
def test_an_anchor_that_stands_twice_is_meant_where_it_stood(
    old: str, new: str, number: int
) -> None:
    made = found(old, new, "target(1)", "target(2)", number)
    assert made == ("target(1)\n", new.replace("\ntarget(1)\n", "\ntarget(2)\n"))


def test_a_shorter_form_behind_the_old_place_is_not_meant() -> None:
    old = "zero()\ncall(\n    word)\none()\ntwo()\nthree()"
    for behind in ("call(word)\ntwo()\nthree()", "one()\ncall(word)\nthree()"):
        new = f"other()\ncall(\n    word)\n{behind}\ncall(\n    word)"
        made = found(old, new, "call(\n    word)", "call(\n    sign)")
        assert made and made[0] == "call(\n    word)\n"
    old = old.replace("two()", "call(word)")
    new = old.replace("zero()", "other()") + "\ncall(word)\ncall(\n    word)"
    made = found(old, new, "call(\n    word)", "call(\n    sign)")
    assert made and made[0] == "call(\n    word)\n"


def test_a_text_of_which_one_line_was_changed_is_all_its_lines() -> None:
    text, rest = "first(alpha)\nsecond(beta)", "third()\nfourth()\nfifth()"
    old = f"zero()\n{text}\n{rest}"
    new = old.replace("beta", "beta, 2") + f"\n{text}\nlast()\n{text}"
    made = found(old, new, text, text.replace("alpha", "gamma"))
    assert made == ("first(alpha)\nsecond(beta, 2)\n", new.replace("alpha", "gamma", 1))


def test_lines_that_stand_often_do_not_blur_the_place() -> None:
    old = "\n".join([*["go()"] * 100, "target(1)", *["go()"] * 100, "last()"])
    lines = [*["go()"] * 100, "target(1, 2)", *["go()"] * 100, "last()"]
    lines.insert(50, "go(target(1))")
    made = found(old, "\n".join(lines), "target(1)", "target(3)")
    assert made and made[0] == "target(1, 2)\n"


def test_scopes_of_more_lines_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    find, new = "target(first, second)", OLD.replace("first, second", "first, second, third")
    here = "one()\ntarget(first, second, 3)\nthree()\ngo(target(first, second))"
    here += here[here.rindex("\n") :]
    for origin, text in ((OLD, here), (None, new)):
        monkeypatch.setattr(drift, "_MOST_LINES", 5)
        assert found(origin, text, find, "target(first)")
        monkeypatch.setattr(drift, "_MOST_LINES", 4)
        assert found(origin, text, find, "target(first)") is None


MOVED = "one()\ntwo()\nthree()\nfour()\nfive()"


@pytest.mark.parametrize(
    ("line", "find"),
    [
        ("call(x  +  word) and y", "x + word"),
        ("call(x  +  word)", "call(x + word)"),
        ("if CALL(X + word): pass", "call(x + word)"),
        ("call(x   +   word); f(\n) + 3", "x + word); f(\n)"),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_text_that_moved_in_its_scope_is_known_by_its_words_and_taken_in_whole_lines(
    line: str, find: str, place: int
) -> None:
    lines = MOVED.split("\n")
    old = "\n".join([*lines[:2], f"old({find})", *lines[2:]])
    if place == 2:
        old = "\n".join([*lines, f"old({find})"])
    new = "\n".join([*lines[:place], line, *lines[place:]])
    made = found(old, new, find, "made")
    assert made and made[0] == f"{line}\n"


def test_text_that_moved_to_the_end_of_a_file_without_a_line_end() -> None:
    old = "call(x + word)\n" + MOVED
    made = found(old, MOVED + "\ncall(x  +  word)", "x + word", "made", tail=b"")
    assert made and made[0] == "call(x  +  word)"


def test_text_that_moved_to_the_second_line_of_a_file_of_which_the_first_is_empty() -> None:
    origin = b"one()\ntwo()\nx + word\n"
    base = base_of(b"x + word", b"made", origin, (0, len(origin)), (12, 20))
    data = b"\nx  +  word\none()\ntwo()\n"
    made = find_drift(data, (1, len(data)), base, b"x + word")
    assert made and data[slice(*made.span)] == b"x  +  word\n"


def test_in_a_whole_file_nothing_is_taken_for_its_likeness() -> None:
    data = b"one()\ntarget(first, second, more)\n"
    base = Base(b"target(first, second)", b"target(first)")
    assert find_drift(data, (0, len(data)), base, base.text) is None
    made = find_drift(b"#\n" + data, (2, 2 + len(data)), base, base.text)
    assert made and made.edit


def test_text_without_a_word_is_not_taken_for_its_likeness() -> None:
    assert found("one(\n})\ntwo()", "one(\n} )\ntwo()", "})", "})]") is None


def test_three_quarters_of_a_text_are_enough() -> None:
    for new, known in (("aaa c", True), ("aaa cc", True), ("aa b", False)):
        assert bool(found(None, f"one()\n{new}\ntwo()", "aaa b", "x")) is known


@pytest.mark.parametrize(
    ("old", "more", "most"),
    [
        ("first(b,c,final)", "first(\nb,\nc,final)", "first(\nb,\nc,\nfinal)"),
        ("first(\nb,c,final)", "first(\nb,\nc,\nfinal)", "first\n(\nb,\nc,\nfinal)"),
    ],
)
def test_a_text_is_found_on_two_lines_more_and_not_on_three(old: str, more: str, most: str) -> None:
    anchor = old + "!"
    for new, text in ((more, f"{more}\n"), (most, None)):
        made = found(f"one()\n{anchor}\ntwo()", f"one()\n{new}\ntwo()", anchor, "made()")
        assert (made and made[0]) == text


def test_of_two_lines_that_are_alike_the_first_is_taken() -> None:
    new = "one()\nfirst = target(alpha, beta)\nother = target(alpha, beta)"
    made = found(None, new, "target(alpha , beta )", "x")
    assert made and made[0] == "target(alpha, beta)"
    base = "zero()\ntarget(alpha, beta)!\nlast()"
    made = found(base, new, "target(alpha, beta)!", "x")
    assert made and made[0] == "first = target(alpha, beta)\n"


def test_the_fewest_lines_that_hold_a_text_are_taken() -> None:
    old = "one()\nalpha beta zz\ntwo()\nthree()"
    new = "one()\nzz\nalpha beta\ntwo()"
    made = found(old, new, "alpha beta zz", "x")
    assert made and made[0] == "alpha beta\n"


def test_a_text_is_found_among_many_lines() -> None:
    others = [f"other{n}(a{n}, b{n}, c{n}, d{n}, e{n}, f{n})" for n in range(60)]
    new = "\n".join([*others[:45], "target(first, second, more)", *others[45:]])
    made = found(None, new, "target(first, second)", "target(first)")
    assert made and made[0] == "target(first, second, more)"


def test_three_lines_that_became_one_are_found_with_the_line_beside_it() -> None:
    old = "one()\ncall(\nalpha,\nbeta)\ntwo()"
    made = found(old, "one()\ncall(alpha,beta)\ntwo()", "call(\nalpha,\nbeta)", "call(\nalpha)")
    assert made and made[0] == "one()\ncall(alpha,beta)\n"


DEEP = "one()\nif a:\n    call(x)\n    done(y)\ntwo()"


NESTED = "one()\nwith b:\n    if a:\n        call(x)\n        done(y, 2)\ntwo()"


@pytest.mark.parametrize("known", [True, False])
def test_lines_of_an_edit_go_as_deep_as_the_old_ones_went(known: bool) -> None:
    find, more = "call(x)\n    done(y", "more(x)\n    done(y"
    made = found(DEEP if known else None, NESTED, find, find.replace("done(y", more))
    assert made and made[1] == NESTED.replace("done", "more(x)\n        done")
    find, more = (text.replace("\n    ", "\n        ") for text in (find, more))
    new = DEEP.replace("done(y)", "done(y, z)")
    made = found(NESTED if known else None, new, find, find.replace("done(y", more))
    assert made and made[1] == DEEP.replace("done(y)", "more(x)\n    done(y, z)")


def test_a_first_line_that_is_not_indented_any_more_is_whole() -> None:
    new = DEEP.replace("if a:\n    call(x)", "call(x, 2)")
    made = found(DEEP, new, "call(x", "made(x")
    assert made and made[1] == new.replace("call", "made")


def test_without_a_line_that_stayed_the_first_says_how_deep() -> None:
    new = "one()\nwith b:\n    if a:\n        call(x, 3)\n    done(y)\ntwo()"
    made = found(DEEP, new, "call(x)", "call(x)\n    more(x)")
    assert made and made[1] == new.replace("call(x, 3)", "call(x, 3)\n        more(x)")


def test_without_the_release_a_text_that_stays_on_its_line_is_not_moved() -> None:
    new = DEEP.replace("call(x)", "other = call( x )")
    made = found(None, new, "call(x)", "call(x)\n    more(x)")
    assert made and made[1] == new.replace("call( x )", "call( x )\n    more(x)")


def test_without_the_release_the_blanks_of_an_anchor_are_not_how_deep_it_was() -> None:
    new = DEEP.replace("call(x)", "call( x )")
    made = found(None, new, "    call(x)", "    call(x)\n    more(x)")
    assert made and made[1] == new.replace("call( x )", "call( x )\n    more(x)")


def test_any_line_that_stayed_says_how_deep() -> None:
    find = "call(x)\n    middle(y)\n    done(z)"
    new = "one()\n        call(x, 2)\n        middle(y)\n        done(z, 2)"
    made = found(None, new, find, find.replace("middle(y)", "pass\n    middle(y)"))
    assert made and made[1] == new.replace("middle", "pass\n        middle")


def test_of_a_line_that_stands_twice_the_first_says_how_deep() -> None:
    old = "one()\nif a:\n    call(x)\n    if b:\n        call(x)\ntwo()"
    new = "one()\nwith c:\n    if a:\n        call(x)\n        if b(1):\n            call(x)\ntwo()"
    find = "call(x)\n    if b:\n        call(x)"
    made = found(old, new, find, f"more()\n    {find}")
    assert made and made[1] == new.replace("call", "more()\n        call", 1)


def test_the_first_line_says_how_deep_and_is_moved_too() -> None:
    new = "one()\nwith c:\n    if a:\n        with d:\n            call(x)\n    done(y)\ntwo()"
    find = "if a:\n    call(x)"
    made = found(DEEP, new, find, f"first()\n{find}")
    assert made and made[1] == new.replace("if a", "first()\n    if a")


def test_an_edit_that_changes_the_indentation_in_front_of_its_anchor() -> None:
    new = DEEP.replace("call(x)", "call(x, 2)")
    made = found(DEEP, new, "    call(x)", "    if b:\n        call(x)")
    assert made
    assert made[1] == new.replace("    call(x, 2)", "    if b:\n        call(x, 2)")
    made = found(DEEP, new, "    call(x)", "        call(y)")
    assert made and made[1] == new.replace("    call(x, 2)", "        call(y, 2)")
