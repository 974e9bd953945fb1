"""What a release does to patches: every verdict, its evidence and its proposal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.patching.fitted import nearest_variant
from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant
from pipeline.patching.sources import Source
from pipeline.patching.survey import survey
from pipeline.patching.verdicts import EditReport, PatchReport, State, Verdict

OLD = """
class Backend:
    @classmethod
    def supports(cls, capability):
        # which GPUs there are
        major = capability.major
        if cls.known(major):
            return major == 9
        return False


def plan(device):
    first = prepare(device)
    second = torch.empty(first)
    third = finish(second)
    return third
"""
SUPPORTS = Edit("e.a", "pkg/a.py", "major == 9", "major in (9, 12)", "Backend.supports")
PLAN = Edit("e.b", "pkg/a.py", "torch.empty(first)", "torch.full(first, -1)", "plan")


def patch(*edits: Edit, upstream: tuple[UpstreamTest, ...] = (), label: str = "pkg==1.*") -> Patch:
    return Patch("p", "t", "w", "", "pkg", (Variant(Requirement(label), edits, upstream),))


def ask(
    change: Patch,
    files: Mapping[str, str],
    version: str = "2.0",
    origin: Mapping[str, str] | None = None,
) -> PatchReport:
    data = {path: text.encode() for path, text in files.items()}
    old = {path: text.encode() for path, text in (origin or {}).items()}
    source = Source("pkg 2.0", data.get, {"pkg": Version(version)}, "3.11", lambda _: sorted(data))
    result = survey([change], source, lambda *_: old.get if origin is not None else None)
    (report,) = result.patches
    assert result.fits == (report.state not in (State.NEEDS_VARIANT, State.DOES_NOT_FIT))
    return report


def one(
    edit: Edit,
    files: str | Mapping[str, str],
    verdict: Verdict,
    origin: str | None = OLD,
) -> EditReport:
    files = {"pkg/a.py": files} if isinstance(files, str) else files
    report = ask(patch(edit), files, origin={"pkg/a.py": origin} if origin is not None else None)
    (made,) = report.edits
    assert made.verdict is verdict, made
    return made


def test_own_variant_fits() -> None:
    report = ask(patch(SUPPORTS, PLAN), {"pkg/a.py": OLD}, version="1.5")
    assert (report.state, report.own, report.message) == (State.FITS, True, "")
    assert [edit.lines[0].number for edit in report.edits] == [8, 14]


def test_release_without_a_variant_is_asked_as_if() -> None:
    report = ask(patch(SUPPORTS), {"pkg/a.py": OLD}, origin={"pkg/a.py": OLD})
    assert (report.state, report.own) == (State.NEEDS_VARIANT, False)
    assert "as if pkg==1.*" in report.message
    proposal = report.edits[0].proposal
    assert proposal and proposal.edit == SUPPORTS and not proposal.read


def test_applying_in_a_changed_scope_must_be_read() -> None:
    new = OLD.replace("# which GPUs there are", "# which there are")
    made = one(SUPPORTS, new, Verdict.APPLIES)
    assert made.proposal and "1 of its 7 lines are gone, 1 are new" in made.proposal.read[0]


def test_without_the_old_release_everything_must_be_read() -> None:
    made = one(SUPPORTS, OLD, Verdict.APPLIES, origin=None)
    assert made.proposal and "not at hand" in made.proposal.read[0]


def test_upstream_shows_its_evidence() -> None:
    test = UpstreamTest("pkg/a.py", "torch.full", "plan")
    new = OLD.replace("torch.empty(first)", "torch.full(first, -1)")
    report = ask(patch(PLAN, upstream=(test,)), {"pkg/a.py": new})
    assert report.state is State.UPSTREAM
    assert report.edits[0].verdict is Verdict.UPSTREAM
    assert report.edits[0].lines[0].text.strip() == "second = torch.full(first, -1)"
    assert "drop" in report.message


def test_upstream_is_asked_before_a_matching_anchor() -> None:
    new = OLD.replace("return third", "return third  # torch.full(first, -1) is in finish")
    test = UpstreamTest("pkg/a.py", "is in finish", "plan")
    assert ask(patch(PLAN, upstream=(test,)), {"pkg/a.py": new}).state is State.UPSTREAM


@pytest.mark.parametrize("within", ["plan", None])
def test_upstream_test_follows_a_scope_that_moved(within: str | None) -> None:
    test = UpstreamTest("pkg/a.py", "is in finish", within)
    new = OLD.replace("return third", "return third  # is in finish")
    old = {"pkg/a.py": OLD}
    report = ask(patch(PLAN, upstream=(test,)), {"pkg/sub/b.py": new}, origin=old)
    assert report.state is State.UPSTREAM
    assert report.edits[0].lines[0].file == "pkg/sub/b.py"
    assert report.upstream[0].file == "pkg/sub/b.py"
    report = ask(patch(PLAN, upstream=(test,)), {"pkg/sub/b.py": OLD}, origin=old)
    assert report.edits[0].verdict is Verdict.MOVED


def test_upstream_test_is_not_asked_in_a_worse_namesake() -> None:
    fixed = OLD.replace("return third", "return third  # is in finish")
    test = UpstreamTest("pkg/a.py", "is in finish", "plan")
    edits = (PLAN, Edit("e.c", "pkg/nvidia/ops.py", "y = 1", "y = 2"))
    files = {"pkg/amd/x.py": fixed, "pkg/nvidia/x.py": OLD, "pkg/nvidia/ops.py": "y = 1\n"}
    report = ask(patch(*edits, upstream=(test,)), files, origin={"pkg/a.py": OLD})
    assert report.edits[0].verdict is Verdict.MOVED


def test_variant_without_edits() -> None:
    test = UpstreamTest("pkg/a.py", "is in finish", "plan")
    change = patch(upstream=(test,), label="pkg==2.*")
    new = OLD.replace("return third", "return third  # is in finish")
    assert ask(change, {"pkg/a.py": new}).state is State.UPSTREAM
    report = ask(change, {"pkg/a.py": OLD})
    assert report.state is State.DOES_NOT_FIT
    assert "lacks" in report.message


def test_not_needed_holds_for_its_own_release_only() -> None:
    without = Variant(Requirement("pkg==1.9"), (), not_needed="never had it")
    both = Patch("p", "t", "w", "", "pkg", (without,))
    report = ask(both, {"pkg/a.py": OLD}, version="1.9")
    assert (report.state, report.message) == (State.NOT_NEEDED, "never had it")
    assert ask(both, {"pkg/a.py": OLD}).state is State.DOES_NOT_FIT
    older = Variant(Requirement("pkg==1.2.*"), (SUPPORTS,))
    both = Patch("p", "t", "w", "", "pkg", (older, without))
    report = ask(both, {"pkg/a.py": OLD})
    assert report.variant == older


def test_already_applied() -> None:
    report = ask(patch(PLAN), {"pkg/a.py": OLD.replace(PLAN.find, PLAN.replace)})
    assert report.state is State.ALREADY_APPLIED


@pytest.mark.parametrize("origin", [OLD, None])
def test_moved_to_another_file(origin: str | None) -> None:
    made = one(SUPPORTS, {"pkg/a.py": "x = 1\n", "pkg/sub/b.py": OLD}, Verdict.MOVED, origin)
    assert "pkg/sub/b.py" in made.message
    assert made.proposal and made.proposal.edit.file == "pkg/sub/b.py"
    assert made.proposal.edit.find == SUPPORTS.find
    assert made.proposal.changes == ("file pkg/a.py -> pkg/sub/b.py",)
    assert made.proposal.read


def test_moved_when_the_file_is_gone() -> None:
    one(SUPPORTS, {"pkg/b.py": OLD, "pkg/notes.txt": OLD}, Verdict.MOVED)


def test_moved_out_of_its_scope_keeps_its_surroundings() -> None:
    moved = OLD.replace("def plan", "def _plan_rows") + "\n\ndef plan(device):\n    return 0\n"
    made = one(PLAN, moved, Verdict.MOVED)
    assert made.proposal and made.proposal.edit.within == "_plan_rows"
    assert any("scope plan -> _plan_rows" in change for change in made.proposal.changes)


def test_anchor_elsewhere_by_chance_is_no_move() -> None:
    other = "def other(first):\n    a = 1\n    b = torch.empty(first)\n    return b\n"
    one(PLAN, {"pkg/a.py": "x = 1\n", "pkg/c.py": other}, Verdict.GONE)


def test_of_two_namesakes_the_one_beside_the_patch_is_proposed() -> None:
    files = {"pkg/amd/x.py": OLD, "pkg/nvidia/x.py": OLD, "pkg/nvidia/ops.py": "y = 1\n"}
    edits = (SUPPORTS, Edit("e.c", "pkg/nvidia/ops.py", "y = 1", "y = 2"))
    report = ask(patch(*edits), files, origin={"pkg/a.py": OLD})
    proposal = report.edits[0].proposal
    assert proposal and proposal.edit.file == "pkg/nvidia/x.py"
    assert any("pkg/amd/x.py" in why for why in proposal.read)


def test_moved_deeper_is_indented() -> None:
    edit = Edit("e", "pkg/a.py", "third = finish(second)", "# new\n    third = 0", "plan")
    deeper = "class C:\n" + "".join(
        f"    {line}\n" if line else "\n" for line in OLD[OLD.index("def plan") :].splitlines()
    )
    made = one(edit, {"pkg/a.py": deeper}, Verdict.MOVED)
    assert made.proposal and made.proposal.edit.replace == "# new\n        third = 0"
    assert "replacement indented by +4" in made.proposal.changes


def test_a_scope_is_never_left_out() -> None:
    flat = "second = torch.empty(first)\n" + OLD[: OLD.index("def plan")]
    made = one(PLAN, {"pkg/a.py": flat}, Verdict.MOVED, origin=None)
    assert made.proposal is None
    assert "by hand" in made.message


@pytest.mark.parametrize("origin", [OLD, None])
def test_drifted_with_a_merged_replacement(origin: str | None) -> None:
    edit = Edit(
        "e", "pkg/a.py", "second = torch.empty(first)", "second = torch.full(first, -1)", "plan"
    )
    made = one(edit, OLD.replace("second =", "rows ="), Verdict.DRIFTED, origin)
    assert made.lines[0].text.strip() == "rows = torch.empty(first)"
    assert made.proposal
    assert OLD.count(made.proposal.edit.find) <= 1
    assert "rows = torch.empty(first)" in made.proposal.edit.find
    assert "torch.full(first, -1)" in made.proposal.edit.replace
    assert made.proposal.changes[0].startswith("anchor ")
    assert any("anchor" in why for why in made.proposal.read)


def test_drifted_where_upstream_changed_the_same_words_has_no_proposal() -> None:
    made = one(SUPPORTS, OLD.replace("major == 9", "major >= 9"), Verdict.DRIFTED)
    assert made.proposal is None
    assert "by hand" in made.message
    assert made.lines[0].text.strip() == "return major >= 9"


def test_drifted_in_white_space() -> None:
    edit = Edit(
        "e", "pkg/a.py", "first = prepare(device)\n    second", "first = 0\n    second", "plan"
    )
    new = OLD.replace("prepare(device)\n    second", "prepare(device)\n\n    second")
    made = one(edit, new, Verdict.DRIFTED)
    assert made.proposal and "first = 0" in made.proposal.edit.replace


def test_anchor_that_stands_twice_now() -> None:
    new = OLD.replace(
        "    return third", "    third = finish(torch.empty(first))\n    return third"
    )
    made = one(PLAN, new, Verdict.DRIFTED)
    assert made.proposal
    find = made.proposal.edit.find
    assert new.count(find) == 1 and "torch.empty(first)" in find
    assert new.index("second =") < new.index(find) < new.index("third =")
    assert one(PLAN, new, Verdict.DRIFTED, origin=None).proposal is None


def test_gone_from_its_scope() -> None:
    new = OLD.replace("    second = torch.empty(first)\n", "").replace("(second)", "(first)")
    made = one(PLAN, new, Verdict.GONE)
    assert made.proposal is None


def test_gone_with_its_scope() -> None:
    made = one(PLAN, "x = 1\n", Verdict.GONE)
    assert "neither plan nor its anchor" in made.message


def test_refused_when_the_result_would_not_parse() -> None:
    made = one(
        Edit("e", "pkg/a.py", "major == 9", "major == (", "Backend.supports"), OLD, Verdict.REFUSED
    )
    assert "would-not-parse" in made.message


def test_distribution_that_is_not_there() -> None:
    source = Source("tree", {}.get, {}, "3.11", lambda _: [])
    (report,) = survey([patch(SUPPORTS)], source, lambda *_: None).patches
    assert (report.state, report.edits) == (State.DOES_NOT_FIT, ())
    assert "not installed" in report.message


def test_count_is_never_changed() -> None:
    edit = Edit("e", "pkg/a.py", "return", "yield", "Backend.supports", count=2)
    new = OLD.replace("            return major == 9", "            major == 9")
    assert one(edit, new, Verdict.DRIFTED).proposal is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.0", "p==1.2.*"), ("1.1", "p==1.0.*"), ("0.9", "p==0.1.dev5"), ("0.0.1", "p==0.1.dev5")],
)
def test_nearest_variant(version: str, expected: str) -> None:
    labels = ["p==1.0.*", "p==1.2.*", "p==0.1.dev5", "other==1.9"]
    variants = tuple(Variant(Requirement(label), (SUPPORTS,)) for label in labels)
    change = Patch("p", "t", "w", "", "p", variants)
    found = nearest_variant(change, Version(version))
    assert found and found.label == expected


def test_a_variant_that_ends_before_a_release_is_near_to_it() -> None:
    variants = tuple(Variant(Requirement(one), (SUPPORTS,)) for one in ("p==1.0.*", "p<1.2"))
    found = nearest_variant(Patch("p", "t", "w", "", "p", variants), Version("1.2"))
    assert found and found.label == "p<1.2"


def test_no_variant_near() -> None:
    change = Patch("p", "t", "w", "", "p", (Variant(Requirement("other==1"), (SUPPORTS,)),))
    assert nearest_variant(change, Version("1")) is None


def test_two_surveys_are_equal() -> None:
    files = {"pkg/a.py": "x = 1\n", "pkg/b.py": OLD, "pkg/c.py": OLD}
    assert ask(patch(SUPPORTS, PLAN), files) == ask(patch(SUPPORTS, PLAN), files)


def test_several_patches_are_asked_each_by_itself() -> None:
    """Of two distributions, each with an edit that is not where it was."""
    first = patch(PLAN)
    other = replace(patch(replace(PLAN, id="e.z", file="oth/a.py")), name="q", distribution="oth")
    other = replace(other, variants=(Variant(Requirement("oth==1.*"), other.variants[0].edits),))
    files = {"pkg/b.py": OLD, "oth/b.py": OLD}
    data = {path: text.encode() for path, text in files.items()}
    versions = {"pkg": Version("2.0"), "oth": Version("2.0")}
    source = Source("both", data.get, versions, "3.11", lambda name: [f"{name}/b.py"])
    origin = {"pkg/a.py": OLD.encode(), "oth/a.py": OLD.encode()}
    third = replace(patch(replace(PLAN, id="e.y")), name="r")
    reports = survey([first, other, third], source, lambda *_: origin.get).patches
    assert [(one.edits[0].verdict, one.edits[0].lines[0].file) for one in reports] == [
        (Verdict.MOVED, "pkg/b.py"),
        (Verdict.MOVED, "oth/b.py"),
        (Verdict.MOVED, "pkg/b.py"),
    ]


def test_two_variants_for_one_release_are_no_answer() -> None:
    both = replace(
        patch(SUPPORTS),
        variants=tuple(
            Variant(Requirement(label), (SUPPORTS,)) for label in ("pkg==1.*", "pkg==1.5")
        ),
    )
    report = ask(both, {"pkg/a.py": OLD}, version="1.5")
    assert (report.state, report.variant, report.own) == (State.DOES_NOT_FIT, None, False)
    assert report.edits == () and "pkg==1.5" in report.message


def test_what_is_asked_of_a_maintainer() -> None:
    gone = OLD.replace("torch.empty(first)", "made()")
    as_if_own = "no variant is for it; asked as if pkg==1.* were; "
    assert ask(patch(SUPPORTS), {"pkg/a.py": OLD}).message == (
        as_if_own + "every edit applies; a variant for this release is needed: `patches port`"
    )
    assert ask(patch(PLAN), {"pkg/a.py": gone}).message == (
        as_if_own + "a variant for this release is needed: see the edits, then `patches port`"
    )
    own = ask(patch(PLAN), {"pkg/a.py": gone}, version="1.5")
    assert own.message == "its edits have to be changed"
    made = {"pkg/a.py": OLD.replace("torch.empty(first)", "torch.full(first, -1)")}
    dropped = "the release has it: a line on this release can drop the patch"
    assert ask(patch(PLAN), made, version="1.5").message == dropped
    test = UpstreamTest("pkg/a.py", "def plan")
    report = ask(patch(PLAN, upstream=(test,)), {"pkg/a.py": OLD}, version="1.5")
    assert (report.message, report.edits[0].message) == (dropped, "the fix is in pkg/a.py")


def test_an_own_variant_needs_no_reading_and_keeps_its_tests() -> None:
    changed = OLD.replace("# which GPUs there are", "# which there are")
    test = UpstreamTest("pkg/old.py", "is in finish", "plan")
    report = ask(
        patch(SUPPORTS, upstream=(test,)),
        {"pkg/a.py": changed},
        version="1.5",
        origin={"pkg/a.py": OLD, "pkg/old.py": OLD},
    )
    assert report.state is State.FITS and report.upstream == (test,)
    assert report.edits[0].proposal and report.edits[0].proposal.read == ()


def test_five_places_of_an_edit_are_shown() -> None:
    many = "".join(f"y{n} = x\n" for n in range(7))
    change = Edit("e", "pkg/a.py", "= x\n", "= z\n", count=7)
    (report,) = ask(patch(change), {"pkg/a.py": many}).edits
    assert [line.number for line in report.lines] == [1, 2, 3, 4, 5]


def test_why_an_edit_is_refused() -> None:
    odd = Edit("e", "pkg/a.py", "return third", "return third)", "plan")
    (report,) = ask(patch(odd), {"pkg/a.py": OLD}).edits
    assert report.verdict is Verdict.REFUSED
    assert report.message.startswith(
        "would-not-parse: the edited file would not parse for Python 3.11: line 16: "
    )


def test_the_line_that_shows_the_fix_is_the_one_where_it_begins() -> None:
    for text in ("x = 1\nfixed = 1\n", "x = 1\nfixed = 1"):
        test = UpstreamTest("pkg/a.py", "fixed = 1" + ("\n" if text.endswith("\n") else ""))
        report = ask(patch(PLAN, upstream=(test,)), {"pkg/a.py": text})
        (line,) = report.edits[0].lines
        assert (line.number, line.text) == (2, "fixed = 1")


def test_the_variants_that_there_are_are_named() -> None:
    variants = tuple(Variant(Requirement(one), (PLAN,)) for one in ("pkg==1.*", "pkg==1.5"))
    both = replace(patch(PLAN), variants=variants)
    assert "pkg==1.*, pkg==1.5" in ask(both, {"pkg/a.py": OLD}, version="1.5").message
    other = replace(patch(PLAN), variants=(Variant(Requirement("oth==1.*"), (PLAN,)),))
    assert "oth==1.*" in ask(other, {"pkg/a.py": OLD}).message


def test_tests_of_several_patches_follow_their_scopes() -> None:
    new = OLD.replace("return third", "return third  # is in finish").encode()
    test = UpstreamTest("pkg/a.py", "is in finish", "plan")
    patches = [replace(patch(PLAN, upstream=(test,)), name=name) for name in ("p", "q", "r")]
    source = Source(
        "pkg 2.0", {"pkg/b.py": new}.get, {"pkg": Version("2.0")}, "3.11", lambda _: ["pkg/b.py"]
    )
    reports = survey(patches, source, lambda *_: {"pkg/a.py": OLD.encode()}.get).patches
    assert [one.state for one in reports] == [State.UPSTREAM] * 3


def test_an_edit_in_a_scope_that_another_edit_brings_is_refused() -> None:
    head = "def plan(device):"
    first = Edit("e.1", "pkg/a.py", head, f"def made():\n    pass\n\n\n{head}")
    second = Edit("e.2", "pkg/a.py", "pass", "return 1", "made")
    report = ask(patch(first, second), {"pkg/a.py": OLD}, origin={"pkg/a.py": OLD})
    assert [one.verdict for one in report.edits] == [Verdict.APPLIES, Verdict.REFUSED]
    assert [len(one.lines) for one in report.edits] == [1, 0]
