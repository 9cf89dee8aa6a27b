"""Every page of the documentation leads to files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TOP = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_linked_file_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    plain = (heading.replace("`", "") for heading in re.findall(r"(?m)^#{1,6} (.*)$", text))
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in plain}


def test_every_linked_heading_exists() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text):
            found = anchors(page.parent / target if target else page)
            assert anchor in found, f"{page}: {target}#{anchor}"


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [
        str(page.relative_to(ROOT / "docs"))
        for page in PAGES
        if page.is_relative_to(ROOT / "docs")
        and page.name != "index.md"
        and f"({page.relative_to(ROOT / 'docs')})" not in index
    ]
    assert missing == []
