"""SARIF 2.1.0 (OASIS), with what GitHub's code scanning asks for besides.

It wants a place in the repository for every result, help for every rule, and fingerprints that
stay: a result that moves to another line is the same alert.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.report.judged import Judged
from pipeline.report.places import Place, Places
from pipeline.report.plain import printable, shortened
from pipeline.report.rules import RULES, RuleText

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINT = "sm121ChainFinding/v1"
# The one that code scanning compares; without it, it takes the line of the file that is pointed at.
PRIMARY = "primaryLocationLineHash"
_MOST = 25_000  # results of a run that code scanning takes: a file with more is refused
_LONGEST = 4_000  # characters of a message
_LEVELS = {ERROR: "error", WARNING: "warning", NOTE: "note"}
_PROBLEMS = {ERROR: "error", WARNING: "warning", NOTE: "recommendation"}


def sarif(judged: Judged, places: Places) -> dict[str, Any]:
    """Return findings as a SARIF log of one run.

    What is tolerated is there, suppressed with its reason. Of more results than a run may have, the
    least harmful are left out, and a notification says how many.
    """
    rules = list(RULES.values())
    results = list(_results(judged, places, {rule.id: n for n, rule in enumerate(rules)}))
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if len(results) > _MOST:
        left = f"{len(results) - _MOST:,} results are left out: a run may have {_MOST:,}"
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": left}}]
    for rule, why in judged.unasked.items():
        invocation.setdefault("toolConfigurationNotifications", []).append(
            {
                "level": "note",
                "message": {"text": printable(f"not asked: {why}")},
                "associatedRule": {"id": rule, "index": rules.index(RULES[rule])},
            }
        )
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "sm121-chain",
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                # What stands before the last slash is the category of code scanning.
                "automationDetails": {"id": f"{judged.verb}/{printable(judged.subject)}/"},
                "columnKind": "unicodeCodePoints",
                "invocations": [invocation],
                "results": results[:_MOST],
            }
        ],
    }


def _rule(rule: RuleText) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.id.split("-")),
        "shortDescription": {"text": rule.text},
        "fullDescription": {"text": rule.text},
        "help": {
            "text": f"{rule.text} See {rule.page}.",
            "markdown": f"{rule.text} See [{rule.page}]({rule.url})."
            if rule.url
            else f"{rule.text} See `{rule.page}`.",
        },
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "precision": "very-high",
            "problem.severity": _PROBLEMS[rule.severity],
            "tags": ["dependencies"],
        },
    }
    if rule.url:
        document["helpUri"] = rule.url
    return document


def _results(judged: Judged, places: Places, index: dict[str, int]) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for finding in judged.findings:
        layer = judged.layers.get(finding.layer, "")
        fingerprint = _fingerprint(finding)
        seen[fingerprint] += 1
        fingerprint = f"{fingerprint}:{seen[fingerprint]}"
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "ruleIndex": index[finding.rule],
            "level": _LEVELS[finding.severity],
            "message": {"text": _message(finding, layer)},
            "locations": [_location(places.of(finding, layer), finding)],
            "partialFingerprints": {PRIMARY: fingerprint, FINGERPRINT: fingerprint},
            "properties": _properties(judged, finding),
        }
        if finding.reason:
            result["suppressions"] = [
                {"kind": "external", "justification": printable(finding.reason)}
            ]
        yield result


def _message(finding: Finding, layer: str) -> str:
    text = f"{finding.subject}: {finding.message}"
    if layer:
        text += f" ({layer})"
    if finding.fix:
        text += f". Next: {finding.fix}"
    return shortened(printable(text), _LONGEST)


def _location(place: Place, finding: Finding) -> dict[str, Any]:
    document: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(place.file), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": place.line},
        }
    }
    if finding.path:
        document["logicalLocations"] = [
            {"fullyQualifiedName": printable(finding.path), "kind": "resource"}
        ]
    return document


def _properties(judged: Judged, finding: Finding) -> dict[str, str]:
    members = {
        "subject": finding.subject,
        "image": judged.subject,
        "against": judged.against,
        "layer": finding.layer,
    }
    return {key: printable(value) for key, value in members.items() if value}


def _fingerprint(finding: Finding) -> str:
    """Hash what a finding is about, and not how it is told; what has no place has only words."""
    what: Sequence[str] = (finding.rule, finding.subject, finding.path or finding.message)
    text = "\0".join(map(printable, what))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
