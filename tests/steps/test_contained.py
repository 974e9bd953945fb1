"""A step in a container: how an output is kept, and how a refusal comes out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pipeline.errors import Fault, FaultyFile, Refusal, UsageError
from pipeline.failures import Failure
from pipeline.oci.image import canonical
from pipeline.steps import contained, program
from pipeline.steps.layers import BLOB
from pipeline.steps.program import StepOutput

PROGRAM = """
from pipeline.errors import Refusal
from pipeline.steps.program import Result

def run(inputs, out):
    if inputs.params["do"] == "refuse":
        raise Refusal("no", hint="try", details=["x" * 50] * inputs.params["lines"])
    if inputs.params["do"] == "full":
        raise OSError(28, "No space left on device")
    (out / "deep").mkdir()
    (out / "deep" / "text").write_text("".join(
        (step.directory / "deep" / "text").read_text() + step.facts["word"] for step in inputs.steps
    ))
    (out / "layer.tar.zst").write_bytes(b"a layer")
    return Result({"word": inputs.params["do"]})
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = tmp_path / "modules" / "said.py"
    module.parent.mkdir()
    module.write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(str(module.parent))
    monkeypatch.setitem(program.PROGRAMS, "said", "said")
    monkeypatch.setattr(program.importlib, "import_module", lambda _: __import__("said"))
    for name in ("FILES", "STEPS", "OUT"):
        monkeypatch.setattr(contained, name, str(tmp_path / name.lower()))
        (tmp_path / name.lower()).mkdir()
    monkeypatch.setenv(contained.RUN, "this-run")
    return tmp_path


def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], **job: object
) -> tuple[int, str, dict[str, str]]:
    data = json.dumps({"program": "said", "steps": [], **job}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    status = contained.main()
    word, _, line = capfd.readouterr().out.partition("\n")
    return status, word, json.loads(line)


def test_an_output_crosses_as_two_files_and_is_read_again(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, word, said = run(monkeypatch, capfd, params={"do": "first"})
    assert (status, word) == (0, "this-run")
    out = places / "out"
    assert sorted(p.name for p in out.iterdir()) == [BLOB, contained.PACK]
    assert sorted(contained.kept(json.loads(said["result"])["files"])) == [BLOB, contained.PACK]
    first = StepOutput(out, said["result"].encode())
    out.rename(places / "steps" / first.digest.removeprefix("sha256:"))
    out.mkdir()
    status, _, said = run(monkeypatch, capfd, params={"do": "next"}, steps=[said["result"]])
    assert status == 0
    directory = places / "unpacked"
    contained.unpack(out, directory)
    assert (directory / "deep" / "text").read_text() == "first"
    assert (directory / BLOB).read_bytes() == b"a layer"


def test_the_same_output_is_the_same_bytes(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    packs = []
    for _ in range(2):
        run(monkeypatch, capfd, params={"do": "x"})
        packs.append((places / "out" / contained.PACK).read_bytes())
        for path in (places / "out").iterdir():
            path.unlink()
    assert packs[0] == packs[1]


def test_a_refusal_comes_out_whole_or_counts_what_it_leaves_out(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, word, said = run(monkeypatch, capfd, params={"do": "refuse", "lines": 3})
    assert (status, word) == (contained.FAILED, "this-run")
    error = Failure.from_json(said["failure"]).raised()  # type: ignore[arg-type]
    assert isinstance(error, Refusal) and error.hint == "try" and len(error.details) == 3
    status, _, said = run(monkeypatch, capfd, params={"do": "refuse", "lines": 9000})
    assert status == contained.FAILED and len(canonical(said)) < 100 * 1024
    assert said["failure"]["details"][-1].endswith(" more")  # type: ignore[index]


def test_a_full_disk_is_outside_trouble(
    places: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    status, _, said = run(monkeypatch, capfd, params={"do": "full"})
    assert status == contained.FAILED
    assert said["failure"]["kind"] == "OutsideTrouble"  # type: ignore[index]


def test_a_faulty_file_keeps_its_status() -> None:
    failure = Failure.of(FaultyFile("x.toml", [Fault("a", "b")]))
    error = Failure.from_json(failure.to_json()).raised()
    assert isinstance(error, UsageError) and error.exit_status == 2
