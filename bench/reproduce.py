"""Build the chain twice in unlike environments and compare; name every byte that differs.

    nox -s reproduce             exit status 1 when two builds differ

The environments differ in folder (one has a space), user (for root, where setpriv is there), umask,
locale, time zone, hash seed, Python (every one from 3.11 on that `PYTHONS` names or that stands on
PATH), cache (cold and warm) and jobs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.difference import differences
from pipeline.wheels.house import default_cache

ROOT = Path(__file__).parents[1]
_PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")


@dataclass(frozen=True)
class Environment:
    """One way to call the program."""

    folder: str
    umask: int
    variables: dict[str, str]
    jobs: int
    prefix: tuple[str, ...] = ()


# Another user's name on every file; the capabilities let it read what root keeps for itself.
_NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_override,+dac_read_search", "--ambient-caps=+dac_override,+dac_read_search"),
)
_SWITCH = os.geteuid() == 0 and shutil.which("setpriv") is not None
UNLIKE = (
    Environment("one", 0o022, {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}, 2),
    Environment(
        "an other",
        0o077,
        {"LC_ALL": "C", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7"},
        1,
        _NOBODY if _SWITCH else (),
    ),
)


def main(args: Sequence[str] = ()) -> int:
    """Build in each environment and with each Python; print what differs."""
    cache = default_cache()
    with tempfile.TemporaryDirectory(prefix="reproduce-", dir=cache) as scratch:
        lines: dict[str, str] = {}
        for name, python, environment in _cases(Path(scratch)):
            lines[name] = _build(name, python, environment, Path(scratch), args)
            print(f"{name}: built", file=sys.stderr)
        first, *others = lines
        different = [name for name in others if lines[name] != lines[first]]
        for name in different:
            print(f"{first} and {name} differ:")
            for text in differences(Path(scratch, first, "dist"), Path(scratch, name, "dist")):
                print(f"  {text}")
    if not different:
        print(f"{len(lines)} builds, equal lines: {', '.join(lines)}")
        print(lines[first], end="")
    return 1 if different else 0


def _cases(scratch: Path) -> Iterator[tuple[str, Path, Environment]]:
    for environment in UNLIKE:
        yield environment.folder, Path(sys.executable), environment
    found = {path for name in _PYTHONS if (path := shutil.which(name))}
    found |= set(filter(None, os.environ.get("PYTHONS", "").split(os.pathsep)))
    own = _version(sys.executable)
    for python in sorted(found):
        version = _version(python)
        if version and version != own:
            yield f"python {version}", _environment_of(python, version, scratch), UNLIKE[0]


def _version(python: str) -> str:
    """Return major and minor of a Python; "" for one that does not run, as a version manager's
    stand-in for a version that is not switched on."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _environment_of(python: str, version: str, scratch: Path) -> Path:
    place = scratch / f"venv-{version}"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--require-hashes"]
    subprocess.run([*pip, "-r", str(ROOT / "requirements" / "run.txt")], check=True)
    return place / "bin" / "python"


def _build(
    name: str, python: Path, environment: Environment, scratch: Path, args: Sequence[str]
) -> str:
    """Build in a copy of the project with a cold cache, then once more with the warm one."""
    work = scratch / name
    for directory in ("pipeline", "stages", "patches"):
        shutil.copytree(ROOT / directory, work / directory)
    shutil.copyfile(ROOT / "pins.toml", work / "pins.toml")
    cache = scratch / f"cache of {name}"
    shutil.copytree(default_cache() / "files", cache / "files", copy_function=os.link)
    command = [*environment.prefix, str(python), "-m", "pipeline", "build", "--offline", "-q"]
    variables = {**os.environ, **environment.variables, "SM121_CHAIN_CACHE": str(cache)}
    outputs = []
    for _ in ("cold", "warm"):
        done = subprocess.run(
            [*command, "--jobs", str(environment.jobs), *args],
            cwd=work,
            env=variables,
            umask=environment.umask,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    shutil.rmtree(cache)  # the layout keeps the blobs through its own links
    if outputs[0] != outputs[1]:
        raise SystemExit(f"{name}: the warm cache gives other lines than the cold one")
    return outputs[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
