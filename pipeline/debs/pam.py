"""/etc/pam.d/common-*: what pam-auth-update makes of the one profile that is on by default.

The templates of libpam-runtime have a place for each block; profiles are in usr/share/pam-configs
(format: pam-auth-update(8)). Only the profile `unix` is known here, so its lines are a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.debs.nodes import Node
from pipeline.errors import Refusal

TEMPLATES = "usr/share/pam/"
PROFILES = "usr/share/pam-configs/"

_NULL = "[default=1]\t\t\tpam_permit.so"
# Template to: its type, state file, lines of the primary and of the additional block. "end" in a
# control means "jump over what is left of the block", here over nothing: success=1.
_BLOCKS = {
    "common-account": (
        "account",
        "account",
        ["[success=end new_authtok_reqd=done default=ignore]\tpam_unix.so "],
        [],
    ),
    "common-auth": ("auth", "auth", ["[success=end default=ignore]\tpam_unix.so nullok"], []),
    "common-password": (
        "password",
        "password",
        ["[success=end default=ignore]\tpam_unix.so obscure yescrypt"],
        [],
    ),
    "common-session": ("session", "session", [_NULL], ["required\tpam_unix.so "]),
    "common-session-noninteractive": (
        "session",
        "session-noninteractive",
        [_NULL],
        ["required\tpam_unix.so "],
    ),
}


def pam(files: Mapping[str, bytes]) -> Iterator[Node]:
    """Yield the PAM configuration and pam-auth-update's state, if libpam-runtime is there.

    `files` maps merged paths to contents. Raises Refusal for a profile on by default other than
    `unix`.
    """
    profiles = {
        path.removeprefix(PROFILES): files[path].decode("utf-8")
        for path in sorted(files)
        if path.startswith(PROFILES)
    }
    for name, text in profiles.items():
        if "Default: yes" in text.splitlines() and name != "unix":
            raise Refusal(f"PAM profile {name} is on by default, and nothing here writes it")
    for template, (kind, state, primary, additional) in _BLOCKS.items():
        source = files.get(TEMPLATES + template)
        if source is None or "unix" not in profiles:
            continue
        text = source.decode("utf-8")
        for block, lines in (("primary", primary), ("additional", additional)):
            written = "".join(f"{kind}\t{line}\n" for line in lines)
            for variable in (f"${kind}_{block}\n", f"${kind}_nonint_{block}\n"):
                text = text.replace(variable, written.replace("success=end", "success=1"))
        yield Node.file(f"etc/pam.d/{template}", text.encode("utf-8"))
        modules = [("null" if line is _NULL else "unix", line) for line in primary + additional]
        recorded = "".join(f"Module: {name}\n{line.rstrip()}\n" for name, line in modules)
        yield Node.file(f"var/lib/pam/{state}", recorded.encode("utf-8"))
    if "unix" in profiles:
        seen = sorted(profiles, key=lambda name: (name != "unix", name))
        yield Node.file("var/lib/pam/seen", "".join(f"{name}\n" for name in seen).encode())
