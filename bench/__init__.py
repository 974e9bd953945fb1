"""Measurements by hand: ratios within one run, never a test. `nox -s bench`, `nox -s reproduce`."""
