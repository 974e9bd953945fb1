"""Case 31 in an image: binaries for another machine, however they came in."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.expectation import KnownFault
from pipeline.audit.findings import Finding
from pipeline.audit.run import audit
from tests.audit.images import ENVIRONMENT, SITE, Content, distribution, expect, image
from tests.wheels.makewheel import AARCH64, CUDA, X86_64, elf

A = distribution("a", "1", record="a/_c.so,,\na-1.dist-info/RECORD,,\n")


def wrong(tmp_path: Path, *layers: dict[str, Content], **more: object) -> list[Finding]:
    report = audit(image(tmp_path, *layers), expect(**more))  # type: ignore[arg-type]
    return [one for one in report.findings if one.rule == "wrong-arch"]


@pytest.mark.parametrize("path", [f"{SITE}/a/_c.so", "usr/bin/tool", f"{SITE}/a/bin/tool"])
def test_31_wrong_architecture_whatever_the_name(tmp_path: Path, path: str) -> None:
    assert wrong(tmp_path, A | {path: elf(AARCH64)}) == []
    assert wrong(tmp_path, A | {path: elf(CUDA)}) == []
    assert wrong(tmp_path, A | {path: b"\x7fELF"}) == []
    (finding,) = wrong(tmp_path, A, {path: elf(X86_64)})
    assert (finding.severity, finding.path) == ("error", path)
    assert finding.subject == ("a" if path.endswith("_c.so") else path)
    assert "e_machine 62 (x86-64), the image is aarch64 (183)" in finding.message


def test_31_a_later_layer_can_bring_it_and_a_later_one_can_take_it_away(tmp_path: Path) -> None:
    bad: dict[str, Content] = {f"{SITE}/a/_c.so": elf(X86_64)}
    good: dict[str, Content] = {f"{SITE}/a/_c.so": elf(AARCH64)}
    assert wrong(tmp_path, A | good, bad)[0].layer
    assert wrong(tmp_path, A | bad, good) == []


def test_31_a_known_file_is_tolerated_by_its_content(tmp_path: Path) -> None:
    view = image(tmp_path, A | {f"{SITE}/a/_c.so": elf(X86_64)})
    sha256 = view.tree.nodes[f"{SITE}/a/_c.so"].entry.sha256
    known = KnownFault("wrong-arch", "a", "data for a simulator", "a/_c.so", sha256)
    for entry, severity in [(known, "note"), (replace(known, sha256="0" * 64), "error")]:
        report = audit(view, expect(known=(entry,)))
        (finding,) = [one for one in report.findings if one.rule == "wrong-arch"]
        assert finding.severity == severity
    assert finding.reason == ""


def test_an_image_for_a_machine_that_is_not_known_here(tmp_path: Path) -> None:
    view = image(tmp_path, A | {f"{SITE}/a/_c.so": elf(AARCH64)})
    environment = {**ENVIRONMENT, "platform_machine": "no-such"}
    report = audit(view, replace(expect(), environment=environment))
    assert "the image is no-such (not known here)" in report.findings[0].message
