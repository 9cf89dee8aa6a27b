"""Every command of docs/tutorial.md runs as it stands there, and prints what the page shows."""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_marshal.testing.cluster import free_ports
from tests.docs.pages import ROOT, run

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_every_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = PAGE.replace("19092", str(free_ports(1)[0]))
    page = page.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    page = page.replace(" examples/", f" {ROOT}/examples/")
    *fine, replayed = run(page, tmp_path, ending="4")
    assert {*fine} == {"0"}
    assert replayed == "1"
    assert (tmp_path / "last-night" / "report.html").is_file()
