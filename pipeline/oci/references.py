"""Image references, with the grammar and the defaults that Docker has given them.

Grammar: distribution/reference ("reference.go", "normalize.go"). A first component is a host when
it has a dot, a colon or a capital, or is `localhost`; otherwise the name is of the default
registry. These defaults stand here and nowhere else.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from pipeline.errors import UsageError

DEFAULT_REGISTRY = "docker.io"
_DEFAULT_API_HOST = "registry-1.docker.io"
_DEFAULT_ALIASES = ("docker.io", "index.docker.io", "registry-1.docker.io")
_DEFAULT_CREDENTIALS = "https://index.docker.io/v1/"
_DEFAULT_NAMESPACE = "library"

_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_LABEL = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_NAME = 255


@dataclass(frozen=True, order=True)
class Reference:
    """An image in a registry: `registry` is host[:port]; tag and digest may be ""."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def api_host(self) -> str:
        """The host[:port] that answers for the registry."""
        return _DEFAULT_API_HOST if self.registry == DEFAULT_REGISTRY else self.registry

    @property
    def credentials_key(self) -> str:
        """What Docker calls this registry in its configuration and to its helpers."""
        return _DEFAULT_CREDENTIALS if self.registry == DEFAULT_REGISTRY else self.registry

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is on this machine, where plain HTTP is good enough."""
        host = self.registry.rpartition(":")[0] if _has_port(self.registry) else self.registry
        try:
            return ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    def at(self, *, tag: str = "", digest: str = "") -> Reference:
        """Return the same repository with another tag or digest."""
        return replace(self, tag=tag, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def parse_reference(text: str) -> Reference:
    """Parse an image reference. Raises UsageError that says which part is wrong, and why."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise _faulty(text, _digest_problem(digest))
    first, slash, remainder = rest.partition("/")
    if slash and (set(first) & set(".:") or first == "localhost" or first != first.lower()):
        registry, path = first, remainder
        if not _HOST.fullmatch(registry):
            raise _faulty(text, f"{registry!r} is no host")
    else:
        registry, path = DEFAULT_REGISTRY, rest
    path, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise _faulty(text, _tag_problem(tag))
    if registry in _DEFAULT_ALIASES:
        registry = DEFAULT_REGISTRY
        path = path if "/" in path else f"{_DEFAULT_NAMESPACE}/{path}"
    if not all(_COMPONENT.fullmatch(part) for part in path.split("/")):
        raise _faulty(text, _path_problem(path))
    if len(registry) + 1 + len(path) > _MAX_NAME:
        raise _faulty(text, f"the name is longer than {_MAX_NAME} characters")
    return Reference(registry, path, tag, digest)


def parse_pinned(text: str) -> Reference:
    """Parse a reference that must name a digest; a tag beside it decides nothing."""
    reference = parse_reference(text)
    if not reference.digest:
        raise UsageError(
            f"{text}: not pinned: it names no digest, and a tag may be moved at any time",
            hint=f"name the manifest: {reference.name}@sha256:…",
        )
    return reference


def parse_output(text: str) -> Reference:
    """Parse the name of something to be written: a repository, perhaps with a tag."""
    reference = parse_reference(text)
    if reference.digest:
        raise UsageError(
            f"{text}: a digest cannot be an output name: it follows from what is written",
            hint=f"name the repository: {reference.name}",
        )
    return reference


def parse_repository(text: str) -> Reference:
    """Parse the name of a repository alone."""
    reference = parse_output(text)
    if reference.tag:
        raise UsageError(
            f"{text}: a repository is wanted, without a tag",
            hint=f"name {reference.name}; tags are moved by the verb `tag`",
        )
    return reference


def _faulty(text: str, problem: str) -> UsageError:
    return UsageError(
        f"{text!r} is no image reference: {problem}",
        hint="a reference is [HOST[:PORT]/]NAME[:TAG][@sha256:HEX]",
    )


def _digest_problem(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256":
        return f"the digest {digest!r} is not sha256:<64 hex digits>"
    if re.fullmatch(r"[0-9a-fA-F]{64}", value):
        return "the digest has capitals"
    if re.fullmatch(r"[0-9a-fA-F]*", value):
        return f"the digest is too {'short' if len(value) < 64 else 'long'}"
    return f"the digest {digest!r} is not sha256:<64 hex digits>"


def _tag_problem(tag: str) -> str:
    if "+" in tag:
        return f"+ is not allowed in a tag ({tag}), although a local version has one"
    return f"{tag!r} is no tag: letters, digits, '_', '.', '-', at most 128"


def _path_problem(path: str) -> str:
    if path != path.lower():
        return f"capitals in the repository {path!r}"
    return f"{path!r} is no repository: lower-case letters and digits, joined by '.', '_', '-', '/'"
