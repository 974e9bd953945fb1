"""Owners of single files, beside `Ownership`, which must say the same."""

from pathlib import Path

from pipeline.inventory.distributions import read_inventory
from pipeline.inventory.owners import Owners, RowMemo
from pipeline.inventory.ownership import Ownership
from tests.audit.images import SITE, Link, distribution, image

LAYER = {
    **distribution("a", "1", {"a/x.py": "X"}, extra={}),
    **distribution("b", "1", record="../../../bin/b,,\na/x.py,,\nlib64/y.so,,\n"),
    **distribution("c", "1", record="deep/z,,\n"),
    **distribution("broken", "1", record='a/x.py,"\n'),
    "usr/local/bin/b": "#!",
    f"{SITE}/lib/y.so": "y",
    f"{SITE}/lib64": Link("lib"),
    f"{SITE}/real/z": "z",
    f"{SITE}/way": Link("real"),
    f"{SITE}/deep": Link("way"),
}


def test_owners_are_those_of_ownership(tmp_path: Path) -> None:
    view = image(tmp_path, LAYER)
    whole = Ownership(read_inventory(view), view.tree)
    memo = RowMemo()
    for _ in range(2):
        owners = Owners(view, read_inventory(view, records=False), memo)
        for path in view.tree.nodes:
            claims = [(one.distribution.name, one.row.path) for one in whole.claims_on(path)]
            assert sorted((one.name, row) for one, row in owners.of(path)) == sorted(claims)
            each = [(one, asked.name) for one, asked in owners.of_each([path])]
            assert sorted(each) == sorted((path, name) for name, _ in claims)
    assert [one.name for one, _ in owners.of(f"{SITE}/a/x.py")] == ["a", "b"]
    assert [row for _, row in owners.of(f"{SITE}/real/z")] == ["deep/z"]


def test_files_of_a_distribution_are_its_rows(tmp_path: Path) -> None:
    view = image(tmp_path, LAYER)
    inventory = read_inventory(view, records=False)
    owners = Owners(view, inventory)
    one = inventory.the_one("b")
    assert one is not None and one.record is None
    assert owners.files(one) == ["usr/local/bin/b", f"{SITE}/a/x.py", f"{SITE}/lib64/y.so"]
