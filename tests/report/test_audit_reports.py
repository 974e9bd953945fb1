"""The reports of an audit: for people and for programs."""

import io
import json
from pathlib import Path

from pipeline.audit.expectation import KnownFault
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.report.json import render
from pipeline.report.text import write_audit
from tests.audit.images import GONE, SITE, Content, distribution, expect, image


def report(tmp_path: Path) -> AuditReport:
    files = {f"a/{number}.py": "" for number in range(9)}
    gone: dict[str, Content] = {f"{SITE}/{path}": GONE for path in files}
    view = image(
        tmp_path,
        distribution("a", "1", files) | distribution("b", "2", requires=["c>=2"]),
        gone | distribution("c", "1") | distribution("d", "1", extra={"RECORD": ""}),
    )
    known = KnownFault("not-in-lock", "d", "seen and agreed")
    return audit(view, expect({"a": "1", "b": "1.0", "c": "1"}, known=(known,), ledger=()))


def text(tmp_path: Path, *, verbose: bool = False) -> list[str]:
    out = io.StringIO()
    write_audit(report(tmp_path), out, verbose=verbose)
    return out.getvalue().splitlines()


def test_text_is_a_line_a_finding_and_what_to_do(tmp_path: Path) -> None:
    error = f"{'error':<7}{{:<25}}"
    more = " " * 32
    lines = text(tmp_path)
    assert lines[:3] == [
        error.format("file-missing")
        + f"a: {number}.py is in its RECORD and not in the image  (layer 0, step 0)"
        for number in range(3)
    ]
    assert lines[3:] == [
        more + "… and 6 more of a (-v)",
        more + "→ install the distribution anew after whatever removed the file",
        error.format("pin-upgraded") + "b: b 2 is newer than the locked b 1.0  (layer 0, step 0)",
        more + "→ install the locked wheel last, without its dependencies",
        error.format("requirement-unsatisfied")
        + "b: wants c>=2, 1 is there (new)  (layer 1, step 1)",
        more + "→ move the pin, or enter the override with its reason in the lock's ledger",
        "image: 4 distributions against the lock",
        "requirements that are not met: 1 new, 0 inherited, 0 intended",
        "11 errors, 0 warnings, 0 notes; 1 tolerated, shown with -v",
    ]


def test_verbose_text_hides_nothing(tmp_path: Path) -> None:
    lines = text(tmp_path, verbose=True)
    assert sum("file-missing" in line for line in lines) == 9
    assert f"{SITE}/a/8.py" in [line.strip() for line in lines]
    assert any("[tolerated: seen and agreed]" in line for line in lines)


def test_text_says_when_nothing_was_held_against_it(tmp_path: Path) -> None:
    out = io.StringIO()
    quiet = expect()
    write_audit(audit(image(tmp_path, distribution("a", "1")), quiet), out)
    assert out.getvalue().endswith("0 errors, 0 warnings, 0 notes\n")


def test_names_out_of_an_image_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b[2J\udcff[red].py"
    row = f'"{name}",,\n'.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    view = image(tmp_path, distribution("a", "1", record=row))
    out = io.StringIO()
    write_audit(audit(view, expect()), out)
    assert "a\\x1b[2J\ufffd[red].py is in its RECORD" in out.getvalue()


def test_json_is_stable_and_names_its_schema(tmp_path: Path) -> None:
    one = report(tmp_path)
    rendered = render(one.to_json())
    assert rendered == render(report(tmp_path).to_json()) and rendered.endswith("}\n")
    document = json.loads(rendered)
    assert document["schema"] == "sm121-chain/audit/2"
    assert document["worst"] == "error" and document["counts"]["error"] == 11
    assert document["requirements"] == {
        "new": [{"dependant": "b", "requirement": "c>=2", "found": "1"}],
        "inherited": [],
        "intended": [],
    }
    assert document["distributions"][2] == {
        "name": "c",
        "version": "1",
        "path": f"{SITE}/c-1.dist-info",
        "layer": 1,
        "installer": "pip",
    }
    assert document["findings"][9] == {
        "rule": "pin-upgraded",
        "severity": "error",
        "subject": "b",
        "message": "b 2 is newer than the locked b 1.0",
        "path": f"{SITE}/b-2.dist-info",
        "layer": one.layers[0].digest,
        "fix": "install the locked wheel last, without its dependencies",
    }
