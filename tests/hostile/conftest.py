"""Profiles of hypothesis: what `nox -s fuzz` runs is the same tests with more examples."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fuzz",
    max_examples=20_000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
