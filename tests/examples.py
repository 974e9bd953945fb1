"""How many examples a property is tried with: by its cost, and by what is run.

The profile says how many a property of ordinary cost gets, 3 ms of processor time an example; one
that names a number of its own, with `examples(n)` where 100 is ordinary, gets as many times more or
less in every profile: its share of the time. There is no deadline in any: what takes long on a
machine that is busy is no fault.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

# `nox -s tests`; `nox -s fuzz`; one change of `nox -s mutation`
settings.register_profile("usual", max_examples=100, deadline=None)
settings.register_profile(
    "fuzz",
    max_examples=40_000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
settings.register_profile(
    "mutation",
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # that it fails is enough: nobody reads the example
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("usual")


def examples(usual: int) -> int:
    """How many of a property that is tried with `usual` ones in the test suite."""
    return max(1, usual * settings().max_examples // 100)
