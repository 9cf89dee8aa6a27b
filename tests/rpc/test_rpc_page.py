"""Marshal promises that the reference page is the table that the codec walks along."""

from __future__ import annotations

from pathlib import Path

from tools.pages.rpc import page

from kafka_marshal.rpc.apis import APIS

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_table_holds() -> None:
    written = (ROOT / "docs" / "reference" / "rpc.md").read_text(encoding="utf-8")
    assert written == page(), "make docs"


def test_every_field_is_on_the_page() -> None:
    text = page()
    for api in APIS:
        assert all(f"`{each.name}`" in text for each in (*api.request, *api.answer))
