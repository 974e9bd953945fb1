"""The driver, with probes of the tests' own: everything that is not a pass fails the run."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.conftest import ROOT, SMOKE, Ended, start

GB10 = {"gpu": "NVIDIA GB10", "capability": [12, 1], "torch": "2.13.0"}
PASSED: dict[str, Any] = {
    "probe": "nccl_library",
    "status": "passed",
    "reason": "",
    "numbers": {"version": 23007},
    "thresholds": {"version": {"equals": 23007}},
    "facts": {},
    "cases": [],
    "seconds": 0.1,
}


class Folder:
    """A folder of probes that say what a test wants."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir()
        self.says("environment", json.dumps(GB10))
        self.says("build_jit", json.dumps({"modules": ["bf16"], "reason": "", "seconds": 1.5}))

    def script(self, name: str, text: str) -> None:
        (self.path / f"{name}.py").write_text("import os, sys, time\n" + text, encoding="utf-8")

    def says(self, name: str, line: str, status: int = 0) -> None:
        self.script(name, f"print({line!r})\nsys.exit({status})\n")

    def tells(self, exit_status: int = 0, **changes: Any) -> None:
        """A probe `nccl_library` whose result is a pass but for the changes."""
        self.says("nccl_library", json.dumps(PASSED | changes), exit_status)

    def run(self, *arguments: str, environment: dict[str, str] | None = None) -> Ended:
        workspace = self.path / "workspace"
        given = ["--folder", str(self.path), "--workspace", str(workspace), *arguments]
        return start(SMOKE / "run.py", given, environment)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "probes")


def only(ended: Ended) -> dict[str, Any]:
    """The result of a run of one probe, which has failed."""
    assert ended.status == 1
    assert ended.told["verdict"] == "failed"
    (result,) = ended.told["probes"]
    assert result["status"] != "passed"
    return dict(result)


def test_passed(folder: Folder, tmp_path: Path) -> None:
    folder.tells()
    before = int(time.time())
    out = tmp_path / "document.json"
    ended = folder.run("--require", "nccl_library", "--out", str(out))
    assert ended.status == 0
    told = ended.told
    assert json.loads(out.read_text(encoding="utf-8")) == told
    assert told["schema"] == "sm121-chain/smoke-run/1"
    assert (told["verdict"], told["problems"]) == ("passed", [])
    assert told["required"] == ["nccl_library"]
    assert told["capability_required"] == [12, 1]
    assert told["environment"] == GB10
    assert before <= told["started"] <= told["finished"] <= time.time()
    (result,) = told["probes"]
    assert {**result, "seconds": 0.1} == PASSED
    assert "passed    nccl_library" in ended.err


def test_modules_are_built_first_and_once(folder: Folder) -> None:
    log = folder.path / "log"
    note = (
        f"open({str(log)!r}, 'a').write(' '.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]))\n"
    )
    folder.script("build_jit", note + 'print(\'{"modules": ["m"], "seconds": 2}\')\n')
    for name in ("nope_mla", "fa2_rows", "fa2_fp8_kv"):
        said = json.dumps(PASSED | {"probe": name})
        folder.script(name, note + f"print({said!r})\n")
    ended = folder.run("--require", "nope_mla,fa2_rows,fa2_fp8_kv", "--capability", "12.1")
    assert ended.status == 0
    assert ended.told["jit"]["modules"] == ["m"]
    assert log.read_text() == (
        "build_jit.py bf16 fp8nope_mla.py --capability 12.1"
        "fa2_rows.py --capability 12.1fa2_fp8_kv.py --capability 12.1"
    )


def test_no_modules_for_probes_that_need_none(folder: Folder) -> None:
    folder.says("build_jit", "{}", 1)
    folder.tells()
    assert folder.run("--require", "nccl_library").told["jit"]["modules"] == []


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("no JSON", 0, "the last line is no JSON object (exit status 0)"),
        ("", 0, "the last line is no JSON object (exit status 0)"),
        ("[1]", 0, "the last line is no JSON object (exit status 0)"),
        ("3", 1, "the last line is no JSON object (exit status 1)"),
        ("[" * 100_000, 0, "the last line is no JSON object (exit status 0)"),
        (json.dumps(PASSED).replace("23007}", "NaN}", 1), 0, "the last line is no JSON object"),
        (json.dumps(PASSED).replace("23007}", "Infinity}", 1), 0, "the last line is no JSON"),
        (json.dumps(PASSED).replace("23007}", "1e999}", 1), 0, "the last line is no JSON"),
        (json.dumps(PASSED).replace("23007}", "9" * 4000 + "}", 1), 0, "version is no finite"),
        (json.dumps(PASSED | {"cases": [1]}), 0, "case 0 is none"),
        (json.dumps(PASSED | {"cases": [{"case": "x", "numbers": {"a": "1"}}]}), 0, "case 0 is"),
        (json.dumps(PASSED | {"facts": {"path": 1}}), 0, "fact path is no text"),
        (json.dumps(PASSED | {"plant": 5}), 0, "plant is no text"),
        (json.dumps(PASSED | {"stand_ins": "vLLM"}), 0, "stand_ins is no list"),
        (json.dumps(PASSED) + "\nafterwards", 0, "the last line is no JSON object"),
    ],
)
def test_garbage(folder: Folder, line: str, status: int, reason: str) -> None:
    folder.says("nccl_library", line, status)
    result = only(folder.run("--require", "nccl_library"))
    assert result["status"] == "error"
    assert reason in result["reason"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"numbers": {"version": 22907}}, "version: 23007 is wanted"),
        ({"numbers": {}}, "version was not measured"),
        ({"thresholds": {}}, "nothing was asserted"),
        ({"plant": "scale"}, "it ran with plant scale"),
        ({"stand_ins": ["vLLM"]}, "it ran with stand_ins ['vLLM']"),
        ({"probe": "fa2_rows"}, "probe is 'fa2_rows'"),
        ({"status": "fine"}, "status is 'fine'"),
        ({"status": ["passed"]}, "status is ['passed']"),
        ({"numbers": {"version": "23007"}}, "version is no finite number"),
        ({"numbers": {"version": True}}, "version is no finite number"),
        ({"numbers": []}, "numbers is missing"),
        ({"thresholds": {"version": {}}}, "the threshold of version is none"),
        ({"thresholds": {"version": {"about": 1}}}, "the threshold of version is none"),
        ({"thresholds": {"version": 23007}}, "the threshold of version is none"),
        ({"seconds": None}, "seconds is no number"),
    ],
)
def test_a_pass_that_is_none(folder: Folder, changes: dict[str, Any], reason: str) -> None:
    folder.tells(**changes)
    assert reason in only(folder.run("--require", "nccl_library"))["reason"]


def test_passed_with_another_exit_status(folder: Folder) -> None:
    folder.tells(3)
    result = only(folder.run("--require", "nccl_library"))
    assert result["reason"] == "it says passed, but it ended with exit status 3"


def test_passed_and_killed(folder: Folder) -> None:
    line = json.dumps(PASSED)
    folder.script("nccl_library", f"print({line!r}, flush=True)\nos.kill(os.getpid(), 11)\n")
    result = only(folder.run("--require", "nccl_library"))
    assert result["reason"] == "it says passed, but it ended with killed by signal 11"


@pytest.mark.parametrize("status", ["failed", "skipped", "error"])
def test_exit_0_with_another_status(folder: Folder, status: str) -> None:
    folder.tells(0, status=status, reason="so it is")
    result = only(folder.run("--require", "nccl_library"))
    assert (result["status"], result["reason"]) == (status, "so it is (exit status 0)")


@pytest.mark.parametrize(("status", "exit_status"), [("failed", 1), ("skipped", 2), ("error", 2)])
def test_not_passed(folder: Folder, status: str, exit_status: int) -> None:
    folder.tells(exit_status, status=status, reason="")
    result = only(folder.run("--require", "nccl_library"))
    assert (result["status"], result["reason"]) == (status, f"{status}, without a reason")


def test_out_of_time_with_what_it_started(folder: Folder) -> None:
    pids = folder.path / "pids"
    folder.script(
        "nccl_library",
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"open({str(pids)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n",
    )
    started = time.monotonic()
    result = only(folder.run("--require", "nccl_library", "--time-limit", "1.5"))
    assert (result["status"], result["reason"]) == ("timed-out", "no result after 1.5 s")
    assert time.monotonic() - started < 30
    assert not _alive(int(pids.read_text()))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_stopped_with_what_it_started(folder: Folder) -> None:
    pid = folder.path / "pid"
    folder.script(
        "nccl_library", f"open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    arguments = ["--folder", str(folder.path), "--require", "nccl_library"]
    run = subprocess.Popen(
        [sys.executable, str(SMOKE / "run.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "FLASHINFER_WORKSPACE_BASE": str(folder.path / "empty")},
    )
    until = time.monotonic() + 30
    while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=30)
    assert (run.returncode, out) == (143, b"")
    assert not _alive(int(pid.read_text()))


def test_unknown_and_missing(folder: Folder) -> None:
    folder.tells()
    ended = folder.run("--require", "nccl_library,fa3_rows")
    assert ended.status == 1
    assert [p["status"] for p in ended.told["probes"]] == ["passed", "unknown"]

    result = only(folder.run("--require", "pdl_gate"))
    assert (result["status"], result["reason"]) == ("missing", "pdl_gate.py is not there")

    ended = folder.run("--require", "pdl_gate,nccl_library", "--only", "nccl_library")
    assert ended.status == 1
    assert [(p["probe"], p["status"]) for p in ended.told["probes"]] == [
        ("nccl_library", "passed"),
        ("pdl_gate", "missing"),
    ]


def test_what_is_not_required_does_not_decide_unless_it_is_unknown(folder: Folder) -> None:
    folder.tells()
    folder.says("pdl_gate", "broken", 1)
    run = ("--require", "nccl_library", "--only")
    ended = folder.run(*run, "nccl_library,pdl_gate")
    assert ended.status == 0
    assert [p["status"] for p in ended.told["probes"]] == ["passed", "error"]
    assert folder.run(*run, "nccl_library,nccl_libary").status == 1


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({**GB10, "gpu": None, "capability": None}, "no GPU: torch sees none"),
        (
            {"gpu": None, "torch_error": "No module named 'torch'"},
            "no GPU: No module named 'torch'",
        ),
        ({**GB10, "capability": [9, 0]}, "the GPU's capability is 9.0, 12.1 is wanted"),
        ({**GB10, "capability": [12, 0]}, "the GPU's capability is 12.0, 12.1 is wanted"),
        ({**GB10, "capability": "12.1"}, "the GPU's capability is"),
        ({"gpu": "NVIDIA GB10"}, "the GPU's capability is ?"),
        ("no JSON", "the environment cannot be asked: exit status 0"),
    ],
)
def test_no_probe_runs_without_the_right_gpu(
    folder: Folder, environment: Any, problem: str
) -> None:
    folder.tells()
    said = environment if isinstance(environment, str) else json.dumps(environment)
    folder.says("environment", said)
    ended = folder.run("--require", "nccl_library")
    result = only(ended)
    assert result["status"] == "not-run"
    assert problem in result["reason"]
    assert problem in ended.told["problems"][0]


def test_another_gpu_is_told(folder: Folder) -> None:
    folder.tells()
    folder.says("environment", json.dumps(GB10 | {"capability": [9, 0]}))
    ended = folder.run("--require", "nccl_library", "--capability", "9.0")
    assert ended.status == 0
    assert ended.told["capability_required"] == [9, 0]


def test_an_environment_that_breaks(folder: Folder) -> None:
    folder.script("environment", "sys.exit('torch is broken')\n")
    folder.tells()
    ended = folder.run("--require", "nccl_library")
    only(ended)
    assert ended.told["problems"] == ["the environment cannot be asked: exit status 1"]
    assert ended.told["environment"] == {}


@pytest.mark.parametrize("through", ["option", "variable"])
def test_a_workspace_that_is_not_empty(folder: Folder, tmp_path: Path, through: str) -> None:
    folder.tells()
    stale = tmp_path / "stale"
    module = stale / ".cache/flashinfer/0.6.17/121a/cached_ops/mla/mla.so"
    module.parent.mkdir(parents=True)
    module.write_bytes(b"")
    if through == "option":
        ended = folder.run("--require", "nccl_library", "--workspace", str(stale))
    else:
        arguments = ["--folder", str(folder.path), "--require", "nccl_library"]
        environment = {"FLASHINFER_WORKSPACE_BASE": str(stale)}
        ended = start(SMOKE / "run.py", arguments, environment)
    assert only(ended)["status"] == "not-run"
    assert ended.told["problems"] == [f"the JIT workspace is not empty: {module}"]


def test_children_get_the_workspace(folder: Folder) -> None:
    folder.script(
        "nccl_library",
        f"import json\nd = {PASSED!r}\n"
        "d['facts'] = {k: os.environ.get(k, '') for k in"
        " ('FLASHINFER_WORKSPACE_BASE', 'SMOKE_SERVER_URL')}\nprint(json.dumps(d))\n",
    )
    ended = folder.run("--require", "nccl_library", "--server", "http://localhost:8000")
    facts = ended.told["probes"][0]["facts"]
    assert facts["FLASHINFER_WORKSPACE_BASE"] == str(folder.path / "workspace")
    assert facts["SMOKE_SERVER_URL"] == "http://localhost:8000"
    arguments = ["--folder", str(folder.path), "--require", "nccl_library"]
    fresh = start(SMOKE / "run.py", arguments, {"FLASHINFER_WORKSPACE_BASE": ""})
    path = fresh.told["probes"][0]["facts"]["FLASHINFER_WORKSPACE_BASE"]
    assert path == fresh.told["jit"]["workspace"]
    assert not Path(path).exists()  # it was the run's own, and is gone


@pytest.mark.parametrize(
    ("said", "status", "problem"),
    [
        ('{"modules": [], "reason": "nvcc: no", "seconds": 2}', 1, "nvcc: no"),
        ("", -9, "exit status 247"),
        ("garbage", 0, "exit status 0"),
    ],
)
def test_a_build_that_fails_stops_the_run(
    folder: Folder, said: str, status: int, problem: str
) -> None:
    folder.says("build_jit", said, status)
    folder.says("nope_mla", json.dumps(PASSED | {"probe": "nope_mla"}))
    ended = folder.run("--require", "nope_mla")
    assert only(ended)["status"] == "not-run"
    assert ended.told["problems"] == [f"the JIT modules could not be built: {problem}"]


def test_usage() -> None:
    assert start(SMOKE / "run.py").status == 2
    assert start(SMOKE / "run.py", ["--require", ","]).status == 2
    assert start(SMOKE / "run.py", ["--require", "nope_mla", "--capability", "new"]).status == 2


def test_really_on_a_machine_without_a_gpu(tmp_path: Path, torch_stand_in: dict[str, str]) -> None:
    """The folder as it is, with a torch that sees no GPU."""
    ended = start(
        SMOKE / "run.py",
        ["--require", "nope_mla,nccl_library", "--workspace", str(tmp_path / "workspace")],
        torch_stand_in,
    )
    assert ended.status == 1
    assert ended.told["problems"] == ["no GPU: torch sees none"]
    assert [p["status"] for p in ended.told["probes"]] == ["not-run", "not-run"]
    environment = ended.told["environment"]
    assert (environment["gpu"], environment["torch"]) == (None, "0.0")
    assert environment["image"] == {}


@pytest.mark.parametrize("name", ["run", "probe", "result"])
def test_the_driver_needs_the_standard_library_only(name: str) -> None:
    tree = ast.parse((SMOKE / f"{name}.py").read_text(encoding="utf-8"))
    imported = set()
    for node in tree.body:  # what a function imports is for those who call it
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported <= set(sys.stdlib_module_names) | {"probe", "result"}


@pytest.mark.parametrize("name", ["passed", "failed"])
def test_sample_documents(smoke: Any, name: str) -> None:
    """The documents that README.md points at are what the driver would take and give."""
    path = ROOT / "tests" / "fixtures" / "smoke" / f"{name}.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    statuses = {}
    for result in document["probes"]:
        statuses[result["probe"]] = result["status"]
        assert (
            not smoke.result.shape_faults(result["probe"], result)
            or result["status"] == "timed-out"
        )
        if result["status"] == "passed":
            line = json.dumps(result).encode()
            assert smoke.result.judged(result["probe"], 0, line) == result
    right = all(statuses.get(required) == "passed" for required in document["required"])
    assert (document["verdict"] == "passed") is right is (name == "passed")


@pytest.mark.parametrize(
    "hostile",
    [
        {"PYTHONSAFEPATH": "1"},
        {"PYTHONIOENCODING": "utf-16"},
        {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C"},
        {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "PYTHONHASHSEED": "0"},
        {"TMPDIR": "/none/such", "HOME": "/none/such"},
        {"FLASHINFER_WORKSPACE_BASE": "/etc/passwd"},
    ],
)
def test_whatever_the_environment_the_answer_is_one_document(hostile: dict[str, str]) -> None:
    """The real driver and the real probes, without a GPU: a failure, never a traceback."""
    command = [sys.executable, str(SMOKE / "run.py"), "--require", "nope_mla,nccl_library"]
    done = subprocess.run(command, env=os.environ | hostile, capture_output=True, timeout=120)
    (line,) = done.stdout.decode("ascii").splitlines()
    told = json.loads(line)
    assert done.returncode == 1 and told["verdict"] == "failed" and told["problems"]
    assert [one["status"] for one in told["probes"]] == ["not-run", "not-run"]
    assert b"Traceback" not in done.stderr


def test_a_probe_finds_what_it_shares_with_others_under_pythonsafepath(folder: Folder) -> None:
    shutil.copyfile(SMOKE / "probe.py", folder.path / "probe.py")
    said = json.dumps(PASSED)
    folder.script("nccl_library", f"import probe\nassert probe.PASSED\nprint({said!r})\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONSAFEPATH", "1")
        assert folder.run("--require", "nccl_library").status == 0


def test_a_file_that_cannot_be_written_takes_nothing_from_stdout(folder: Folder) -> None:
    folder.tells()
    ended = folder.run("--require", "nccl_library", "--out", "/none/such/file")
    assert ended.status == 2 and ended.told["verdict"] == "passed"
    assert "/none/such/file cannot be written" in ended.err


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1", "x"])
def test_a_time_limit_that_is_none(folder: Folder, seconds: str) -> None:
    assert folder.run("--require", "nccl_library", f"--time-limit={seconds}").status == 2
