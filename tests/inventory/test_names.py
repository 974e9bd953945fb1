"""Names that a module defines, by its source alone."""

from __future__ import annotations

import pytest

from pipeline.inventory.names import defined_names, imported_names, mentioned_names

BOUND = """
import a.hidden, b as c
from d import e, f as g
if x:
    h = 1
else:
    (i, *j), hidden.k = 1, 2
def l(hidden, default=(m := 1)):
    global n
    hidden = 1
class o:
    hidden = 1
    def hidden(self):
        global p
async def q(): ...
try: ...
except E as r: ...
with s_() as s: ...
for t in []: ...
u: int
v += 1
while w_: w = 1
match x_:
    case {"y": aa, **bb}: ...
    case [cc, *dd] | (dd as cc): ...
ee = [hidden_not for ff in []]
gg = lambda: hidden
"""


def test_every_way_to_bind_a_name() -> None:
    names = defined_names(BOUND.encode())
    assert names is not None
    mine = {name for name in names if not name.startswith("__")}
    expected = set("aceghijlmnopqrstuvw") | {"aa", "bb", "cc", "dd", "ee", "ff", "gg"}
    assert mine == expected
    assert {"__name__", "__file__", "__doc__", "__path__"} <= set(names)
    assert "__version__" not in names


@pytest.mark.parametrize(
    "source",
    [
        "from a import *",
        "from a import  *",
        "def __getattr__(name): ...",
        "globals().update(x)",
        "vars()['x'] = 1",
        "exec(text)",
        "import sys; sys.modules[__name__] = X()",
        "setattr(module, name, 1)",
        "__getattr__, __dir__, __all__ = lazy_loader.attach(__name__)",
        "x = LazyModule()",
        "def f(:",
        "\0",
        "(" * 5000 + ")" * 5000,
    ],
)
def test_modules_that_do_not_tell(source: str) -> None:
    assert defined_names(source.encode()) is None


def test_names_that_are_imported_for_sure() -> None:
    source = b"""
from m import a, b as c
from m import a
from m.n import d
from .m import e
from m import *
import m.f
if x:
    from m import g
def f():
    from m import h
"""
    assert imported_names(source, "m") == {"a": 2, "b": 2}
    assert imported_names(source, "m.n") == {"d": 4}
    assert imported_names(b"def f(:\nfrom m import a\n", "m") == {}


@pytest.mark.parametrize(
    "text",
    [
        "from m import a, b as c  # d",
        "from m import (\n    a,  # d\n    b as c,\n)",
        "from m import(a, b)",
        "from m import a, \\\n    b",
        "from  m\timport  a,b",
    ],
)
def test_names_are_found_without_parsing(text: str) -> None:
    source = f"import x\n{text}\ny = 1\nfrom mm import no\nfrom .m import no\n".encode()
    assert set(imported_names(source, "m")) == {"a", "b"}
    assert {"a", "b"} <= set(mentioned_names(source, "m")) <= {"a", "b", "c", "as"}
    assert mentioned_names(source, "m.n") == []
