"""Upstream tests on a release that no variant names: they follow a scope that has moved.

A test says in which scope of which file the fix shows. When that scope is in another file now, the
fix shows there, and the anchors of the patch may still match: so the test is asked there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.patching.encoding import EncodingFault, NotText, detect
from pipeline.patching.evaluate import Read
from pipeline.patching.hints import line_of
from pipeline.patching.matching import Span, occurrences
from pipeline.patching.model import Edit, UpstreamTest, Variant
from pipeline.patching.places import Key, Place, scope_span
from pipeline.patching.verdicts import Line


def lost_tests(patch: str, variant: Variant, read: Read) -> dict[Key, Edit]:
    """The tests whose file or scope is not there, in the form in which places are looked for."""
    return {
        _key(patch, number): Edit("", test.file, test.contains, "", test.within)
        for number, test in enumerate(variant.upstream)
        if _scope(test, read) is None
    }


def followed(
    patch: str, variant: Variant, places: Mapping[Key, Sequence[Place]]
) -> tuple[UpstreamTest, ...]:
    """The variant's tests, those that were lost in the place that their scope has moved to.

    Which place that is does not depend on whether the test would hold there.
    """
    tests = []
    for number, test in enumerate(variant.upstream):
        named = [place for place in places.get(_key(patch, number), ()) if place.named]
        if named:
            best = max(named, key=lambda place: (place.near, place.likeness))
            test = replace(test, file=best.file, within=best.within)
        tests.append(test)
    return tuple(tests)


def evidence(test: UpstreamTest, read: Read) -> tuple[Line, ...]:
    """The first line that an upstream test finds; nothing when it does not hold."""
    data, scope = read(test.file), _scope(test, read)
    if data is None or scope is None:
        return ()
    try:
        text = detect(test.file, data).encode(test.contains)
    except (NotText, EncodingFault):
        return ()
    spans = occurrences(data, scope, text)
    return (line_at(test.file, data, spans[0][0]),) if spans else ()


def line_at(file: str, data: bytes, offset: int) -> Line:
    """The line of a file on which a byte stands."""
    number = line_of(data, offset)
    lines = data.splitlines()
    text = lines[number - 1] if number <= len(lines) else b""
    return Line(file, number, text.decode("utf-8", "replace"))


def _scope(test: UpstreamTest, read: Read) -> Span | None:
    data = read(test.file)
    return None if data is None else scope_span(test.file, data, test.within)


def _key(patch: str, number: int) -> Key:
    return patch, f"\n{number}"  # no edit is called so
