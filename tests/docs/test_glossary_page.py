"""docs/glossary.md is in order, agrees with the protocol, and holds no word that no page uses."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
PROTOCOL = ROOT / "docs" / "concepts" / "protocol.md"


def words(page: str) -> dict[str, str]:
    """Return the rows of the first table of a page: a word and its meaning."""
    table = page.split("|---|---|\n", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"(?m)^\| ([^|]+?) \| (.+) \|$", table))


DEFINED = words(GLOSSARY.read_text(encoding="utf-8"))


def test_words_are_in_alphabetical_order() -> None:
    assert list(DEFINED) == sorted(DEFINED, key=str.lower)


def test_every_word_is_used_on_another_page() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "spec").glob("*.md")]
    text = " ".join(page.read_text("utf-8").lower() for page in pages if page != GLOSSARY)
    text = " ".join(text.split())
    plain = {word: re.escape(re.sub(r" \(.*", "", word)) for word in DEFINED}
    assert [word for word, each in plain.items() if not re.search(rf"\b{each}s?\b", text)] == []


def test_every_word_of_the_protocol_is_defined_and_no_definition_contradicts_it() -> None:
    defined = words(PROTOCOL.read_text(encoding="utf-8"))
    assert defined.keys() <= DEFINED.keys()
    for word in ("epoch", "tenure", "instance", "client", "heartbeat interval", "position"):
        assert DEFINED[word] == defined[word], word
