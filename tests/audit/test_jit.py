"""Case 13: a header is edited while compiled results of the old one stay in the image."""

from pathlib import Path

from pipeline.audit.expectation import PatchExpectation, Probe
from pipeline.audit.run import audit
from tests.audit.images import GONE, SITE, Content, distribution, expect, image

HEADER = "flashinfer/data/include/flashinfer/mla.cuh"
CACHE = "root/.cache/flashinfer/0.6.18/121a/cached_ops/batch_mla"
PREBUILT = f"{SITE}/flashinfer_jit_cache"
OLD, NEW = "#define KV_TILE 32\n", "#define KV_TILE 16\n"
BASE = (
    distribution("flashinfer-python", "0.6.18", {HEADER: OLD, "flashinfer/__init__.py": ""})
    | distribution(
        "flashinfer-jit-cache",
        "0.6.18+cu130",
        {"flashinfer_jit_cache/jit_cache/batch_mla/batch_mla.so": "x"},
    )
    | {f"{CACHE}/build.ninja": "rule nvcc\n", f"{CACHE}/batch_mla.so": "x"}
)
PATCH: dict[str, Content] = {f"{SITE}/{HEADER}": NEW}
CLEAN: dict[str, Content] = {CACHE: GONE}
REMOVED: dict[str, Content] = {
    PREBUILT: GONE,
    f"{SITE}/flashinfer_jit_cache-0.6.18+cu130.dist-info": GONE,
}


def stale(tmp_path: Path, *layers: dict[str, Content], **more: object) -> list[str]:
    report = audit(image(tmp_path, *layers), expect(**more))  # type: ignore[arg-type]
    return [one.path for one in report.findings if one.rule == "stale-jit"]


def test_13_stale_jit_cache(tmp_path: Path) -> None:
    assert stale(tmp_path, BASE) == []
    assert stale(tmp_path, BASE, PATCH) == [PREBUILT, CACHE]
    assert stale(tmp_path, BASE, PATCH | CLEAN) == [PREBUILT]
    assert stale(tmp_path, BASE, PATCH | CLEAN | REMOVED) == []


def test_13_times_play_no_part_and_a_cache_made_after_the_edit_is_fine(tmp_path: Path) -> None:
    again: dict[str, Content] = {f"{CACHE}/batch_mla.so": "y", f"{CACHE}/build.ninja": "r"}
    assert stale(tmp_path, BASE, PATCH | REMOVED, again) == []
    half: dict[str, Content] = {f"{CACHE}/batch_mla.so": "y"}
    assert stale(tmp_path, BASE, PATCH | REMOVED, half) == [CACHE]


def test_13_another_versions_cache_is_never_looked_into(tmp_path: Path) -> None:
    other = {path.replace("0.6.18/121a", "0.6.17/121a"): data for path, data in BASE.items()}
    assert stale(tmp_path, other, PATCH | REMOVED) == []


def test_13_a_patch_in_the_layer_that_installs_counts(tmp_path: Path) -> None:
    installed = BASE | PATCH  # RECORD still says OLD
    path = f"{SITE}/{HEADER}"
    assert stale(tmp_path, installed) == [PREBUILT]
    patch = PatchExpectation("tile", path, (Probe(b"KV_TILE 16"),))
    rewritten = distribution("flashinfer-python", "0.6.18", {HEADER: NEW})
    assert stale(tmp_path, BASE | rewritten) == []
    assert stale(tmp_path, BASE | rewritten, patches=(patch,)) == [PREBUILT]


def test_13_without_flashinfer_nothing_is_stale(tmp_path: Path) -> None:
    assert stale(tmp_path, {f"{CACHE}/x.so": "x"}, PATCH) == []


def test_13_a_patch_that_is_lost_edits_nothing(tmp_path: Path) -> None:
    lost = PatchExpectation("tile", f"{SITE}/{HEADER}", (Probe(b"KV_TILE 16"),))
    assert stale(tmp_path, BASE, patches=(lost,)) == []
