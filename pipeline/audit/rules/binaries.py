"""Binaries for another machine than the image's."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding
from pipeline.oci.binary import ELF, wrong_machine
from pipeline.oci.tree import Located

_ELF = ELF.hex()


def binaries(context: Context) -> Iterator[Finding]:
    """Every host binary, whatever its name, is for the image's machine; GPU code is none."""
    machine = context.expectation.environment["platform_machine"]
    for path, located in context.view.tree.select(is_elf).items():
        problem = wrong_machine(bytes.fromhex(located.entry.start), machine)
        if problem:
            claims = context.ownership.claims_on(path)
            yield context.finding(
                "wrong-arch",
                claims[0].distribution.name if claims else path,
                f"{path.rpartition('/')[2]} {problem}",
                path=path,
                layer=located.layer,
                fix="install the build for this machine, or name the file as known with a reason",
            )


def is_elf(node: Located) -> bool:
    """Whether this is a host binary, by its first bytes."""
    return node.entry.start.startswith(_ELF)
