"""What a cfg says: constants, substitutions, constraints.

It knows the notation of TLC's configuration files and not what any name in them means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

SECTIONS = {
    "SPECIFICATION": "SPECIFICATION",
    "INIT": "INIT",
    "NEXT": "NEXT",
    "CONSTANT": "CONSTANTS",
    "CONSTANTS": "CONSTANTS",
    "INVARIANT": "INVARIANTS",
    "INVARIANTS": "INVARIANTS",
    "PROPERTY": "PROPERTIES",
    "PROPERTIES": "PROPERTIES",
    "CONSTRAINT": "CONSTRAINTS",
    "CONSTRAINTS": "CONSTRAINTS",
    "ACTION_CONSTRAINT": "ACTION_CONSTRAINTS",
    "ACTION_CONSTRAINTS": "ACTION_CONSTRAINTS",
    "VIEW": "VIEW",
}


@attrs.frozen
class Configuration:
    """One cfg."""

    assigned: Mapping[str, str]
    """`Name = value`."""
    substituted: Mapping[str, str]
    """`Name <- Operator`."""
    sections: Mapping[str, tuple[str, ...]]
    """Names under everything but CONSTANTS, by the plural of the section's name."""

    def names(self, section: str) -> tuple[str, ...]:
        """What stands in a section, nothing if it is not there."""
        return self.sections.get(section, ())

    def number(self, name: str) -> int:
        """A constant that is a number; fails if it is none."""
        return int(self.assigned[name])


def without_promises(path: Path) -> str:
    """The text of a cfg without its invariants and properties, for an export.

    What a model promises is `make spec`'s part, and costs TLC as much as its steps.
    """
    promises = r"(?m)^(INVARIANTS?|PROPERT(Y|IES)) .*\n(  .*\n)*"
    return re.sub(promises, "", path.read_text(encoding="utf-8"))


def read(cfg: Path) -> Configuration:
    """Read a cfg; fails on a section that this room has not met."""
    return parse(cfg.read_text(encoding="utf-8"))


def parse(text: str) -> Configuration:
    r"""Read the text of a cfg.

    >>> cfg = parse("SPECIFICATION Spec \\* all\nCONSTANTS N = 3\n  World <- Two\nINVARIANTS A B")
    >>> cfg.assigned, cfg.substituted, cfg.names("INVARIANTS")
    ({'N': '3'}, {'World': 'Two'}, ('A', 'B'))
    """
    text = re.sub(r"\\\*.*", "", re.sub(r"(?s)\(\*.*?\*\)", "", text))
    parts = re.split(r"(?m)^([A-Z_]{4,})\b", text)
    assert not parts[0].strip(), f"what is {parts[0].strip()!r}?"
    assigned: dict[str, str] = {}
    substituted: dict[str, str] = {}
    sections: dict[str, tuple[str, ...]] = {}
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        section = SECTIONS[head]
        if section == "CONSTANTS":
            for name, sign, value in re.findall(r"(\w+)\s*(<-|=)\s*(\"\w+\"|\{[^}]*\}|\S+)", body):
                (assigned if sign == "=" else substituted)[name] = value
        else:
            sections[section] = (*sections.get(section, ()), *body.split())
    return Configuration(assigned, substituted, sections)
