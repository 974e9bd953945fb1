"""A step in a container: the job comes as JSON on stdin, its result or its refusal goes to stdout.

Places in the container, filled by whoever starts it: `FILES/<sha256>` are locked files,
`STEPS/<digest of its result>/` the outputs of the steps that it reads; its own goes to `OUT`.
An output has two files at most there: a layer, which may be large and stays as it is, and a tar of
everything else. What an engine must keep apart and identify is so kept small in number.

The first line on stdout is the word that `RUN` holds in the environment, so that whoever reads it
sees which run made it; then comes one line of JSON: {"result": …}, {"failure": …}, or
{"wanted": […]} with the digests of locked files that are not in `FILES` and must be read.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import ChainError, system_trouble
from pipeline.failures import Failure
from pipeline.oci.blob import NotHere
from pipeline.oci.image import canonical
from pipeline.steps.layers import BLOB
from pipeline.steps.program import Inputs, StepOutput, run_program

FILES, STEPS, OUT = "/job/files", "/job/steps", "/job/out"
PACK = "pack.tar"
RUN = "SM121_CHAIN_RUN"
#: Exit status of this program when a step failed, or wants more files, and said so.
FAILED = 9
# An engine keeps 100 KiB of what a failing command printed.
_MOST = 90_000


def kept(files: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in `OUT` of an output with these files."""
    return (PACK, BLOB) if BLOB in files else (PACK,)


def main() -> int:
    """Run the job and say how it went."""
    print(os.environ.get(RUN, ""), flush=True)
    job = json.loads(sys.stdin.buffer.read())
    try:
        with tempfile.TemporaryDirectory() as read, tempfile.TemporaryDirectory(dir=OUT) as made:
            output = run_program(job["program"], _inputs(job, Path(read)), Path(made))
            pack(output, Path(OUT))
    except NotHere as error:
        _say({"wanted": list(error.digests)})
        return FAILED
    except ChainError as error:
        return _failed(Failure.of(error))
    except (OSError, MemoryError) as error:
        return _failed(Failure.of(system_trouble(error, job["program"])))
    _say({"result": output.data.decode("utf-8")})
    return 0


def pack(output: StepOutput, out: Path) -> None:
    """Move an output to `out` in the form in which it is kept. The bytes depend on it alone."""
    write_pack(output, out / PACK)
    if BLOB in output.files:
        (output.directory / BLOB).rename(out / BLOB)
        (out / BLOB).chmod(0o444)


def write_pack(output: StepOutput, path: Path) -> None:
    """Write a tar of everything in an output but its layer. The bytes depend on it alone."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(output.files):
            if name != BLOB:
                member = tarfile.TarInfo(name)
                member.size = output.files[name][1]
                with (output.directory / name).open("rb") as file:
                    tar.addfile(member, file)
    path.chmod(0o444)


def unpack(source: Path, directory: Path) -> None:
    """Give an output that `pack` has kept its files again."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(source / PACK, "r") as tar:
        for member in tar:
            path = directory / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = tar.extractfile(member)
            assert data is not None  # `pack` puts nothing but files in
            with path.open("wb") as file:
                shutil.copyfileobj(data, file)
    if (source / BLOB).exists():
        (directory / BLOB).symlink_to(source / BLOB)


def _inputs(job: Mapping[str, Any], read: Path) -> Inputs:
    steps = []
    for number, text in enumerate(job["steps"]):
        output = StepOutput(read / str(number), text.encode("utf-8"))
        unpack(Path(STEPS, output.digest.removeprefix("sha256:")), output.directory)
        steps.append(output)
    return Inputs(params=job["params"], file=lambda sha256: Path(FILES, sha256), steps=steps)


def _failed(failure: Failure) -> int:
    _say({"failure": failure.cut(_MOST).to_json()})
    return FAILED


def _say(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(canonical(document) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
