"""Asks a running vLLM: /health, 2+2, counting to 100 at temperature 0, and a Hangul prompt.

Optional: it needs a server with weights (`--url`, or SMOKE_SERVER_URL). /health is asked and never
/v1/models, which answers before the engine does. The first model that is served is used.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import urllib.error
import urllib.request
from typing import Any

import probe as contract
from probe import Broken, Probe, Skipped

SUM = "What is 2+2? Answer with the number alone."
COUNT = "Count from 1 to 100. Write the numbers alone, separated by spaces."
HANGUL = "대한민국의 수도와 그 도시에 흐르는 강을 한국어 두 문장으로 설명해 주세요."
MOST_REPEATS = 8
_REPEATED = re.compile(r"(\S.{0,23}?)\1+", re.DOTALL)


def get(url: str, data: dict[str, Any] | None, seconds: float) -> tuple[int, bytes]:
    """Ask the server. Raises Broken when there is none."""
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        raise Broken(f"{url}: {error}") from None


def say(url: str, prompt: str, tokens: int, seconds: float) -> str:
    """Return what the model answers, at temperature 0. Raises Broken."""
    data = {
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": tokens,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    status, body = get(f"{url}/v1/chat/completions", data, seconds)
    if status != 200:
        raise Broken(f"the server answers {status}: {body[:200].decode(errors='replace')}")
    try:
        message = json.loads(body)["choices"][0]["message"]
        return str(message.get("content") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Broken("the server's answer is no chat completion") from None


def counted(text: str) -> int:
    """How far the text counts up from 1 without a fault."""
    reached = 0
    for number in map(int, re.findall(r"\d{1,6}", text)):
        if number != reached + 1:
            break
        reached = number
    return reached


def repeats(text: str) -> int:
    """How often a piece of up to 24 characters follows itself, at most."""
    return max((len(m[0]) // len(m[1]) for m in _REPEATED.finditer(text)), default=1)


def hangul(text: str) -> int:
    """How many syllables of Hangul the text holds."""
    return sum("가" <= letter <= "힣" for letter in text)


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    if not given.url:
        raise Skipped("no server was named: --url, or SMOKE_SERVER_URL")
    url = given.url.rstrip("/")
    probe.facts["url"] = url
    status, _ = get(f"{url}/health", None, given.seconds)
    probe.number("health", status, equals=200)
    if status != 200:
        return
    answers = {}
    for name, prompt, tokens in (("sum", SUM, 64), ("count", COUNT, 512), ("hangul", HANGUL, 256)):
        answers[name] = say(url, prompt, tokens, given.seconds)
        probe.facts[name] = answers[name][:400]
        probe.say(f"{name}: {answers[name][:100]!r}")
    whole = "\n".join(answers.values())
    probe.number("sum", int("4" in re.findall(r"\d+", answers["sum"])), equals=1)
    probe.number("counted", counted(answers["count"]), equals=100)
    probe.number("hangul_syllables", hangul(answers["hangul"]), min=10)
    probe.number("replacement_characters", whole.count("\N{REPLACEMENT CHARACTER}"), equals=0)
    probe.number("repeats", max(map(repeats, answers.values())), max=MOST_REPEATS)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the probe's own options."""
    parser.add_argument("--url", default=os.environ.get("SMOKE_SERVER_URL", ""))
    parser.add_argument("--seconds", type=float, default=120, help="for each answer (default 120)")


if __name__ == "__main__":
    sys.exit(contract.run("server", str(__doc__), body, options=options))
