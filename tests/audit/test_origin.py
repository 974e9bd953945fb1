"""Case 18: editable and direct-URL installs."""

from pathlib import Path

from pipeline.audit.expectation import Expectation, LockedDistribution
from pipeline.audit.run import audit
from pipeline.oci.view import LayersView
from tests.audit.images import ENVIRONMENT, Content, distribution, expect, image

SOURCE = "sgl-workspace/sglang/python"
ARCHIVE = "ab" * 32


def build(tmp_path: Path, commit: str) -> LayersView:
    def origin(text: str) -> dict[str, str]:
        return {"direct_url.json": text}

    editable = '{"dir_info": {"editable": true}, "url": "file:///sgl-workspace/sglang/python"}'
    vcs = '{"url": "https://host.invalid/m", "vcs_info": {"vcs": "git", "commit_id": "%s"}}'
    archive = '{"archive_info": {"hashes": {"sha256": "%s"}}, "url": "https://host.invalid/k.whl"}'
    source: dict[str, Content] = {
        f"{SOURCE}/sglang/__init__.py": "",
        f"{SOURCE}/sglang.egg-info/PKG-INFO": "Name: sglang\nVersion: 0.5.4\n",
    }
    return image(
        tmp_path,
        distribution("sglang", "0.5.5", extra=origin(editable))
        | distribution("flash-mla", "1.0.0", extra=origin(vcs % commit))
        | distribution("sgl-kernel", "0.3.16+cu130", extra=origin(archive % ARCHIVE))
        | source,
    )


def test_18_origins_are_reported_and_an_equal_version_does_not_vouch(tmp_path: Path) -> None:
    report = audit(build(tmp_path, "1" * 40), expect())
    assert {one.name: (one.version, str(one.origin)) for one in report.distributions} == {
        "sglang": ("0.5.5", f"editable, {SOURCE}"),
        "flash-mla": ("1.0.0", f"git, commit {'1' * 40}, from https://host.invalid/m"),
        "sgl-kernel": (
            "0.3.16+cu130",
            f"archive with sha256 {ARCHIVE}, from https://host.invalid/k.whl",
        ),
    }
    assert [(one.rule, one.subject, one.severity) for one in report.findings] == [
        ("origin-direct-url", "flash-mla", "warning"),
        ("origin-direct-url", "sgl-kernel", "warning"),
        ("origin-editable", "sglang", "warning"),
    ]


def test_18_an_archive_with_the_locked_hash_is_what_the_lock_means(tmp_path: Path) -> None:
    pins = (
        LockedDistribution("sglang", "0.5.5"),
        LockedDistribution("flash-mla", "1.0.0"),
        LockedDistribution("sgl-kernel", "0.3.16+cu130", (ARCHIVE,)),
    )
    report = audit(build(tmp_path, "1" * 40), Expectation(ENVIRONMENT, "lock", pins))
    assert [one.subject for one in report.findings] == ["flash-mla", "sglang"]


def test_18_another_commit_at_the_same_version_is_drift(tmp_path: Path) -> None:
    parent = audit(build(tmp_path, "1" * 40), expect()).baseline
    report = audit(build(tmp_path, "2" * 40), expect(), parent=parent)
    finding = report.findings[0]
    assert (finding.rule, finding.subject, finding.severity) == (
        "origin-changed",
        "flash-mla",
        "error",
    )
    assert "1.0.0 is from git, commit 222" in finding.message


def test_an_unreadable_origin_is_broken_metadata(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1", extra={"direct_url.json": "{"}))
    assert [one.rule for one in audit(view, expect()).findings] == ["broken-metadata"]
