"""What patches are asked about: a release by name and version, a wheel file, or a tree.

A release that the lock names comes from the wheelhouse, or is fetched into it and verified. Any
other is fetched by name and version with the user's own pip settings. The release that a variant
was written for is used for comparison when the lock names it and it is in the wheelhouse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from pipeline.chain import BASES
from pipeline.errors import UsageError
from pipeline.lock.model import Lock, LockedWheel, locked_wheel
from pipeline.patching.evaluate import Read
from pipeline.patching.model import Patch, Variant
from pipeline.patching.sources import Source, open_tree, open_wheel
from pipeline.pins import load_lock, lock_path
from pipeline.progress import progress_on
from pipeline.transfer.fetch import fetch_all
from pipeline.wheels.house import Wheelhouse, default_cache
from pipeline.wheels.release import fetch_release
from pipeline.wheels.target import Target


def add_arguments(parser: argparse.ArgumentParser, *, several: bool) -> None:
    """Declare how targets are named; `several` of them make a matrix."""
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="DIST==VERSION|WHEEL",
        help="a release or a wheel file" + ("; again for more columns" if several else ""),
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="an unpacked tree or environment")
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="whose Python, and wheels")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


@dataclass(frozen=True)
class Targets:
    """Opens what is asked about. `python` is "" for the base's own."""

    line: str
    base: str
    quiet: bool
    python: str

    @classmethod
    def of(cls, args: argparse.Namespace) -> Targets:
        """As the arguments say."""
        return cls(args.line, args.base, args.quiet, args.python or "")

    @cached_property
    def lock(self) -> Lock | None:
        """The lock of the directory; None when there is none and no line is named."""
        path = lock_path(Path.cwd(), self.line)
        return load_lock(path) if self.line or path.exists() else None

    @cached_property
    def target(self) -> Target:
        """Python and platform of the base, or the default ones without a lock."""
        return self.lock.base(self.base).target if self.lock else Target()

    @cached_property
    def house(self) -> Wheelhouse:
        """The wheelhouse of this user."""
        return Wheelhouse(default_cache())

    @property
    def syntax(self) -> str:
        """The Python to judge syntax for: `3.11`."""
        return self.python or "{}.{}".format(*self.target.python_version)

    def wheel(self, against: str) -> tuple[Source, str]:
        """A release or a wheel file, with the canonical name of its distribution.

        Raises UsageError for what is neither, Refusal and OutsideTrouble as fetching does.
        """
        if against.endswith(".whl"):
            return open_wheel(Path(against), self.syntax)
        name, _, text = against.partition("==")
        try:
            name, version = canonicalize_name(name.strip(), validate=True), Version(text)
        except (InvalidVersion, ValueError) as error:
            raise UsageError(
                f"{against!r} is neither a wheel file nor DIST==VERSION", hint="as in vllm==0.30.0"
            ) from error
        locked = self._best(name, version)
        if locked:
            self._bring(locked)
            return open_wheel(self.house.path(locked.sha256), self.syntax, locked.filename)
        progress = progress_on(sys.stderr, quiet=self.quiet)
        release = fetch_release(name, version, self.target, self.house, progress)
        print(f"{name} {version} is not in the lock: sha256 {release.sha256}", file=sys.stderr)
        return open_wheel(self.house.path(release.sha256), self.syntax, release.filename)

    def tree(self, root: Path, patches: Sequence[Patch]) -> Source:
        """The site-packages of an unpacked tree. Raises UsageError."""
        names = {patch.distribution for patch in patches}
        return open_tree(root, names, self.python or None).source()

    def origin(self, patch: Patch, variant: Variant) -> Read | None:
        """Reads the newest locked release that a variant names, if it is in the wheelhouse."""
        name = canonicalize_name(variant.requirement.name)
        if name != patch.distribution:
            return None
        specifier = variant.requirement.specifier
        fitting = [
            Version(wheel.version)
            for wheel in self._locked(name)
            if specifier.contains(wheel.version, prereleases=True)
        ]
        locked = self._best(name, max(fitting)) if fitting else None
        if locked is None:
            return None
        if locked.sha256 not in self._opened:
            read = None
            if self.house.has(locked.sha256, locked.size):
                path = self.house.path(locked.sha256)
                read = open_wheel(path, self.syntax, locked.filename)[0].read
            self._opened[locked.sha256] = read
        return self._opened[locked.sha256]

    @cached_property
    def _opened(self) -> dict[str, Read | None]:
        return {}

    def _locked(self, name: str) -> Iterator[LockedWheel]:
        """Every wheel of a distribution in the lock, whatever base or group it is for."""
        for package in self.lock.pylock.packages if self.lock else ():
            if package.name == name and package.version is not None:
                for wheel in package.wheels or ():
                    yield locked_wheel(package.name, package.version, wheel)

    def _best(self, name: str, version: Version) -> LockedWheel | None:
        """The locked wheel that suits the base, else any: its text is the same."""
        wheels = [w for w in self._locked(name) if Version(w.version) == version]
        tags = set(self.target.tags())
        fitting = [w for w in wheels if tags & parse_wheel_filename(w.filename)[3]]
        return next(iter([*fitting, *wheels]), None)

    def _bring(self, wheel: LockedWheel) -> None:
        assert self.lock is not None
        if not self.house.has(wheel.sha256, wheel.size):
            fetch_all(
                [wheel],
                self.house,
                python=self.target.python,
                dated=f"as of {self.lock.exclude_newer}",
                progress=progress_on(sys.stderr, quiet=self.quiet),
            )
