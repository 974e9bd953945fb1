"""The page: parsed as HTML, and looked at in a browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.audit.findings import Finding
from pipeline.report.html import html
from pipeline.report.page import Page as Report
from pipeline.report.page_audit import audit_page
from pipeline.report.page_drift import comparison_page, history_page
from pipeline.report.plain import printable
from tests.report.browser import Page, browser
from tests.report.samples import HOSTILE, audit_pins, audit_report, comparison, history, judged


class Parsed(HTMLParser):
    """Counts tags, and keeps what is text and which addresses are named."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def pages(*, hostile: bool) -> list[Report]:
    return [
        comparison_page(comparison(hostile=hostile), threshold="error"),
        history_page(history(hostile=hostile), threshold="error"),
        audit_page(audit_report(hostile=hostile), audit_pins(hostile=hostile), threshold="warning"),
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser, one for all tests of this module."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The page of a line, as a file."""
    path = tmp_path / "line.html"
    path.write_text(html(history_page(history(), threshold="error")), encoding="utf-8")
    return path


@pytest.mark.parametrize("number", [0, 1, 2])
def test_hostile_names_stay_text(number: int) -> None:
    text = html(pages(hostile=True)[number])
    calm = Parsed(html(pages(hostile=False)[number]))
    parsed = Parsed(text)
    for tag in ("span", "option"):  # a name that is in a family has a badge and a filter
        del parsed.tags[tag], calm.tags[tag]
    assert parsed.tags == calm.tags and parsed.tags["script"] == 1
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u200f\ud800-\udfff]", text)
    assert any(printable(HOSTILE) in one for one in parsed.texts)
    assert "{{ 7*7 }}" in text


def test_nothing_is_loaded_from_elsewhere() -> None:
    for one in pages(hostile=False):
        parsed = Parsed(html(one))
        assert not {"link", "img", "iframe", "object"} & set(parsed.tags)
        assert not [value for name, value in parsed.attributes if name in ("src", "href")]
        assert html(one) == html(one)


def test_every_direction_has_a_sign_and_a_word() -> None:
    text = html(pages(hostile=False)[0])
    for sign, word in (("▼", "down"), ("▲", "up"), ("≠", "other build"), ("−", "removed")):
        assert f'<span class="sign">{sign}</span> {word}</span>' in text


def test_an_audit_shows_the_lock_beside_the_image() -> None:
    audit = pages(hostile=False)[2]
    rows = {line.name: [(cell.text, cell.direction) for cell in line.cells] for line in audit.lines}
    assert rows == {
        "gone": [("1", ""), ("", "removed")],
        "new-one": [("", ""), ("1.0", "added")],
        "nvidia-nccl-cu13": [("2.0", ""), ("1.0", "down")],
        "torch": [("1.0", ""), ("1.0", "")],
        "vllm": [("0.9", ""), ("1.0", "up")],
    }
    assert list(rows)[-1] == "torch"  # what differs comes first
    text = html(audit)
    assert "torch wants nvidia-nccl-cu13==2" in text and "fails from severity warning" in text
    without = audit_page(audit_report(), {}, threshold="never")
    assert [head.name for head in without.heads] == ["image"] and not without.failed
    assert "never fails" in html(without)


def test_many_findings_of_one_kind_are_folded_and_all_there() -> None:
    finding = Finding("unowned-file", "note", "a", "belongs to nobody")
    many = [replace(finding, path=f"site/a/{number}.py") for number in range(500)]
    text = html(Report("many", replace(judged(), findings=many), "error"))
    assert Parsed(text).tags["tr"] == 10 and "<summary>and 492 more</summary>" in text
    assert all(f"site/a/{number}.py" in text for number in range(500))


def test_a_browser_likes_the_page_and_filters_it(page: Page, file: Path, tmp_path: Path) -> None:
    shown = "[...document.querySelectorAll('.matrix tbody')].filter(one => one.offsetHeight).length"
    page.messages.clear()
    page.open(file)
    total = page.ask(shown)
    assert total == len(history().rows)
    assert (
        page.ask("document.getElementById('count').textContent") == f"{total} of {total} packages"
    )

    def enter(field: str, change: str) -> int:
        page.ask(
            f"(() => {{ const one = document.getElementById('{field}'); {change};"
            " one.dispatchEvent(new Event('input', {bubbles: true})) })()"
        )
        found: int = page.ask(shown)
        return found

    changing = sum(1 for row in history().rows if row.moves)
    assert enter("changes", "one.checked = true") == changing
    assert enter("changes", "one.checked = false") == total
    assert enter("family", "one.value = 'nccl'") == 1
    assert enter("family", "one.value = ''") == total
    assert enter("kind", "one.value = 'debian'") == 1
    assert enter("kind", "one.value = ''") == total
    assert enter("find", "one.value = 'QUACK 0.6.4'") == 1
    assert enter("find", "one.value = 'no such package'") == 0
    assert page.messages == []


def test_without_script_all_of_it_is_there(page: Page, file: Path) -> None:
    page.open(file, script=False)
    assert page.ask("document.querySelector('form.filters').offsetHeight") == 0
    tall = (
        "[...document.querySelectorAll('.matrix tbody, .findings tr')].every(o => o.offsetHeight)"
    )
    assert page.ask(tall) is True
    text = page.ask("document.body.innerText")
    for name in ("nvidia-nccl-cu13", "still-29", "torch 2.13.0 wants", "held", "quack-kernels"):
        assert name in text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 390])
def test_light_dark_wide_and_narrow(page: Page, file: Path, dark: bool, width: int) -> None:
    page.messages.clear()
    page.open(file, width=width, height=844, dark=dark)
    paper = page.ask("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert page.ask("document.documentElement.scrollWidth") <= width  # only tables scroll sideways
    assert page.messages == []


def test_hostile_names_do_nothing_in_a_browser(page: Page, tmp_path: Path) -> None:
    for number, one in enumerate(pages(hostile=True)):
        path = tmp_path / f"{number}.html"
        path.write_text(html(one), encoding="utf-8")
        page.messages.clear()
        page.open(path, width=390)
        assert page.messages == []
        assert page.ask("document.querySelectorAll('script, img').length") == 1
        assert page.ask("document.documentElement.scrollWidth") <= 390
