"""Links in the tables of docs/safety.md: each model, test and rule leads to its file: `make docs`.

The page is written by hand and names models, tests and rules. This module finds their files. So a
file that moves needs no edit of the page.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "safety.md"
RULES: Final = "concepts/protocol.md#rules"
_NAMED: Final = re.compile(r"\[(`\w+`)\]\([^)]*\)|(`(?:MC|test_)\w+`)")
_RULE: Final = re.compile(r"\[(R\d[a-c]?)\]\([^)]*\)|\b(R\d[a-c]?)\b")


def files() -> Mapping[str, str]:
    """Return where each model's cfg and each test is, from docs/."""
    found = {}
    listed = tomllib.loads((ROOT / "spec" / "models.toml").read_text(encoding="utf-8"))
    cfgs = {path.name: path for path in (ROOT / "spec").rglob("*.cfg")}
    for model in listed["model"]:
        found[model["name"]] = cfgs[f"{model['name']}.cfg"]
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text(encoding="utf-8")):
            found[name] = path
    return {name: f"../{path.relative_to(ROOT).as_posix()}" for name, path in found.items()}


def linked(page: str, where: Mapping[str, str]) -> str:
    """Return the page with a link for each name in a row of a table.

    Raises:
        KeyError: there is no such model or test.

    >>> print(linked("| It wins (R1). | `MCA_Two` |", {"MCA_Two": "../a.cfg"}), end="")
    | It wins ([R1](concepts/protocol.md#rules)). | [`MCA_Two`](../a.cfg) |
    """

    def named(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"[{name}]({where[name.strip('`')]})"

    lines = []
    for line in page.splitlines():
        if line.startswith("| "):
            line = _NAMED.sub(named, line)
            line = _RULE.sub(lambda match: f"[{match[1] or match[2]}]({RULES})", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page if a link has changed."""
    page = PAGE.read_text(encoding="utf-8")
    now = linked(page, files())
    if now != page:
        PAGE.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
