"""What audits of a chain hand on to each other changes no answer."""

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

from pipeline.audit.expectation import marker_environment
from pipeline.audit.memo import AuditMemo
from pipeline.audit.run import audit
from pipeline.inventory.answers import Answers, Table
from pipeline.oci.tree import Tree
from pipeline.oci.view import LayersView
from tests.audit.images import GONE, SITE, Content, Link, distribution, expect, image

BASE = (
    distribution(
        "a", "1", {"a/__init__.py": "import b.c\n"}, requires=["b>=2", "d; os_name == 'x'"]
    )
    | distribution("b", "1", {"b/__init__.py": "", "b/d.py": "D = 1\n"})
    | distribution("linked", "1", {"linked/x.py": "X = 1\n"})
)
LAYERS: list[dict[str, Content]] = [
    BASE,
    {f"{SITE}/b/d.py": "D = 2\n"},
    {f"{SITE}/b/d.py": GONE},
    {f"{SITE}/b/d.py": "D = 1\n"},
    {f"{SITE}/linked": GONE},
    {f"{SITE}/elsewhere/x.py": "X = 1\n", f"{SITE}/linked": Link("elsewhere")},
    {f"{SITE}/elsewhere/x.py": "X = 2\n"},
]


def test_an_audit_with_a_memory_says_what_one_without_says(tmp_path: Path) -> None:
    whole = image(tmp_path, *LAYERS)
    memo, tree = AuditMemo(), Tree({}, 0)
    cache, given = tmp_path / "kept", Table()
    for count in range(1, len(LAYERS) + 1):
        # The tree grows on the one below it, as in a chain, so that its nodes are shared.
        tree = Tree.merge([whole.blobs[count - 1][1].entries], tree)
        view = LayersView("image", whole.blobs[:count], whole.layers[:count], {}, tree)
        for _ in range(2):
            answers = Answers(memo.answers, cache, given.copy)
            found = audit(view, expect(), memo=memo, answers=answers).to_json()
            answers.keep()
            given = answers.handed_on()
        assert found == audit(view, expect()).to_json()


def test_a_memory_is_of_one_platform(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1", requires=["b; platform_machine == 'x86_64'"]))
    memo = AuditMemo()
    here = audit(view, expect(), memo=memo)
    there = replace(expect(), environment=marker_environment("3.12.3", "x86_64"))
    assert [len(audit(view, one, memo=memo).findings) for one in (expect(), there)] == [0, 1]
    assert audit(view, expect(), memo=memo).findings == here.findings


def test_a_memory_keeps_nothing_of_hashes_that_were_read(tmp_path: Path) -> None:
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"x").digest()).rstrip(b"=").decode()
    rows = "".join(f"{name},sha512={digest},1\n" for name in ("s.py", "t.py"))
    both = distribution("a", "1", record=rows) | distribution("b", "1", record=rows)
    view = image(tmp_path, both | {f"{SITE}/s.py": "x", f"{SITE}/t.py": "y"})
    memo, without = AuditMemo(), audit(view, expect())
    assert [one.path for one in without.findings] == [f"{SITE}/t.py"] * 2
    for _ in range(3):
        assert audit(view, expect(), memo=memo).findings == without.findings
