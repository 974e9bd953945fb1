"""Every rule with its severity. What each means and what to do is written in docs/findings.md."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.audit.findings import ERROR, NOTE, WARNING

SEVERITIES: Mapping[str, str] = {
    # pins
    "pin-upgraded": ERROR,
    "pin-downgraded": ERROR,
    "build-changed": ERROR,
    "pin-changed": ERROR,
    "not-in-lock": ERROR,
    "distribution-missing": ERROR,
    # requirements: a warning when inherited, a note when the ledger intends it
    "requirement-unsatisfied": ERROR,
    "requirement-unreadable": WARNING,
    # imports: a warning when inherited
    "import-broken": ERROR,
    # metadata
    "duplicate-dist": ERROR,
    "shadowed-dist": WARNING,
    "broken-metadata": ERROR,
    "site-missing": ERROR,
    "site-not-judged": NOTE,
    # RECORD
    "broken-record": ERROR,
    "record-missing": NOTE,
    "record-row-outside-root": ERROR,
    "file-missing": ERROR,
    "file-modified": ERROR,
    "file-conflict": ERROR,
    "unowned-file": NOTE,
    # patches
    "patch-lost": ERROR,
    # what was compiled: a note where Python sees it, a warning without a source
    "stale-bytecode": ERROR,
    "stale-jit": ERROR,
    # families and machines
    "family-mixed": ERROR,
    "wrong-arch": ERROR,
    # origins
    "origin-editable": WARNING,
    "origin-direct-url": WARNING,
    "origin-changed": ERROR,
    # shared libraries: a note where all get one copy; pip and uv: a note unless they name sources
    "library-copies": WARNING,
    "installer-configured": WARNING,
    # drift, of two images: a note where a stage of the image says that it did it
    "drift-down": ERROR,
    "drift-moved": ERROR,
    "drift-build": ERROR,
    "drift-library": ERROR,
    "drift-origin": ERROR,
    "drift-files": ERROR,
    "drift-up": WARNING,
    "drift-renamed": WARNING,
    "drift-removed": WARNING,
    "drift-added": WARNING,
    "drift-base": WARNING,
    "drift-setting": WARNING,
    "drift-lone-files": NOTE,
    # the baseline file
    "baseline-unused": WARNING,
}
