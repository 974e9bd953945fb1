"""What a rule sees: the image, its inventory, what is expected of it, and its parent's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.audit.catalogue import SEVERITIES
from pipeline.audit.expectation import Expectation
from pipeline.audit.findings import Finding
from pipeline.audit.imports import Imports
from pipeline.audit.memo import AuditMemo
from pipeline.audit.patched import PatchState, ScopeReader, judge_patches
from pipeline.audit.report import Baseline, BrokenImport, Unsatisfied
from pipeline.audit.requirements import Requirements
from pipeline.inventory.answers import Answers
from pipeline.inventory.distributions import Inventory
from pipeline.inventory.loader import Loader
from pipeline.inventory.ownership import Ownership
from pipeline.oci.view import ImageView


@dataclass(frozen=True)
class Context:
    """Everything that a rule may ask for; a rule reads and never changes it. Without a `loader` the
    copies of shared libraries are not judged."""

    view: ImageView
    inventory: Inventory
    expectation: Expectation
    parent: Baseline | None
    read_scope: ScopeReader
    below: ImageView | None = None
    answers: Answers = field(default_factory=Answers)
    memo: AuditMemo = field(default_factory=AuditMemo)
    loader: Loader | None = None

    @cached_property
    def ownership(self) -> Ownership:
        """Files of the image and the RECORDs that claim them."""
        return Ownership(self.inventory, self.view.tree, self.memo.claims)

    @cached_property
    def patch_states(self) -> tuple[PatchState, ...]:
        """What became of every patch that the image must hold."""
        return judge_patches(self.view, self.expectation.patches, self.read_scope)

    @cached_property
    def requirements(self) -> Requirements:
        """Requirements of the installed distributions."""
        environment = tuple(sorted(self.expectation.environment.items()))
        answers = self.memo.markers.setdefault(environment, {})
        wanted = self.memo.wanted.setdefault(environment, {})
        return Requirements(self.inventory, self.expectation, answers, wanted)

    @cached_property
    def unsatisfied(self) -> tuple[Unsatisfied, ...]:
        """Requirements that are not met."""
        inherited = self.parent.unsatisfied if self.parent else frozenset()
        return self.requirements.unsatisfied(inherited)

    @cached_property
    def moved(self) -> frozenset[str]:
        """Names of distributions that are not as they are in the parent, or that it has not."""
        before = self.parent.distributions if self.parent else {}
        return frozenset(
            one.name
            for one in self.inventory.distributions
            if before.get(one.name, ("", ""))[0] != one.version
        )

    @cached_property
    def broken_imports(self) -> tuple[BrokenImport, ...]:
        """Imports of dependants that what they depend on does not provide."""
        inherited = self.parent.broken_imports if self.parent else frozenset()
        return Imports(
            self.view,
            self.inventory,
            self.ownership,
            self.requirements,
            self.unsatisfied,
            self.answers,
            self.below if self.parent else None,
            self.moved,
            self.memo,
        ).broken(inherited)

    def layer(self, number: int) -> str:
        """Return the digest of a layer; "" where there are no layers."""
        layers = self.view.layers
        return layers[number].digest if number < len(layers) else ""

    def finding(
        self,
        rule: str,
        subject: str,
        message: str,
        *,
        path: str = "",
        layer: int | None = None,
        fix: str = "",
        reason: str = "",
        severity: str = "",
    ) -> Finding:
        """Make a finding with the severity of its rule, or another one. `layer` is a number."""
        return Finding(
            rule=rule,
            severity=severity or SEVERITIES[rule],
            subject=subject,
            message=message,
            path=path,
            layer="" if layer is None else self.layer(layer),
            fix=fix,
            reason=reason,
        )


Rule = Callable[[Context], Iterable[Finding]]
