"""From a module's name to its file."""

from pathlib import Path

from pipeline.inventory.answers import Answers
from pipeline.inventory.modules import module_file, search_path
from tests.audit.images import SITE, image


def test_18_a_module_of_an_editable_install_leads_to_the_real_file(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        {
            f"{SITE}/__editable__.sglang.pth": "import hook\n# note\n/workspace/sglang/python\n",
            f"{SITE}/relative.pth": "dsl_packages\n",
            f"{SITE}/dsl_packages/cute.py": "",
            "workspace/sglang/python/sglang/__init__.py": "",
            "workspace/sglang/python/sglang/glm.py": "",
        },
    )
    directories = search_path(view, SITE, Answers())
    assert directories == (SITE, "workspace/sglang/python", f"{SITE}/dsl_packages")
    assert module_file(view, directories, "sglang.glm") == "workspace/sglang/python/sglang/glm.py"
    assert module_file(view, directories, "cute") == f"{SITE}/dsl_packages/cute.py"
    sglang = module_file(view, directories, "sglang")
    assert sglang == "workspace/sglang/python/sglang/__init__.py"
    assert module_file(view, directories, "sglang.other") is None
