"""The bench of the Dagger engine: it needs one, and says so."""

from __future__ import annotations

import pytest

from bench import dagger as bench
from pipeline.engines.reach import CLI, HOST, PORT
from pipeline.errors import NoEngine


def test_without_an_engine_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PORT, raising=False)
    monkeypatch.setenv(HOST, "unix:///nowhere")
    monkeypatch.setenv(CLI, "/bin/true")
    with pytest.raises(NoEngine, match="no Dagger engine listens on /nowhere"):
        bench.main()
