"""The chain from lock to layout, on a small line, through the real command."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.line import MODEL, SITE, Line, make_line
from tests.oci.readimage import read_image
from tests.wheels.makewheel import make_wheel

ROOT = Path(__file__).parents[1]


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")


def build(
    line: Line, *args: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `build` offline in the project, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "build", "--offline", *args],
        cwd=line.root,
        env=environment(line, env),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(line: Line, env: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    return {**os.environ, **own, **(env or {})}


def tags(line: Line, out: str = "dist") -> list[str]:
    index = json.loads((line.root / out / "index.json").read_bytes())
    return [m["annotations"]["org.opencontainers.image.ref.name"] for m in index["manifests"]]


def refused(done: subprocess.CompletedProcess[str], status: int, *texts: str) -> None:
    """The one way in which an error may look: status, one error line, a next step, no traceback."""
    assert done.returncode == status, done.stderr
    assert done.stderr.count("error: ") == 1
    assert "next: " in done.stderr
    assert "Traceback" not in done.stderr
    for text in texts:
        assert text in done.stderr


def test_lines_of_a_build(line: Line) -> None:
    done = build(line)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    shape = r"sm121-(base|v1|v3|v4) sha256:[0-9a-f]{64} sha256:[0-9a-f]{64}"
    assert all(re.fullmatch(shape, text) for text in lines[:4])
    assert [text.split()[0] for text in lines[:4]] == tags(line)
    assert lines[4:] == ["sm121-v9 held v4"]
    assert len({text.split()[1] for text in lines[:4]}) == 4


def test_images_hold_what_the_stages_say(line: Line) -> None:
    assert build(line).returncode == 0
    base, v1, v3, v4 = (
        read_image(line.root / "dist", f"sm121-{n}") for n in ("base", "v1", "v3", "v4")
    )
    model = f"{SITE}/vllm/model.py"
    assert b"x * 2" in base.read(model) and b"x * 3" in v1.read(model)
    assert f"{SITE}/flashinfer/only_17.py" in v1.files
    assert f"{SITE}/flashinfer/only_17.py" not in v3.files
    assert f"{SITE}/flashinfer/only_18.py" in v3.files
    assert b"TILE 16" in v4.read(f"{SITE}/flashinfer/data/include/tile.cuh")
    facts = json.loads(v4.read("usr/share/sm121-chain/stages/v1.json"))
    assert facts["patches"][0]["edits"] == [
        {"id": "v1.a", "file": "vllm/model.py", "outcome": "applied"}
    ]


def test_record_is_true_after_a_patch(line: Line) -> None:
    assert build(line).returncode == 0
    v1 = read_image(line.root / "dist", "sm121-v1")
    digest = hashlib.sha256(v1.read(f"{SITE}/vllm/model.py")).digest()
    text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert (
        f"vllm/model.py,sha256={text}," in v1.read(f"{SITE}/vllm-0.30.0.dist-info/RECORD").decode()
    )


def test_jit_cache_path_follows_the_sources_that_are_compiled(line: Line) -> None:
    assert build(line).returncode == 0
    paths = {
        name: read_image(line.root / "dist", f"sm121-{name}").env["FLASHINFER_WORKSPACE_BASE"]
        for name in ("base", "v1", "v3", "v4")
    }
    # v3's FlashInfer ships the same header; only v4 edits it.
    assert paths["base"] == paths["v1"] == paths["v3"]
    assert paths["v4"] != paths["v3"]


def test_second_run_makes_nothing_and_says_the_same(line: Line) -> None:
    first, second = build(line), build(line)
    assert second.stdout == first.stdout
    assert re.search(r"(\d+) of \1 steps from the cache", second.stderr)


def test_equal_lines_in_an_unlike_environment(line: Line, tmp_path: Path) -> None:
    """Another folder (with a space), umask, locale, time zone, hash seed, cache, number of jobs."""
    first = build(line)
    other = make_line(tmp_path / "a b", tmp_path / "other cache", tmp_path / "scratch 2")
    env = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "LANG": "C"}
    before = os.umask(0o077)
    try:
        second = build(other, "--jobs", "1", env=env)
    finally:
        os.umask(before)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout


def test_a_new_stage_is_a_file(line: Line) -> None:
    before = build(line).stdout.splitlines()
    line.stage(
        "v12-shift.toml",
        'name = "v12"\ntitle = "Shift"\nwhy = "w"\nparent = "v4"\ntag = "sm121-v12-shift"\n'
        'patches = ["shift"]\n',
    )
    line.patch(
        "shift.toml",
        'name = "shift"\ntitle = "Shift"\nwhy = "w"\nupstream = ""\ndistribution = "vllm"\n'
        '[[variants]]\nfor = "vllm==0.30.*"\n[[variants.edits]]\nid = "v12.a"\n'
        'file = "vllm/model.py"\nwithin = "shift"\nfind = "x + 1"\nreplace = "x + 2"\n',
    )
    after = build(line).stdout.splitlines()
    assert after[:-1] == before  # a new stage leaves every older digest alone
    assert after[-1].startswith("sm121-v12-shift sha256:")
    image = read_image(line.root / "dist", "sm121-v12-shift")
    assert b"x + 2" in image.read(f"{SITE}/vllm/model.py")


def test_an_edit_of_v1_makes_its_layer_anew_and_no_other(line: Line) -> None:
    assert build(line).returncode == 0
    line.edit("patches/scale.toml", "return x * 3", "return x * 4")
    line.edit("stages/v01-model.toml", "return x * 3", "return x * 4")
    done = build(line)
    made = re.findall(r"\] (\S+/layer) ", done.stderr)
    assert made == ["v1/layer"]


def test_an_explanation_changes_no_digest(line: Line) -> None:
    first = build(line).stdout
    line.edit("stages/v01-model.toml", "Two is not enough.", "Three is better.")
    line.edit("patches/scale.toml", "Two is not enough.", "Three is better.")
    assert build(line).stdout == first


def test_to_builds_a_path_only_and_drops_what_is_not_of_it(line: Line) -> None:
    build(line)
    done = build(line, "--to", "v3")
    assert [text.split()[0] for text in done.stdout.splitlines()] == tags(line)
    assert tags(line) == ["sm121-base", "sm121-v1", "sm121-v3"]
    assert "no longer in dist, not part of this build: sm121-v4" in done.stderr
    blobs = list((line.root / "dist" / "blobs" / "sha256").iterdir())
    image = read_image(line.root / "dist", "sm121-v3")
    assert len(blobs) == len(image.layers) + 2 * 3


def test_anchor_that_is_not_there_keeps_the_earlier_stages(line: Line) -> None:
    line.edit("patches/tile.toml", "TILE 32", "TILE 48")
    refused(build(line), 1, "tile v4.a: anchor-missing", "expected 1, found 0")
    assert tags(line) == ["sm121-base", "sm121-v1", "sm121-v3"]


def test_edit_that_fits_twice(line: Line) -> None:
    line.edit("patches/scale.toml", 'within = "scale"\n', "")
    line.edit("patches/scale.toml", "return x * 2", "return x")
    line.edit("patches/scale.toml", "return x * 3", "return 3 * x")
    refused(build(line), 1, "scale v1.a: anchor-ambiguous", "expected 1, found 2")
    assert tags(line) == ["sm121-base"]


def test_check_that_does_not_hold(line: Line) -> None:
    line.edit("stages/v01-model.toml", 'text = "return x * 3"', 'text = "return x * 5"')
    refused(build(line), 1, "1 of 1 checks failed", "lacks 'return x * 5'")
    assert tags(line) == ["sm121-base"]


def test_patch_that_two_stages_list(line: Line) -> None:
    line.edit("stages/v04-tile.toml", '["tile"]', '["tile", "scale"]')
    refused(build(line), 1, "patch scale: already-applied: a stage below has made the same edits")


def test_stage_that_changes_nothing(line: Line) -> None:
    line.edit("stages/v09-held.toml", "[status.wheels]", "[status.day0]")
    refused(build(line), 1, "v9 is to be built on base wheels but changes nothing")
    assert not (line.root / "dist").exists()


def test_held_stage_that_would_change_something(line: Line) -> None:
    line.edit(
        "stages/v03-flashinfer.toml",
        "[[checks]]",
        '[status.wheels]\nstate = "held"\nreason = "r"\n[[checks]]',
    )
    refused(build(line), 1, "v3 is held", "flashinfer-python 0.6.17 -> 0.6.18")


def test_stage_graph_faults_are_all_told(line: Line) -> None:
    line.stage("v05-a.toml", 'name="v5"\ntitle="t"\nwhy="w"\nparent="v77"\ntag="sm121-v5"\n')
    line.stage("v06-b.toml", 'name="v6"\ntitle="t"\nwhy="w"\nparent="v7"\ntag="sm121-v6"\n')
    line.stage("v07-c.toml", 'name="v7"\ntitle="t"\nwhy="w"\nparent="v6"\ntag="sm121-v6"\n')
    refused(
        build(line),
        2,
        "v05-a.toml: parent: no stage 'v77'",
        "v06-b.toml: parent: a cycle: v6 -> v7 -> v6",
        "v07-c.toml: tag: 'sm121-v6' is also v06-b.toml's",
    )


def test_patch_that_is_not_there(line: Line) -> None:
    (line.root / "patches" / "tile.toml").unlink()
    refused(build(line), 2, "v04-tile.toml: patches: no patch 'tile'")


def test_no_lock_here(line: Line) -> None:
    (line.root / "pins.toml").unlink()
    refused(build(line), 2, "pins.toml")


def test_altered_wheel_in_the_cache_is_never_used(line: Line) -> None:
    stored = line.stored("vllm-0.30.0-py3-none-any.whl")
    data = bytearray(stored.read_bytes())
    data[40] ^= 1
    stored.write_bytes(data)
    refused(build(line), 3, "vllm-0.30.0-py3-none-any.whl")
    assert not stored.exists()


def test_damaged_step_in_the_cache_is_made_again(line: Line) -> None:
    first = build(line)
    for blob in (line.cache / "steps").glob("*/layer.tar.zst"):
        data = bytearray(blob.read_bytes())
        data[-1] ^= 1
        blob.chmod(0o644)
        blob.write_bytes(data)
    second = build(line)
    assert second.stdout == first.stdout
    for image in ("base", "v4"):
        read_image(line.root / "dist", f"sm121-{image}").verify()


def test_out_that_is_no_layout_is_left_alone(line: Line) -> None:
    (line.root / "mine").mkdir()
    (line.root / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    refused(build(line, "--out", "mine"), 2, "mine exists and is no OCI image layout")
    assert [p.name for p in (line.root / "mine").iterdir()] == ["thesis.txt"]


def test_interrupt_ends_with_130_and_leaves_nothing_half_done(line: Line) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "build", "--offline", "--jobs", "1"],
        cwd=line.root,
        env=environment(line),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for text in process.stderr:
        if "base/" in text:
            break
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err and "interrupted" in err
    assert not list((line.cache / "tmp").iterdir())
    assert build(line).returncode == 0


def test_killed_build_is_finished_by_the_next(line: Line) -> None:
    for delay in (0.3, 0.7, 1.1):
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "build", "--offline"],
            cwd=line.root,
            env=environment(line),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = build(line)
    assert done.returncode == 0, done.stderr
    assert not list((line.cache / "tmp").iterdir())
    for tag in tags(line):
        read_image(line.root / "dist", tag).verify()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_disk_without_room_is_said_before_the_start(line: Line, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs")
    try:
        shutil.copytree(line.cache, small, dirs_exist_ok=True)
        done = build(line, env={"SM121_CHAIN_CACHE": str(small)})
        refused(done, 3, "not enough room in")
        assert not list(small.glob("steps/*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_wheel_for_another_machine(line: Line, tmp_path: Path) -> None:
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + (62).to_bytes(2, "little")
    wheel = make_wheel(tmp_path, "vllm", "0.30.0", {"vllm/model.py": MODEL, "vllm/_C.so": elf})
    line.replace("vllm-0.30.0-py3-none-any.whl", wheel)
    refused(build(line), 1, "vllm/_C.so", "wrong-arch")
    assert not (line.root / "dist" / "blobs").exists() or not tags(line)


def test_two_wheels_own_one_path_with_other_bytes(line: Line, tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path, "vllm", "0.30.0", {"vllm/model.py": MODEL, "flashinfer/__init__.py": "mine"}
    )
    line.replace("vllm-0.30.0-py3-none-any.whl", wheel)
    refused(build(line), 1, "file-conflict", f"/{SITE}/flashinfer/__init__.py")


def test_truncated_wheel_that_the_lock_names(line: Line, tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path, "vllm", "0.30.0", {"vllm/model.py": MODEL}, damage=lambda data: data[:-30]
    )
    line.replace("vllm-0.30.0-py3-none-any.whl", wheel)
    refused(build(line), 1, "vllm-0.30.0-py3-none-any.whl")


LATER = '''
name = "later"
title = "Scale by four"
why = "Three is not enough."
upstream = ""
distribution = "vllm"
[[variants]]
for = "vllm==0.30.*"
[[variants.edits]]
id = "v5.a"
file = "vllm/model.py"
within = "WITHIN"
find = """FIND"""
replace = """REPLACE"""
'''


def later(line: Line, within: str, find: str, replace: str) -> None:
    """A stage on v4 that edits the file which v1 has edited."""
    text = LATER.replace("WITHIN", within).replace("FIND", find).replace("REPLACE", replace)
    line.patch("later.toml", text)
    line.stage(
        "v05-later.toml",
        'name = "v5"\ntitle = "later"\nwhy = "because"\nparent = "v4"\ntag = "sm121-v5"\n'
        'patches = ["later"]\n',
    )


def test_a_stage_that_undoes_an_earlier_patch_is_refused(line: Line) -> None:
    later(line, "scale", "return x * 3", "return x * 4")
    done = build(line)
    refused(done, 1, "the audit of v5", "patch-lost", "scale")
    assert "sm121-v5" not in tags(line)


def test_a_stage_that_edits_the_same_file_elsewhere_is_fine(line: Line) -> None:
    later(line, "shift", "return x + 1", "return x + 2")
    done = build(line)
    assert done.returncode == 0, done.stderr
    facts = json.loads(
        read_image(line.root / "dist", "sm121-v5").read("usr/share/sm121-chain/stages/v5.json")
    )
    (file,) = facts["files"]
    v1 = json.loads(
        read_image(line.root / "dist", "sm121-v1").read("usr/share/sm121-chain/stages/v1.json")
    )
    # what the later stage found is what the earlier one left
    assert file["before"] == v1["files"][0]["after"] != file["after"]


SIGN = """
name = "upstream-shift"
title = "Shift is upstream"
why = "The release has it."
upstream = ""
distribution = "vllm"
[[variants]]
for = "vllm==0.30.*"
[[variants.upstream]]
file = "vllm/model.py"
within = "shift"
contains = "return x + 1"
"""


def test_what_a_release_has_is_looked_for_in_later_stages_too(line: Line) -> None:
    line.patch("upstream-shift.toml", SIGN)
    line.edit("stages/v04-tile.toml", '"tile"', '"upstream-shift", "tile"')
    assert build(line).returncode == 0
    facts = json.loads(
        read_image(line.root / "dist", "sm121-v4").read("usr/share/sm121-chain/stages/v4.json")
    )
    assert [patch["outcome"] for patch in facts["patches"]] == ["upstream", "applied"]
    later(line, "shift", "return x + 1", "return x + 2")
    refused(build(line), 1, "the audit of v5", "patch-lost", "upstream-shift")
