"""What the gate itself asks of the numbers of probes that it knows, whatever a report says.

The tolerances are measured ones (an H200, healthy runs against planted faults): healthy runs stay
at 0.0031 by head and 0.0025 by Frobenius norm; a scale that is 1 % off gives 0.019 by head, one
dropped row of 2,048 gives 0.042, a wrong page 0.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Rules = Mapping[str, float]


@dataclass(frozen=True)
class Limit:
    """Rules by number: for a probe's `numbers`, and for those of each of its cases.

    All of them must be there, and where there are rules for cases at least one case.
    """

    numbers: Mapping[str, Rules]
    cases: Mapping[str, Rules] = field(default_factory=dict)


Limits = Mapping[str, Limit]

# A distance below zero is none: `min` keeps a wrong sign from being a good number.
_NEAR: Mapping[str, Rules] = {
    "worst_head": {"min": 0, "max": 0.006},
    "frobenius": {"min": 0, "max": 0.004},
}
_NONE, _ONE = {"equals": 0}, {"equals": 1}
_TWICE = {f"{how}_{name}": rules for how in ("plain", "graph") for name, rules in _NEAR.items()}

LIMITS: Limits = {
    "nope_mla": Limit(_TWICE, _NEAR),
    "fa2_rows": Limit(_NEAR, _NEAR),
    "fa2_fp8_kv": Limit({**_NEAR, "accepts_121": _ONE}, _NEAR),
    "nccl_library": Limit(
        {
            "version": {"equals": 23007},
            "copies_mapped": _ONE,
            "copies_installed": {"min": 0, "max": 1},
        }
    ),
    "cute_dsl": Limit({"packages": {"equals": 5}, "versions": _ONE, "wrong_elements": _NONE}),
    "pdl_gate": Limit({"pdl_121": _NONE}),
    "indexer_fill": Limit({"ids_out_of_range": _NONE, "wrong_ids": _NONE}),
    "topk_route": Limit({"persistent_48": _NONE, "wrong_rows": _NONE}),
    "server": Limit({"health": {"equals": 200}, "replacement_characters": _NONE}),
}


def broken_rules(name: str, number: float, rules: Rules) -> Iterator[str]:
    """Yield what is wrong with a number."""
    for rule, bound in rules.items():
        if rule == "max" and number > bound:
            yield f"{name} is {number:g}, at most {bound:g} is allowed"
        elif rule == "min" and number < bound:
            yield f"{name} is {number:g}, at least {bound:g} is wanted"
        elif rule == "equals" and number != bound:
            yield f"{name} is {number:g}, {bound:g} is wanted"
