"""A headless Chromium, spoken to over pipes (the DevTools protocol), for pages of a report."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 120  # seconds
# Chromium reads commands from 3 and writes events to 4.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str:
    """Return the path of a Chromium; the test is skipped where there is none."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here (Debian: chromium), so no page is looked at in a browser")


class Page:
    """One page: `messages` are what its console said, and what the browser did not like in it."""

    def __init__(self, commands: int, events: int, session: str = ""):
        self._commands, self._events, self._session = commands, events, session
        self._number, self._rest = 0, b""
        self.messages: list[str] = []
        self._loaded = False

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def attach(self) -> None:
        """Open a tab and listen to it."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(
        self,
        path: Path,
        *,
        width: int = 1400,
        height: int = 1000,
        dark: bool = False,
        script: bool = True,
    ) -> None:
        """Load a file in a window of that size, and wait until it is there."""
        scheme = "dark" if dark else "light"
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[feature])
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        self._loaded = False
        self.send("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._next()

    def ask(self, expression: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._events], [], [], _PATIENCE)
            assert ready, f"the browser has said nothing for {_PATIENCE} s"
            data = os.read(self._events, 1 << 20)
            assert data, "the browser is gone"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.messages.append(json.dumps(params))
            case "Log.entryAdded":
                self.messages.append(params["entry"]["text"])
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith("file:"):
                self.messages.append(f"asked for {params['request']['url']}")
        return message


@contextmanager
def browser(directory: Path) -> Iterator[Page]:
    """Run a browser with a profile in `directory`."""
    program = find_browser()
    pipes = [os.pipe(), os.pipe()]
    # Until the browser has them as 3 and 4 they may not have these numbers.
    ours = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for pipe in pipes for end in pipe]
    for pipe in pipes:
        for end in pipe:
            os.close(end)
    read_commands, commands, events, write_events = ours
    arguments = [
        "--headless=new",
        "--remote-debugging-pipe",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        f"--user-data-dir={directory / 'profile'}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", _START, str(read_commands), str(write_events), program, *arguments],
        pass_fds=(read_commands, write_events),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_events)
    try:
        page = Page(commands, events)
        page.attach()
        yield page
    finally:
        os.close(commands)
        os.close(events)
        process.kill()
        process.wait()
