"""WWW-Authenticate as registries write it."""

from pipeline.oci.registry.challenge import Challenge, parse_challenges


def test_challenges() -> None:
    header = 'Bearer realm="https://a/token?x=1,2",service="a b",scope="repository:x:pull,push"'
    assert parse_challenges(header) == [
        Challenge(
            "bearer",
            {
                "realm": "https://a/token?x=1,2",
                "service": "a b",
                "scope": "repository:x:pull,push",
            },
        )
    ]
    assert parse_challenges('Basic realm="a \\"b\\""') == [Challenge("basic", {"realm": 'a "b"'})]
    both = parse_challenges('Basic realm=x, Bearer realm="y", error="invalid_token"')
    assert [one.scheme for one in both] == ["basic", "bearer"]
    assert both[1].parameters["error"] == "invalid_token"
    assert parse_challenges("Negotiate") == parse_challenges("") == []
    assert parse_challenges("basic") == [Challenge("basic", {})]
