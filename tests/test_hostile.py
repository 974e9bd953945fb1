"""What must not break a build: faulty stage files, signals, damage, other builds beside it."""

from __future__ import annotations

import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.oci.layout import LayoutWriter
from pipeline.transfer.workspace import workspace
from tests.line import Line, make_line
from tests.oci.readimage import read_image

ROOT = Path(__file__).parents[1]
HEAD = 'name = "v5"\ntitle = "t"\nwhy = "w"\nparent = "v4"\ntag = "sm121-v5"\n'


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")


def start(line: Line, *args: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *args],
        cwd=line.root,
        env={**os.environ, **own, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    line: Line, *args: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    process = start(line, *args, env=env)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def build(line: Line, *args: str) -> subprocess.CompletedProcess[str]:
    return run(line, "build", "--offline", *args)


def refused(done: subprocess.CompletedProcess[str], status: int, *texts: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stderr.count("error: ") == 1
    assert "next: " in done.stderr and "Traceback" not in done.stderr
    for text in texts:
        assert text in done.stderr


def file_at(destination: str, source: str = "p.txt") -> str:
    return f'files = [{{ source = "{source}", destination = "{destination}" }}]\n'


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (file_at("/"), "files[0].destination"),
        (file_at("/opt//p"), "files[0].destination"),
        (file_at("/opt/./p"), "files[0].destination"),
        (file_at("/opt/"), "files[0].destination"),
        (file_at("/opt/.wh.x"), "mean that something goes"),
        (file_at("/proc/x"), "a container runtime puts its own at /proc"),
        (file_at("/etc/hosts"), "a container runtime puts its own"),
        (file_at("/a\\u0000b"), "files[0].destination"),
        (file_at("/" + "n" * 256), "too long"),
        (file_at("/usr/share/sm121-chain/stages/v5.json"), "what the build itself records"),
        (file_at("/p", "../pins.toml"), "may not climb"),
        (file_at("/p", "/etc/hostname"), "may not climb"),
        (file_at("/p", "link"), "a link that leaves"),
        (file_at("/p", "loop"), "cannot be read"),
        (file_at("/p", "x" * 5000), "cannot be read"),
        (file_at("/p", "."), "is no file"),
        (
            'files = [{source="p.txt", destination="/o"}, {source="p.txt", destination="/o/p"}]\n',
            "cannot both be files",
        ),
        ('files = [{source="p.txt", destination="/o", mode=644}]\n', "four octal digits"),
        ('env = { "A=B" = "x" }\n', "no name of a variable"),
        ('env = { A = "x\\u0000" }\n', "env.A: holds a NUL"),
        ('labels = { "" = "x" }\n', "no name of a label"),
        ('patches = ["tile", "tile"]\n', "patches[1]: 'tile' stands twice"),
        ('checks = [{ kind = ["contains"] }]\n', "checks[0].kind"),
        ('checks = [{ kind = "version", distribution = "x", version = "?" }]\n', "is no version"),
        ('checks = [{ kind = "compiles", file = "../x" }]\n', "checks[0].file"),
        ('status.wheels = { state = "held", reason = 5 }\n', "status.wheels.reason"),
        ('status.wheels = { state = "held", reason = "r", until = "x" }\n', "unknown key"),
        ("x = " + "[" * 3000, "nested too deeply"),
        ("x = " + "9" * 5000, "too many digits"),
    ],
)
def test_faulty_stage_file(line: Line, body: str, where: str) -> None:
    stages = line.root / "stages"
    (stages / "p.txt").write_text("p\n", encoding="utf-8")
    (stages / "link").symlink_to("/etc/hostname")
    (stages / "loop").symlink_to("loop")
    line.stage("v05-x.toml", HEAD + body)
    refused(run(line, "show"), 2, "v05-x.toml", where)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('"v5"', '"v' + "9" * 5000 + '"', "name"),
        ('"t"', '"a\\nb"', "title: must be one line"),
        ('"sm121-v5"', '"sm121-base"', "tag: 'sm121-base' is the base's"),
        ('"sm121-v5"', '"sm121-v1-0123456789ab"', "looks like the tag of one image"),
        ('"sm121-v5"', '"sm121-v1-unproven"', "looks like the tag of one image"),
    ],
)
def test_faulty_head_of_a_stage_file(line: Line, old: str, new: str, where: str) -> None:
    line.stage("v05-x.toml", HEAD.replace(old, new) + 'env = { A = "1" }\n')
    refused(run(line, "show"), 2, where)


def test_stage_files_that_are_none(line: Line) -> None:
    stages = line.root / "stages"
    (stages / "v05-dir.toml").mkdir()
    (stages / "v06-loop.toml").symlink_to("v06-loop.toml")
    (stages / "v07-gone.toml").symlink_to("gone")
    os.mkfifo(stages / "v08-pipe.toml")
    names = ("v05-dir.toml", "v06-loop.toml", "v07-gone.toml", "v08-pipe.toml")
    refused(run(line, "show"), 2, "4 faults", *names)


def test_chain_of_a_thousand_stages(line: Line) -> None:
    parent = "v4"
    for number in range(100, 1100):
        line.stage(
            f"v{number}-x.toml",
            f'name = "v{number}"\ntitle = "t"\nwhy = "w"\nparent = "{parent}"\n'
            f'tag = "t{number}"\nenv = {{ A = "1" }}\n',
        )
        parent = f"v{number}"
    assert run(line, "show").returncode == 0


def test_payload_keeps_its_bytes(line: Line) -> None:
    data = b"a\r\nb\rc\n\xff\x00"
    (line.root / "stages" / "p.bin").write_bytes(data)
    line.stage("v05-x.toml", HEAD + file_at("/opt/p", "p.bin"))
    assert build(line).returncode == 0
    assert read_image(line.root / "dist", "sm121-v5").read("opt/p") == data


@pytest.mark.parametrize(
    "place", ["/usr/share", "/usr/share/doc/tiny/copyright/x", "/usr/local/lib/python3.11"]
)
def test_payload_where_no_file_can_be(line: Line, place: str) -> None:
    (line.root / "stages" / "p.txt").write_text("p\n", encoding="utf-8")
    line.stage("v05-x.toml", HEAD + file_at(place))
    refused(build(line), 1, "directory in the parent image")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("level = 3", "level = 99", "zstd.level"),
        ("epoch = 1767225600", "epoch = 99999999999999", "epoch"),
        ("epoch = 1767225600", "epoch = " + "9" * 5000, "too many digits"),
        ('glibc = "2.36"', 'glibc = "2.999999999"', "glibc"),
        ('"/usr/local/lib/python3.11/dist-packages"', '"/usr/../../x"', "site-packages"),
        ("pool/main/t/tiny", "pool/main/../../etc", "debs[0].path"),
        ("\"'v3' in dependency_groups\"", "\"extra == 'x'\"", ".marker"),
        ('["v3"]', '["v3", "v3"]', "dependency-groups: a name stands twice"),
        ("2026-11-28T00", "2026-13-45T00", "exclude-newer"),
    ],
)
def test_faulty_lock(line: Line, old: str, new: str, where: str) -> None:
    line.edit("pins.toml", old, new)
    refused(run(line, "show"), 2, where)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_the_group_ends_in_order(line: Line, number: signal.Signals) -> None:
    process = start(line, "build", "--offline", "--jobs", "1")
    assert process.stderr is not None
    for text in process.stderr:
        if "base/" in text:
            break
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert not list((line.cache / "tmp").iterdir())


def test_workers_end_with_a_program_that_is_killed(line: Line) -> None:
    process = start(line, "build", "--offline")
    assert process.stderr is not None
    process.stderr.readline()
    process.kill()
    process.communicate(timeout=10)  # its workers hold the pipes as long as they live
    assert build(line).returncode == 0
    assert not list((line.cache / "tmp").iterdir())


def test_a_fetch_leaves_the_space_of_a_build_alone(line: Line) -> None:
    process = start(line, "build", "--offline")
    while process.poll() is None:
        with workspace(line.cache):
            time.sleep(0.02)
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_builds_into_one_layout_wait_for_each_other(line: Line) -> None:
    builds = [start(line, "build", "--offline") for _ in range(3)]
    outs = [process.communicate(timeout=60)[0] for process in builds]
    assert [process.returncode for process in builds] == [0, 0, 0]
    assert len(set(outs)) == 1
    read_image(line.root / "dist", "sm121-v4").verify()


def test_result_that_says_something_else_is_not_believed(line: Line) -> None:
    first = build(line)
    for result in (line.cache / "steps").glob("*/result.json"):
        if b"WorkingDir" in (data := result.read_bytes()):
            result.chmod(0o644)
            result.write_bytes(data.replace(b'"WorkingDir":"', b'"WorkingDir":"/x'))
    assert build(line).stdout == first.stdout


@pytest.mark.parametrize("damage", ["directory", "file"])
def test_what_is_no_output_in_the_place_of_one(line: Line, damage: str) -> None:
    first = build(line)
    for place in (line.cache / "steps").iterdir():
        if damage == "directory":
            (place / "result.json").unlink()
            (place / "result.json").mkdir()
        else:
            for path in sorted(place.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            place.rmdir()
            place.write_bytes(b"")
    assert build(line).stdout == first.stdout


def test_blobs_of_a_layout_on_another_disk_are_put_anew(line: Line) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == line.root.stat().st_dev:
        pytest.skip("no other file system at hand")
    out = other / f"sm121-chain-test-{os.getpid()}"
    try:
        assert build(line, "--out", str(out)).returncode == 0
        for blob in (out / "blobs" / "sha256").iterdir():
            blob.chmod(0o644)
            blob.write_bytes(bytes(blob.stat().st_size))
        assert build(line, "--out", str(out)).returncode == 0
        read_image(out, "sm121-v4").verify()
    finally:
        subprocess.run(["rm", "-rf", str(out)], check=True)


def test_lines_go_to_the_file_when_stderr_is_a_terminal(line: Line) -> None:
    ours, theirs = pty.openpty()
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache), "TERM": "xterm"}
    with (line.root / "out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "build", "--offline"],
            cwd=line.root,
            env={**os.environ, **own},
            stdout=out,
            stderr=theirs,
        )
    os.close(theirs)
    while True:
        try:
            if not os.read(ours, 65536):
                break
        except OSError:
            break
    assert process.wait(timeout=60) == 0
    os.close(ours)
    assert len((line.root / "out").read_text(encoding="utf-8").splitlines()) == 5


def test_forced_colour_keeps_stdout_clean(line: Line) -> None:
    done = run(line, "build", "--offline", env={"FORCE_COLOR": "1"})
    assert len(done.stdout.splitlines()) == 5 and "\x1b" not in done.stdout


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(line: Line, redirection: str) -> None:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    command = f'"{sys.executable}" -m pipeline build --offline {redirection}'
    done = subprocess.run(["sh", "-c", command], cwd=line.root, env={**os.environ, **own})
    assert done.returncode == 0
    read_image(line.root / "dist", "sm121-v4").verify()


@pytest.mark.parametrize("verb", [["show"], ["audit", "v1"]])
def test_stdout_without_room(line: Line, verb: list[str]) -> None:
    assert build(line).returncode == 0
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *verb],
            cwd=line.root,
            env={**os.environ, **own},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    refused(done, 3, "No space left on device")


def test_odd_arguments(line: Line) -> None:
    refused(build(line, "--to", ""), 2, "no stage ''")
    refused(build(line, "--jobs", "0"), 2, "--jobs 0")
    assert build(line, "--jobs", str(10**20)).returncode == 0
    assert run(line, "show", "base").stdout.startswith("base ")
    refused(run(line, "audit", "v1", "--output", "nope/x"), 3, "nope/x")


def test_directory_that_is_gone(line: Line) -> None:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    command = f'mkdir g && cd g && rmdir ../g && "{sys.executable}" -m pipeline show'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=line.root,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
    )
    refused(done, 3, "the current directory cannot be used")


def test_layout_that_was_stopped_at_its_start_is_taken_up(tmp_path: Path) -> None:
    root = tmp_path / "dist"
    root.mkdir()
    (root / ".tmp-abc").write_bytes(b"{")
    LayoutWriter(root).keep_only([])
    assert sorted(path.name for path in root.iterdir()) == ["blobs", "index.json", "oci-layout"]


def test_limit_of_file_size_leaves_nothing_behind(line: Line) -> None:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "build", "--offline"],
        cwd=line.root,
        env={**os.environ, **own},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
    )
    refused(done, 3, "File too large")
    assert not list(line.cache.rglob(".new-*"))
    assert build(line).returncode == 0


def test_cache_that_takes_nothing_does_not_stop_an_audit(line: Line) -> None:
    assert build(line).returncode == 0
    shutil.rmtree(line.cache / "indexes")
    (line.cache / "indexes").write_bytes(b"")
    assert run(line, "audit", "v1").returncode == 0


def test_layout_keeps_a_directory_that_is_not_ours(tmp_path: Path) -> None:
    layout = LayoutWriter(tmp_path / "dist")
    mine = tmp_path / "dist" / "blobs" / "sha256" / "mine"
    mine.mkdir()
    layout.keep_only([])
    assert mine.is_dir()
    assert json.loads((tmp_path / "dist" / "index.json").read_bytes())["manifests"] == []
