"""Resolution of .deb packages by apt, isolated from the packages and the settings of the host.

The mirror is the user's own: the first `main` component that the host's apt, or `--debian-mirror`,
has for Debian. Only the suite itself is asked, neither updates nor security: its last point release
is final, so nothing of it ever vanishes. Architecture, sources, status and caches are our own, so
any Debian resolves for any other machine, without root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock.model import LockedDeb

ARCHITECTURES = {"linux/amd64": "amd64", "linux/arm64": "arm64"}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# one line of `apt-get install --print-uris`: 'URI' file size HASH:hex
_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")


def find_mirror() -> str:
    """Root of the Debian mirror that the host's apt is configured for.

    Raises:
        OutsideTrouble: there is no apt, or it has no Debian mirror.
    """
    hint = "name one: --debian-mirror URL"
    if shutil.which("apt-get") is None:
        raise OutsideTrouble("apt is not installed, and it resolves the .deb list", hint=hint)
    form = "$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)"
    targets = _run(["apt-get", "indextargets", "--format", form], "apt's own sources")
    for line in sorted(set(targets.splitlines())):
        origin, component, codename, uri = line.split("|", 3)
        if (origin, component) == ("Debian", "main") and "-" not in codename:
            return uri
    raise OutsideTrouble("apt is configured for no Debian mirror", hint=hint)


def resolve_debs(
    suite: str, platform: str, packages: Sequence[str], *, mirror: str = ""
) -> list[LockedDeb]:
    """The closure of the essential packages of `suite` and of `packages`, sorted by name.

    Without recommendations. `mirror` "" is the host's own.

    Raises:
        OutsideTrouble: no apt, no mirror, or it cannot be reached.
        Refusal: apt finds no solution.
    """
    with tempfile.TemporaryDirectory(prefix="sm121-apt-") as directory:
        # apt drops its rights while it downloads and must still reach its lists
        Path(directory).chmod(0o755)
        apt = _Apt(Path(directory), suite, ARCHITECTURES[platform], mirror or find_mirror())
        apt.update()
        wanted = sorted({*apt.essential(), *packages})
        return sorted(apt.closure(wanted))


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
        everything = _run(["apt-cache", *self.options, "dumpavail"], self.subject)
        for paragraph in everything.split("\n\n"):
            if "\nEssential: yes\n" in f"{paragraph}\n":
                yield paragraph.partition("Package: ")[2].partition("\n")[0]

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
