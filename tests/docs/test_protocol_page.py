"""The page of the protocol defines everything that code and specification cite."""

import re
from pathlib import Path
from typing import get_args

import attrs

from kafka_marshal.codec import HEADER_FIELDS
from kafka_marshal.core import messages, wire
from kafka_marshal.core.ranges.state import LIMITS

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "concepts" / "protocol.md").read_text(encoding="utf-8")
CITING = (
    "marshal/**/*.py",
    "spec/**/*.tla",
    "spec/*.toml",
    "model_tests/**/*.py",
    "docs/*.md",
    "*.md",
)


def test_every_rule_that_is_cited_is_defined_once() -> None:
    defined = re.findall(r"(?m)^\| (R\d[a-c]?) \|", PAGE)
    cited = {
        rule
        for pattern in CITING
        for path in ROOT.glob(pattern)
        for rule in re.findall(r"\bR[1-9][a-c]?\b", path.read_text(encoding="utf-8"))
    }
    assert sorted(defined) == sorted(set(defined))
    assert cited == set(defined)


def test_every_message_and_header_is_in_a_table() -> None:
    first_column = set(re.findall(r"(?m)^\| `?([\w-]+)`? \|", PAGE))
    known = {*get_args(messages.Message), messages.ClaimingRange}
    assert {kind.__name__ for kind in known} <= first_column
    named = {name for name in first_column if name.startswith("marshal-")}
    of_ranges = {header.name for header in wire.RANGE_HEADERS} | {wire.CHECKPOINT_HEADER}
    assert named == {*HEADER_FIELDS, "marshal-version"} | of_ranges
    assert wire.MAC_HEADER in first_column


def test_the_page_names_the_limits_of_ranges() -> None:
    ranges = PAGE.split("## Ranges")[1].split("\n## ")[0]
    for limit in attrs.astuple(LIMITS):
        assert f" {limit:,} " in ranges.replace("\n", " ")


def test_every_property_that_is_promised_is_in_the_specification() -> None:
    spec = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "spec").rglob("*.tla"))
    table = PAGE.split("## What is promised")[1].split("\n\n")[1]
    promised = re.findall(r"\b[A-Z]\w+", re.sub(r"\|[^|]*\|$", "", table, flags=re.MULTILINE))
    assert len(promised) > 9
    for name in promised:
        assert re.search(rf"(?m)^ *{name} *==", spec), name
