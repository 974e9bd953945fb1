"""What audits of a chain hand on to each other changes no answer."""

from pathlib import Path

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
