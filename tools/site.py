"""The built site: `make docs-site` writes README, docs/ and what they link to as HTML.

The pages stay where they are in the repository, so a link that works there works on the site.
Nothing is loaded from another host: fonts are the reader's own, and every built page is examined
for addresses. It imports nothing but the standard library, since the site is built in an
environment of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).parent.parent
FRONT: Final = "README.md"
INDEX: Final = "docs/index.md"
STYLE: Final = ".md-nav__icon { flex-shrink: 0; }\n"
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^```(\w+) ([^\n`]+)$", re.MULTILINE)
_CODE: Final = re.compile(r"(?ms)^```.*?^```$|`[^`\n]*`")
_BLOCK: Final = re.compile(r"(?ms)(^```.*?^```$)")
_INDENTED: Final = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_SECTION: Final = re.compile(r"^\*\*([^*]+?)\.?\*\*", re.MULTILINE)
_LOADS: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that make a browser load something, and by which attribute."""
_LOADED_BY_CSS: Final = re.compile(r"(?:@import\s+|url\()[\"']?(https?:)?//")


def linked(text: str) -> Iterator[str]:
    """Where a page's links lead in the repository; without fragments, without other hosts."""
    for found in _LINK.finditer(_CODE.sub("", text)):
        target = unquote(urlsplit(found[1] or found[2]).path)
        if target and not urlsplit(found[1] or found[2]).scheme:
            yield target


def docs(root: Path = ROOT) -> list[Path]:
    """The pages of the documentation."""
    return sorted((root / "docs").rglob("*.md"))


def gathered(root: Path = ROOT) -> dict[str, Path]:
    """Every page, and every file that a page links to, by its path in the repository."""
    waiting = [root / FRONT, *docs(root)]
    found: dict[str, Path] = {}
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name in found or not path.is_file():
            continue
        found[name] = path
        if path.suffix == ".md":
            targets = linked(path.read_text(encoding="utf-8"))
            waiting += [(path.parent / target).resolve() for target in targets]
    return found


def page(text: str, folders: Mapping[str, str]) -> str:
    """As the generator takes it: titled code blocks, links to folders led to a page.

    What belongs to an item of a list is indented by four spaces there.
    """
    text = "".join(
        part if part.startswith("```") else _INDENTED.sub("    ", part)
        for part in _BLOCK.split(text)
    )
    text = _FENCE.sub(r'```\1 title="\2"', text)
    for folder, listing in folders.items():
        text = text.replace(f"]({folder})", f"]({listing})")
    return text


def nav(index: str, names: Mapping[str, Path]) -> list[dict[str, object]]:
    """The table of contents: the sections of the index, each with the pages that it links to."""
    sections = _SECTION.split(index)
    rows: list[dict[str, object]] = [{"kafka-marshal": "index.md"}, {"All pages": INDEX}]
    listed: set[str] = set()
    for title, text in zip(sections[1::2], sections[2::2], strict=True):
        pages = []
        for target in linked(text):
            name = (ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix()
            if name in names and name.endswith(".md") and name not in listed:
                listed.add(name)
                pages.append({heading(names[name]): name})
        rows.append({title: pages})
    more = [name for name in names if name.startswith("docs/") and name.endswith(".md")]
    left = [{heading(names[name]): name} for name in sorted({*more} - listed - {INDEX})]
    return [*rows, {"More": left}] if left else rows


def heading(path: Path) -> str:
    """A page's title: its first heading, up to a colon."""
    found = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].split(":")[0] if found else path.stem


def configuration(contents: list[dict[str, object]]) -> dict[str, object]:
    """For the generator. No font, no analytics, no search service: nothing from another host."""
    return {
        "site_name": "kafka-marshal",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,
        "extra_css": ["site.css"],
        "nav": contents,
        "theme": {
            "language": "en",
            "font": False,
            "features": ["content.code.copy", "navigation.footer", "navigation.top", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "markdown_extensions": {
            "admonition": {},
            "tables": {},
            "toc": {"permalink": True},
            "pymdownx.highlight": {"pygments_lang_class": True},
            "pymdownx.inlinehilite": {},
            "pymdownx.superfences": {},
        },
    }


def toml(values: Mapping[str, object]) -> str:
    """As TOML: tables within tables are inline, and JSON writes a string as TOML does."""

    def inline(value: object) -> str:
        if isinstance(value, Mapping):
            return (
                "{ " + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + " }"
            )
        if isinstance(value, list):
            return "[" + ", ".join(map(inline, value)) + "]"
        return json.dumps(value)

    lines = (f"{name} = {inline(value)}" for name, value in values.items())
    return "[project]\n" + "\n".join(lines) + "\n"


def written(into: Path, root: Path = ROOT) -> None:
    """Write what the generator takes."""
    shutil.rmtree(into, ignore_errors=True)
    names = gathered(root)
    pages = into / "pages"
    for name, path in names.items():
        target = pages / ("index.md" if name == FRONT else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, target)
            continue
        text = path.read_text(encoding="utf-8")
        up = "../" * name.count("/")
        folders = {f"{up}{FRONT}": f"{up}index.md"}
        for link in linked(text):
            if (path.parent / link).is_dir():  # a site has no page of a folder
                folders[link] = f"{up}{INDEX}"
        target.write_text(page(text, folders), encoding="utf-8")
    (pages / "site.css").write_text(STYLE, encoding="utf-8")
    contents = nav((root / INDEX).read_text(encoding="utf-8"), names)
    (into / "zensical.toml").write_text(toml(configuration(contents)), encoding="utf-8")


class Examined(HTMLParser):
    """One built page: its ids, where it links to, what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what matters of it."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (loading := _LOADS.get(tag)) in given and given.get("rel") != "canonical":
            self.loads.append(given[str(loading)])


def faults(site: Path) -> list[str]:
    """Links that lead nowhere, and addresses that a browser would load from another host."""
    pages = {
        path: Examined(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))
    }
    found = []
    for path, examined in pages.items():
        where = path.relative_to(site)
        for address in examined.loads:
            if urlsplit(address).netloc:
                found.append(f"{where}: loads {address}")
        for address in (*examined.links, *examined.loads):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{where}: no such file: {address}")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].ids
            ):
                found.append(f"{where}: no such heading: {address}")
    for path in sorted(site.rglob("*.css")):
        if _LOADED_BY_CSS.search(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(site)}: loads from another host")
    return found


def main() -> int:
    """Build it; the exit code."""
    parser = argparse.ArgumentParser(prog="make docs-site", description=__doc__)
    parser.add_argument("--generator", type=Path, required=True, help="zensical")
    parser.add_argument("--into", type=Path, default=ROOT / "build", help="a folder")
    asked = parser.parse_args()
    source = asked.into.resolve() / "docs-site"
    site = source / "site"
    written(source)
    words = [
        asked.generator.absolute(),
        "build",
        "--strict",
        "--config-file",
        source / "zensical.toml",
    ]
    if code := subprocess.run(words, cwd=source, check=False).returncode:
        return code
    found = faults(site)
    print("\n".join(found) or f"{site}: no dead link, nothing from another host")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
