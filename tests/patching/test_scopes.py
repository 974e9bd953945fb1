"""Scopes in Python, C++ and CUDA: exactly one, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.patching import scopes as module
from pipeline.patching.scopes import (
    ScopeAmbiguous,
    ScopeMissing,
    enclosing,
    find_scope,
    knows,
    scope_bytes,
    scopes_around,
)

PYTHON = b'''"""def f(): in a string"""
import x


@decorated
@twice(lambda: 1)
async def f(a):
    # def g(): in a comment
    text = """
def g():
    pass
"""
    def g():
        return 1
    return g


class C(Base):
    x = 1

    @property
    def p(self): return 1

    @p.setter
    def p(self, v): pass

    class D:
        def f(self):
            return 2  # tail

if x:
    def branch(): return 1
else:
    def branch(): return 2
def one(): pass
'''

CUDA = b"""#pragma once
namespace outer::inner {
namespace {
/* struct S {}; */
template <int N>
struct S {
  S() : a{1} {}
  __device__ int f() const { return '}' + "}"[0]; }
  int a = {};
};
template <> struct S<3> { int f() { return 3; } };
template <int N> template <class T>
T T2<N>::g(T x) { return x; }
__global__ void __launch_bounds__(128) kernel(int a) {
#ifdef FAST
  if (a > 1) {
#else
  if (a > 2) {
#endif
    return;
  }
}
void twice(int) {}
void twice(float) {}
void declared(int);
bool operator==(A a, B b) { return true; }
}  // namespace
}
#ifdef A
void branch() { 1; }
#else
void branch() { 2; }
#endif
"""

SPLIT = b"""
#if X
__global__ void k(int a) {
#else
__global__ void k(int a, int b) {
#endif
  f();
}
void after() { g(); }
"""


def text(path: str, data: bytes, name: str) -> bytes:
    scope = find_scope(path, data, name)
    return data[scope.start : scope.end]


def test_span_holds_decorators_and_whole_lines() -> None:
    found = text("a.py", PYTHON, "f")
    assert found.startswith(b"@decorated\n@twice")
    assert found.endswith(b"    return g\n")


def test_nested_names_are_full_names() -> None:
    assert text("a.py", PYTHON, "f.g") == b"    def g():\n        return 1\n"
    assert text("a.py", PYTHON, "C.D.f") == (
        b"        def f(self):\n            return 2  # tail\n"
    )
    assert text("a.pyi", PYTHON, "one") == b"def one(): pass\n"


@pytest.mark.parametrize("name", ["g", "D", "D.f", "decorated", "x", "C.f", "F", "f.f", "C.D.f.x"])
def test_python_names_are_never_shortened(name: str) -> None:
    with pytest.raises(ScopeMissing):
        find_scope("a.py", PYTHON, name)


@pytest.mark.parametrize("name", ["C.p", "branch"])
def test_several_definitions_are_ambiguous(name: str) -> None:
    with pytest.raises(ScopeAmbiguous) as caught:
        find_scope("a.py", PYTHON, name)
    assert len(caught.value.lines) == 2


def test_missing_scope_names_what_has_that_last_name() -> None:
    with pytest.raises(ScopeMissing, match=r"C\.D\.f \(line 28\)"):
        find_scope("a.py", PYTHON, "C.f")


@pytest.mark.parametrize(
    "name",
    ["kernel", "inner.kernel", "outer.inner.kernel", "outer::inner::kernel", "inner::kernel"],
)
def test_leading_namespaces_may_be_left_out(name: str) -> None:
    found = text("a.cuh", CUDA, name)
    assert found.startswith(b"__global__")
    assert found.endswith(b"return;\n  }\n}\n")


def test_template_head_belongs_to_the_span() -> None:
    assert text("a.cuh", CUDA, "T2.g").startswith(b"template <int N> template <class T>\nT T2<N>")
    assert text("a.cuh", CUDA, "operator==").startswith(b"bool operator==")


def test_constructor_is_not_its_struct() -> None:
    assert text("a.cuh", CUDA, "S.S") == b"  S() : a{1} {}\n"


@pytest.mark.parametrize("name", ["S", "S.f", "twice", "branch"])
def test_specialisations_overloads_branches_are_ambiguous(name: str) -> None:
    with pytest.raises(ScopeAmbiguous):
        find_scope("a.cuh", CUDA, name)


@pytest.mark.parametrize("name", ["f", "g", "declared", "outer.kernel", "nothing", "T", "inner.g"])
def test_classes_may_not_be_left_out(name: str) -> None:
    with pytest.raises(ScopeMissing):
        find_scope("a.cuh", CUDA, name)


def test_brace_split_by_if_is_refused() -> None:
    with pytest.raises(ScopeAmbiguous):
        find_scope("a.cuh", SPLIT, "k")


def test_namespace_is_a_scope() -> None:
    found = text("a.hpp", b"namespace a { int x; }\nnamespace b { int x; }\n", "b")
    assert found == b"namespace b { int x; }\n"


@pytest.mark.parametrize("path", ["a.py.txt", "a.toml", "a", "py", "a.js"])
def test_other_kinds_have_no_scopes(path: str) -> None:
    with pytest.raises(ScopeMissing, match="only"):
        find_scope(path, PYTHON, "f")


def test_syntax_error_inside_makes_a_python_scope_doubtful() -> None:
    data = b"def f():\n    x = = 1\n    return\n\ndef g():\n    return 1\n"
    with pytest.raises(ScopeAmbiguous, match="uncertain"):
        find_scope("a.py", data, "f")
    assert text("a.py", data, "g") == b"def g():\n    return 1\n"


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_mark(end: bytes, head: bytes) -> None:
    body = end.join([b"    def f(self):", b"        return 1  # \xe9", b""])
    data = head + b"class C:" + end + body + b"x = 1" + end
    assert text("a.py", data, "C.f") == body


def test_names_beyond_ascii() -> None:
    assert text("a.py", "def größe(): pass\n".encode(), "größe")
    with pytest.raises(ScopeMissing):
        find_scope("a.py", "def größe(): pass\n".encode("latin-1"), "größe")


@pytest.mark.parametrize("path", ["a.py", "a.cuh", "a.cpp"])
@pytest.mark.parametrize(
    "data",
    [b"", b"\xef\xbb\xbf", b"{" * 5000, b"(" * 5000, b"\xff\xfe" * 99, b"def f(", b'"""', b"#if"],
)
def test_hostile_files_give_no_traceback(path: str, data: bytes) -> None:
    with pytest.raises((ScopeMissing, ScopeAmbiguous)):
        find_scope(path, data, "f")


def test_deep_nesting_gives_no_traceback() -> None:
    data = b"".join(b" " * depth + b"class C:\n" for depth in range(2000)) + b" " * 2000 + b"x"
    with pytest.raises((ScopeMissing, ScopeAmbiguous)):
        find_scope("a.py", data, "C.f")


def test_enclosing() -> None:
    assert enclosing("a.py", PYTHON, PYTHON.index(b"return 2")) == "C.D.f"
    assert enclosing("a.py", PYTHON, 0) == ""
    assert enclosing("a.txt", PYTHON, 0) == ""


def test_fixture_of_a_real_shape(tmp_path: Path) -> None:
    data = b"#ifndef G\n#define G\nnamespace f { namespace m {\n" + CUDA[13:] + b"}}\n#endif\n"
    assert find_scope("mla.cuh", data, "kernel").name.endswith("inner.kernel")


@pytest.mark.parametrize(
    ("data", "start", "end"),
    [
        (b" void f() {}\n", 0, 13),  # from the start of its line, the first one too
        (b"   void f() {}\n", 0, 15),
        (b"x;\n  void f() {}\n", 3, 17),
        (b"int x;  void f() {}\n", 8, 20),  # but not over what is no blank
        (b"void f() {} void g() {}\n", 0, 11),  # and to the end of it only if it is alone there
    ],
)
def test_a_scope_is_whole_lines_where_it_is_alone_on_them(
    data: bytes, start: int, end: int
) -> None:
    scope = find_scope("a.cuh", data, "f")
    assert (scope.start, scope.end) == (start, end)


def test_what_is_said_of_a_name_that_is_not_there() -> None:
    data = b"".join(b"class %c:\n    def f(self):\n        pass\n" % c for c in b"ABCDE")
    for name, said in [
        ("X.f", "nothing is called X.f; there is A.f (line 2), B.f (line 5), C.f (line 8)"),
        ("g", "nothing is called g"),
        ("A::f", "nothing is called A::f"),  # no Python name is spelled so
    ]:
        with pytest.raises(ScopeMissing) as caught:
            find_scope("a.py", data, name)
        assert str(caught.value) == said
    with pytest.raises(ScopeAmbiguous) as twice:
        find_scope("a.py", data + b"class A:\n    pass\n", "A")
    assert str(twice.value) == "2 definitions are called A: lines 1, 16"
    assert twice.value.lines == (1, 16)


def test_scopes_around_a_place_are_innermost_first_each_by_a_name_that_finds_it() -> None:
    data = b"class A:\n    def f(self):\n        pass\n"
    at = data.index(b"pass")
    assert [name for name, _ in scopes_around("a.py", data, at, at + 4)] == ["A.f", "A"]
    # A span that is the whole of a scope is in it, and one that is more is not.
    assert [name for name, _ in scopes_around("a.py", data, 0, len(data))] == ["A"]
    assert [name for name, _ in scopes_around("a.py", b"\n" + data, 0, 5)] == []
    two = b"namespace a {\nvoid f() {}\n}\nnamespace b {\nvoid f() {}\n}\n"
    at = two.rindex(b"{}")
    assert [name for name, _ in scopes_around("a.cuh", two, at, at)] == ["b.f", "b"]


def test_what_is_around_a_byte() -> None:
    data = b"void f() {}\nint x;\n"
    assert [enclosing("a.cuh", data, at) for at in (0, 10, 11, 15)] == ["f", "f", "", ""]
    assert enclosing("a.txt", data, 0) == ""


def test_bytes_of_a_scope() -> None:
    data = b"x = 1\ndef f():\n    pass\n"
    assert scope_bytes("a.py", data, "f") == b"def f():\n    pass\n"
    assert scope_bytes("a.py", data, "g") is None
    assert [knows(path) for path in ("a.py", "a.cuh", "a.txt")] == [True, True, False]


def test_the_largest_file_whose_scopes_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"def f():\n    pass\n"
    monkeypatch.setattr(module, "MOST_BYTES", len(data))
    assert find_scope("a.py", data, "f").name == "f"
    assert enclosing("a.py", data, 5) == "f"
    assert [name for name, _ in scopes_around("a.py", data, 5, 6)] == ["f"]
    more = data + b"\n"
    with pytest.raises(ScopeMissing, match="in files up to 18 bytes only"):
        find_scope("a.py", more, "f")
    assert enclosing("a.py", more, 5) == "" and scopes_around("a.py", more, 5, 6) == []
