"""The handed cases that write their inputs, and the scripted registry of two of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "fixtures" / "cases"


def generate(case: str, out: Path) -> Path:
    """Run a case's gen.py into `out` and return it."""
    (directory,) = CASES.glob(f"{case}-*")
    # The generators share one helper, mk.py, which lies beside their directories.
    env = {**os.environ, "PYTHONPATH": str(CASES)}
    subprocess.run([sys.executable, directory / "gen.py", out], check=True, env=env)
    return out


def expected(case: str) -> Any:
    """Return the expectation that lies beside a case."""
    (file,) = CASES.glob(f"{case}-*/expected.json")
    return json.loads(file.read_bytes())


@contextmanager
def scripted(case: str, scenario: Path) -> Iterator[tuple[str, Any]]:
    """Serve a scenario on the loopback; gives host:port and the registry's state."""
    spec = spec_from_file_location(f"reg_{case}", CASES / "reg.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    server, state = module.serve(str(scenario))
    try:
        yield f"127.0.0.1:{server.server_address[1]}", state
    finally:
        threading.Thread(target=server.shutdown).start()
        server.server_close()
