"""Audit one image: read its inventory, ask every rule, tolerate what is known."""

from __future__ import annotations

from dataclasses import replace

from packaging.utils import canonicalize_name

from pipeline.audit.context import Context
from pipeline.audit.expectation import Expectation, KnownFault
from pipeline.audit.findings import NOTE, Finding
from pipeline.audit.memo import AuditMemo
from pipeline.audit.patched import ScopeReader, no_scopes
from pipeline.audit.report import AuditReport, Baseline
from pipeline.audit.rules import RULES
from pipeline.inventory.answers import Answers
from pipeline.inventory.distributions import read_inventory
from pipeline.inventory.loader import Loader
from pipeline.oci.view import ImageView


def audit(
    view: ImageView,
    expectation: Expectation,
    *,
    parent: Baseline | None = None,
    read_scope: ScopeReader = no_scopes,
    memo: AuditMemo | None = None,
    below: ImageView | None = None,
    answers: Answers | None = None,
    loader: Loader | None = None,
) -> AuditReport:
    """Return what an image is and every way in which it is not what is expected.

    `parent` is the baseline of the image below: what that does not meet either is inherited.
    `read_scope` finds the dotted scope of a patch's text. `memo` spares a chain of audits from
    parsing the same metadata again, `answers` from reading the same sources. `below` is the
    parent's image: with it, an import that a moved distribution breaks is seen. `loader` is what
    the dynamic loader sees; without it copies of shared libraries are not judged.
    """
    memo = memo or AuditMemo()
    inventory = read_inventory(view, expectation.sites, memo=memo.metadata)
    context = Context(
        view,
        inventory,
        expectation,
        parent,
        read_scope,
        below,
        answers or Answers(memo.answers),
        memo,
        loader,
    )
    findings = [_tolerated(context, finding) for rule in RULES for finding in rule(context)]
    memo.forget_all_but(context.ownership.by_record)
    return AuditReport(
        subject=view.name,
        against=expectation.label,
        layers=tuple(view.layers),
        distributions=inventory.distributions,
        unsatisfied=context.unsatisfied,
        findings=tuple(sorted(findings, key=Finding.sort_key)),
        broken_imports=context.broken_imports,
    )


# What is a wrong RECORD for whoever installs the wheel is a modified file in the image.
_ALIASES = {"record-mismatch": "file-modified"}


def _tolerated(context: Context, finding: Finding) -> Finding:
    for known in context.expectation.known:
        if _ALIASES.get(known.rule, known.rule) == finding.rule and _is_meant(
            context, known, finding
        ):
            return replace(finding, severity=NOTE, reason=known.why, fix="")
    return finding


def _is_meant(context: Context, known: KnownFault, finding: Finding) -> bool:
    if canonicalize_name(known.distribution) != finding.subject:
        return False
    if known.path:
        path = known.path.strip("/")
        sites = context.inventory.sites
        if finding.path not in (path, *(f"{site}/{path}" for site in sites)):
            return False
    located = context.view.tree.get(finding.path)
    if known.sha256 and (located is None or located.entry.sha256 != known.sha256):
        return False
    if known.owner:
        claims = context.ownership.claims_on(finding.path)
        right = [one for one in claims if located and one.row.digest == located.entry.sha256]
        return any(one.distribution.name == canonicalize_name(known.owner) for one in right)
    return True
