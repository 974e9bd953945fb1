"""Families that must stand at one version, and who moved them apart."""

from pathlib import Path

from pipeline.audit.findings import Finding
from pipeline.audit.run import audit
from tests.audit.images import Content, distribution, expect, image

BASE, CU13 = "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-cu13"
FAMILY = ("nvidia-cutlass-dsl", BASE, CU13)


def installed(version: str, *names: str) -> dict[str, Content]:
    return {path: data for name in names for path, data in distribution(name, version).items()}


def mixed(tmp_path: Path, *layers: dict[str, Content], **more: object) -> list[Finding]:
    report = audit(image(tmp_path, *layers), expect(**more))  # type: ignore[arg-type]
    return [one for one in report.findings if one.rule == "family-mixed"]


def test_one_version_is_no_mix_and_the_build_is_free(tmp_path: Path) -> None:
    assert mixed(tmp_path, installed("4.6.2", *FAMILY)) == []
    parts = installed("0.6.18", "flashinfer-python") | installed("0.6.18+cu130", "flashinfer-cubin")
    assert mixed(tmp_path, parts) == []
    assert mixed(tmp_path, installed("4.6.2", "nvidia-cutlass-dsl")) == []


def test_a_half_moved_family_is_told_with_direction_and_cause(tmp_path: Path) -> None:
    wants = distribution("flashinfer-python", "0.6.18", requires=["nvidia-cutlass-dsl==4.7.0"])
    left, moved = installed("4.6.2", CU13), installed("4.7.0", "nvidia-cutlass-dsl", BASE)
    view = image(tmp_path, left, moved | wants)
    pins = dict.fromkeys(FAMILY, "4.6.2")
    (finding,) = [one for one in audit(view, expect(pins)).findings if one.rule == "family-mixed"]
    assert finding.severity == "error" and finding.layer == view.layers[1].digest
    assert finding.message == (
        f"the family is at 2 versions: 4.6.2 ({CU13}) and 4.7.0 (nvidia-cutlass-dsl, {BASE}); "
        "it was moved up from 4.6.2, half of it was left behind; "
        "flashinfer-python 0.6.18 wants nvidia-cutlass-dsl==4.7.0"
    )


def test_without_a_lock_the_layers_tell_what_was_left(tmp_path: Path) -> None:
    (finding,) = mixed(tmp_path, installed("4.7.0", CU13), installed("4.6.2", BASE))
    assert finding.message.endswith("; 4.7.0 was left behind")
    (finding,) = mixed(tmp_path, installed("4.7.0", CU13) | installed("odd", BASE))
    assert "left behind" not in finding.message


def test_the_parent_tells_what_it_was(tmp_path: Path) -> None:
    whole = image(tmp_path, installed("4.8.0", *FAMILY))
    half = image(tmp_path, installed("4.8.0", CU13), installed("4.7.0", FAMILY[0], BASE))
    report = audit(half, expect(), parent=audit(whole, expect()).baseline)
    (finding,) = [one for one in report.findings if one.rule == "family-mixed"]
    assert "; it was moved down from 4.8.0, half of it was left behind" in finding.message
