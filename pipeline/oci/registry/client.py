"""One repository of a registry: manifests, blobs, tags (OCI distribution-spec 1.1).

Whatever is read is held against its digest before anybody sees it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from urllib.parse import urljoin

import requests

from pipeline.documents import Malformed, parse_json
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.oci.image import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, sha256
from pipeline.oci.references import Reference
from pipeline.oci.registry.authority import Authority, Denied, Grant, Scope
from pipeline.oci.registry.piece import Piece
from pipeline.oci.registry.urls import same_origin
from pipeline.oci.registry.wire import Wire, read_at_most

MANIFEST_TYPES = (
    MEDIA_TYPE_MANIFEST,
    MEDIA_TYPE_INDEX,
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MAX_MANIFEST = 4 * 1024 * 1024  # distribution-spec, "Pushing Manifests": more need not be taken
_ACCEPTED = {"Accept": ", ".join(MANIFEST_TYPES)}
_PAGES = 1000


class Repository:
    """A repository, asked with the rights to pull, or to pull and push. Threads may share it."""

    def __init__(self, reference: Reference, wire: Wire | None = None, *, push: bool = False):
        self.reference = reference.at()
        self.wire = wire or Wire()
        self._authority = Authority(reference, self.wire)
        self._actions = "pull,push" if push else "pull"
        self._lock = threading.Lock()
        self._base = ""

    @property
    def scope(self) -> Scope:
        """The right that every request asks for."""
        return Scope(self.reference.repository, self._actions)

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Piece | None = None,
        also: Collection[Scope] = (),
        again: Callable[[], None] = lambda: None,
    ) -> requests.Response:
        """Send a request to a path below the repository, or a whole URL that the registry gave.

        `also` are scopes beside our own, `again` is called before another try. A 401 is answered
        once, with a new token.
        """
        base = self.url
        url = urljoin(base, path)
        ours = same_origin(url, base)
        scopes = (self.scope, *also)
        used = self._authority.grant(scopes) if ours else Grant("")
        answer = self.wire.request(
            method, url, authorization=used.header, headers=headers, body=body, again=again
        )
        # A body that is a Piece has been read: whoever sends one begins again by itself.
        if answer.status_code == 401 and ours and not isinstance(body, Piece):
            fresh = self._authority.challenged(answer, scopes, used)
            if fresh is not None:
                answer.close()
                answer = self.wire.request(
                    method, url, authorization=fresh.header, headers=headers, body=body, again=again
                )
        return answer

    @property
    def url(self) -> str:
        """Return the URL of the repository; of this machine's registries, TLS or not is tried."""
        with self._lock:
            if not self._base:
                host, scheme = self.reference.api_host, "https"
                if self.reference.is_loopback:
                    status = self._probe(f"http://{host}/v2/")
                    # A server that wants TLS says 400, if anything; one that is slow says nothing.
                    plain = status != 400 if status else not self._speaks_tls(host)
                    scheme = "http" if plain else "https"
                self._base = f"{scheme}://{host}/v2/{self.reference.repository}/"
            return self._base

    def _probe(self, url: str) -> int:
        """Return the status of an answer, 0 when there is none that means anything."""
        try:
            with self.wire.request("GET", url, tries=1) as answer:
                if answer.status_code == 401:
                    self._authority.learn(answer)
                return answer.status_code
        except OutsideTrouble:
            return 0

    def _speaks_tls(self, host: str) -> bool:
        """Whether a server of this machine speaks TLS, as far as it says anything at all."""
        try:
            with self.wire.request("GET", f"https://{host}/v2/", tries=1):
                return True
        except OutsideTrouble as error:
            # What OpenSSL says of an answer that is no TLS.
            return "wrong version number" not in error.message.lower().replace("_", " ")

    def fail(self, answer: requests.Response, what: str) -> OutsideTrouble:
        """Return the error for an answer that says no; closes it."""
        with answer:
            said = self.wire.describe(answer)
        registry, repository = self.reference.registry, self.reference.repository
        if answer.status_code in (401, 403):
            action = "push" if self._actions != "pull" else "pull"
            return Denied(
                f"{registry} denied {action} on {repository} ({what}): {said}",
                hint=f"docker login {registry}"
                if self._authority.is_anonymous
                else f"these credentials may not {action} there; ask for the right, or log in anew",
            )
        return OutsideTrouble(f"{registry}/{repository}: {what}: {said}", hint="try again later")

    def manifest(self, reference: Reference) -> tuple[bytes, str] | None:
        """Return a manifest or index by digest, or by tag, and its digest; None if it is not there.

        Raises Refusal for other bytes than asked for, OutsideTrouble.
        """
        wanted = reference.digest or reference.tag or "latest"
        came = self._get(f"manifests/{wanted}", f"manifest {wanted}", _ACCEPTED)
        if came is None:
            return None
        data, answer = came
        found = sha256(data)
        expected = reference.digest or answer.headers.get("Docker-Content-Digest", "")
        if expected.startswith("sha256:") and found != expected:
            raise self._mismatch(f"manifest {expected}", found)
        return data, found

    def digest_of(self, tag: str) -> str:
        """Return the digest that a tag has now; "" if there is no such tag, or none is said."""
        answer = self.send("HEAD", f"manifests/{tag}", headers=_ACCEPTED)
        with answer:
            if answer.status_code == 404:
                return ""
            if answer.status_code != 200:
                raise self.fail(answer, f"tag {tag}")
            return answer.headers.get("Docker-Content-Digest", "")

    def put_manifest(self, data: bytes, media_type: str) -> str:
        """Store a manifest under its digest, read it back, and return the digest."""
        digest = sha256(data)
        self._put(digest, data, media_type)
        again = self.manifest(self.reference.at(digest=digest))
        if again is None or again[0] != data:
            raise OutsideTrouble(
                f"{self.reference.name}: the manifest was taken, but cannot be read back",
                hint="try again; nothing points to it",
            )
        return digest

    def put_tag(
        self, tag: str, data: bytes, media_type: str, check: Callable[[], None] = lambda: None
    ) -> None:
        """Let a tag name a manifest. Whoever writes one reads it before and after.

        `check` is called when the registry wants another try: minutes may have gone by, and the
        tag may be somebody else's by then.
        """
        self._put(tag, data, media_type, check)

    def _put(
        self, name: str, data: bytes, media_type: str, again: Callable[[], None] = lambda: None
    ) -> None:
        answer = self.send(
            "PUT",
            f"manifests/{name}",
            headers={"Content-Type": media_type},
            body=data,
            again=again,
        )
        if answer.status_code != 201:
            raise self.fail(answer, f"manifest {name}")
        answer.close()

    def blob_size(self, digest: str) -> int | None:
        """Return the size of a blob; None if the repository does not have it."""
        with self.send("HEAD", f"blobs/{digest}") as answer:
            if answer.status_code == 404:
                return None
            if answer.status_code != 200:
                raise self.fail(answer, f"blob {digest}")
            said = answer.headers.get("Docker-Content-Digest", digest)
            size = answer.headers.get("Content-Length", "")
            return int(size) if said == digest and size.isdigit() else None

    def blob(self, digest: str, start: int = 0, end: int | None = None) -> requests.Response:
        """Open a blob from `start` on, up to `end` (exclusive); the body is unverified.

        The answer is 206 with the part, 200 with all of it, or 416. Raises Refusal without it.
        """
        headers = {}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        answer = self.send("GET", f"blobs/{digest}", headers=headers)
        if answer.status_code == 404:
            answer.close()
            raise self._gone(digest)
        if answer.status_code not in (200, 206, 416):
            raise self.fail(answer, f"blob {digest}")
        self._no_page(answer, f"blob {digest}")
        return answer

    def blob_bytes(self, digest: str, size: int) -> bytes:
        """Return a small blob (a config) after holding it against digest and size."""
        came = self._get(f"blobs/{digest}", f"blob {digest}")
        if came is None:
            raise self._gone(digest)
        data, _ = came
        if sha256(data) != digest or len(data) != size:
            raise self._mismatch(f"blob {digest} of {size} bytes", f"{sha256(data)}, {len(data)}")
        return data

    def tags(self) -> Iterator[str]:
        """Yield every tag, page by page (distribution-spec, "Listing Tags")."""
        path = "tags/list"
        for _ in range(_PAGES):
            came = self._get(path, "tags")
            if came is None:
                return
            data, answer = came
            try:
                tags = parse_json(data)["tags"] or []
                yield from [str(tag) for tag in tags]
            except (Malformed, KeyError, TypeError) as error:
                raise OutsideTrouble(
                    f"{self.reference.name}: the list of tags is none",
                    hint="a proxy or a login page may stand in between",
                ) from error
            following = answer.links.get("next", {}).get("url")
            if not following:
                return
            path = urljoin(answer.url, following)
        raise OutsideTrouble(f"{self.reference.name}: the list of tags has no end")

    def _get(
        self, path: str, what: str, headers: Mapping[str, str] | None = None
    ) -> tuple[bytes, requests.Response] | None:
        """Return a small document and its answer, whose body is read; None for a 404."""
        for left in reversed(range(self.wire.patience.tries)):
            answer = self.send("GET", path, headers=headers)
            with answer:
                if answer.status_code == 404:
                    return None
                if answer.status_code != 200:
                    raise self.fail(answer, what)
                self._no_page(answer, what)
                try:
                    data = read_at_most(answer, MAX_MANIFEST + 1)
                except requests.RequestException as error:
                    if not left:
                        raise OutsideTrouble(
                            f"{self.reference.name}: {what} broke off", hint="try again later"
                        ) from error
                    continue
            if len(data) > MAX_MANIFEST:
                raise Refusal(f"{self.reference.name}: {what} has more than {MAX_MANIFEST} bytes")
            return data, answer
        raise AssertionError("no tries")

    def _gone(self, digest: str) -> Refusal:
        return Refusal(
            f"digest-gone: {self.reference.name} has no blob {digest}",
            hint="nothing else is taken in its place",
        )

    def _mismatch(self, asked: str, came: str) -> Refusal:
        return Refusal(
            f"digest-mismatch: {self.reference.name}: {asked} was asked for, {came} came",
            hint="nothing of it was used; ask whoever runs the registry",
        )

    def _no_page(self, answer: requests.Response, what: str) -> None:
        """Refuse a web page: it is no blob with other bytes, but no answer of a registry."""
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            answer.close()
            raise OutsideTrouble(
                f"{self.reference.name}: {what}: a web page came",
                hint="a proxy or a login page stands in between",
            )
