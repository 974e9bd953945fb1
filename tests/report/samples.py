"""Results to show: one of everything, and names as somebody hostile would choose them."""

from __future__ import annotations

from dataclasses import replace

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import AuditReport, Unsatisfied
from pipeline.drift.changes import (
    ADDED,
    BUILD,
    DEBIAN,
    DISTRIBUTION,
    DOWN,
    FILES,
    INTENDED,
    LIBRARY,
    MET,
    NEW,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
    Files,
    LoneFile,
    Setting,
    Wish,
)
from pipeline.drift.comparison import Comparison
from pipeline.drift.findings import findings
from pipeline.drift.images import Image, Layer
from pipeline.drift.matrix import Column, History, Row
from pipeline.inventory.distributions import Distribution
from pipeline.oci.view import LayerInfo
from pipeline.report.judged import AUDIT, Judged

# Escapes of a terminal, of Markdown, HTML, XML and CDATA; right-to-left override, half a surrogate
# pair, characters that XML does not have, mentions, a link, a table's bar, and it is long.
HOSTILE = (
    "a|b`c<script>alert(1)</script><img src=x onerror=alert(2)>&amp;\x1b[2J\x1b]0;owned\x07"
    "\u202egnp.\udcff]]>\r\n| x | y |\n# head\n\x00'\"@everyone #1 https://x.example "
    "[l](javascript:alert(3)) \ufffe\u2028\u200f{{ 7*7 }} $x^2$ " + "x" * 9000
)
DIGESTS = [f"sha256:{number:064x}" for number in range(1, 12)]
LAYERS = tuple(
    Layer(n, DIGESTS[n], DIGESTS[n], 1_000_000 * n, f"sm121-chain v{n}: step {n}", f"v{n}")
    for n in range(1, 6)
)


def judged(*, hostile: bool = False) -> Judged:
    """Return findings of every severity; hostile ones have the name everywhere."""
    name = HOSTILE if hostile else "nvidia-nccl-cu13"
    findings = [
        Finding(
            "pin-downgraded",
            ERROR,
            name,
            f"{name} 2.29.7 is older than the locked 2.30.7",
            path=f"site/{name}-2.29.7.dist-info",
            layer=DIGESTS[2],
            fix=f"install {name} last",
        ),
        Finding("requirement-unsatisfied", ERROR, "torch", f"wants {name}==2.29.7, gone (new)"),
        *(
            Finding("file-missing", ERROR, name, f"{n}.py is not there", path=f"{name}/{n}.py")
            for n in range(9)
        ),
        Finding("origin-direct-url", WARNING, "flashinfer", f"is from https://{name}"),
        Finding("record-missing", NOTE, name, "has no RECORD"),
        Finding("file-modified", NOTE, "vllm", "cuda.py differs", reason=f"patch {name}"),
    ]
    return Judged(
        AUDIT,
        f"oci:{name}" if hostile else "oci:dist:sm121-v8",
        name if hostile else "v8",
        sorted(findings, key=Finding.sort_key),
        {DIGESTS[2]: f"layer 2, {name}"},
        {"patch-lost": f"no {name} was named" if hostile else "no lock was named"},
    )


def comparison(*, hostile: bool = False) -> Comparison:
    """Return a comparison with a change of every direction, and its findings."""
    name = HOSTILE if hostile else "nvidia-nccl-cu13"
    wishes = (
        Wish("torch", "2.13.0", f"{name}==2.29.7", INTENDED, f"because {name}"),
        Wish("vllm", "0.30.0", f"{name}==2.29.7", NEW),
        Wish("other", "1", f"{name}==2.30.7", MET),
    )
    layer = LAYERS[3]

    def change(direction: str, package: str, before: str, after: str, **more: object) -> Change:
        members = {"kind": DISTRIBUTION, "rank": 3, "layer": layer, **more}
        return Change(name=package, direction=direction, before=before, after=after, **members)  # type: ignore[arg-type]

    changes = [
        change(UP, name, "2.29.7", "2.30.7", rank=0, gpu=True, family="nccl", wishes=wishes),
        change(DOWN, "nvidia-cutlass-dsl", "4.7.1", "4.6.2", rank=0, gpu=True, reason="pin of v5"),
        change(DOWN, "quack-kernels", "0.6.5", "0.6.4", rank=1),
        change(BUILD, "torch", "2.13.0", "2.13.0+cu130", rank=0, gpu=True),
        change(ADDED, "new-one", "", "1"),
        change(REMOVED, "old-one", "1", "", layer=None),
        change(RENAMED, "nvidia-nvshmem-cu13", "3.4", "3.5", was="nvidia-nvshmem-cu12"),
        change(ORIGIN, "flashinfer", "0.6", "0.6", origin_after=f"git {name}"),
        change(
            FILES,
            "vllm",
            "0.30.0",
            "0.30.0",
            files=Files((f"site/{name}.py",), ("site/b.py",), ("site/c.py",)),
        ),
        change(UP, "libc6", "2.36-9", "2.36-10", kind=DEBIAN, rank=4),
        change(UP, "libnccl.so.2", "a/libnccl.so.2", "b/libnccl.so.2", kind=LIBRARY, gpu=True),
    ]
    found = Comparison(
        Image("oci:dist:sm121-v3", digest=DIGESTS[0], layers=LAYERS[:3], distributions=197),
        Image(
            f"oci:{name}" if hostile else "oci:dist:sm121-v5",
            digest=DIGESTS[1],
            layers=LAYERS,
            distributions=198,
        ),
        shared=LAYERS[:3],
        gone=(),
        new=LAYERS[3:],
        base_changed=True,
        changes=tuple(sorted(changes, key=Change.sort_key)),
        settings=(Setting("Env", "LD_LIBRARY_PATH", None, name), Setting("Labels", name, "a", "b")),
        files=(LoneFile(f"etc/{name}", ADDED, layer), LoneFile("etc/x", FILES)),
    )
    return findings(found)


def history(*, hostile: bool = False) -> History:
    """Return a line of five columns, v4 of which is held, and its findings."""
    found = comparison(hostile=hostile)
    names = ("v1", "v2", "v3", "v4", "v5")
    columns = tuple(
        Column(
            name,
            names[n - 1] if n else "",
            replace(found.after, subject=f"oci:dist:sm121-{name}"),
            state="held" if name == "v4" else "built",
            reason="the parent has it" if name == "v4" else "",
            comparison=found if name == "v5" else None,
        )
        for n, name in enumerate(names)
    )
    rows = [
        Row(
            change.kind,
            change.name,
            change.rank,
            change.family,
            change.gpu,
            (change.before,) * 4 + (change.after,),
            (None,) * 4 + (change,),
        )
        for change in found.changes
    ]
    rows += [
        Row(DISTRIBUTION, f"still-{n:02}", 9, "", False, ("1.0",) * 5, (None,) * 5)
        for n in range(30)
    ]
    name = HOSTILE if hostile else "pins.toml"
    return History(name, columns, tuple(rows), found.findings)


def audit_report(*, hostile: bool = False) -> AuditReport:
    """Return an audit of four distributions with the findings of `judged`."""
    one, name = judged(hostile=hostile), HOSTILE if hostile else "nvidia-nccl-cu13"
    distributions = [
        Distribution(package, package, "1.0", f"site/{package}.dist-info", "site", 0)
        for package in (name, "torch", "new-one", "vllm")
    ]
    return AuditReport(
        one.subject,
        one.against,
        (LayerInfo(DIGESTS[2], DIGESTS[2], f"made by {name}"),),
        tuple(distributions),
        (Unsatisfied("torch", f"{name}==2", "1.0", "new", 0, target=name),),
        tuple(one.findings),
    )


def audit_pins(*, hostile: bool = False) -> dict[str, str]:
    """Return what the lock has for `audit_report`."""
    name = HOSTILE if hostile else "nvidia-nccl-cu13"
    return {name: "2.0", "torch": "1.0", "vllm": "0.9", "gone": "1"}
