"""The page of the protocol defines everything that code and specification cite."""

import re
from pathlib import Path
from typing import get_args

from kafka_marshal.codec import HEADER_FIELDS
from kafka_marshal.core import messages, wire

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
    assert {kind.__name__ for kind in get_args(messages.Message)} <= first_column
    named = {name for name in first_column if name.startswith("marshal-")}
    assert named == {*HEADER_FIELDS, "marshal-version"}
    assert wire.MAC_HEADER in first_column


def test_every_property_that_is_promised_is_in_the_specification() -> None:
    spec = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "spec").rglob("*.tla"))
    table = PAGE.split("## What is promised")[1].split("\n\n")[1]
    promised = re.findall(r"\b[A-Z]\w+", re.sub(r"\|[^|]*\|$", "", table, flags=re.MULTILINE))
    assert len(promised) > 9
    for name in promised:
        assert re.search(rf"(?m)^ *{name} *==", spec), name
