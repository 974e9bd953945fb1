"""The rules of an audit, one subject a module.

A new rule is a function from a context to findings, its place in `RULES`, its severities in
`audit/catalogue.py`, its sentence in `report/rules.py` and its section in docs/findings.md.
"""

from __future__ import annotations

from pipeline.audit.context import Rule
from pipeline.audit.rules.binaries import binaries
from pipeline.audit.rules.bytecode import bytecode
from pipeline.audit.rules.families import families
from pipeline.audit.rules.imports import imports
from pipeline.audit.rules.installers import installers
from pipeline.audit.rules.jit import jit
from pipeline.audit.rules.libraries import libraries
from pipeline.audit.rules.metadata import broken, duplicates, sites
from pipeline.audit.rules.origin import origins
from pipeline.audit.rules.patches import patches
from pipeline.audit.rules.record import conflicts, files, rows, unowned
from pipeline.audit.rules.requirements import requirements
from pipeline.audit.rules.versions import pins

RULES: tuple[Rule, ...] = (
    sites,
    pins,
    requirements,
    imports,
    duplicates,
    broken,
    rows,
    files,
    conflicts,
    unowned,
    patches,
    bytecode,
    jit,
    families,
    binaries,
    origins,
    libraries,
    installers,
)
