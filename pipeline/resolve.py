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
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.tags import create_compatible_tags_selector
from packaging.utils import parse_wheel_filename

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock.model import LockedWheel
from pipeline.lock.target import Target

# What uv says when the index did not do its part, as against "no solution".
_OUTSIDE = re.compile(
    r"failed to fetch|error sending request|network|connection|dns|timed? ?out|tls|certificate"
    r"|50[0234] |could not connect|offline",
    re.IGNORECASE,
)


def find_uv() -> str:
    """Path of uv, which is a dependency of this program.

    Raises:
        OutsideTrouble: it is not installed.
    """
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        hint = "install it: python -m pip install uv"
        raise OutsideTrouble("uv is not installed, and it resolves the lock", hint=hint) from None


def run_uv(arguments: Sequence[str], *, subject: str, directory: Path) -> None:
    """Run uv in `directory`; `subject` says in a message what it was asked for.

    The user's own uv settings hold; those of a project that happens to surround us do not, since
    uv looks for them from its working directory upwards.

    Raises:
        OutsideTrouble: the index could not be reached.
        Refusal: uv refused; its own lines are the details.
    """
    done = subprocess.run(
        [find_uv(), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=directory,
    )
    if done.returncode == 0:
        return
    lines = [line.rstrip() for line in done.stderr.splitlines() if line.strip()]
    if _OUTSIDE.search(done.stderr):
        hint = "check the network and the index that uv is configured for, then run this again"
        raise OutsideTrouble(
            f"uv could not reach the index for {subject}", hint=hint, details=lines
        )
    hint = "change the requirements or the overrides of the lock"
    raise Refusal(f"uv finds no solution for {subject}", hint=hint, details=lines)


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
    with tempfile.TemporaryDirectory(prefix="sm121-lock-") as directory:
        place = Path(directory)
        asked, replaced, answer = place / "asked.in", place / "overrides.txt", place / "pylock.toml"
        asked.write_text("".join(f"{r}\n" for r in requirements), encoding="utf-8", newline="\n")
        replaced.write_text("".join(f"{r}\n" for r in overrides), encoding="utf-8", newline="\n")
        run_uv(
            [
                *("pip", "compile", str(asked), "--override", str(replaced)),
                *("--python-version", target.python, "--python-platform", target.uv_platform),
                *("--only-binary", ":all:", "--exclude-newer", exclude_newer),
                *(f"--exclude-newer-package={n}={moment}" for n, moment in (newer or {}).items()),
                *(() if dependencies else ("--no-deps",)),
                *("--no-header", "--quiet", "--format", "pylock.toml"),
                *("--output-file", str(answer)),
            ],
            subject=subject,
            directory=place,
        )
        document = tomllib.loads(answer.read_text(encoding="utf-8"))
    return wheels_of(document, target, subject=subject)


def wheels_of(
    document: Mapping[str, Any], target: Target, *, subject: str
) -> dict[str, LockedWheel]:
    """The best wheel of every package of a PEP 751 document that `target` selects.

    Raises:
        Refusal: packages without a wheel for the target; all of them are named.
    """
    fits = create_compatible_tags_selector(target.tags())
    environment = {k: v for k, v in target.environment().items() if isinstance(v, str)}
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
        place = f"{target.platform}, Python {target.python}, glibc {target.glibc}"
        raise Refusal(f"no wheel for {place} in {subject}", details=without)
    return chosen
