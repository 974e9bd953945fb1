"""Questions to URLs: whose they are, how safe, which certificates hold for them."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

# Where Docker and podman look for the CA of one registry: <directory>/<host[:port]>/ca.crt.
_CERTIFICATES = ("/etc/docker/certs.d", "/etc/containers/certs.d")


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or (443 if parts.scheme == "https" else 80),
    )


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have one scheme, host and port."""
    return _origin(one) == _origin(other)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def certificates(url: str) -> bool | str:
    """Return the CA file for a host; True for what requests takes by itself."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    for directory in _CERTIFICATES:
        file = Path(directory, host, "ca.crt")
        if file.is_file():
            return str(file)
    chosen = os.environ.get("SSL_CERT_FILE", "")
    if chosen and not os.environ.get("REQUESTS_CA_BUNDLE"):
        return chosen
    return True


def without_query(url: str) -> str:
    """Return a URL as it may be shown: queries hold upload states and signatures."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
