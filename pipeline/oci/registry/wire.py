"""Requests over HTTP: bounded retries, timeouts, proxies, certificates, redirects.

What is sent to one host stays there: a redirect to another host, or from TLS to plain HTTP, loses
the Authorization header. Proxies and certificates are those of the environment (HTTPS_PROXY,
NO_PROXY, REQUESTS_CA_BUNDLE, SSL_CERT_FILE), and of `certs.d` as Docker and podman have it.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter

from pipeline.documents import Malformed, parse_json
from pipeline.errors import OutsideTrouble
from pipeline.oci.registry.piece import Piece
from pipeline.oci.registry.urls import certificates, is_loopback, same_origin, without_query

RETRIED = (408, 425, 429, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_ERROR_BODY = 64 * 1024
_BLOCK = 1 << 20


class Stopped(Exception):
    """The whole transfer has been stopped; never seen by a user."""


class Secrets:
    """Texts that no message may hold."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def add(self, *texts: str) -> None:
        """Learn secrets; short ones too, but nothing empty."""
        self._texts.update(text for text in texts if text)

    def scrub(self, text: str) -> str:
        """Return the text without any secret."""
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True)
class Patience:
    """How long to wait: seconds to connect, between two reads, and in all between tries."""

    connect: float = 15
    read: float = 60
    tries: int = 5
    first_pause: float = 0.5
    all_pauses: float = 120


@dataclass
class Wire:
    """Sends requests; threads may share it. `stop` ends every wait."""

    patience: Patience = field(default_factory=Patience)
    secrets: Secrets = field(default_factory=Secrets)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._session = requests.Session()
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(pool_connections=8, pool_maxsize=16)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)
        self._session.headers.update({"User-Agent": "sm121-chain", "Accept-Encoding": "identity"})

    def check(self) -> None:
        """Raise Stopped once the transfer has been stopped."""
        if self.stop.is_set():
            raise Stopped

    def request(
        self,
        method: str,
        url: str,
        *,
        authorization: str = "",
        headers: Mapping[str, str] | None = None,
        body: bytes | Piece | None = None,
        form: Mapping[str, str] | None = None,
        tries: int | None = None,
        again: Callable[[], None] = lambda: None,
    ) -> requests.Response:
        """Send a request and return the answer, its body unread, whatever its status.

        What may pass is tried again, after `again` was called, which may raise; a Piece is sent
        once. Raises OutsideTrouble when there is no answer, or still one of those that ask for
        another try.
        """
        left = 1 if isinstance(body, Piece) else tries or self.patience.tries
        pause, waited = self.patience.first_pause, 0.0
        what = f"{method} {without_query(url)}"
        while True:
            left -= 1
            self.check()
            asked = 0.0
            try:
                answer = self._follow(method, url, authorization, headers or {}, body, form)
            except requests.RequestException as error:
                problem = f"{what}: {self.secrets.scrub(_reason(error))}"
                if not left or isinstance(error, _HOPELESS):
                    raise self._trouble(problem, error) from error
            else:
                if answer.status_code not in RETRIED or isinstance(body, Piece):
                    return answer
                problem = f"{what}: {self.describe(answer)}"
                asked = _retry_after(answer)
                answer.close()
            delay = max(pause, asked)
            if not left or waited + delay > self.patience.all_pauses:
                if asked > self.patience.all_pauses:
                    problem += f"; it asks for a pause of {asked:.0f} s"
                raise OutsideTrouble(problem, hint="try again later")
            if self.stop.wait(delay):
                raise Stopped
            waited += delay
            pause *= 2
            again()

    def _follow(
        self,
        method: str,
        url: str,
        authorization: str,
        headers: Mapping[str, str],
        body: bytes | Piece | None,
        form: Mapping[str, str] | None,
    ) -> requests.Response:
        first = url
        for _ in range(_MAX_REDIRECTS):
            sent = dict(headers)
            if authorization and same_origin(url, first):
                sent["Authorization"] = authorization
            answer = self._session.request(
                method,
                url,
                headers=sent,
                data=body if form is None else form,
                auth=_as_it_is,
                stream=True,
                allow_redirects=False,
                timeout=(self.patience.connect, self.patience.read),
                verify=certificates(url),
                proxies={"http": None, "https": None} if is_loopback(url) else None,  # type: ignore[dict-item]
            )
            target = answer.headers.get("Location", "")
            if answer.status_code not in _REDIRECTS or method not in ("GET", "HEAD") or not target:
                return answer
            answer.close()
            following = urljoin(url, target)
            if url.startswith("https:") and not following.startswith("https:"):
                raise requests.exceptions.InvalidURL("it redirects from TLS to plain HTTP")
            url = following
        raise requests.TooManyRedirects(f"more than {_MAX_REDIRECTS} redirects")

    def describe(self, answer: requests.Response) -> str:
        """Say what a registry's error answer says, without a secret; reads its body."""
        text = f"{answer.status_code} {answer.reason or ''}".strip()
        try:
            data = read_at_most(answer, _MAX_ERROR_BODY)
        except requests.RequestException:
            return text
        try:
            errors = parse_json(data)["errors"]
            said = "; ".join(f"{one.get('code')}: {one.get('message')}" for one in errors)
        except (Malformed, KeyError, TypeError, AttributeError):
            kind = answer.headers.get("Content-Type", "").partition(";")[0]
            said = "a web page: a proxy or a login stands in between" if kind == "text/html" else ""
        return self.secrets.scrub(f"{text} ({said})" if said else text)[:500]

    def _trouble(self, problem: str, error: Exception) -> OutsideTrouble:
        if isinstance(error, requests.exceptions.SSLError):
            hint = "name its CA with SSL_CERT_FILE, or put it into /etc/docker/certs.d/HOST/ca.crt"
        else:
            hint = "look at the name of the registry, the network, and the proxy variables"
        return OutsideTrouble(problem, hint=hint)


_HOPELESS = (
    requests.exceptions.SSLError,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.TooManyRedirects,
)


class _Adapter(HTTPAdapter):
    """urllib3 sends bodies in blocks of 16 KiB unless told otherwise."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, blocksize=_BLOCK, **more)


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keep requests from taking a password out of ~/.netrc."""
    return request


def read_at_most(answer: requests.Response, limit: int) -> bytes:
    """Return the first `limit` bytes of an answer's body."""
    data = b""
    for block in answer.iter_content(64 * 1024):
        data += block
        if len(data) >= limit:
            break
    return data[:limit]


def _retry_after(answer: requests.Response) -> float:
    """Return the seconds that an answer asks to wait (RFC 9110, 10.2.3), 0 if it does not."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0


def _reason(error: Exception) -> str:
    """Return the innermost cause in one line; the libraries' wrapping names whole URLs."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__
