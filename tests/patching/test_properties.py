"""What holds for any file and any edit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.patching.evaluate import evaluate
from pipeline.patching.model import Edit, Patch, Variant
from pipeline.patching.outcomes import Outcome
from pipeline.patching.record import rewrite_record
from pipeline.patching.scopes import ScopeFault, find_scope
from tests.examples import examples

WORDS = st.text(alphabet="ab \n\té", min_size=1, max_size=6)


def change(file: str, *edits: tuple[str, str, str | None, int]) -> Patch:
    made = tuple(
        Edit(str(i), file, find, replace, within, count)
        for i, (find, replace, within, count) in enumerate(edits)
    )
    return Patch("p", "t", "w", "", "d", (Variant(Requirement("d==1"), made),))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.text(alphabet="ab \n\té", max_size=40),
    st.lists(st.tuples(WORDS, WORDS, st.none(), st.integers(1, 3)), min_size=1, max_size=3),
)
def test_applying_twice_is_already_applied(
    text: str, edits: list[tuple[str, str, None, int]]
) -> None:
    edits = [e for e in edits if e[1] not in e[0]]
    if not edits:
        return
    patch = change("f.txt", *edits)
    data = text.encode()
    versions = {"d": Version("1")}
    first = evaluate([patch], {"f.txt": data}.get, versions, "3.11")
    if not first.fits:
        assert not first.files
        return
    after = first.files["f.txt"].data if first.files else data
    second = evaluate([patch], {"f.txt": after}.get, versions, "3.11")
    assert second.fits
    assert not second.files
    assert second.patches[0].outcome is Outcome.ALREADY_APPLIED


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from(["x = 1", "if 1: x = 1", "# x = 1", "y = 'x = 1'"]), max_size=4),
    st.sampled_from(["x = 1", "= 1\n", "def f():\n", "x = 1\n\n\ndef"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_no_byte_outside_of_the_scope_changes(body: list[str], find: str, end: str) -> None:
    lines = [f"    {line}" for line in [*body, "return 0"]]
    one = ["def NAME():", *lines, "", ""]
    text = end.join(line.replace("NAME", name) for name in "efg" for line in one) + end
    data = text.encode()
    scope = find_scope("m.py", data, "f")
    edit = (find.replace("\n", end), "pass  # new" + end, "f", 1)
    evaluation = evaluate([change("m.py", edit)], {"m.py": data}.get, {"d": Version("1")}, "3.11")
    for image in evaluation.files.values():
        assert image.data.startswith(data[: scope.start])
        assert image.data.endswith(data[scope.end :])


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *("{", "}", "void f() ", "struct f ", "(", ")", ";", " ", "\n", "    x", "é"),
                *("\n#if X\n", "\n#else\n", "\n#endif\n", "/*", "*/", "//", '"', "'"),
                *("def f():\n", "@d\n", "class f:\n"),
            ]
        ),
        max_size=25,
    ),
    st.sampled_from(["a.py", "a.cuh", "a.h"]),
)
def test_any_text_has_one_scope_or_none(pieces: list[str], path: str) -> None:
    data = "".join(pieces).encode()
    try:
        scope = find_scope(path, data, "f")
    except ScopeFault:
        return
    assert 0 <= scope.start < scope.end <= len(data)
    assert b"f" in data[scope.start : scope.end]


@given(st.lists(st.tuples(st.text('ab," é', min_size=1), st.binary(max_size=3)), max_size=5))
def test_record_rows_of_others_stay(files: list[tuple[str, bytes]]) -> None:
    record = b"x/y.py,sha256=old,3\r\nz.py,,\n"
    after, found = rewrite_record(record, {**dict(files), "x/y.py": b"new"})
    assert found == {"x/y.py"}
    assert after.startswith(b"x/y.py,sha256=EVB6")
    assert after.endswith(b",3\r\nz.py,,\n")
