"""What `make docs-site` gives to its generator, and what it examines of the built pages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tools import site

SOURCE = "pages"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the generator takes of this repository."""
    folder = tmp_path_factory.mktemp("docs-site")
    site.written(folder)
    return folder


def test_every_page_and_everything_that_it_links_to_is_there(source: Path) -> None:
    pages = source / SOURCE
    assert (pages / "index.md").read_text(encoding="utf-8").startswith("# kafka-marshal")
    for path in (site.ROOT / "docs").rglob("*.md"):
        copied = pages / path.relative_to(site.ROOT)
        for target in site.linked(copied.read_text(encoding="utf-8")):
            assert (copied.parent / target).is_file(), f"{path}: {target}"


def test_the_contents_list_every_page_of_the_documentation_once(source: Path) -> None:
    configured = tomllib.loads((source / "zensical.toml").read_text(encoding="utf-8"))
    listed = re.findall(r"'([\w./-]+\.md)'", str(configured["project"]["nav"]))
    assert len(listed) == len(set(listed))
    pages = {f"docs/{path.relative_to(site.ROOT / 'docs')}" for path in site.docs()}
    assert pages <= set(listed)


def test_nothing_of_the_configuration_asks_another_host(source: Path) -> None:
    configured = tomllib.loads((source / "zensical.toml").read_text(encoding="utf-8"))
    assert configured["project"]["theme"]["font"] is False
    assert "http" not in str(configured)


def test_a_code_block_keeps_its_title_and_a_list_its_paragraphs() -> None:
    text = "1. One:\n\n   more of it\n\n```sh terminal 1\n   ls\n```\n[all](examples)\n"
    assert site.page(text, {"examples": "docs/index.md"}) == (
        '1. One:\n\n    more of it\n\n```sh title="terminal 1"\n   ls\n```\n[all](docs/index.md)\n'
    )


FINE = """<link rel="canonical" href="https://example.org/"><h2 id="one">One</h2>
<a href="#one">here</a> <a href="two.html">there</a> <a href="https://example.org">far</a>"""


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ('<a href="three.html">', "two.html: no such file: three.html"),
        ('<a href="one.html#two">', "two.html: no such heading: one.html#two"),
        ('<img src="picture.svg">', "two.html: no such file: picture.svg"),
        ('<script src="//cdn.example.org/x.js">', "two.html: loads //cdn.example.org/x.js"),
        (
            '<link rel="stylesheet" href="https://fonts.example.org/f.css">',
            "two.html: loads https://fonts.example.org/f.css",
        ),
    ],
)
def test_a_dead_link_and_what_another_host_serves_are_found(
    wrong: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / "one.html").write_text(FINE)
    (tmp_path / "two.html").write_text("<p>fine</p>")
    assert site.faults(tmp_path) == []
    (tmp_path / "two.html").write_text(wrong)
    assert site.faults(tmp_path) == [fault]


def test_a_style_sheet_that_loads_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "fine.css").write_text("a { background: url(local.svg) }")
    assert site.faults(tmp_path) == []
    (tmp_path / "wrong.css").write_text("@import 'https://fonts.example.org/f.css';")
    assert site.faults(tmp_path) == ["wrong.css: loads from another host"]
