from __future__ import annotations

from pathlib import Path

import pytest
from tools.pages.replay import PAGES, REFERENCE

from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model.tables import PUBLISHED

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", PAGES)
def test_pages_about_formats_tables_and_findings_are_what_the_code_says(name: str) -> None:
    page = (REFERENCE / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "python -m tools.pages.replay"


def test_every_column_and_every_code_has_a_meaning() -> None:
    for table in PUBLISHED:
        assert all(column.meaning for column in table.columns)
    assert all(kind.meaning and kind.what_to_do for kind in CATALOGUE.values())


def test_properties_of_findings_are_those_of_the_specification() -> None:
    told = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    properties = told.split("**Properties**", 1)[1].split("\n\n", 1)[0]
    assert all(k.property in properties for k in CATALOGUE.values() if k.property is not None)
