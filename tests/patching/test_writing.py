"""Writing: a patch as text that people read, and that is read back to the same values."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pipeline.patching.loading import load_patch
from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant
from pipeline.patching.writing import patch_text, variant_text


def test_a_patch_in_full() -> None:
    edits = (
        Edit("e.one", "pkg/a.py", "a\nb", "\nc", "f", 2),
        Edit("e.two", "pkg/b.py", "d", "e'''f"),
    )
    tests = (UpstreamTest("pkg/a.py", "fixed", "f"), UpstreamTest("pkg/b.py", "'"))
    patch = Patch("n", 'a "t"', "why", "", "pkg", (Variant(Requirement("pkg==1"), edits, tests),))
    text = patch_text(patch)
    assert text == (
        'name = "n"\ntitle = "a \\"t\\""\nwhy = \'\'\'why\'\'\'\nupstream = ""\n'
        'distribution = "pkg"\n\n'
        '[[variants]]\nfor = "pkg==1"\n\n'
        "[[variants.upstream]]\nfile = \"pkg/a.py\"\nwithin = \"f\"\ncontains = '''fixed'''\n\n"
        '[[variants.upstream]]\nfile = "pkg/b.py"\ncontains = "\'"\n\n'
        '[[variants.edits]]\nid = "e.one"\nfile = "pkg/a.py"\nwithin = "f"\ncount = 2\n'
        "find = '''a\nb'''\nreplace = '''\n\nc'''\n\n"
        "[[variants.edits]]\nid = \"e.two\"\nfile = \"pkg/b.py\"\nfind = '''d'''\n"
        "replace = \"e'''f\"\n"
    )


def test_comments_stand_before_a_variant_without_blanks_behind_them() -> None:
    variant = Variant(Requirement("pkg==1"), ())
    text = variant_text(variant, ["one", "", "two "])
    assert text == '# one\n#\n# two\n[[variants]]\nfor = "pkg==1"\n'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\tb\n", "'''a\tb\n'''"),
        ("\\d", "'''\\d'''"),
        ("\x07\x7f", '"\\u0007\\u007f"'),
        ("\u200b\ufeff\uffff", '"\\u200b\\ufeff\\uffff"'),
        ("\U000e0001\U0010ffff", '"\\U000e0001\\U0010ffff"'),
        ("a\r\n\tb'", '"a\\r\\n\\tb\'"'),
        ('\x01\\é"', '"\\u0001\\\\é\\""'),
    ],
)
def test_what_cannot_be_seen_is_escaped_and_all_of_it_read_back(
    tmp_path: Path, text: str, written: str
) -> None:
    variant = Variant(Requirement("pkg==1"), (Edit("e", "pkg/a.py", "found", text),))
    patch = Patch("mine", "t", "w", "", "pkg", (variant,))
    lines = patch_text(patch)
    assert lines.endswith(f"\nreplace = {written}\n")
    path = tmp_path / "mine.toml"
    path.write_bytes(lines.encode())
    assert load_patch(path).variants[0].edits[0].replace == text
