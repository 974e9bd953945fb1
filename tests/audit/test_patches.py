"""Case 11: a later install step wrote the pristine file over a patched one."""

import hashlib
from pathlib import Path

from pipeline.audit.expectation import PatchExpectation, Probe
from pipeline.audit.findings import Finding
from pipeline.audit.run import audit
from pipeline.oci.view import LayersView
from tests.audit.images import GONE, SITE, Content, distribution, expect, image

PRISTINE = "def supports_pdl(major):\n    return major >= 9\n"
PATCHED = PRISTINE.replace("major >= 9", "major in (9, 10)")
FILE = f"{SITE}/vllm/cuda.py"
BASE = distribution("vllm", "0.1.dev20051+g487ecf187", {"vllm/cuda.py": PRISTINE})
PATCH = PatchExpectation("pdl", FILE, (Probe(b"major in (9, 10)"),), (Probe(b"major >= 9"),))
PINS = {"vllm": "0.1.dev20051+g487ecf187"}


def judge(view: LayersView, *patches: PatchExpectation) -> list[Finding]:
    return [one for one in audit(view, expect(PINS, patches=patches)).findings if not one.reason]


def test_11_patched_file_reinstalled_is_lost_by_the_layer_that_did_it(tmp_path: Path) -> None:
    view = image(tmp_path, BASE, {FILE: PATCHED}, BASE)
    (finding,) = judge(view, PATCH)
    assert (finding.rule, finding.severity, finding.path) == ("patch-lost", "error", FILE)
    assert finding.layer == view.layers[2].digest
    assert judge(view) == []  # pins alone show nothing


def test_11_a_patch_is_kept_by_other_layers_and_by_other_edits(tmp_path: Path) -> None:
    patched: dict[str, Content] = {FILE: PATCHED}
    assert judge(image(tmp_path, BASE, patched, {"other": ""}), PATCH) == []
    again: dict[str, Content] = {FILE: PATCHED + "\n\nX = 1\n"}
    assert judge(image(tmp_path, BASE, patched, again), PATCH) == []


def test_11_index_build_instead_of_own(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("flashinfer-python", "0.6.15.post1"))
    (finding,) = audit(view, expect({"flashinfer-python": "0.6.15.post1+cu132"})).findings
    assert finding.rule == "build-changed"


def test_a_patch_whose_file_is_gone_is_lost(tmp_path: Path) -> None:
    found = judge(image(tmp_path, BASE, {FILE: PATCHED}, {FILE: GONE}), PATCH)
    assert [one.rule for one in found] == ["file-missing", "patch-lost"]


def test_all_occurrences_count(tmp_path: Path) -> None:
    twice = PatchExpectation("fill", FILE, (Probe(b"fill(-1)", count=2),))
    view = image(tmp_path, {FILE: "fill(-1)\nfill(0)\n"})
    lost = [one for one in judge(view, twice) if one.rule == "patch-lost"]
    assert [one.message for one in lost] == ["cuda.py: the replacement is missing: fill(-1)"]


def test_scopes_are_asked_and_a_missing_scope_is_a_lost_patch(tmp_path: Path) -> None:
    view = image(tmp_path, {FILE: "one: NEW OLD\ntwo: NEW\n"})
    asked = []

    def read_scope(path: str, data: bytes, name: str) -> bytes | None:
        asked.append((path, name))
        return next((line for line in data.splitlines() if line.startswith(name.encode())), None)

    def lost(within: str) -> list[str]:
        patch = PatchExpectation("p", FILE, (Probe(b"NEW", within),), (Probe(b"OLD", within),))
        report = audit(view, expect(patches=(patch,)), read_scope=read_scope)
        return [one.message for one in report.findings if one.rule == "patch-lost"]

    assert lost("two") == []
    assert lost("one") == ["cuda.py: the replaced text is back in one: OLD"]
    assert lost("three") == ["cuda.py: the replacement is missing in three: NEW"]
    assert asked[0] == (FILE, "two")


def test_18_a_patch_of_a_file_that_is_not_in_site_packages_is_lost_not_skipped(
    tmp_path: Path,
) -> None:
    patch = PatchExpectation("glm", f"{SITE}/sglang/srt/models/glm.py", (Probe(b"x"),))
    view = image(tmp_path, BASE, {"sgl-workspace/sglang/srt/models/glm.py": "x"})
    (finding,) = judge(view, patch)
    assert (finding.rule, finding.layer) == ("patch-lost", "")


def test_every_patch_is_looked_for_whatever_became_of_the_others(tmp_path: Path) -> None:
    gone, back = (
        PatchExpectation(name, f"{SITE}/{file}", (Probe(b"NEW"),))
        for name, file in [("gone", "no.py"), ("back", "there.py")]
    )
    found = judge(image(tmp_path, {f"{SITE}/there.py": "OLD"}), gone, back)
    assert [one.subject for one in found if one.rule == "patch-lost"] == ["back", "gone"]


def test_a_file_as_the_last_patch_left_it_holds_all_of_them(tmp_path: Path) -> None:
    data = b"last\n"  # a later patch took the first one's text away
    first = PatchExpectation(
        "first", FILE, (Probe(b"first"),), post_sha256=hashlib.sha256(data).hexdigest()
    )
    view = image(tmp_path, {FILE: data})
    assert [one for one in judge(view, first) if one.rule == "patch-lost"] == []


def test_a_lost_text_is_quoted_by_its_first_line(tmp_path: Path) -> None:
    texts = [b"\n  one\n", b"\n  one\n  two\n", b"\n \n", b"caf\xe9"]
    patch = PatchExpectation("p", FILE, tuple(map(Probe, texts)))
    (finding,) = [one for one in judge(image(tmp_path, {FILE: "x"}), patch) if one.rule[0] == "p"]
    said = "the replacement is missing: "
    assert finding.message == f"cuda.py: {said}one; {said}one …; {said}; {said}caf\\xe9"
