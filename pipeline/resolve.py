"""Resolution of wheels by uv, for a base's Python and platform.

uv asks the user's own index; its answer carries the addresses of that index, of which only file
names, sizes and hashes are kept. `exclude-newer` makes the answer the same tomorrow.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from threading import Lock
from typing import Any

import uv
from packaging.markers import Marker
from packaging.tags import create_compatible_tags_selector
from packaging.utils import canonicalize_name, parse_wheel_filename

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock.model import LockedWheel
from pipeline.wheels.target import Target

# Statuses of uv: there is no solution, as against everything else that can go wrong.
_NO_SOLUTION = 1
# Of what else can go wrong, these are not the index's doing.
_USAGE = re.compile(r"^error: (invalid value|unexpected argument|the argument)", re.MULTILINE)
_YANKED = re.compile(r"^warning: `(?P<name>[^`=]+)==[^`]+` is yanked(?: \((?P<reason>.*)\))?", re.M)
_FINDING = Lock()


def find_uv() -> str:
    """Path of uv, which is a dependency of this program.

    Raises:
        OutsideTrouble: it is not installed.
    """
    try:
        # it reads sysconfig, whose first use is not safe in several threads (CPython 3.11)
        with _FINDING:
            return uv.find_uv_bin()
    except FileNotFoundError:
        hint = "install it: python -m pip install --force-reinstall uv"
        raise OutsideTrouble("uv has no program, and it resolves the lock", hint=hint) from None


@dataclass(frozen=True)
class Answer:
    """What the index offers: a PEP 751 document, and yanked packages with the reason given."""

    document: Mapping[str, Any]
    yanked: Mapping[str, str]


def compile_pins(
    target: Target,
    requirements: Sequence[str],
    *options: str,
    overrides: Sequence[str] = (),
    subject: str,
) -> Answer:
    """Let uv resolve `requirements` for `target`; only wheels count.

    `subject` says in a message what was asked for. The user's own uv settings hold; those of a
    project that happens to surround us do not, since uv looks for them from its working directory
    upwards.

    Raises:
        OutsideTrouble: the index could not be reached.
        Refusal: there is no solution; uv's own lines are the details.
    """
    with tempfile.TemporaryDirectory(prefix="sm121-lock-") as directory:
        place = Path(directory)
        asked, replaced, answer = place / "asked.in", place / "overrides.in", place / "pylock.toml"
        asked.write_text("".join(f"{r}\n" for r in requirements), encoding="utf-8", newline="\n")
        replaced.write_text("".join(f"{r}\n" for r in overrides), encoding="utf-8", newline="\n")
        command = [
            *(find_uv(), "pip", "compile", str(asked)),
            *(("--override", str(replaced)) if overrides else ()),
            *("--python-version", target.python, "--python-platform", uv_platform(target)),
            # otherwise uv downloads an interpreter of the target's version, to build what it never
            # builds here
            *("--only-binary", ":all:", "--no-python-downloads", *options),
            *("--no-header", "--format", "pylock.toml", "--output-file", str(answer)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=place
        )
        said = [line.rstrip() for line in done.stderr.splitlines() if line.strip()]
        lines = list(dropwhile(lambda line: not line.startswith("error:"), said)) or said
        if done.returncode == _NO_SOLUTION:
            hint = "change the requirements or the overrides of the lock"
            raise Refusal(f"uv finds no solution for {subject}", hint=hint, details=lines)
        if _USAGE.search(done.stderr):
            raise Refusal(f"uv does not take what it is given for {subject}", details=lines)
        if done.returncode != 0:
            hint = "check the network and the index that uv is configured for, then run this again"
            message = f"uv could not ask the index for {subject}"
            raise OutsideTrouble(message, hint=hint, details=lines)
        document = tomllib.loads(answer.read_text(encoding="utf-8"))
    yanked = {
        str(canonicalize_name(y["name"])): y["reason"] or "" for y in _YANKED.finditer(done.stderr)
    }
    return Answer(document, yanked)


def uv_platform(target: Target) -> str:
    """The name that uv has for the target's platform."""
    return "{}-manylinux_{}_{}".format(target.machine, *target.glibc)


def resolve(
    target: Target,
    requirements: Sequence[str],
    overrides: Sequence[str],
    *,
    exclude_newer: str,
    newer: Mapping[str, str] | None = None,
    dependencies: bool = True,
    subject: str,
) -> dict[str, LockedWheel]:
    """The wheels that satisfy `requirements` on `target`, by normalized name.

    `overrides` replace whatever any package asks for (extras included). `newer` gives single
    packages a later moment than `exclude_newer`. Without `dependencies` only what is asked for is
    looked up.

    Raises:
        OutsideTrouble: the index could not be reached.
        Refusal: there is no solution, or a package has no wheel for the target.
    """
    answer = compile_pins(
        target,
        requirements,
        f"--exclude-newer={exclude_newer}",
        *(f"--exclude-newer-package={name}={moment}" for name, moment in (newer or {}).items()),
        *(() if dependencies else ("--no-deps",)),
        overrides=overrides,
        subject=subject,
    )
    return wheels_of(answer.document, target, subject=subject)


def wheels_of(
    document: Mapping[str, Any], target: Target, *, subject: str
) -> dict[str, LockedWheel]:
    """The best wheel of every package of a PEP 751 document that `target` selects.

    Raises:
        Refusal: packages without a wheel for the target; all of them are named.
    """
    fits = create_compatible_tags_selector(target.tags())
    environment = target.environment()
    chosen: dict[str, LockedWheel] = {}
    without = []
    for package in document.get("packages", []):
        name, version = package["name"], package["version"]
        if (marker := package.get("marker")) and not Marker(marker).evaluate(environment):
            continue
        files = []
        for wheel in package.get("wheels", []):
            filename = wheel.get("name") or wheel["url"].rpartition("/")[2].replace("%2B", "+")
            found = LockedWheel(
                name, version, filename, wheel.get("size"), wheel["hashes"]["sha256"]
            )
            files.append((found, parse_wheel_filename(filename)[3]))
        if (best := next(fits(files), None)) is None:
            without.append(f"{name} {version}: {len(files)} wheels, none fits")
        else:
            chosen[name] = best
    if without:
        place = f"{uv_platform(target)}, Python {target.python}"
        raise Refusal(f"no wheel for {place} in {subject}", details=without)
    return chosen
