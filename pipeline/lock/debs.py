"""Resolution of .deb packages by apt, isolated from the packages and the settings of the host.

The mirror is the user's own: `--debian-mirror`, or the one that the host's apt is configured for.
Only the suite itself is asked, neither updates nor security: its last point release is final, so
nothing of it ever vanishes. Architecture, sources, status and caches are our own, so any Debian
resolves for any other machine, without root.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from pipeline.debs.fetch import apt_archives
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock.model import LockedDeb

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# one line of `apt-get install --print-uris`: 'URI' file size HASH:hex
_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")


def _mirror(named: str) -> str:
    """Root of the mirror: the one that is named, otherwise that of the host's own apt."""
    if shutil.which("apt-get") is None:
        hint = "run this on Debian or Ubuntu, or in a container of theirs"
        raise OutsideTrouble("there is no apt here, and it reads Debian's archive", hint=hint)
    if found := [named] if named else apt_archives():
        return found[0]
    hint = "give a mirror of Debian's archive: --debian-mirror URL (the URL that holds pool/)"
    raise OutsideTrouble("apt is configured for no archive of Debian", hint=hint)


def resolve_debs(
    suite: str, platform: str, packages: Sequence[str], *, mirror: str = ""
) -> list[LockedDeb]:
    """The closure of the essential packages of `suite` and of `packages`, sorted by name.

    Without recommendations. `mirror` "" is the host's own.

    Raises:
        OutsideTrouble: no apt, no mirror, or it cannot be reached.
        Refusal: apt finds no solution.
    """
    with _apt(suite, platform, mirror) as apt:
        wanted = sorted({*apt.essential(), *packages})
        return sorted(apt.closure(wanted))


def offered(suite: str, platform: str, *, mirror: str = "") -> frozenset[tuple[str, str]]:
    """(pool path, sha256) of every .deb that the mirror has of `suite` now.

    Raises:
        OutsideTrouble: no apt, no mirror, or it cannot be reached.
    """
    with _apt(suite, platform, mirror) as apt:
        return frozenset(
            (fields["Filename"], fields["SHA256"])
            for fields in apt.available()
            if "Filename" in fields and "SHA256" in fields
        )


@contextlib.contextmanager
def _apt(suite: str, platform: str, mirror: str) -> Iterator[_Apt]:
    """apt with its lists of `suite` downloaded."""
    archive = _mirror(mirror)
    with tempfile.TemporaryDirectory(prefix="sm121-apt-") as directory:
        # apt drops its rights while it downloads and must still reach its lists
        Path(directory).chmod(0o755)
        apt = _Apt(Path(directory), suite, platform.partition("/")[2], archive)
        apt.update()
        yield apt


class _Apt:
    """apt with its own directories."""

    def __init__(self, root: Path, suite: str, architecture: str, mirror: str):
        for name in ("lists/partial", "cache/archives/partial"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        signed = f" signed-by={_KEYRING}" if _KEYRING.exists() else ""
        source = f"deb [arch={architecture}{signed}] {mirror} {suite} main\n"
        (root / "sources.list").write_text(source, encoding="utf-8", newline="\n")
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Install-Recommends": "false",
            "Acquire::ForceHash": "SHA256",  # otherwise --print-uris prints MD5
            "Acquire::Languages": "none",
            "Dir::Cache": root / "cache",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": root,
            "Dir::State::lists": root / "lists",
            "Dir::State::status": root / "status",
        }
        self.options = [part for k, v in settings.items() for part in ("-o", f"{k}={v}")]
        self.subject = f"Debian {suite} {architecture}"

    def update(self) -> None:
        # without this, apt says only "warning" when a list cannot be had
        strict = ["-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=3"]
        _run(["apt-get", *self.options, *strict, "-qq", "update"], self.subject)

    def essential(self) -> Iterator[str]:
        """Names of the packages that are marked essential."""
        for fields in self.available():
            if fields.get("Essential") == "yes":
                yield fields["Package"]

    def available(self) -> Iterator[dict[str, str]]:
        """The fields of every package that the lists hold; of folded ones the first line."""
        everything = _run(["apt-cache", *self.options, "dumpavail"], self.subject)
        for paragraph in everything.split("\n\n"):
            pairs = (line.partition(": ") for line in paragraph.splitlines() if line[:1] != " ")
            if fields := {key: value for key, _, value in pairs}:
                yield fields

    def closure(self, wanted: Sequence[str]) -> Iterator[LockedDeb]:
        command = ["apt-get", *self.options, "install", "--print-uris", "-qq", *wanted]
        for line in _run(command, self.subject, refusal=True).splitlines():
            if (found := _URI.match(line)) is None:
                raise OutsideTrouble(f"apt printed a line that is no address: {line}")
            name, version, _ = unquote(found["file"]).removesuffix(".deb").split("_")
            path = "pool/" + unquote(found["uri"]).partition("/pool/")[2]
            yield LockedDeb(name, version, path, int(found["size"]), found["sha256"])


def _run(command: Sequence[str], subject: str, *, refusal: bool = False) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    if done.returncode == 0:
        return done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:", " "))]
    if refusal:
        raise Refusal(f"apt finds no solution for {subject}", details=lines)
    hint = "check the network and the mirror that apt is configured for, then run this again"
    raise OutsideTrouble(f"apt could not read {subject}", hint=hint, details=lines)
