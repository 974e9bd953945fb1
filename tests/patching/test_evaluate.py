"""Every outcome, and what holds between edits of one run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.patching.evaluate import evaluate
from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant
from pipeline.patching.outcomes import Evaluation, Outcome

BODY = b"""def f():
    x = 1
    return x


def g():
    x = 1
    return x
"""


def edit(
    find: str, replace: str, within: str | None = None, count: int = 1, file: str = "a.py"
) -> Edit:
    return Edit(f"{within}:{find[:9]}>{replace[:9]}", file, find, replace, within, count)


def patch(*edits: Edit, name: str = "p", upstream: tuple[UpstreamTest, ...] = ()) -> Patch:
    variant = Variant(Requirement("vllm==1.*"), edits, upstream)
    return Patch(name, "t", "w", "", "vllm", (variant,))


def ask(
    files: Mapping[str, bytes] | bytes, *patches: Patch, version: str = "1.0", python: str = "3.11"
) -> Evaluation:
    tree = {"a.py": files} if isinstance(files, bytes) else files
    versions = {"vllm": Version(version)}
    return evaluate(patches, tree.get, versions, python, lambda _: tree)


def one(evaluation: Evaluation, index: int = 0) -> Outcome:
    return evaluation.patches[0].edits[index].outcome


def refused(evaluation: Evaluation, outcome: Outcome) -> str:
    assert not evaluation.fits
    assert not evaluation.files
    failed = [e for e in evaluation.failures if e.outcome is outcome]
    assert failed, evaluation
    assert not any(e.outcome is Outcome.APPLIED for p in evaluation.patches for e in p.edits)
    return " ".join([failed[0].message, *failed[0].hints])


def test_applied_touches_the_scope_only() -> None:
    evaluation = ask(BODY, patch(edit("x = 1", "x = 2", "g")))
    image = evaluation.files["a.py"]
    assert image.data == BODY[::-1].replace(b"1 = x", b"2 = x", 1)[::-1]
    assert image.before != image.after
    assert one(evaluation) is Outcome.APPLIED


def test_twice_is_already_applied() -> None:
    change = patch(edit("x = 1", "x = 2", "g"), edit("x = 1", "x = 1\n    y = 1", "f"))
    first = ask(BODY, change)
    second = ask(first.files["a.py"].data, change)
    assert second.fits
    assert not second.files
    assert second.patches[0].outcome is Outcome.ALREADY_APPLIED


def test_one_failure_keeps_everything_back() -> None:
    evaluation = ask(
        {"a.py": BODY, "b.py": BODY},
        patch(edit("x = 1", "x = 2", "f"), name="good"),
        patch(edit("x = 3", "x = 4", "f", file="b.py"), edit("y", "z", file="c.py"), name="bad"),
    )
    assert not evaluation.files
    assert evaluation.patches[0].outcome is Outcome.FITS
    assert [e.outcome for e in evaluation.failures] == ["anchor-missing", "target-missing"]


def test_anchor_missing_names_where_it_stands() -> None:
    message = refused(ask(BODY, patch(edit("def g", "def h", "f"))), Outcome.ANCHOR_MISSING)
    assert "outside the scope, at line 6 (g)" in message


@pytest.mark.parametrize(
    ("find", "hint"),
    [
        ("X = 1\n    return", "differs only in case, line 2"),
        ("x  = 1", "differs only in white space, line 2"),
        ("x = 1\r\n    return", "differs only in line ends, line 2"),
        ("x = 1  \n    return", "differs only in trailing whitespace, line 2"),
        ("x = 1\n      return", "differs only in indentation, line 3"),
        ("x = 1\n\treturn", "differs only in indentation characters, line 3"),
        ("    return xx\n", "like it: line 3"),
        ("nothing like this", "the anchor stands 0 times, expected 1"),
    ],
)
def test_near_misses(find: str, hint: str) -> None:
    assert hint in refused(ask(BODY, patch(edit(find, "@@", "f"))), Outcome.ANCHOR_MISSING)


def test_crlf_file_does_not_match_a_newline_anchor() -> None:
    data = BODY.replace(b"\n", b"\r\n")
    message = refused(ask(data, patch(edit("x = 1\n", "x = 2\n", "f"))), Outcome.ANCHOR_MISSING)
    assert "line ends, line 2" in message
    evaluation = ask(data, patch(edit("x = 1\r\n", "x = 2\r\n", "f")))
    assert evaluation.files["a.py"].data == data.replace(b"1", b"2", 1)


def test_mixed_line_ends_stay() -> None:
    data = b"a = 1\r\nb = 1\nc = 1\r"
    assert ask(data, patch(edit("b", "d"))).files["a.py"].data == b"a = 1\r\nd = 1\nc = 1\r"


def test_count_is_exact() -> None:
    evaluation = ask(BODY, patch(edit("x = 1", "x = 2")))
    assert evaluation.failures[0].lines == (2, 7)
    refused(evaluation, Outcome.ANCHOR_AMBIGUOUS)
    refused(ask(BODY, patch(edit("x = 1", "x = 2", count=3))), Outcome.ANCHOR_AMBIGUOUS)
    assert ask(BODY, patch(edit("x = 1", "x = 2", count=2))).fits


def test_occurrences_may_stand_side_by_side() -> None:
    assert ask(b"aaa", patch(edit("a", "b", count=3))).files["a.py"].data == b"bbb"


def test_what_is_counted_is_said() -> None:
    message = refused(
        ask(BODY, patch(edit("return x", "x", "f", count=2))), Outcome.ANCHOR_AMBIGUOUS
    )
    assert message.startswith("the anchor stands once, expected 2")
    message = refused(ask(BODY, patch(edit("no", "x", count=1))), Outcome.ANCHOR_MISSING)
    assert message.startswith("the anchor stands 0 times, expected 1")


def test_occurrences_may_not_overlap() -> None:
    message = refused(ask(b"aaa", patch(edit("aa", "b", count=2))), Outcome.ANCHOR_AMBIGUOUS)
    assert "overlap" in message


def test_scope_outcomes() -> None:
    refused(ask(BODY, patch(edit("x", "y", "h"))), Outcome.SCOPE_MISSING)
    refused(ask(BODY + BODY, patch(edit("x", "y", "g"))), Outcome.SCOPE_AMBIGUOUS)
    text = {"a.txt": BODY}
    refused(ask(text, patch(edit("x", "y", "g", file="a.txt"))), Outcome.SCOPE_MISSING)


def test_half_replaced_edit() -> None:
    data = BODY.replace(b"x = 1", b"x = 2", 1)
    refused(ask(data, patch(edit("x = 1", "x = 2", count=2))), Outcome.PARTIALLY_APPLIED)


def test_half_applied_patch() -> None:
    data = BODY.replace(b"x = 1", b"x = 2", 1)
    change = patch(edit("x = 1", "x = 2", "f"), edit("x = 1", "x = 2", "g"))
    evaluation = ask(data, change)
    assert "applied already" in refused(evaluation, Outcome.PARTIALLY_APPLIED)
    assert evaluation.patches[0].outcome is Outcome.PARTIALLY_APPLIED


def test_replacement_that_stands_there_by_nature_is_refused() -> None:
    data = b"x = 1\ny = 2\nx = 2\n"
    assert "longer" in refused(ask(data, patch(edit("x = 1", "x = 2"))), Outcome.CONFLICT)


def test_drift_is_not_taken_for_applied() -> None:
    """The anchor is gone, and the replacement's text stands more often than it should."""
    data = b"x = 2\ny = 2\nx = 2\n"
    refused(ask(data, patch(edit("x = 1", "x = 2"))), Outcome.ANCHOR_MISSING)


def test_edits_that_touch_each_other_conflict() -> None:
    first = edit("x = 1", "x = 10", "f")
    for second in (edit("x = 10", "x = 11", "f"), edit("= 10\n    return", "= 2\n    return", "f")):
        refused(ask(BODY, patch(first, second)), Outcome.CONFLICT)
    message = refused(ask(BODY, patch(first, edit("x = 1\n", "x = 3\n", "f"))), Outcome.CONFLICT)
    assert "stood there before" in message
    refused(ask(BODY, patch(first), patch(first, name="other")), Outcome.CONFLICT)


def test_patch_listed_twice_conflicts() -> None:
    change = patch(edit("x = 1", "x = 2", "f"))
    again = ask(BODY, change, change).patches[1]
    assert (again.outcome, again.message, again.edits) == (
        Outcome.CONFLICT,
        "it is listed twice",
        (),
    )


def test_edits_side_by_side_are_fine() -> None:
    evaluation = ask(b"ab", patch(edit("a", "c"), edit("b", "dd")))
    assert evaluation.files["a.py"].data == b"cdd"


def test_edit_that_hides_itself_conflicts() -> None:
    refused(ask(BODY, patch(edit("def f", "def h", "f"))), Outcome.CONFLICT)
    refused(ask(BODY, patch(edit("return x\n", "return x\n\n\ny = 1\n", "f"))), Outcome.CONFLICT)
    brings_anchor_back = patch(edit("x = 1", "x = 2", "f"), edit("x\n", "x\n    x = 1\n", "f"))
    refused(ask(BODY, brings_anchor_back), Outcome.CONFLICT)


def test_upstream_is_asked_first() -> None:
    test = UpstreamTest("a.py", "return x", "g")
    evaluation = ask(BODY, patch(edit("no such", "anchor"), upstream=(test,)))
    assert evaluation.fits
    assert not evaluation.files
    assert evaluation.patches[0].outcome is Outcome.UPSTREAM


@pytest.mark.parametrize(
    "test",
    [
        UpstreamTest("a.py", "return y"),
        UpstreamTest("a.py", "return x", "h"),
        UpstreamTest("b.py", "return x"),
    ],
)
def test_every_upstream_test_must_hold(test: UpstreamTest) -> None:
    holds = UpstreamTest("a.py", "return x")
    change = patch(edit("x = 1", "x = 2", "f"), upstream=(holds, test))
    assert ask(BODY, change).patches[0].outcome is Outcome.APPLIED


def test_patch_may_not_fulfil_its_own_upstream_test() -> None:
    change = patch(edit("x = 1", "x = 2", "f"), upstream=(UpstreamTest("a.py", "x = 2"),))
    assert "upstream" in refused(ask(BODY, change), Outcome.CONFLICT)


def test_without_edits_the_release_must_show_the_change() -> None:
    test = UpstreamTest("a.py", "return x", "g")
    assert ask(BODY, patch(upstream=(test,))).patches[0].outcome is Outcome.UPSTREAM
    lacking = UpstreamTest("a.py", "return y", "g")
    evaluation = ask(BODY, patch(upstream=(test, lacking)))
    assert not evaluation.fits
    assert evaluation.patches[0].outcome is Outcome.ANCHOR_MISSING
    assert evaluation.patches[0].message == "said to be upstream, but a.py in g lacks 'return y'"


def test_not_needed_is_fine_and_changes_nothing() -> None:
    variant = Variant(Requirement("vllm==1.*"), (), not_needed="it never had the fault")
    evaluation = ask(BODY, Patch("p", "t", "w", "", "vllm", (variant,)))
    assert evaluation.fits
    assert not evaluation.files
    assert evaluation.patches[0].outcome is Outcome.NOT_NEEDED
    assert evaluation.patches[0].message == "it never had the fault"


@pytest.mark.parametrize(
    ("requirement", "version", "fits"),
    [
        ("vllm==0.1.dev20051", "0.1.dev20051+g487ecf187", True),
        ("vllm==0.1.dev20051+g487ecf187", "0.1.dev20051+g487ecf187", True),
        ("vllm==0.1.dev20051+g000000000", "0.1.dev20051+g487ecf187", False),
        ("vllm==0.30.*", "0.30.0rc1", True),
        ("vllm>=0.30", "0.30.1.dev3+cu130", True),
        ("vllm==0.30.*", "0.31.0", False),
        ("VLLM==0.30.*", "0.30.0+cu130", True),
        ("other==1", "0.30.0", False),
    ],
)
def test_variant_by_version(requirement: str, version: str, fits: bool) -> None:
    variant = Variant(Requirement(requirement), (edit("x = 1", "x = 2", "f"),))
    change = Patch("p", "t", "w", "", "vllm", (variant,))
    evaluation = ask(BODY, change, version=version)
    assert evaluation.patches[0].outcome is (Outcome.APPLIED if fits else Outcome.NO_VARIANT)


def test_two_fitting_variants_are_ambiguous() -> None:
    variants = tuple(Variant(Requirement(r), (edit("x", "y"),)) for r in ("vllm==1.*", "vllm>=1"))
    evaluation = ask(BODY, Patch("p", "t", "w", "", "vllm", variants))
    assert evaluation.patches[0].outcome is Outcome.VARIANT_AMBIGUOUS
    assert not evaluation.fits


def test_moved_to_another_file_of_the_distribution() -> None:
    files = {"a.py": b"y = 1\n", "b/c.py": BODY, "notes.txt": BODY}
    message = refused(ask(files, patch(edit("def g", "def h"))), Outcome.ANCHOR_MISSING)
    assert "b/c.py holds the anchor" in message
    assert "notes" not in message
    message = refused(ask(files, patch(edit("@", "#", file="x/c.py"))), Outcome.TARGET_MISSING)
    assert "b/c.py has its name" in message


def test_would_not_parse() -> None:
    evaluation = ask(BODY, patch(edit("x = 1", "x = (", "f")))
    assert "Python 3.11: line" in refused(evaluation, Outcome.WOULD_NOT_PARSE)


def test_syntax_of_the_images_python() -> None:
    change = patch(edit("x = 1", "type X = int", "f"))
    refused(ask(BODY, change, python="3.11"), Outcome.WOULD_NOT_PARSE)
    assert ask(BODY, change, python="3.12").fits


def test_return_outside_a_function_would_not_compile() -> None:
    refused(ask(BODY, patch(edit("def f():", "if 1:"))), Outcome.WOULD_NOT_PARSE)


def test_patch_is_not_blamed_for_a_broken_file() -> None:
    evaluation = ask(b"x = 1\ny = (\n", patch(edit("x = 1", "x = 2")))
    assert evaluation.fits
    assert "before the edit either" in evaluation.patches[0].edits[0].note


def test_binary_and_odd_encodings() -> None:
    refused(ask(b"x = 1\n\0", patch(edit("x = 1", "x = 2"))), Outcome.NOT_TEXT)
    ebcdic = b"# coding: cp037\nx = 1\n"
    refused(ask(ebcdic, patch(edit("x = 1", "x = 2"))), Outcome.ENCODING)
    latin = b"# coding: latin-1\nx = 1\n"
    refused(ask(latin, patch(edit("x = 1", "x = '☃'"))), Outcome.ENCODING)
    stray = {"a.cuh": b"// \xb4\nx = 1\n"}
    refused(ask(stray, patch(edit("x = 1", "x = 'ö'", file="a.cuh"))), Outcome.ENCODING)
    assert ask(stray, patch(edit("x = 1", "x = 2", file="a.cuh"))).fits


def test_huge_file() -> None:
    data = b"x = 1\n" + b"y = 0  # padding\n" * 200_000
    evaluation = ask({"a.txt": data}, patch(edit("x = 1", "x = 2", file="a.txt")))
    assert evaluation.files["a.txt"].data == data.replace(b"x = 1", b"x = 2")
    refused(ask({"a.txt": data}, patch(edit("z = 9", "z", file="a.txt"))), Outcome.ANCHOR_MISSING)


def test_two_runs_give_equal_answers() -> None:
    patches = [patch(edit("x = 1", "x = 2", "f"), edit("y", "z"))]
    assert ask(BODY, *patches) == ask(BODY, *patches)


def test_the_variant_that_was_taken_is_named() -> None:
    change = patch(edit("x = 1", "x = 2", "f"))
    assert ask(BODY, change).patches[0].variant == "vllm==1.*"
    assert ask(BODY, change, version="2.0").patches[0].variant == ""


def test_where_upstream_has_the_fix_is_said() -> None:
    tests = [UpstreamTest(file, "return x") for file in ("b.py", "a.py", "b.py")]
    files = {"a.py": BODY, "b.py": BODY}
    assert ask(files, patch(upstream=tuple(tests))).patches[0].message == "the fix is in a.py, b.py"
    lacking = UpstreamTest("a.py", "return y")
    evaluation = ask(files, patch(upstream=(tests[0], lacking)))
    assert evaluation.patches[0].message == "said to be upstream, but a.py lacks 'return y'"


def test_a_patch_without_edits_hides_no_fault_of_the_next() -> None:
    fixed = patch(name="fixed", upstream=(UpstreamTest("a.py", "return x"),))
    hiding = patch(edit("def f", "def h", "f"), name="hiding")
    assert "would not be seen as applied" in refused(ask(BODY, fixed, hiding), Outcome.CONFLICT)


def test_the_lines_that_would_not_parse() -> None:
    broken = patch(edit("x = 1", "x = = 1", "g"))
    (result,) = ask(BODY, broken).failures
    assert (result.outcome, result.lines) == (Outcome.WOULD_NOT_PARSE, (7,))


def test_an_anchor_that_its_own_file_holds_is_looked_for_nowhere_else() -> None:
    files = {"a.py": BODY + b"\n\ndef h():\n    y = 3\n", "b.py": b"y = 3\n"}
    outside = patch(edit("y = 3", "y = 4", "f"))
    assert "holds the anchor" not in refused(ask(files, outside), Outcome.ANCHOR_MISSING)
    nowhere = {**files, "a.py": BODY}
    assert "b.py holds the anchor" in refused(ask(nowhere, outside), Outcome.ANCHOR_MISSING)
    # One that stands too often is there.
    often = patch(edit("x = 1", "x = 2"))
    also = {"a.py": BODY, "b.py": b"x = 1\n"}
    assert "b.py" not in refused(ask(also, often), Outcome.ANCHOR_AMBIGUOUS)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"y = 3\n", "holds the anchor"), (b"", "has its name, but not the anchor")],
)
def test_three_places_are_enough(content: bytes, said: str) -> None:
    files = {f"pkg/{n}/deep/gone.py": content for n in range(5)}
    (result,) = ask(files, patch(edit("y = 3", "y = 4", file="pkg/old/gone.py"))).failures
    assert result.outcome is Outcome.TARGET_MISSING
    assert list(result.hints) == [f"pkg/{n}/deep/gone.py {said}" for n in range(3)]


def test_a_sound_file_hides_no_broken_one() -> None:
    files = {"a.py": BODY, "b.py": BODY}
    sound, broken = edit("x = 1", "x = 2", "f"), edit("x = 1", "x = = 1", "g", file="b.py")
    (result,) = ask(files, patch(sound, broken)).failures
    assert (result.file, result.outcome) == ("b.py", Outcome.WOULD_NOT_PARSE)
