"""Image references as Docker reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.oci.references import (
    Reference,
    parse_output,
    parse_pinned,
    parse_reference,
    parse_repository,
)
from tests.cases import expected

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("debian", Reference("docker.io", "library/debian")),
        ("debian:12", Reference("docker.io", "library/debian", "12")),
        ("vllm/vllm-openai:x", Reference("docker.io", "vllm/vllm-openai", "x")),
        ("docker.io/debian", Reference("docker.io", "library/debian")),
        ("index.docker.io/a/b", Reference("docker.io", "a/b")),
        ("localhost/a", Reference("localhost", "a")),
        ("localhost:5000/a", Reference("localhost:5000", "a")),
        ("[::1]:5000/a/b:c", Reference("[::1]:5000", "a/b", "c")),
        ("ghcr.io/a/b/c@" + DIGEST, Reference("ghcr.io", "a/b/c", "", DIGEST)),
        ("registry:5000/a:b@" + DIGEST, Reference("registry:5000", "a", "b", DIGEST)),
        ("Host/a", Reference("Host", "a")),
        ("a/b__c/d--e.f", Reference("docker.io", "a/b__c/d--e.f")),
    ],
)
def test_references(text: str, found: Reference) -> None:
    assert parse_reference(text) == found
    assert parse_reference(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "/", "a/", "/a", "a//b", "-a", "a_", "a___b", "a..b", "a:", "a:-b", "a@", "a@sha512:ab",
     "a b", "ghcr.io", "host.x:/a", "ho_st.x/a", "a:" + "x" * 129, "a/" * 130 + "a", "a:b/c",
     "a@" + DIGEST + "0", "ä", "a\n", "a:b\n"],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    if text == "ghcr.io":  # without a slash it is a name, and dots may stand in one
        assert parse_reference(text).repository == "library/ghcr.io"
        return
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert caught.value.hint


@pytest.mark.parametrize("case", expected("22")["refs"], ids=lambda case: case["ref"])
def test_22_names_are_checked_early(case: dict[str, Any]) -> None:
    parse = parse_pinned if case["use"] == "base" else parse_output
    if case["expect"].startswith("ok"):
        parse(case["ref"])
        return
    said = {
        "not pinned": "not pinned",
        "not pinned (5000 is a port, no tag)": "not pinned",
        "a digest cannot be an output name": "a digest cannot be an output name",
        "capitals in the repository": "capitals in the repository",
        "+ is not allowed in a tag": "+ is not allowed in a tag",
        "digest too short": "the digest is too short",
        "capitals in the digest": "the digest has capitals",
    }[case["expect"].removeprefix("reject: ")]
    with pytest.raises(UsageError) as caught:
        parse(case["ref"])
    assert said in caught.value.message


def test_a_repository_alone_has_no_tag() -> None:
    assert parse_repository("ghcr.io/a/b").name == "ghcr.io/a/b"
    with pytest.raises(UsageError, match="without a tag"):
        parse_repository("ghcr.io/a/b:c")


def test_the_default_registry_answers_at_another_host_and_has_a_key_of_its_own() -> None:
    one = parse_reference("debian")
    assert (one.api_host, one.credentials_key) == (
        "registry-1.docker.io",
        "https://index.docker.io/v1/",
    )
    other = parse_reference("ghcr.io/a/b")
    assert other.api_host == other.credentials_key == "ghcr.io"


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [("localhost:1/a", True), ("127.0.0.1/a", True), ("127.9.0.1:80/a", True), ("[::1]:80/a", True),
     ("[::1]/a", True), ("ghcr.io/a", False), ("10.0.0.1:5000/a", False),
     ("localhost.example.org/a", False)],
)  # fmt: skip
def test_loopback(text: str, is_loopback: bool) -> None:
    assert parse_reference(text).is_loopback is is_loopback


@given(st.text(alphabet="aA0.:/@-_+[]", max_size=40))
def test_any_text_is_a_reference_that_stays_the_same_or_is_refused(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError:
        return
    assert parse_reference(str(found)) == found
