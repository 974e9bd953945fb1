"""Braces in preprocessor branches, and what no brace is."""

from __future__ import annotations

import pytest

from pipeline.patching.braces import split_branches, why_unbalanced
from pipeline.patching.scopes import ScopeAmbiguous, find_scope


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"{ { } }",
        b"{ // }\n}",
        b"{ /* } */ }",
        b'{ \'}\'; "}\\"}"; }',
        b'{ R"x(}")x"; }',
        b"{ 1'000; '{'; }",
        b"{\n#define X }\n}",
        b"{\n#define X \\\n }\n}",
        b"{\n#if A\n{\n#elif B\n{\n#else\n{\n#endif\n}}",
        b"{\n#if A\n{ }\n#endif\n}",
    ],
)
def test_balanced(body: bytes) -> None:
    assert why_unbalanced(body, 0, len(body)) == ""


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{ } }",
        b"{ } {}",
        b"{\n#if A\n{\n#endif\n}",
        b"{\n#if A\n{\n#else\n#endif\n}",
        b"{\n#else\n}",
        b"{\n#if A\n}",
        b"{\n#if A\n}\n#endif\n}",
    ],
)
def test_unbalanced(body: bytes) -> None:
    assert why_unbalanced(body, 0, len(body))


def test_only_branches_that_split_braces_are_hidden() -> None:
    whole = b"#if A\nvoid f() {}\n#else\nvoid g() {}\n#endif\n"
    assert split_branches(whole) == []
    split = b"#if A\nif (a) {\n#else\nif (b) {\n#endif\n}\n"
    ((start, end),) = split_branches(split)
    assert split[start:end] == b"#else\nif (b) {\n#endif"
    assert split_branches(b"#endif\n#else\n#if A\n{") == []


def test_name_in_a_hidden_branch_is_ambiguous() -> None:
    data = b"#if A\nint f() { return 1; }\nint g() {\n#else\nint f() { return 2; }\nint h() {\n"
    data += b"#endif\n  return 0;\n}\n"
    with pytest.raises(ScopeAmbiguous, match="branch names it at line 5"):
        find_scope("a.cuh", data, "f")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{\n}\n}\n}", "its braces close at line 2"),
        (b"\n{\n#else\n}", "an #if around it branches at line 3"),
        (b"{\n#if A\n{\n#else\n#endif\n}", "the #if that ends at line 5 splits its braces"),
        (b"{\n#if A\n{\n#endif\n}}", "the #if that ends at line 4 splits its braces"),
        (b"{ {\n}", "its braces do not balance"),
        # A directive of two lines is told by its first.
        (b"\n{\n#else \\\n x\n}", "an #if around it branches at line 3"),
        (b"{\n#if A\n{\n#endif \\\n x\n}}", "the #if that ends at line 4 splits its braces"),
    ],
)
def test_why_they_are_unbalanced_and_where(body: bytes, why: str) -> None:
    assert why_unbalanced(body, body.index(b"{"), len(body)) == why


def test_braces_of_an_if_inside_of_a_branch_count_for_the_outer_one() -> None:
    inner = b"#if B\n{ {\n#endif\n"
    # As the first branch leaves it: two open, which the rest of the branch closes.
    whole = b"#if A\n" + inner + b"} }\n#else\n#endif\n"
    assert split_branches(whole) == []
    split = b"#if A\n{\n" + inner + b"} }\n#else\n{\n#endif\n"
    ((start, end),) = split_branches(split)
    assert split[start:end] == b"#else\n{\n#endif"
    # Closed and opened again ends where it began, and still splits a pair.
    dip = b"#if A\n#if B\n} {\n#endif\n#else\n#endif\n"
    ((start, end),) = split_branches(dip)
    assert dip[start:end] == b"#else\n#endif"


def test_any_branch_but_the_last_decides() -> None:
    three = b"#if A\n#elif B\n{\n#else\n#endif\n"
    assert len(split_branches(three)) == 1
    assert split_branches(b"#if A\n{ }\n#elif B\n#else\n#endif\n") == []
    assert split_branches(b"#if A\n{\n#endif\n") == []  # one branch hides nothing
    # Of two branches either may be the one that splits.
    assert len(split_branches(b"#if A\n{\n#else\n#endif\n}\n")) == 1
    assert len(split_branches(b"{\n#if A\n#else\n}\n#endif\n")) == 1


def test_an_if_inside_of_a_branch_adds_to_what_the_branch_has_open() -> None:
    inner = b"#if B\nx;\n#endif\n"
    assert split_branches(b"#if A\n{\n" + inner + b"}\n#else\n#endif\n") == []
