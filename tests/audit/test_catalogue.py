"""Every rule has a severity and a place in the documentation, and nothing else has."""

import re
from pathlib import Path

import pipeline.accepted
import pipeline.audit.rules
import pipeline.drift
from pipeline.audit.catalogue import SEVERITIES

DOCS = Path(__file__).parents[2] / "docs" / "findings.md"


def test_every_rule_is_documented_and_every_documented_rule_is_one() -> None:
    text = DOCS.read_text(encoding="utf-8")
    defined = {
        name
        for line in text.splitlines()
        if line.startswith("**")
        for name in re.findall(r"[a-z]+(?:-[a-z]+)+", line.split(":")[0])
    }
    assert defined == set(SEVERITIES)


def test_rules_and_catalogue_name_the_same_ids() -> None:
    rooms = [Path(room.__file__ or "").parent for room in (pipeline.audit.rules, pipeline.drift)]
    sources = [source for room in rooms for source in room.glob("*.py")]
    sources.append(Path(pipeline.accepted.__file__))
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
    assert set(SEVERITIES) <= used
