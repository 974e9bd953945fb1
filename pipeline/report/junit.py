"""JUnit XML, as Jenkins, GitLab and others read it: a suite a subject, a case a rule or package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from pipeline.audit.findings import Finding
from pipeline.report.judged import Judged, counts_from
from pipeline.report.plain import printable
from pipeline.report.rules import RULES

_MOST = 200  # findings of one case that are told in full


def junit(judged: Iterable[Judged], *, threshold: str) -> str:
    """Return findings as XML. A case of a rule fails when a finding of it reaches `threshold`.

    A rule without findings is a case that passes, and one that could not be asked is skipped.
    Neither times nor host names: the same findings give the same bytes.
    """
    root = ElementTree.Element("testsuites", name="sm121-chain")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for one in judged:
        suite = _suite(one, threshold)
        root.append(suite)
        for key in totals:
            totals[key] += int(suite.get(key, "0"))
    for key, value in totals.items():
        root.set(key, str(value))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(judged: Judged, threshold: str) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_xml(f"{judged.verb} {judged.subject}"))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for rule in RULES.values():
        found = [finding for finding in judged.findings if finding.rule == rule.id]
        if not found and judged.verb not in rule.verbs:
            continue
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"sm121-chain.{judged.verb}", name=rule.id, time="0"
        )
        counts["tests"] += 1
        counting = [one for one in found if not one.reason and counts_from(one.severity, threshold)]
        if counting:
            counts["failures"] += 1
            failure = ElementTree.SubElement(
                case, "failure", type=counting[0].severity, message=_xml(_head(counting))
            )
            failure.text = _lines(judged, counting)
        elif rule.id in judged.unasked and not found:
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_xml(judged.unasked[rule.id]))
        others = [one for one in found if one not in counting]
        if others:
            ElementTree.SubElement(case, "system-out").text = _lines(judged, others)
    for key, value in counts.items():
        suite.set(key, str(value))
    suite.set("time", "0")
    return suite


def _head(findings: Sequence[Finding]) -> str:
    first = f"{findings[0].subject}: {findings[0].message}"
    return first + (f" (and {len(findings) - 1:,} more)" if len(findings) > 1 else "")


def _lines(judged: Judged, findings: Sequence[Finding]) -> str:
    lines = []
    for one in findings[:_MOST]:
        line = _xml(f"{one.severity} {one.rule} {one.subject}: {one.message}")
        for name, value in (
            ("path", one.path),
            ("layer", judged.layers.get(one.layer, one.layer)),
            ("tolerated", one.reason),
            ("next", one.fix),
        ):
            if value:
                line += f"\n  {name}: {_xml(value)}"
        lines.append(line)
    if len(findings) > _MOST:
        lines.append(f"… and {len(findings) - _MOST:,} more")
    return "\n".join(lines)


def _xml(text: str) -> str:
    """Return a text of characters that XML 1.0 has: two that can be printed are none of them."""
    return printable(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
