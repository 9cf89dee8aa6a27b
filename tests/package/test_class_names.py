"""A public class name occurs once in the package: one name for one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

import kafka_marshal

PACKAGE = Path(kafka_marshal.__file__).parent
CLASS: Final = re.compile(r"^ *class ([A-Za-z]\w*)[:(\[]", re.MULTILINE)
"""A public class, also one within another."""

TWICE: Final = {
    "Claim": "the state of one key, and in `client.message` what an application holds of it",
    "PartitionsCounted": "an event of groups, and what a consumer's loop hears of the same fact",
    "Participant": "a lifeline of a counterexample, and in `machines.ranges` who shares a claim",
}
"""Names that two classes have, and why: what users have from 0.1.0 keeps its name."""


def defined(package: Path) -> dict[str, list[str]]:
    """Return the modules that define each public class."""
    found = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            found[name].append(module)
    return found


def test_a_public_class_name_occurs_once() -> None:
    twice = {name: where for name, where in defined(PACKAGE).items() if len(where) > 1}
    assert twice.keys() == TWICE.keys(), twice


def test_a_second_class_of_a_name_is_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("class Fold: ...\nclass _Fold: ...\n")
    assert defined(tmp_path) == {"Fold": ["one", "two"]}
