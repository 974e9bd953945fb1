"""What later releases do to the patches, asked of the real wheels.

The wheels are those that `patches check --against NAME==VERSION` has brought into the cache, or
lie in $SM121_CHAIN_WHEELS. Without one its column is skipped, and says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import pytest

from pipeline.patching.loading import load_patches
from pipeline.patching.model import Patch, Variant
from pipeline.patching.sources import Source, open_wheel
from pipeline.patching.survey import survey
from pipeline.patching.verdicts import EditReport, State

if TYPE_CHECKING:
    from conftest import Sources

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("SM121_CHAIN_CACHE") or platformdirs.user_cache_dir("sm121-chain"))
MOVED = "vllm/models/glm5next/nvidia/sparse_indexer.py"
FA = "flashinfer/mla/_batch_mla/_backends/_fa_common.py"

Ask = Callable[[str, str], Mapping[str, tuple[EditReport, State]]]

# edit: verdict, and for what moved: where to
EXPECTED: dict[tuple[str, str], dict[str, str]] = {
    ("vllm", "0.31.0"): {
        "v1.a": "applies",
        "v1.b": "applies",
        "v1.c": "applies",
        "v1.e": "applies",
        "v6": "applies",
        "v7.a": f"moved {MOVED}",
        "v7.b": f"moved {MOVED}",
        "v7.c": "applies",
    },
    ("vllm", "0.32.0"): {
        "v1.a": "applies",
        "v1.b": "applies",
        "v1.c": "applies",
        "v1.e": "upstream",
        "v6": "applies",
        "v7.a": f"moved {MOVED}",
        "v7.b": f"moved {MOVED}",
        "v7.c": "applies",
    },
    ("flashinfer-python", "0.7.2.post1"): {"v8.a": "applies", "v8.b": f"moved {FA}"},
}
MODEL = "vllm/models/glm5next/common/model.py"
AUX = [f"v11.A{number}" for number in range(1, 7)]
EXPECTED["vllm", "0.31.0"] |= {"v2.a": f"moved {MODEL}", "v2.b": f"moved {MODEL}"}
EXPECTED["vllm", "0.31.0"] |= dict.fromkeys(AUX, f"moved {MODEL}")
EXPECTED["vllm", "0.31.0"] |= dict.fromkeys(("v11.G.2", "v11.P1", "v11.P3"), "applies")
EXPECTED["vllm", "0.32.0"] |= {"v2.a": f"moved {MODEL}", "v2.b": f"moved {MODEL}"}
EXPECTED["vllm", "0.32.0"] |= dict.fromkeys(AUX, "upstream")
EXPECTED["vllm", "0.32.0"] |= {"v11.G.2": "gone", "v11.G.4": "gone", "v11.P1": "gone"}
EXPECTED["vllm", "0.32.0"] |= {"v11.P2a": "applies", "v11.P3": "applies"}
EXPECTED["vllm", "0.33.0"] = EXPECTED["vllm", "0.32.0"]


def wheel(name: str, version: str) -> Source | None:
    """A release from the directory of wheels, the cache, or the lock's wheelhouse."""
    directory = os.environ.get("SM121_CHAIN_WHEELS")
    for path in sorted(Path(directory).iterdir()) if directory else ():
        if path.name.startswith(f"{name.replace('-', '_')}-{version}-"):
            return open_wheel(path, "3.11")[0]
    for note in sorted((CACHE / "releases" / name).glob(f"{version}-*.json")):
        release = json.loads(note.read_text(encoding="utf-8"))
        path = CACHE / "files" / "sha256" / release["sha256"]
        if path.exists():
            return open_wheel(path, "3.11", release["filename"])[0]
    return None


@pytest.fixture
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks a release; the reports by edit, with the state of the edit's patch."""
    patches = load_patches(ROOT / "patches")

    def origin(patch: Patch, _: Variant) -> Callable[[str], bytes | None]:
        name = patch.distribution
        written_for: Sources = request.getfixturevalue(name.removesuffix("-python"))
        filename = f"{name.replace('-', '_')}-{written_for.version}-py3-none-any.whl"
        return open_wheel(written_for.wheel, "3.11", filename)[0].read

    def ask_release(name: str, version: str) -> Mapping[str, tuple[EditReport, State]]:
        source = wheel(name, version)
        if source is None:
            pytest.skip(f"the wheel of {name} {version} is not at hand: see the head of this file")
        asked = [patch for patch in patches.values() if patch.distribution == name]
        return {
            edit.edit.id: (edit, report.state)
            for report in survey(asked, source, origin).patches
            for edit in report.edits
        }

    return ask_release


@pytest.mark.parametrize(("name", "version"), sorted(EXPECTED))
def test_verdicts(ask: Ask, name: str, version: str) -> None:
    reports = ask(name, version)
    for identity, expected in EXPECTED[name, version].items():
        report, state = reports[identity]
        place = f" {report.proposal.edit.file}" if report.proposal else ""
        word = str(report.verdict)
        assert (word + place if word == "moved" else word) == expected, identity
        assert (state is State.UPSTREAM) == (word == "upstream")
        assert report.lines or word == "gone"


def test_evidence_of_the_planned_type(
    ask: Ask,
) -> None:
    report, _ = ask("vllm", "0.32.0")["v1.e"]
    assert report.lines[0].text.strip() == "kv_plan_dtype = ("


def test_moved_gate_of_the_fp8_cache(
    ask: Ask,
) -> None:
    report, _ = ask("flashinfer-python", "0.7.2.post1")["v8.b"]
    assert report.proposal
    assert report.proposal.edit.within == "_validate_generated_fa_plan"
