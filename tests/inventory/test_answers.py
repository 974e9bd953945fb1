"""Answers about sources: asked once, whoever asks, and nothing of them is believed blindly."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.inventory import answers as module
from pipeline.inventory.answers import AnswerMemo, Answers, Table
from pipeline.oci.view import LayersView
from tests.audit.images import Content, image

LAYERS: list[dict[str, Content]] = [{"a.py": "A", "b.py": "B"}, {"c.py": "A", "d.py": "D"}]


class Asked:
    """A question that remembers of which contents it was asked."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def __call__(self, data: bytes) -> list[str]:
        self.contents.append(data)
        return [data.decode()]


@pytest.fixture
def view(tmp_path: Path) -> LayersView:
    return image(tmp_path, *LAYERS)


def test_a_content_is_asked_once_in_a_process(view: LayersView) -> None:
    memo, ask = AnswerMemo(), Asked()
    for _ in range(2):
        found = Answers(memo).of(view, ["a.py", "b.py", "c.py"], "letters", ask)
        assert found == {"a.py": ["A"], "b.py": ["B"], "c.py": ["A"]}
    assert sorted(ask.contents) == [b"A", b"B"]


def test_another_question_is_asked_anew(view: LayersView) -> None:
    memo, ask = AnswerMemo(), Asked()
    Answers(memo).of(view, ["a.py"], "letters", ask)
    assert Answers(memo).of(view, ["a.py"], "size", len) == {"a.py": 1}


def test_what_is_kept_of_a_layer_serves_another_process(view: LayersView, tmp_path: Path) -> None:
    first = Answers(cache=tmp_path / "kept")
    first.of(view, ["a.py", "d.py"], "letters", Asked())
    first.keep()
    ask = Asked()
    second = Answers(cache=tmp_path / "kept")
    second.of(view, ["a.py", "b.py", "d.py"], "letters", ask)
    second.keep()
    assert ask.contents == [b"B"]
    ask = Asked()
    Answers(cache=tmp_path / "kept").of(view, list(view.tree.nodes), "letters", ask)
    assert ask.contents == []


def test_what_was_damaged_or_answered_by_another_program_is_asked_again(
    view: LayersView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Answers(cache=tmp_path / "kept")
    first.of(view, ["a.py", "d.py"], "letters", Asked())
    first.keep()
    damaged = next((tmp_path / "kept").iterdir())
    damaged.write_bytes(damaged.read_bytes().replace(b"letters", b"lexters"))
    ask = Asked()
    Answers(cache=tmp_path / "kept").of(view, ["a.py", "d.py"], "letters", ask)
    assert len(ask.contents) == 1
    monkeypatch.setattr(module, "_asked", lambda: "another")
    ask = Asked()
    Answers(cache=tmp_path / "kept").of(view, ["a.py", "d.py"], "letters", ask)
    assert len(ask.contents) == 2


def test_what_is_handed_on_depends_on_what_is_asked_alone(view: LayersView, tmp_path: Path) -> None:
    def given() -> Table:
        return {"letters": {"0" * 64: ["old"]}, "other": {"1" * 64: None}}

    def ask(memo: AnswerMemo, cache: Path | None) -> dict[str, Any]:
        answers = Answers(memo, cache, given)
        answers.of(view, ["a.py"], "letters", Asked())
        answers.keep()
        return answers.handed_on()

    memo = AnswerMemo()
    Answers(memo).of(view, ["a.py", "b.py", "d.py"], "letters", Asked())
    Answers(memo).of(view, ["b.py"], "size", len)
    cold, warm = ask(AnswerMemo(), None), ask(memo, tmp_path / "kept")
    assert json.dumps(cold, sort_keys=True) == json.dumps(warm, sort_keys=True)
    assert list(cold) == ["letters"] and len(cold["letters"]) == 1


def test_what_was_given_is_not_read(view: LayersView) -> None:
    sha256 = view.tree.nodes["a.py"].entry.sha256
    ask = Asked()
    answers = Answers(given=lambda: {"letters": {sha256: ["known"]}})
    assert answers.of(view, ["a.py"], "letters", ask) == {"a.py": ["known"]} and not ask.contents
