"""Compiles the FlashInfer modules that the probes use, once, side by side. The last line is JSON.

run.py starts it before the probes: FlashInfer tries a failed build again at every plan().
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

import mla
import probe as contract


def main() -> int:
    """Build what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=("bf16", "fp8"), help="of the KV cache")
    given = parser.parse_args()
    stdout = os.dup(1)
    os.dup2(2, 1)
    started = time.monotonic()
    told = contract.Probe("build_jit")
    try:
        import torch

        mla.flashinfer(told)
        modules = mla.build(torch, given.kinds)
        answer: dict[str, Any] = {"modules": modules, "reason": ""}
    except (ImportError, contract.CannotRun, contract.Broken) as error:
        answer = {"modules": [], "reason": str(error)}
    answer["seconds"] = round(time.monotonic() - started, 3)
    with os.fdopen(stdout, "w", encoding="utf-8") as out:
        out.write(json.dumps(answer) + "\n")
    return 1 if answer["reason"] else 0


if __name__ == "__main__":
    sys.exit(main())
