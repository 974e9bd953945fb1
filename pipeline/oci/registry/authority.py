"""Tokens and passwords for one registry (distribution/distribution, spec/auth/token.md).

Scopes are our own: what a registry names in a challenge to a mere ping may be a placeholder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import requests

from pipeline.documents import Malformed, parse_json
from pipeline.errors import OutsideTrouble
from pipeline.oci.references import Reference
from pipeline.oci.registry.challenge import Challenge, parse_challenges
from pipeline.oci.registry.credentials import Credentials, find_credentials
from pipeline.oci.registry.urls import is_loopback
from pipeline.oci.registry.wire import Wire, read_at_most

_MAX_TOKEN = 1 << 20
_LEAST_SECONDS = 60  # what a token lasts when its maker does not say
_MARGIN = 10  # seconds before its end at which a token is not used any more


class Denied(OutsideTrouble):
    """The registry does not let us do it: 401 or 403."""


@dataclass(frozen=True, order=True)
class Scope:
    """Actions on a repository: "pull" or "pull,push"."""

    repository: str
    actions: str

    def __str__(self) -> str:
        return f"repository:{self.repository}:{self.actions}"


class Grant(NamedTuple):
    """A value for the Authorization header, "" for none. `is_new`: it was never used before."""

    header: str
    is_new: bool = False


class Authority:
    """Makes the Authorization header for requests to one registry. Threads may share it."""

    def __init__(self, reference: Reference, wire: Wire):
        self._reference = reference
        self._wire = wire
        self._lock = threading.RLock()
        self._challenge: Challenge | None = None
        self._tokens: dict[frozenset[Scope], tuple[str, float]] = {}
        self._credentials: Credentials | None = None
        self._looked = False

    def grant(self, scopes: Collection[Scope]) -> Grant:
        """Return what to send; nothing as long as the registry has asked for nothing."""
        with self._lock:
            if self._challenge is None:
                return Grant("")
            if self._challenge.scheme == "basic":
                credentials = self._own()
                return Grant(credentials.basic if credentials else "")
            key = frozenset(scopes)
            token, end = self._tokens.get(key, ("", 0.0))
            is_new = time.monotonic() >= end
            if is_new:
                token, seconds = self._fetch(self._challenge, sorted(key))
                self._tokens[key] = (token, time.monotonic() + seconds)
            return Grant(f"Bearer {token}", is_new)

    def learn(self, answer: requests.Response) -> bool:
        """Take in what a 401 asks for; False if that is nothing that we can do."""
        challenges = parse_challenges(answer.headers.get("WWW-Authenticate", ""))
        bearer = [one for one in challenges if one.scheme == "bearer"]
        if not challenges:
            return False
        with self._lock:
            self._challenge = (bearer or challenges)[0]
        return True

    def challenged(
        self, answer: requests.Response, scopes: Collection[Scope], used: Grant
    ) -> Grant | None:
        """Return another grant after a 401; None when there is nothing else to try."""
        if used.is_new or not self.learn(answer):
            return None
        with self._lock:
            kept = self._tokens.get(frozenset(scopes))
            if kept and used.header == f"Bearer {kept[0]}":
                del self._tokens[frozenset(scopes)]
            fresh = self.grant(scopes)
            return fresh if fresh.header not in ("", used.header) else None

    @property
    def is_anonymous(self) -> bool:
        """Whether the user has no credentials for this registry."""
        with self._lock:
            return self._own() is None

    def _own(self) -> Credentials | None:
        if not self._looked:
            self._credentials = find_credentials(self._reference)
            self._looked = True
            if self._credentials:
                own = self._credentials
                basic = own.basic.removeprefix("Basic ") if own.user else ""
                self._wire.secrets.add(own.password, own.identity_token, basic)
        return self._credentials

    def _fetch(self, challenge: Challenge, scopes: Collection[Scope]) -> tuple[str, float]:
        realm = challenge.parameters.get("realm", "")
        if not realm.startswith("https://") and not is_loopback(realm):
            raise OutsideTrouble(
                f"{self._reference.registry} names {realm or 'nothing'} as the place of its tokens",
                hint="a password is sent over TLS only",
            )
        own = self._own()
        fields = {"service": challenge.parameters["service"]} if challenge.parameters.get(
            "service"
        ) else {}  # fmt: skip
        if own and own.identity_token:
            form = {
                **fields,
                "grant_type": "refresh_token",
                "client_id": "sm121-chain",
                "scope": " ".join(map(str, scopes)),
                "refresh_token": own.identity_token,
            }
            answer = self._wire.request("POST", realm, form=form)
        else:
            pairs = [*fields.items(), *(("scope", str(scope)) for scope in scopes)]
            joint = "&" if urlsplit(realm).query else "?"
            answer = self._wire.request(
                "GET",
                f"{realm}{joint}{urlencode(pairs)}" if pairs else realm,
                authorization=own.basic if own else "",
            )
        return self._token(answer, scopes)

    def _token(self, answer: requests.Response, scopes: Collection[Scope]) -> tuple[str, float]:
        registry = self._reference.registry
        with answer:
            if answer.status_code in (401, 403):
                raise Denied(
                    f"{registry} gives no token for {' '.join(map(str, scopes))}:"
                    f" {self._wire.describe(answer)}",
                    hint=f"docker login {registry}",
                )
            if answer.status_code != 200:
                raise OutsideTrouble(
                    f"the tokens of {registry}: {self._wire.describe(answer)}",
                    hint="try again later",
                )
            data = read_at_most(answer, _MAX_TOKEN)
        try:
            document = parse_json(data)
            token = document.get("token") or document.get("access_token")
            seconds = float(document.get("expires_in") or _LEAST_SECONDS)
        except (Malformed, AttributeError, ValueError, TypeError) as error:
            raise OutsideTrouble(
                f"the tokens of {registry}: the answer is no token",
                hint="a proxy or a login page may stand in between",
            ) from error
        if not isinstance(token, str) or not token or not token.isascii() or "\n" in token:
            raise OutsideTrouble(f"the tokens of {registry}: the answer holds no token")
        self._wire.secrets.add(token)
        return token, max(seconds - _MARGIN, 1.0)
