"""What the gate itself asks of the numbers of probes that it knows, whatever a report says.

The tolerances are measured ones (an H200, healthy runs against planted faults): healthy runs stay
at 0.0031 by head and 0.0025 by Frobenius norm; a scale that is 1 % off gives 0.019 by head, one
dropped row of 2,048 gives 0.042, a wrong page 0.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Rules = Mapping[str, float]
Limits = Mapping[str, Mapping[str, Rules]]

_NEAR = {"worst_head": {"max": 0.006}, "frobenius": {"max": 0.004}}

LIMITS: Limits = {
    "nope_mla": _NEAR,
    "fa2_rows": _NEAR,
    "fa2_fp8_kv": _NEAR,
    "nccl_library": {
        "version": {"equals": 23007},
        "copies_mapped": {"equals": 1},
        "copies_installed": {"equals": 1},
    },
}


def broken_rules(name: str, number: float, rules: Rules) -> Iterator[str]:
    """Yield what is wrong with a number; a comparison that is not true is false."""
    for rule, bound in rules.items():
        if rule == "max" and not number <= bound:
            yield f"{name} is {number:g}, at most {bound:g} is allowed"
        elif rule == "min" and not number >= bound:
            yield f"{name} is {number:g}, at least {bound:g} is wanted"
        elif rule == "equals" and number != bound:
            yield f"{name} is {number:g}, {bound:g} is wanted"
