"""The hand-made v3: FlashInfer's nightly installed with its requirements, by pip itself.

The wheels are empty but for their metadata, which says what upstream's says of each other (names,
versions, requirements). What pip does with them is what it did in the image.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.audit.expectation import LedgerEntry
from pipeline.audit.findings import ERROR
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.oci.view import LayersView
from tests.audit.images import GONE, SITE, Content, expect, image
from tests.wheels.makewheel import make_wheel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="markers ask for Linux")

NIGHTLY = "0.6.18.dev20260819"
DSL = "nvidia-cutlass-dsl"
FAMILY = (DSL, f"{DSL}-libs-base", f"{DSL}-libs-core", f"{DSL}-libs-cu12", f"{DSL}-libs-cu13")


def family(version: str) -> dict[tuple[str, str], list[str]]:
    base, core, cu12, cu13 = (f"{name}=={version}" for name in FAMILY[1:])
    return {
        (DSL, version): [base, cu12, f'{cu13}; extra == "cu13"'],
        (FAMILY[1], version): [core],
        (FAMILY[2], version): [],
        (FAMILY[3], version): [base],
        (FAMILY[4], version): [base],
    }


WHEELS: dict[tuple[str, str], list[str]] = {
    ("torch", "2.13.0"): [
        'nvidia-nccl-cu13==2.29.7; platform_system == "Linux"',
        'triton==3.7.1; platform_system == "Linux" and python_version < "3.15"',
    ],
    ("triton", "3.7.1"): [],
    ("nvidia-nccl-cu13", "2.29.7"): [],
    ("nvidia-nccl-cu13", "2.30.7"): [],
    **family("4.6.2"),
    **family("4.7.0"),
    ("quack-kernels", "0.6.4"): [f"{DSL}==4.6.2", "torch"],
    ("flashinfer-python", "0.6.17"): [f"{DSL}>=4.5.0", "torch"],
    ("flashinfer-cubin", "0.6.17"): [],
    ("flashinfer-python", NIGHTLY): [f"{DSL}==4.7.0", "torch"],
    ("flashinfer-cubin", NIGHTLY): [],
}
BASE = {
    "torch": "2.13.0",
    "triton": "3.7.1",
    "nvidia-nccl-cu13": "2.30.7",  # by an override that nothing records
    **dict.fromkeys(FAMILY, "4.6.2"),
    "quack-kernels": "0.6.4",
    "flashinfer-python": "0.6.17",
    "flashinfer-cubin": "0.6.17",
}
LOCK = BASE | {"flashinfer-python": NIGHTLY, "flashinfer-cubin": NIGHTLY}
LEDGER = (
    LedgerEntry("nvidia-nccl-cu13==2.30.7", ("torch 2.13.0 wants ==2.29.7",), "proven so"),
    LedgerEntry(
        f"{DSL}[cu13]==4.6.2", (f"flashinfer-python {NIGHTLY} wants ==4.7.0",), "one family"
    ),
)


class Environment:
    """A virtual environment that pip fills from a directory of wheels."""

    def __init__(self, root: Path):
        self.wheels = root / "wheels"
        for (name, version), requires in WHEELS.items():
            lines = "".join(f"Requires-Dist: {one}\n" for one in requires)
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
            metadata += "Provides-Extra: cu13\n"
            make_wheel(
                self.wheels,
                name,
                version,
                {f"{name.replace('-', '_')}.py": f"V = {version!r}\n"},
                info={"METADATA": metadata},
            )
        self.root = root / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.root], check=True)
        (self.site,) = self.root.glob("lib/python3*/site-packages")

    def pip(self, *arguments: str) -> None:
        command = [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "--isolated",
            "--python",
            self.root,
            "install",
        ]
        offline = ["--no-index", "--no-compile", "--quiet", "--find-links", self.wheels]
        subprocess.run([*command, *offline, *arguments], check=True, capture_output=True)

    def files(self) -> dict[str, Content]:
        return {
            f"{SITE}/{path.relative_to(self.site).as_posix()}": path.read_bytes()
            for path in sorted(self.site.rglob("*"))
            if path.is_file()
        }


def spelled(pins: dict[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in pins.items()]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, dict[str, Content]]:
    environment = Environment(tmp_path_factory.mktemp("wrong-way"))
    environment.pip("--no-deps", *spelled(BASE))
    return environment, environment.files()


def after(
    tmp_path: Path, before: tuple[Environment, dict[str, Content]], *arguments: str
) -> LayersView:
    """The image with the base below and, as a layer, what pip changes with these arguments."""
    environment, base = before
    environment.pip(*arguments)
    now = environment.files()
    layer: dict[str, Content] = {p: data for p, data in now.items() if base.get(p) != data}
    stays = {path.rpartition("/")[0] for path in now}
    for path in base.keys() - now.keys():  # a directory that goes is one whiteout
        parent = path.rpartition("/")[0]
        layer[path if parent in stays else parent] = GONE
    environment.pip("--no-deps", "--force-reinstall", *spelled(BASE))
    return image(tmp_path, base, layer)


def judge(view: LayersView) -> AuditReport:
    below = LayersView("base", view.blobs[:1], view.layers[:1], {})
    parent = audit(below, expect(BASE, ledger=LEDGER)).baseline
    return audit(view, expect(LOCK, ledger=LEDGER), parent=parent, below=below)


def errors(report: AuditReport) -> Sequence[tuple[str, str, str]]:
    return [(f.rule, f.subject, f.message) for f in report.findings if f.severity == ERROR]


NEW = [f"flashinfer-python=={NIGHTLY}", f"flashinfer-cubin=={NIGHTLY}"]


def test_with_dependencies_pip_takes_nccl_down_and_half_the_family_up(
    tmp_path: Path, before: tuple[Environment, dict[str, Content]]
) -> None:
    view = after(tmp_path, before, *NEW)
    report = judge(view)
    found = {(rule, subject): message for rule, subject, message in errors(report)}
    assert found[("pin-downgraded", "nvidia-nccl-cu13")] == (
        "nvidia-nccl-cu13 2.29.7 is older than the locked nvidia-nccl-cu13 2.30.7; "
        "torch 2.13.0 wants nvidia-nccl-cu13==2.29.7"
    )
    assert found[("pin-upgraded", DSL)] == (
        f"{DSL} 4.7.0 is newer than the locked {DSL} 4.6.2; "
        f"flashinfer-python {NIGHTLY} wants {DSL}==4.7.0"
    )
    assert found[("family-mixed", DSL)] == (
        f"the family is at 2 versions: 4.6.2 ({FAMILY[4]}) and 4.7.0 ({', '.join(FAMILY[:4])}); "
        "it was moved up from 4.6.2, half of it was left behind; "
        f"flashinfer-python {NIGHTLY} wants {DSL}==4.7.0 and quack-kernels 0.6.4 wants {DSL}==4.6.2"
    )
    moved = {subject for rule, subject in found if rule.startswith("pin-")}
    assert moved == {"nvidia-nccl-cu13", *FAMILY[:4]}
    assert {rule for rule, _ in found} == {
        "pin-downgraded",
        "pin-upgraded",
        "family-mixed",
        "requirement-unsatisfied",  # quack-kernels and -libs-cu13 are left with what they refuse
    }
    layers = {one.layer for one in report.findings if one.severity == ERROR}
    assert layers == {view.layers[1].digest}


def test_without_dependencies_nothing_but_flashinfer_moves(
    tmp_path: Path, before: tuple[Environment, dict[str, Content]]
) -> None:
    report = judge(after(tmp_path, before, "--no-deps", *NEW))
    assert errors(report) == []
    assert [(one.rule, one.reason) for one in report.findings] == [
        ("requirement-unsatisfied", "one family"),
        ("requirement-unsatisfied", "proven so"),
    ]
