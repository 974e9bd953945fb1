"""Markdown: rendered as GitHub's dialect does, and never too long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from pipeline.audit.findings import ERROR, Finding
from pipeline.report.judged import Judged
from pipeline.report.judged_drift import judged_comparison, judged_history
from pipeline.report.markdown import MOST, Table, markdown
from pipeline.report.markdown_drift import comparison_tables, history_tables
from pipeline.report.markup import code, words
from tests.report.samples import HOSTILE, comparison, history, judged


class Rendered(HTMLParser):
    """Tags in their order, cells of each row, and the text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[int] = []
        self.text = ""
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def every(*, hostile: bool) -> list[tuple[Judged, Sequence[Table]]]:
    two, line = comparison(hostile=hostile), history(hostile=hostile)
    return [
        (judged(hostile=hostile), []),
        (judged_comparison(two), list(comparison_tables(two))),
        (judged_history(line), list(history_tables(line))),
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_hostile_names_stay_text_in_their_cells(number: int) -> None:
    (one, tables), (calm, calm_tables) = every(hostile=True)[number], every(hostile=False)[number]
    text = markdown(one, threshold="error", tables=tables)
    rendered = Rendered(text)
    plain = Rendered(markdown(calm, threshold="error", tables=calm_tables))
    assert set(rendered.tags) <= {*plain.tags, "br"}
    assert set(rendered.rows) <= set(plain.rows)
    assert rendered.tags.count("details") == text.count("</details>")
    assert "<script>" in rendered.text and "{{ 7*7 }} $x^2$" in rendered.text
    assert not re.search(r"[^\n -~]", re.sub("[\u200b…→▼▲◆≠↷−⌂≈·—🔴🟡⚪❌✅]", "", text))
    assert len(text) <= MOST


def test_nobody_is_mentioned_and_nothing_is_linked() -> None:
    shown = words("@everyone #1 https://x.example www.x.example")
    assert "@\u200beveryone" in shown and "https:\u200b//" in shown and "www.\u200bx" in shown
    assert code("") == ""
    for text in ("`", "``", "|", "\\", "*a*", "_a_", "[a](b)", "<!--", "~~a~~", "&lt;", "</code>"):
        for way in (words, code):
            rendered = Rendered(f"| a |\n|---|\n| {way(text)} |\n")
            assert rendered.text.split() == ["a", text] and rendered.rows == [1, 1]


def test_a_comment_is_cut_with_a_note_of_what_was_cut() -> None:
    finding = Finding("pin-downgraded", ERROR, "a", "words " * 20)
    many = [replace(finding, subject=f"package-{number}") for number in range(900)]
    text = markdown(replace(judged(), findings=many), threshold="error")
    assert MOST - 1_500 < len(text) <= MOST
    cut = re.search(r"Findings: (\d+) of 900 rows", text)
    assert cut is not None and text.count("🔴") == 900 - int(cut[1])


def test_what_counts_is_shown_and_the_rest_is_collapsed() -> None:
    text = markdown(judged(), threshold="error")
    assert text.startswith(
        "### ❌ audit of <code>oci:dist:sm121-v8</code> against <code>v8</code>\n"
    )
    assert "**Fails** (from severity error): 11 errors, 1 warning, 1 note, 1 tolerated." in text
    open_part, _, folded = text.partition("<details>")
    assert "pin-downgraded" in open_part and "record-missing" not in open_part
    assert "… and 6 more" in open_part
    assert "<summary>Notes (1)</summary>" in text and "because: patch nvidia-nccl-cu13" in folded
    assert markdown(judged(), threshold="never").startswith("### ✅")


def test_hostile_text_is_long_and_is_shortened() -> None:
    assert "x" * 1_200 not in markdown(judged(hostile=True), threshold="error")
    assert len(HOSTILE) > 9_000
