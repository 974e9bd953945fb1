"""The static checks of a stage, asked on its draft: what its file promises must be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import Version

from pipeline.patching.syntax import syntax_faults
from pipeline.steps.draft import Draft


def failed_checks(checks: Sequence[Mapping[str, str]], draft: Draft) -> list[str]:
    """Return a line for each check that does not hold."""
    return [problem for check in checks if (problem := _problem(check, draft))]


def _problem(check: Mapping[str, str], draft: Draft) -> str:
    kind = check["kind"]
    if kind == "version":
        found = draft.versions.get(check["distribution"])
        if found == Version(check["version"]):
            return ""
        return f"{check['distribution']} is at {found or 'no version'}, not {check['version']}"
    path = check["file"]
    data = draft.read_site(path)
    if data is None:
        return f"{kind}: there is no file {path}"
    if kind == "compiles":
        faults = syntax_faults({path: data}, draft.python)
        return f"{path} does not parse: {faults[path][0]}" if faults else ""
    is_there = check["text"].encode("utf-8") in data
    if is_there == (kind == "contains"):
        return ""
    return f"{path} {'still has' if is_there else 'lacks'} {check['text']!r}"
