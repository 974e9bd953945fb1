"""The server probe against a server of the tests' own."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.smoke.conftest import SMOKE, Ended, start

COUNT = " ".join(map(str, range(1, 101)))
HANGUL = "대한민국의 수도는 서울입니다. 서울에는 한강이 흐릅니다."


@dataclass
class Server:
    """What it answers, by what the prompt holds, and what it was asked."""

    url: str = ""
    health: int = 200
    status: int = 200
    sum: str = "4"
    count: str = COUNT
    hangul: str = HANGUL
    raw: bytes = b""
    asked: list[str] = field(default_factory=list)
    posted: list[dict[str, Any]] = field(default_factory=list)

    def run(self, *arguments: str) -> Ended:
        return start(SMOKE / "server.py", ["--url", self.url, "--seconds", "20", *arguments])

    def answer(self, prompt: str) -> bytes:
        text = self.sum if "2+2" in prompt else self.count if "100" in prompt else self.hangul
        return self.raw or json.dumps({"choices": [{"message": {"content": text}}]}).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def reply(self, status: int, body: bytes = b"") -> None:
            told.asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.reply(told.health if self.path == "/health" else 404)

        def do_POST(self) -> None:
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.posted.append(data)
            self.reply(told.status, told.answer(data["messages"][0]["content"]))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        told.url = f"http://127.0.0.1:{listening.server_port}"
        yield told
        listening.shutdown()


def test_passed(server: Server) -> None:
    ended = server.run()
    assert ended.status == 0, ended.told
    assert server.asked == ["/health", *["/v1/chat/completions"] * 3]
    assert {data["temperature"] for data in server.posted} == {0}
    assert ended.told["numbers"]["counted"] == 100


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"health": 503}, "health is 503, 200 is wanted"),
        ({"status": 500, "raw": b"engine died"}, "the server answers 500: engine died"),
        ({"raw": b"<html>"}, "the server's answer is no chat completion"),
        ({"raw": b'{"choices": []}'}, "the server's answer is no chat completion"),
        ({"sum": "5"}, "sum is 0, 1 is wanted"),
        ({"sum": ""}, "sum is 0, 1 is wanted"),
        ({"sum": "14"}, "sum is 0, 1 is wanted"),
        ({"count": COUNT.replace(" 57 ", " ")}, "counted is 56, 100 is wanted"),
        ({"count": COUNT[:-4]}, "counted is 99, 100 is wanted"),
        ({"count": ""}, "counted is 0, 100 is wanted"),
        ({"hangul": "The capital is Seoul."}, "hangul_syllables is 0, at least 10 is wanted"),
        ({"hangul": HANGUL + "\ufffd"}, "replacement_characters is 1, 0 is wanted"),
        ({"hangul": HANGUL + " 서울" * 40}, "repeats is 39, at most 8 is allowed"),
        ({"hangul": HANGUL + "!" * 30}, "repeats is 30, at most 8 is allowed"),
    ],
)
def test_failed(server: Server, answers: dict[str, Any], reason: str) -> None:
    for name, value in answers.items():
        setattr(server, name, value)
    ended = server.run()
    assert ended.status == 1
    assert reason in ended.told["reason"]


def test_no_server() -> None:
    ended = start(SMOKE / "server.py", ["--url", "http://127.0.0.1:9", "--seconds", "5"])
    assert (ended.status, ended.told["status"]) == (1, "failed")
    assert ended.told["reason"].startswith("http://127.0.0.1:9/health: ")


def test_not_asked_for() -> None:
    ended = start(SMOKE / "server.py", [], {"SMOKE_SERVER_URL": ""})
    assert (ended.status, ended.told["status"]) == (2, "skipped")


def test_through_the_driver_url(server: Server) -> None:
    ended = start(SMOKE / "server.py", [], {"SMOKE_SERVER_URL": server.url + "/"})
    assert ended.status == 0
