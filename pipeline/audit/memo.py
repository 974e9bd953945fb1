"""What the audits of a chain need not find out again: its images are nearly equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.audit.requirements import Wanted
from pipeline.inventory.answers import AnswerMemo
from pipeline.inventory.distributions import Memo
from pipeline.inventory.ownership import Claim, ClaimMemo


@dataclass
class ClaimFacts:
    """What was found out about all claims of one distribution, on files that have not changed.

    `wrong` are those whose file is missing or not what its row says; None before that was judged.
    `modules` are (claim, path in the search path) of source files and extensions, by that search
    path.
    """

    claims: tuple[Claim, ...]
    wrong: tuple[Claim, ...] | None = None
    modules: dict[tuple[str, ...], list[tuple[Claim, str]]] = field(default_factory=dict)


@dataclass
class AuditMemo:
    """Answers that depend on nothing but what they are kept under.

    `markers` are answers by the marker environment, and in it by requirement and extra; None is one
    that has no answer. `wanted` are requirements that hold there, by all those of a distribution
    and the extras that are asked of it. `answers` are those of source files.
    """

    metadata: Memo = field(default_factory=Memo)
    claims: ClaimMemo = field(default_factory=ClaimMemo)
    answers: AnswerMemo = field(default_factory=AnswerMemo)
    markers: dict[tuple[tuple[str, str], ...], dict[tuple[str, str], bool | None]] = field(
        default_factory=dict
    )
    wanted: dict[
        tuple[tuple[str, str], ...], dict[tuple[tuple[str, ...], frozenset[str]], Wanted]
    ] = field(default_factory=dict)
    _facts: dict[int, ClaimFacts] = field(default_factory=dict)

    def of(self, claims: tuple[Claim, ...]) -> ClaimFacts:
        """Return what is known of these claims: of this very object, which is kept alive."""
        facts = self._facts.get(id(claims))
        if facts is None:
            facts = self._facts[id(claims)] = ClaimFacts(claims)
        return facts

    def forget_all_but(self, used: Iterable[tuple[Claim, ...]]) -> None:
        """Forget claims that the image looked at last does not have."""
        self._facts = {id(one): self._facts[id(one)] for one in used if id(one) in self._facts}
