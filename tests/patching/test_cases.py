"""The handed cases about text patches, each under its number."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.errors import FaultyFile
from pipeline.patching.apply import Application, apply_patches
from pipeline.patching.evaluate import evaluate
from pipeline.patching.loading import load_patch
from pipeline.patching.model import Edit, Patch, Variant
from pipeline.patching.outcomes import Outcome
from pipeline.patching.sources import Tree

CASES = Path(__file__).parents[1] / "fixtures" / "cases"

# the handed words on the left, the product's on the right
WORDS = {"anchor-count": "anchor-ambiguous", "syntax-error": "would-not-parse"}


def case(number: str) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    (directory,) = CASES.glob(f"{number}-*")
    spec = json.loads((directory / "spec.json").read_text(encoding="utf-8"))
    expected = json.loads((directory / "expected.json").read_text(encoding="utf-8"))
    return directory, spec, expected


def variants(number: str) -> list[str]:
    return sorted(case(number)[1]["variants"])


def patch(edits: list[dict[str, Any]]) -> Patch:
    made = tuple(Edit(id=str(number), **edit) for number, edit in enumerate(edits))
    variant = Variant(Requirement("vllm==1"), made)
    return Patch("case", "a case", "it happened", "", "vllm", (variant,))


def snapshot(root: Path) -> dict[str, bytes]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def run(root: Path, edits: list[dict[str, Any]], python: str = "3.11") -> Application:
    files = sorted(snapshot(root))
    tree = Tree(root.resolve(), root.resolve(), {}, {"vllm": Version("1")}, python)
    checked = evaluate([patch(edits)], tree.read, tree.versions, python, lambda _: files)
    done = apply_patches([patch(edits)], tree)
    assert [r.outcome for r in checked.failures] == [r.outcome for r in done.evaluation.failures]
    return Application(checked)


def judge(root: Path, before: dict[str, bytes], done: Application, wanted: dict[str, Any]) -> None:
    evaluation = done.evaluation
    (result,) = evaluation.patches
    after = snapshot(root)
    assert (evaluation.fits and bool(evaluation.files)) == wanted["ok"]
    for path, digest in wanted.get("sha256", {}).items():
        assert hashlib.sha256(after[path]).hexdigest() == digest
    assert sorted(after) == sorted(before)  # no backup, no reject, no new file
    if wanted["ok"]:
        assert {e.outcome for e in result.edits} == {Outcome.APPLIED}
        return
    assert after == before
    reason = WORDS.get(wanted["reason"], wanted["reason"])
    assert result.outcome == reason
    failed = [e for e in result.edits if e.outcome == reason]
    assert failed
    if reason != "already-applied":
        assert not any(e.outcome is Outcome.APPLIED for e in result.edits)
    if "hunk" in wanted:
        assert [e.edit for e in failed] == [str(wanted["hunk"])]
    if "failed_hunks" in wanted:
        assert [e.edit for e in failed] == [str(number) for number in wanted["failed_hunks"]]
    if "found" in wanted:
        assert failed[0].found == wanted["found"]
    if "lines" in wanted:
        assert list(failed[0].lines) == wanted["lines"]
    if "file" in wanted:
        assert failed[0].file == wanted["file"]
    if "hint_if_any" in wanted:
        assert wanted["hint_if_any"] in " ".join(failed[0].hints)


def check(number: str, name: str, tmp_path: Path, python: str = "3.11") -> None:
    directory, spec, expected = case(number)
    root = tmp_path / "tree"
    shutil.copytree(directory / "tree", root)
    before = snapshot(root)
    done = run(root, spec["variants"][name], python)
    judge(root, before, done, expected["variants"][name])


@pytest.mark.parametrize("name", variants("01"))
def test_case_01_anchor_drift_silent_noop(name: str, tmp_path: Path) -> None:
    check("01", name, tmp_path)


@pytest.mark.parametrize("name", variants("02"))
def test_case_02_patch_set_not_atomic(name: str, tmp_path: Path) -> None:
    check("02", name, tmp_path)


@pytest.mark.parametrize("name", variants("04"))
def test_case_04_anchor_in_two_functions(name: str, tmp_path: Path) -> None:
    check("04", name, tmp_path)


@pytest.mark.parametrize("name", variants("05"))
def test_case_05_replacement_keeps_its_anchor(name: str, tmp_path: Path) -> None:
    directory, spec, expected = case("05")
    root = tmp_path / "tree"
    shutil.copytree(directory / "tree", root)
    variant, wanted = spec["variants"][name], expected["variants"][name]
    for number in range(1, variant["runs"] + 1):
        before = snapshot(root)
        done = run(root, variant["patches"])
        judge(root, before, done, wanted[f"run{number}"])
    run(root, variant["patches"])
    assert (root / "vllm/topk.py").read_text(encoding="utf-8").count("def exact") == 1


@pytest.fixture(scope="module")
def case_08(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("case-08")
    (directory,) = CASES.glob("08-*")
    argv, sys.argv = sys.argv, ["gen.py", str(out)]
    try:
        runpy.run_path(str(directory / "gen.py"))
    finally:
        sys.argv = argv
    return out


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", variants("08"))
def test_case_08_non_utf8_target(
    name: str, locale: str, case_08: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "LC_ALL", locale)
    wanted = json.loads((case_08 / "expected.json").read_text(encoding="utf-8"))["variants"][name]
    edits = json.loads((case_08 / "spec.json").read_text(encoding="utf-8"))["variants"][name]
    root = tmp_path / "tree"
    shutil.copytree(case_08 / "tree", root)
    before = snapshot(root)
    done = run(root, edits)
    ok = bool(done.evaluation.files)
    (answer,) = [a for a in wanted.get("any_of", [wanted]) if a["ok"] == ok]
    judge(root, before, done, answer)
    assert not any(b"\xef\xbf\xbd" in data for data in snapshot(root).values())


@pytest.mark.parametrize("name", [n for n in variants("09") if n != "d-escapes-the-root"])
def test_case_09_target_file_moved(name: str, tmp_path: Path) -> None:
    check("09", name, tmp_path)


def test_case_09_target_file_moved_d_escapes_the_root(tmp_path: Path) -> None:
    _, spec, _ = case("09")
    (edit,) = spec["variants"]["d-escapes-the-root"]
    path = tmp_path / "escape.toml"
    path.write_text(
        'name="escape"\ntitle="t"\nwhy="w"\nupstream=""\ndistribution="vllm"\n'
        '[[variants]]\nfor="vllm==1"\n[[variants.edits]]\nid="a"\n'
        + "".join(f"{key}={json.dumps(edit[key])}\n" for key in ("file", "find", "replace")),
        encoding="utf-8",
    )
    with pytest.raises(FaultyFile) as caught:
        load_patch(path)
    assert [fault.where for fault in caught.value.faults] == ["variants[0].edits[0].file"]


@pytest.mark.parametrize("name", variants("10"))
def test_case_10_patch_yields_a_syntax_error(name: str, tmp_path: Path) -> None:
    check("10", name, tmp_path, case("10")[1]["python_of_the_image"])
