"""Handed case 35: of thirteen smoke reports one opens the gate, and the others leave no tag.

Field names are the case's own; `translated` maps them to those of a report of ours.
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.oci.reading import find_image
from tests.cases import CASES, expected
from tests.line import Line, make_line
from tests.oci.registry.server import Registry

CASE = next(CASES.glob("35-*"))
REPORTS = sorted(path.stem for path in (CASE / "reports").iterdir())
PUSH = json.loads((CASE / "push.json").read_bytes())["push"]
WANTED = expected("35")["reports"]
# The case's reason words, as ours; "check" is its word for a probe.
OURS = {
    "other-image": {"other-image"},
    "check-missing": {"probe-missing"},
    "check-failed": {"probe-failed", "limit-broken"},
    "ranks-differ": {"ranks-differ"},
    "no-gpu": {"no-gpu"},
    "other-gpu": {"other-gpu"},
    "older-than-image": {"older-than-image"},
    "report-unreadable": {"report-unreadable"},
}


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def name(check: str) -> str:
    return str(check).replace("-", "_")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A line whose v1 requires what the case does, with an image as old as the case's."""
    scratch = tmp_path_factory.mktemp("case35")
    line = make_line(scratch / "project", scratch / "cache", scratch / "scratch")
    checks = json.dumps([name(one) for one in PUSH["required_checks"]])
    line.edit("stages/v01-model.toml", "patches =", f"smoke = {checks}\npatches =")
    line.edit("pins.toml", "epoch = 1767225600", f"epoch = {seconds(PUSH['image_created'])}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(line.root)
        patch.setenv("SM121_CHAIN_CACHE", str(line.cache))
        assert main(["build", "--offline", "-q", "--to", "v1"]) == 0
    return line


@pytest.fixture
def line(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    root = tmp_path / "project"
    shutil.copytree(built.root, root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setattr("time.time", lambda: float(seconds("2026-10-01T00:00:00Z")))
    return Line(root, tmp_path / "cache", built.wheels)


def translated(text: str, line: Line) -> str:
    """Return a report of the case as one of ours, about the line's image."""
    image, _ = find_image(line.root / "dist", "sm121-v1")
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError:
        return text
    digests = {
        PUSH["manifest"]: (image.digest, image.fingerprint),
        # What is called by the config's digest is not called by the manifest's.
        PUSH["config"]: (image.config_descriptor.digest, image.fingerprint),
    }

    def known(digest: str) -> tuple[str | None, str | None]:
        if digest == "<none>":
            return None, None
        return digests.get(digest, (digest, digest))

    manifest, fingerprint = known(given["subject"]["digest"])
    gpu = given["gpu"] or {}
    capability = [int(part) for part in gpu["capability"].split(".")] if gpu else None
    times = {key: seconds(given[key]) for key in ("started", "finished")}
    run = {
        "schema": "sm121-chain/smoke-run/1",
        "verdict": "passed" if given["ok"] else "failed",
        "problems": [],
        **times,
        "environment": {"gpu": gpu.get("name"), "capability": capability},
        "probes": [
            {
                "probe": name(check["name"]),
                "status": "passed" if check["ok"] else "failed",
                "numbers": {"tokens": check.get("tokens", 1)},
                "thresholds": {"tokens": {"min": 1}},
                "seconds": 1,
            }
            for check in given["checks"]
        ],
    }
    ranks = []
    for one in given["ranks"]:
        shown, identity = known(one["image"])
        ranks.append(
            {
                "rank": one["rank"],
                "host": f"rank{one['rank']}",
                "runtime": "docker",
                "image": {"manifest": shown, "fingerprint": identity},
                **times,
                "exit_status": 0,
                "run": {
                    **run,
                    "environment": {**run["environment"], "boot_id": f"rank{one['rank']}"},
                },
            }
        )
    return json.dumps(
        {
            "schema": "sm121-chain/smoke-report/1",
            "subject": {"name": "the case's", "manifest": manifest, "fingerprint": fingerprint},
            "capability": PUSH["gpu_capability"],
            "required": [name(one) for one in PUSH["required_checks"]],
            "probes": "sha256:" + "0" * 64,
            **times,
            "ranks": ranks,
            "verdict": "passed" if given["ok"] else "failed",
        }
    )


@pytest.mark.parametrize("report", REPORTS)
def test_35(
    report: str, line: Line, registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = f"{registry.host}/me/img"
    assert main(["push", "v1", repository, "-q"]) == 0
    pushed, requests = dict(registry.manifests), len(registry.log)
    file = tmp_path / f"{report}.json"
    text = (CASE / "reports" / f"{report}.json").read_text(encoding="utf-8")
    file.write_text(translated(text, line), encoding="utf-8")
    capsys.readouterr()
    status = main(["tag", "v1", repository, "--smoke", str(file)])
    err = capsys.readouterr().err
    answers = WANTED[report].get("any_of", [WANTED[report]])
    if any(answer["push"] and "when" not in answer for answer in answers):
        assert status == 0, err
        assert len(registry.tags) == 2 and "sm121-v1" in registry.tags
        return
    (refusal,) = [answer for answer in answers if not answer["push"]]
    assert status == 1 and "Traceback" not in err
    assert any(f"  {word}: " in err for word in OURS[refusal["reason"]]), err
    for check in refusal.get("checks", ()):
        assert f"{name(check)}: " in err
    # It touches the registry not at all.
    assert registry.tags == {} and registry.manifests == pushed
    assert len(registry.log) == requests
    assert not (line.root / "releases").exists()
