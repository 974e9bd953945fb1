"""Who we are to a registry: Docker's own configuration, and its credential helpers.

Format: docker/cli "config.json" (`auths`, `credsStore`, `credHelpers`) and the protocol of
docker-credential-helpers: the server on stdin, a JSON object on stdout.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.documents import Malformed, parse_json
from pipeline.errors import OutsideTrouble, UsageError
from pipeline.oci.references import Reference

_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKEN_USER = "<token>"  # what a helper says in place of a user for an identity token
_NOT_FOUND = "credentials not found"
_SECONDS = 30


@dataclass(frozen=True)
class Credentials:
    """A user with a password, or an identity token; never shown."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of a Basic Authorization header (RFC 7617)."""
        pair = f"{self.user}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode("ascii")


def find_credentials(reference: Reference) -> Credentials | None:
    """Return the user's credentials for a registry, None without any.

    A helper of that registry is asked first, then the store, then what stands in the file itself.
    Raises UsageError for a faulty file, OutsideTrouble for a helper that does not work.
    """
    file = _config_file()
    config = _read(file)
    key = reference.credentials_key
    helpers = _table(config, "credHelpers", file)
    helper = helpers.get(key) or helpers.get(reference.registry) or config.get("credsStore")
    if helper:
        found = _ask(str(helper), key)
        if found:
            return found
    auths = _table(config, "auths", file)
    for name in (key, reference.registry, *auths):
        entry = auths.get(name)
        if isinstance(entry, dict) and _host(name) == _host(key):
            found = _from_entry(entry, name, file)
            if found:
                return found
    return None


def _config_file() -> Path:
    directory = os.environ.get("DOCKER_CONFIG")
    return (Path(directory) if directory else Path.home() / ".docker") / "config.json"


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = parse_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OutsideTrouble(f"{file}: {error.strerror}") from error
    except Malformed as error:
        raise UsageError(f"{file}: {error}", hint="mend or remove it") from error
    if not isinstance(document, dict):
        raise UsageError(f"{file}: no JSON object", hint="mend or remove it")
    return document


def _table(config: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{file}: {key} is no object", hint="mend or remove it")
    return value


def _host(name: str) -> str:
    """Return the host of a key of `auths`, which may be a whole URL."""
    return name.partition("://")[2].partition("/")[0] if "://" in name else name.partition("/")[0]


def _from_entry(entry: Mapping[str, Any], name: str, file: Path) -> Credentials | None:
    if token := entry.get("identitytoken"):
        return Credentials(identity_token=str(token))
    if packed := entry.get("auth"):
        try:
            pair = base64.b64decode(str(packed), validate=True).decode("utf-8").rstrip("\0")
        except (binascii.Error, ValueError) as error:
            raise UsageError(
                f"{file}: auths.{name}.auth is not base64", hint="log in again"
            ) from error
        user, colon, password = pair.partition(":")
        if not colon:
            raise UsageError(f"{file}: auths.{name}.auth holds no user", hint="log in again")
        return Credentials(user, password)
    if entry.get("username"):
        return Credentials(str(entry["username"]), str(entry.get("password", "")))
    return None


def _ask(helper: str, server: str) -> Credentials | None:
    """Ask a helper; its own words are not passed on, as they may hold a secret."""
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise UsageError(f"{helper!r} is no name of a credential helper")
    try:
        done = subprocess.run(
            [program, "get"], input=server, capture_output=True, text=True, timeout=_SECONDS
        )
    except FileNotFoundError as error:
        raise OutsideTrouble(
            f"the credential helper {program} is not installed",
            hint="install it, or take it out of Docker's config.json",
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OutsideTrouble(f"the credential helper {program} does not answer") from error
    if done.returncode:
        if _NOT_FOUND in (done.stdout + done.stderr).lower():
            return None
        raise OutsideTrouble(
            f"the credential helper {program} failed for {server} (status {done.returncode})",
            hint=f"try: echo {server} | {program} get",
        )
    try:
        answer = parse_json(done.stdout.encode())
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (Malformed, KeyError, TypeError) as error:
        raise OutsideTrouble(f"the credential helper {program} gave no credentials") from error
    if user == _TOKEN_USER:
        return Credentials(identity_token=secret)
    return Credentials(user, secret) if user or secret else None
