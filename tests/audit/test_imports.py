"""An override, or a moved distribution, that breaks an import of a dependant."""

from pathlib import Path

import pytest

from pipeline.audit.expectation import LedgerEntry
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.oci.view import LayersView
from tests.audit.images import GONE, SITE, Content, distribution, expect, image

DSL = "nvidia_cutlass_dsl/dsl_packages/cutlass"
PTH = (
    "import sys, os, nvidia_cutlass_dsl; sys.path.insert(0, "
    "os.path.join(nvidia_cutlass_dsl.__path__[0], 'dsl_packages'))"
)


def cutlass(version: str, *modules: str, init: str = "A = 1\n") -> dict[str, Content]:
    """The family as upstream cuts it: a distribution that holds a .pth alone, and its libs."""
    files = {f"{DSL}/__init__.py": "A = 1\n", f"{DSL}/base_dsl/__init__.py": init}
    files |= {f"{DSL}/base_dsl/{name}.py": "class Arch: ...\n" for name in modules}
    return distribution(
        "nvidia-cutlass-dsl",
        version,
        {"nvidia_cutlass_dsl.pth": PTH},
        requires=[f"nvidia-cutlass-dsl-libs-core=={version}"],
    ) | distribution("nvidia-cutlass-dsl-libs-core", version, files)


def quack(source: str, wants: str = ">=4.7", version: str = "0.6.5") -> dict[str, Content]:
    files = {"quack/__init__.py": "", "quack/softmax.py": source}
    requires = [f"nvidia-cutlass-dsl{wants}"]
    return distribution("quack-kernels", version, files, requires=requires)


IMPORT = "import torch\nfrom cutlass.base_dsl.enums import Arch\n"
OVERRIDE = LedgerEntry(
    "nvidia-cutlass-dsl==4.6.2", ("quack-kernels 0.6.5 wants >=4.7",), "proven so"
)
REMOVED: dict[str, Content] = {
    f"{SITE}/nvidia_cutlass_dsl-4.7.1.dist-info": GONE,
    f"{SITE}/nvidia_cutlass_dsl_libs_core-4.7.1.dist-info": GONE,
    f"{SITE}/{DSL}/base_dsl/enums.py": GONE,
}


def report(view: LayersView, below: LayersView | None = None, **more: object) -> AuditReport:
    expected = expect(**more)  # type: ignore[arg-type]
    parent = audit(below, expected).baseline if below else None
    return audit(view, expected, parent=parent, below=below)


def broken(view: LayersView, below: LayersView | None = None, **more: object) -> list[str]:
    found = [one for one in report(view, below, **more).findings if one.rule == "import-broken"]
    return [f"{one.severity} {one.subject}: {one.message}" for one in found]


def test_an_override_that_the_ledger_intends_is_caught_by_the_import_that_it_breaks(
    tmp_path: Path,
) -> None:
    view = image(tmp_path, quack(IMPORT) | cutlass("4.6.2", "arch"))
    found = report(view, ledger=(OVERRIDE,))
    assert [(one.rule, one.severity) for one in found.findings] == [
        ("import-broken", "error"),
        ("requirement-unsatisfied", "note"),
    ]
    assert found.findings[0].path == f"{SITE}/quack/softmax.py"
    assert found.findings[0].message == (
        "softmax.py line 2 import cutlass.base_dsl.enums; cutlass.base_dsl.enums is not in the "
        "image, where nvidia-cutlass-dsl-libs-core is at 4.6.2"
    )
    there = image(tmp_path, quack(IMPORT) | cutlass("4.6.2", "enums"))
    assert broken(there, ledger=(OVERRIDE,)) == []


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    from cutlass.base_dsl.enums import Arch\nexcept ImportError:\n    Arch = None\n",
        "if TYPE:\n    import cutlass.base_dsl.enums\n",
        "def f():\n    import cutlass.base_dsl.enums\n",
        '"""Use it so:\n\nfrom cutlass.base_dsl.enums import Arch\n"""\n',
        "from .cutlass.base_dsl.enums import Arch\n",
        "import cutlassed.base_dsl.enums, cutlass\n",
        "# from cutlass.base_dsl.enums import Arch\n",
    ],
)
def test_what_is_conditional_or_only_looks_like_an_import(tmp_path: Path, source: str) -> None:
    assert broken(image(tmp_path, quack(source) | cutlass("4.6.2", "arch"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os, cutlass.base_dsl.enums as e  # x\n",
        "from  cutlass.base_dsl.enums import (\n A)\n",
    ],
)
def test_other_ways_to_write_it(tmp_path: Path, source: str) -> None:
    assert len(broken(image(tmp_path, quack(source) | cutlass("4.6.2")))) == 1


NAMES = "import torch\nfrom cutlass.base_dsl.arch import Arch, Old\n"


def test_a_name_that_the_module_no_longer_defines(tmp_path: Path) -> None:
    view = image(tmp_path, quack(NAMES) | cutlass("4.6.2", "arch"))
    found = report(view, ledger=(OVERRIDE,))
    assert [one.message for one in found.findings if one.rule == "import-broken"] == [
        "softmax.py line 2 import cutlass.base_dsl.arch.Old; cutlass.base_dsl.arch.Old is not in "
        "the image, where nvidia-cutlass-dsl-libs-core is at 4.6.2"
    ]
    assert found.worst == "error"


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from cutlass.base_dsl import enums\n", "cutlass.base_dsl.enums"),  # nor a submodule
        ("from cutlass import A, B\n", "cutlass.B"),
        ("from cutlass.base_dsl import (\n    A,  # x\n    C as A2,\n)\n", "cutlass.base_dsl.C"),
    ],
)
def test_names_of_packages(tmp_path: Path, source: str, missing: str) -> None:
    (found,) = broken(image(tmp_path, quack(source) | cutlass("4.6.2", "arch")))
    assert f"; {missing} is not" in found


@pytest.mark.parametrize(
    "source",
    [
        "from cutlass import A, base_dsl, __name__, __path__\nfrom cutlass.base_dsl import arch\n",
        "from cutlass.base_dsl.arch import *\n",
        "try:\n    from cutlass import B\nexcept ImportError:\n    B = None\n",
        "if TYPE:\n    from cutlass import B\n",
        "def f():\n    from cutlass import B\n",
        '"""Use it so:\n\nfrom cutlass import B\n"""\n',
        "from .cutlass import B\n",
        "from cutlass import B\ndef f(:\n",  # for another Python, perhaps
    ],
)
def test_names_that_are_there_or_not_surely_imported(tmp_path: Path, source: str) -> None:
    assert broken(image(tmp_path, quack(source) | cutlass("4.6.2", "arch"))) == []


@pytest.mark.parametrize(
    "init",
    [
        "def __getattr__(name): ...\n",
        "from .arch import *\n",
        "globals()['B'] = 1\n",
        "import sys\nsys.modules[__name__] = object()\n",
        "def f(:\n",
        "try:\n    from ._c import B\nexcept ImportError:\n    pass\n",
        "if big:\n    class B: ...\n",
    ],
)
def test_modules_of_which_nobody_knows_what_they_define(tmp_path: Path, init: str) -> None:
    source = "from cutlass.base_dsl import B\n"
    assert broken(image(tmp_path, quack(source) | cutlass("4.6.2", "arch", init=init))) == []


def test_names_of_extensions_and_below_packages_that_make_modules(tmp_path: Path) -> None:
    source = "from cutlass.base_dsl._ir import B\n"
    extension = {f"{SITE}/{DSL}/base_dsl/_ir.cpython-312-aarch64-linux-gnu.so": "\x7fELF"}
    assert broken(image(tmp_path, quack(source) | cutlass("4.6.2", "_ir") | extension)) == []
    assert len(broken(image(tmp_path, quack(source) | cutlass("4.6.2", "_ir")))) == 1
    made = cutlass("4.6.2", "_ir", init="import sys\nsys.modules['cutlass.base_dsl._ir'] = 1\n")
    assert broken(image(tmp_path, quack(source) | made)) == []


@pytest.mark.parametrize("source", [NAMES, "from cutlass.base_dsl import enums\n"])
def test_a_name_where_the_requirement_is_met_breaks_only_by_a_move(
    tmp_path: Path, source: str
) -> None:
    old, new = cutlass("4.7.1", "enums"), REMOVED | cutlass("4.6.2", "arch")
    old[f"{SITE}/{DSL}/base_dsl/arch.py"] = "class Arch: ...\nclass Old: ...\n"
    below = image(tmp_path, quack(source, ">=4.5") | old)
    moved = image(tmp_path, quack(source, ">=4.5") | old, new)
    assert broken(below) == [] == broken(moved)
    assert [one[:20] for one in broken(moved, below)] == ["error quack-kernels:"]
    # What the parent does not define for sure is imported by nobody here.
    never = quack("from cutlass.base_dsl.arch import Never\n", ">=4.5")
    assert broken(image(tmp_path, never | old, new), image(tmp_path, never | old)) == []


def test_a_name_that_the_parent_lacks_too_is_a_warning(tmp_path: Path) -> None:
    both = quack(NAMES) | cutlass("4.6.2", "arch")
    below, view = image(tmp_path, both), image(tmp_path, both, {"other": ""})
    assert [one.split(":")[0] for one in broken(view, below)] == ["warning quack-kernels"]


@pytest.mark.parametrize(
    "init", ["import sys\nsys.modules['x'] = 1\n", "__path__.append('/elsewhere')\n"]
)
def test_packages_that_make_modules_at_run_time_are_believed(tmp_path: Path, init: str) -> None:
    assert broken(image(tmp_path, quack(IMPORT) | cutlass("4.6.2", init=init))) == []


def test_extensions_and_namespace_packages_provide_modules(tmp_path: Path) -> None:
    view = image(
        tmp_path,
        quack("import cutlass.base_dsl._ir.inner\nimport cutlass.space.mod\nimport cutlass.no\n")
        | cutlass("4.6.2")
        | {
            f"{SITE}/{DSL}/base_dsl/_ir.cpython-312-aarch64-linux-gnu.so": "\x7fELF",
            f"{SITE}/{DSL}/space/mod.py": "",
        },
    )
    assert [one.split(";")[1] for one in broken(view)] == [
        " cutlass.no is not in the image, where nvidia-cutlass-dsl-libs-core is at 4.6.2"
    ]


def test_files_that_are_in_no_package_are_data(tmp_path: Path) -> None:
    data = distribution(
        "quack-kernels",
        "0.6.5",
        {"quack/__init__.py": "", "quack/data/bench.py": IMPORT},
        requires=["nvidia-cutlass-dsl>=4.7"],
    )
    assert broken(image(tmp_path, data | cutlass("4.6.2"))) == []


def test_the_largest_source_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = image(tmp_path, quack(IMPORT) | cutlass("4.6.2"))
    for size, count in ((len(IMPORT), 1), (len(IMPORT) - 1, 0)):
        monkeypatch.setattr("pipeline.audit.imports.MAX_SOURCE", size)
        assert len(broken(view)) == count


def test_a_requirement_that_is_met_breaks_only_by_a_move(tmp_path: Path) -> None:
    below = image(tmp_path, quack(IMPORT, ">=4.5") | cutlass("4.7.1", "enums"))
    moved = image(
        tmp_path,
        quack(IMPORT, ">=4.5") | cutlass("4.7.1", "enums"),
        REMOVED | cutlass("4.6.2", "arch"),
    )
    assert broken(below) == []
    assert broken(moved) == []  # nobody asked for more, and there is nothing to compare with
    assert [one[:20] for one in broken(moved, below)] == ["error quack-kernels:"]
    # What neither has is imported by nobody here.
    missing = quack("import cutlass.rubin\n", ">=4.5")
    old = image(tmp_path, missing | cutlass("4.7.1", "enums"))
    new = image(tmp_path, missing | cutlass("4.7.1", "enums"), REMOVED | cutlass("4.6.2"))
    assert broken(new, old) == []


def test_what_the_parent_has_too_is_a_warning(tmp_path: Path) -> None:
    both = quack(IMPORT) | cutlass("4.6.2", "arch")
    below, view = image(tmp_path, both), image(tmp_path, both, {"other": ""})
    assert [one.split(":")[0] for one in broken(view, below)] == ["warning quack-kernels"]


def test_a_source_for_a_newer_python_is_a_warning(tmp_path: Path) -> None:
    view = image(tmp_path, quack(IMPORT + "def f(:\n") | cutlass("4.6.2"))
    (found,) = broken(view)
    assert found.startswith("warning") and "does not parse here" in found


def lib(version: str, *modules: str, name: str = "lib") -> dict[str, Content]:
    """A provider with an `__init__` that says what it defines."""
    files = {f"{name}/{module}.py": "A = 1\n" for module in ("__init__", *modules)}
    return distribution(name, version, files)


def user(files: dict[str, str], *requires: str) -> dict[str, Content]:
    return distribution("user", "1", {"u/__init__.py": "", **files}, requires=requires)


def test_distributions_that_pin_each_other_are_one_family(tmp_path: Path) -> None:
    core = distribution(
        "core", "1", {"core/__init__.py": "A = 1\n"}, requires=["lib==1", "not-installed==1"]
    )
    lib_ = distribution("lib", "1", {"lib.txt": ""}, requires=["core==1"])
    view = image(tmp_path, user({"u/a.py": "import core.new\n"}, "lib>=2") | core | lib_)
    (found,) = broken(view)
    assert "a.py line 1 import core.new;" in found and "where core is at 1" in found


def test_a_namespace_that_the_dependant_shares_is_its_own(tmp_path: Path) -> None:
    parts = {"lib/part.py": "import lib.not_here\n"}
    assert broken(image(tmp_path, user(parts, "lib>=2") | lib("1"))) == []


def test_what_is_not_judged_hides_nothing_that_is(tmp_path: Path) -> None:
    source = "import alpha.never\nimport lib.new\n"
    files, gone = {"u/a.py": source}, {f"{SITE}/alpha-1.dist-info": GONE}
    base = user(files, "alpha>=1", "lib>=2") | lib("1") | lib("1", name="alpha")
    below, view = image(tmp_path, base), image(tmp_path, base, gone | lib("2", name="alpha"))
    # alpha.never was never there; lib.new is missing in both, so that it is inherited
    assert [one.split(";")[0] for one in broken(view, below)] == [
        "warning user: a.py line 2 import lib.new"
    ]


def test_without_the_parents_report_nothing_has_moved(tmp_path: Path) -> None:
    files = {"u/a.py": "import lib.old\n"}
    below = image(tmp_path, user(files, "lib") | lib("1", "old"))
    view = image(tmp_path, user(files, "lib") | lib("2"))
    assert len(broken(view, below)) == 1
    alone = audit(view, expect(), below=below)
    assert [one.rule for one in alone.findings] == []


def test_a_file_that_is_gone_without_a_move_is_its_records_matter(tmp_path: Path) -> None:
    base = user({"u/a.py": "import lib.old\n"}, "lib") | lib("1", "old")
    below = image(tmp_path, base)
    found = report(image(tmp_path, base, {f"{SITE}/lib/old.py": GONE}), below)
    assert [one.rule for one in found.findings] == ["file-missing"]


def test_a_missing_name_counts_the_files_that_want_it(tmp_path: Path) -> None:
    source = "from lib import Gone\n"
    files = {"u/a.py": source, "u/b.py": source, "u/c.py": "from lib import A\n"}
    (found,) = broken(image(tmp_path, user(files, "lib>=2") | lib("1")))
    assert "a.py line 1 and 1 more files import lib.Gone;" in found


def test_a_distribution_without_any_code_provides_nothing(tmp_path: Path) -> None:
    empty = distribution("lib", "1", {"lib/__init__.py": ""})
    assert broken(image(tmp_path, user({"u/a.py": "import lib.new\n"}, "lib>=2") | empty)) == []


def test_a_distribution_of_one_module(tmp_path: Path) -> None:
    single = distribution("lib", "1", {"lib.py": "A = 1\n"})
    files = {"u/a.py": "from lib import New\n", "u/b.py": "import lib\nfrom lib import A\n"}
    (found,) = broken(image(tmp_path, user(files, "lib>=2") | single))
    assert "a.py line 1 import lib.New;" in found


def test_packages_in_packages_and_directories_between_them(tmp_path: Path) -> None:
    source = "import lib.new\n"
    inner = {"u/one/__init__.py": "", "u/one/two/__init__.py": "", "u/one/two/deep.py": source}
    (found,) = broken(image(tmp_path, user(inner, "lib>=2") | lib("1")))
    assert "deep.py line 1" in found
    del inner["u/one/__init__.py"]
    assert broken(image(tmp_path, user(inner, "lib>=2") | lib("1"))) == []


def test_rows_of_data_and_of_files_that_are_gone_hide_no_import(tmp_path: Path) -> None:
    files = {"u/a.txt": "data", "u/b.py": "import lib.new\n", "u/c.py": "import lib.new\n"}
    view = image(tmp_path, user(files, "lib>=2") | lib("1"), {f"{SITE}/u/b.py": GONE})
    (found,) = broken(view)
    assert "c.py line 1 import lib.new;" in found
