"""Certificates: the bundle's order, names, hash links (made with openssl x509 -subject_hash)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.debs.certificates import STORE, certificates
from pipeline.errors import Refusal

FIXTURES = Path(__file__).parent.parent / "fixtures" / "certificates"
# Subject with outer and doubled spaces, capitals and letters beyond ASCII.
SAME_SUBJECT = "bc51482d"
TWO_VALUED = "2dc4f658"


def pem(name: str) -> bytes:
    return (FIXTURES / f"{name}.crt").read_bytes()


def nodes(files: dict[str, bytes]) -> dict[str, bytes | str | None]:
    return {n.path: n.link or n.data for n in certificates(files)}


def test_bundle_is_the_sorted_concatenation_with_final_newlines() -> None:
    one, two = pem("same-subject-1"), pem("same-subject-2").rstrip(b"\n")
    found = nodes({STORE + "m/b.crt": one, STORE + "m/a.crt": two, STORE + "m/é.crt": one})
    assert found["etc/ssl/certs/ca-certificates.crt"] == two + b"\n" + one + one
    conf = found["etc/ca-certificates.conf"]
    assert isinstance(conf, bytes)
    assert conf.decode().endswith("#\nm/a.crt\nm/b.crt\nm/é.crt\n")


def test_order_is_by_bytes_not_by_locale() -> None:
    found = nodes({STORE + "m/b.crt": pem("same-subject-1"), STORE + "m/Z.crt": pem("two-valued")})
    bundle = found["etc/ssl/certs/ca-certificates.crt"]
    assert bundle == pem("two-valued") + pem("same-subject-1")


def test_links_have_tidy_names() -> None:
    found = nodes({STORE + "m/A (x), y.crt": pem("two-valued")})
    link = found["etc/ssl/certs/A_=x=__y.pem"]
    assert link == "/usr/share/ca-certificates/m/A (x), y.crt"


def test_hash_links_are_numbered_in_the_order_of_names() -> None:
    found = nodes(
        {
            STORE + "m/b.crt": pem("same-subject-1"),
            STORE + "m/a.crt": pem("same-subject-2"),
            STORE + "m/c.crt": pem("two-valued"),
        }
    )
    hashed = {path.removeprefix("etc/ssl/certs/"): link for path, link in found.items()}
    assert hashed[f"{SAME_SUBJECT}.0"] == "a.pem"
    assert hashed[f"{SAME_SUBJECT}.1"] == "b.pem"
    assert hashed[f"{TWO_VALUED}.0"] == "c.pem"


def test_one_certificate_under_two_names_gets_one_hash_link() -> None:
    found = nodes({STORE + f"m/{n}.crt": pem("two-valued") for n in "ab"})
    assert [path for path in found if TWO_VALUED in path] == [f"etc/ssl/certs/{TWO_VALUED}.0"]


def test_nothing_without_certificates() -> None:
    assert nodes({"usr/share/other.crt": b"x", STORE + "m/readme": b"x"}) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no certificate",
        b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMAMBAQA=\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMIIB\n",
    ],
)
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(Refusal, match=r"a\.pem: no (PEM|X\.509) certificate"):
        nodes({STORE + "m/a.crt": data})
