"""A step in a container: the job comes as JSON on stdin, its result or its refusal goes to stdout.

Places in the container, which the engine fills before: `FILES/<sha256>` are locked files,
`STEPS/<number>/…` the outputs that the step reads; its own output goes to `OUT`. The first line
on stdout is the word that `RUN` holds in the environment, so that whoever reads it sees which run
made it; then comes one line of JSON: {"result": …} or {"failure": …}.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pipeline.errors import ChainError, system_trouble
from pipeline.failures import Failure
from pipeline.oci.image import canonical
from pipeline.steps.program import RESULT, Inputs, StepOutput, run_program

FILES, STEPS, OUT = "/job/files", "/job/steps", "/job/out"
RUN = "SM121_CHAIN_RUN"
#: Exit status of this program when a step failed and said why.
FAILED = 9
# An engine keeps 100 KiB of what a failing command printed.
_MOST = 90_000


def main() -> int:
    """Run the job and say how it went."""
    print(os.environ.get(RUN, ""), flush=True)
    job = json.loads(sys.stdin.buffer.read())
    try:
        output = run_program(job["program"], _inputs(job), Path(OUT))
    except ChainError as error:
        return _failed(Failure.of(error))
    except (OSError, MemoryError) as error:
        return _failed(Failure.of(system_trouble(error, job["program"])))
    for path in sorted(Path(OUT).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o444)
    (Path(OUT) / RESULT).unlink()
    _say({"result": output.data.decode("utf-8")})
    return 0


def _inputs(job: dict[str, Any]) -> Inputs:
    return Inputs(
        params=job["params"],
        file=lambda sha256: Path(FILES, sha256),
        steps=[
            StepOutput(Path(STEPS, str(number)), data.encode("utf-8"))
            for number, data in enumerate(job["steps"])
        ],
    )


def _failed(failure: Failure) -> int:
    _say({"failure": failure.cut(_MOST).to_json()})
    return FAILED


def _say(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(canonical(document) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
