"""RECORD rows and the files that they stand for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inventory.distributions import read_inventory
from pipeline.inventory.ownership import Ownership, claimed_path
from tests.audit.images import SITE, Link, distribution, image


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("a/b.py", f"{SITE}/a/b.py"),
        ("../../../bin/ray", "usr/local/bin/ray"),
        ("../../../../../etc/x", "etc/x"),
        ("../../../../../../etc/x", None),
        ("/etc/shadow", None),
    ],
)
def test_rows_are_relative_to_site_packages(row: str, path: str | None) -> None:
    assert claimed_path(SITE, row) == path


@given(st.lists(st.sampled_from(["..", ".", "a", "", "b"]), min_size=1).map("/".join))
def test_no_row_leaves_the_root(row: str) -> None:
    path = claimed_path(SITE, row)
    depth = 0
    for part in (path or "").split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        assert depth >= 0


def test_a_file_below_a_linked_directory_has_its_owner(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        distribution("a", "1", record="lib64/x.so,,\n")
        | {f"{SITE}/lib64": Link("lib"), f"{SITE}/lib/x.so": "x"},
    )
    ownership = Ownership(read_inventory(view), view.tree)
    assert ownership.is_owned(f"{SITE}/lib/x.so") and not ownership.shared
    assert list(ownership.owners) == [f"{SITE}/lib/x.so"]
    assert ownership.claims[0].located is not None
