"""What a rule sees: the image, its inventory, what is expected of it, and its parent's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from pipeline.audit.catalogue import SEVERITIES
from pipeline.audit.expectation import Expectation
from pipeline.audit.findings import Finding
from pipeline.audit.patched import PatchState, ScopeReader, judge_patches
from pipeline.audit.report import Baseline, Unsatisfied
from pipeline.audit.requirements import Requirements
from pipeline.inventory.distributions import Inventory
from pipeline.inventory.ownership import Ownership
from pipeline.oci.view import ImageView


@dataclass(frozen=True)
class Context:
    """Everything that a rule may ask for; a rule reads and never changes it."""

    view: ImageView
    inventory: Inventory
    expectation: Expectation
    parent: Baseline | None
    read_scope: ScopeReader

    @cached_property
    def ownership(self) -> Ownership:
        """Files of the image and the RECORDs that claim them."""
        return Ownership(self.inventory, self.view.tree)

    @cached_property
    def patch_states(self) -> tuple[PatchState, ...]:
        """What became of every patch that the image must hold."""
        return judge_patches(self.view, self.expectation.patches, self.read_scope)

    @cached_property
    def requirements(self) -> Requirements:
        """Requirements of the installed distributions."""
        return Requirements(self.inventory, self.expectation)

    @cached_property
    def unsatisfied(self) -> tuple[Unsatisfied, ...]:
        """Requirements that are not met."""
        inherited = self.parent.unsatisfied if self.parent else frozenset()
        return self.requirements.unsatisfied(inherited)

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
