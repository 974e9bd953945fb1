"""Which maintainer scripts are known, and why not running them is right.

Scripts never run. For each package whose install or upgrade script does more than nothing, a
module here makes the same files; a package whose scripts nobody has read is refused, because
what it would have set up would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeline.errors import Refusal

_UPGRADE = "acts on upgrades only"
_SYSTEMD = "only enables units; no init system runs in a container"

KNOWN = {
    "adduser": _UPGRADE,
    "apt": "base-passwd's master has the user _apt; " + _SYSTEMD,
    "base-files": "system.py",
    "base-passwd": "accounts.py",
    "bash": "alternatives.py; /bin/sh is dash's",
    "ca-certificates": "certificates.py",
    "coreutils": "links /usr/bin/touch, which a merged /usr has",
    "cpp": "alternatives.py",
    "dash": "dpkg.py: the diversions of sh",
    "debconf": "loads a database of questions that nobody is asked",
    "debian-archive-keyring": _UPGRADE,
    "debianutils": "alternatives.py, accounts.py",
    "dpkg": _SYSTEMD,
    "g++": "alternatives.py",
    "gcc": "alternatives.py",
    "ibverbs-providers": _UPGRADE,
    "init-system-helpers": _UPGRADE,
    "libc-bin": "system.py, ldcache.py",
    "libc6": "restarts services and checks the running kernel",
    "libcrypt-dev": _UPGRADE,
    "libgcrypt20": _UPGRADE,
    "libgssapi-krb5-2": _UPGRADE,
    "libibverbs1": "accounts.py: the group rdma",
    "libpam-modules": "system.py",
    "libpam-runtime": "pam.py",
    "libpam0g": "restarts services",
    "libpython3.11-minimal": "the package ships the file that the script makes",
    "login": "system.py, accounts.py",
    "mawk": "alternatives.py",
    "openssl": "links /usr/lib/ssl, which the package ships",
    "passwd": "accounts.py",
    "perl-base": _UPGRADE,
    "python3": "system.py; byte code is optional",
    "python3-minimal": "byte code is optional",
    "python3.11": "byte code is optional",
    "python3.11-minimal": "system.py; byte code is optional",
    "readline-common": "system.py",
    "tar": "alternatives.py",
    "tzdata": "system.py",
    "usr-is-merged": "checks that /usr is merged",
    "util-linux": "alternatives.py; " + _SYSTEMD,
    "util-linux-extra": "enables a boot script; no init system runs in a container",
}
"""Package name to what stands for its preinst and postinst."""

_RUN_ON_INSTALL = ("preinst", "postinst")


def check_scripts(package: str, control_files: Collection[str]) -> None:
    """Raise Refusal when a package has an install script that KNOWN does not speak of."""
    unread = [script for script in _RUN_ON_INSTALL if script in control_files]
    if unread and package not in KNOWN:
        raise Refusal(
            f"{package} has scripts that nothing stands for: {', '.join(unread)}",
            hint="read them, make their static equal, then name the package in debs/scripts.py",
        )
