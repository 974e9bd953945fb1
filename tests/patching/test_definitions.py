"""Definitions of a file: names in full, spans and lines, and what makes one doubtful."""

from __future__ import annotations

import codecs

import pytest

from pipeline.patching.definitions import cpp_parts, definitions
from pipeline.patching.scopes import ScopeAmbiguous, find_scope


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("f", ("f",)),
        ("ns::S<T, 2>::f", ("ns", "S", "f")),
        ("ns.S.f", ("ns", "S", "f")),
        ("A<B<C>>::f", ("A", "f")),
        ("::f", ("f",)),
        ("operator+", ("operator+",)),
        ("S::operator()", ("S", "operator()")),
        ("ns.S.operator<=>", ("ns", "S", "operator<=>")),
        ("S<T>::operator<", ("S", "operator<")),
        ("S::operator bool", ("S", "operatorbool")),
        ("operator", ("operator",)),
        # No operators: names that begin so.
        ("operators::f", ("operators", "f")),
        ("operator_t::f", ("operator_t", "f")),
    ],
)
def test_names_in_parts(name: str, parts: tuple[str, ...]) -> None:
    assert cpp_parts(name) == parts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"int f() {\n}\n", ["f"]),
        (b"int* f() {\n}\n", ["f"]),
        (b"int& f() {\n}\n", ["f"]),
        (b"int&& f() {\n}\n", ["f"]),
        (b"const int*& S::f() const {\n}\n", ["S.f"]),
        (b"namespace a{int f(){}}namespace b{int f(){}}\n", ["a", "a.f", "b", "b.f"]),
        (b"int f(){}int g(){}\n", ["f", "g"]),
        (b"struct S { int x; } f() { return {}; }\n", ["f", "f.S"]),
        (b"namespace {\nint f() {\n}\n}\n", ["f"]),
        (b"template <class T>\nstruct S {\n  void f() {\n  }\n};\n", ["S", "S.f"]),
    ],
)
def test_names_of_cpp(text: bytes, names: list[str]) -> None:
    for bom in (b"", codecs.BOM_UTF8):
        found = definitions("cpp", bom + text)
        assert [".".join(one.name) for one in found] == names


def test_lines_and_spans() -> None:
    text = b"x = 1\n\n@d\nclass A:\n    def f(self):\n        pass\n\n\ndef g():\n    pass\n"
    for bom in (b"", codecs.BOM_UTF8):
        found = definitions("python", bom + text)
        assert [(".".join(one.name), one.line) for one in found] == [("A", 4), ("A.f", 5), ("g", 9)]
        start = found[0].start
        assert (bom + text)[start : start + 2] == b"@d"


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
def test_a_byte_order_mark_moves_no_brace(bom: bytes) -> None:
    for text in (b"void f() {\n  g();\n}\n", b"void f(S s={}){\n}\n"):
        data = bom + b"// {\n" + text
        scope = find_scope("a.cuh", data, "f")
        assert data[scope.start : scope.end] == text


def test_the_line_of_a_branch_and_of_a_syntax_error() -> None:
    branch = b"\n#if A\nint f() { return 1; }\nint g() {\n#else\nint f() { return 2; }\nint h() {\n"
    branch += b"#endif\n  return 0;\n}\n"
    with pytest.raises(ScopeAmbiguous, match="branch names it at line 6"):
        find_scope("a.cuh", branch, "f")
    (broken,) = definitions("python", b"x = 1\ndef f():\n    a = 1\n    b = = 2\n    c = 3\n")
    assert broken.broken == 4
    assert broken.doubt("python", b"") == "syntax error at line 4"
    (sound,) = definitions("python", b"def f():\n    a = 1\n")
    assert (sound.broken, sound.doubt("python", b"")) == (0, "")
