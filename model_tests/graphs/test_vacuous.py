"""Marshal promises that a configuration lists no property that its world cannot break.

Worlds are records that are made of each other. What a property needs of one is read from their
text, so no TLC is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from kafka_marshal.modelcheck import models
from model_tests.explorer import configuration
from model_tests.explorer.configuration import Configuration
from model_tests.names.test_names import SPEC, module

NEEDS: Mapping[str, tuple[str, str]] = {
    "AtMostOnce": ("mode", '"AMO"'),
    "NoneSkipped": ("mode", '"ALO"'),
    "ReprocessingBound": ("mode", '"ALO"'),
    "ReleaseRepeatsNothing": ("mode", '"ALO"'),
    "BeginsWhereTheLogSays": ("mode", '"ALO"'),
    "SetPositionSticks": ("admins", r"\{\"|[A-Z]"),
    "PauseHolds": ("admins", r"\{\"|[A-Z]"),
}
"""A field of the world, and what it must hold for the property to say anything."""

NEEDS_OF_RANGES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("AtMostOnce", "ReserveKept"), ("Window", "0")),
    **dict.fromkeys(("NoneSkipped", "PositionIsLow", "ReprocessingBound"), ("Window", "[1-9]")),
    "SetPositionSticks": ("Admins", r"\{\""),
    "LiveHolderKept": ("Steps", "(Clock|Few)Steps"),
    "BeginsAtTheStart": ("Start", "BehindZero"),
    "LiveAnchorKept": ("FirstClaim", "NeverSet"),
}
"""The same of `MCRanges` and its sisters, whose worlds are their constants."""

WORLDS = sorted(path.stem for path in SPEC.glob("models/*/MC*.tla") if path.stem != "MCMachine")


def definitions() -> dict[str, str]:
    """Every operator of the models that may be a world, with its text."""
    found: dict[str, str] = {}
    for name in WORLDS:
        for defined, text in re.findall(
            r"^(\w+)(?:\(\w+\))?\s*==(.*?)(?=^\S|\Z)", module(name), re.DOTALL | re.MULTILINE
        ):
            # `Base` of another environment is another record.
            found.setdefault(defined if name not in OTHERS else f"{name}.{defined}", text)
    return found


OTHERS = {
    *("MCSetPosition", "MCEndPause", "MCFairShare", "MCInterval", "MCGroups", "MCLate"),
    *("MCGroupEvents", "MCGroupWorld"),
}
"""Modules whose worlds are no worlds of `Marshal.tla`."""

DEFINED = definitions()


def field_of(world: str, name: str) -> str | None:
    """What a world holds in a field, as text: its own, or that of the world it is made of."""
    text = DEFINED[world]
    own = re.search(rf"(?:!\.{name}\s*=|\b{name}\s*\|->)\s*([^\n]*)", text)
    if own:
        return own.group(1)
    others = (word for word in re.findall(r"\w+", text) if word in DEFINED and word != world)
    return next((found for other in others if (found := field_of(other, name))), None)


def vacuous(cfg: Configuration) -> list[str]:
    """The properties that a cfg lists and that its world cannot break."""
    world = cfg.substituted.get("World")
    if world is None:
        return []
    listed = [*cfg.names("INVARIANTS"), *cfg.names("PROPERTIES")]
    return [
        prop
        for prop in listed
        if prop in NEEDS and not re.match(NEEDS[prop][1], field_of(world, NEEDS[prop][0]) or "")
    ]


def vacuous_of_ranges(cfg: Configuration) -> list[str]:
    """The same of a world of ranges."""
    given = {**cfg.assigned, **cfg.substituted}
    listed = [*cfg.names("INVARIANTS"), *cfg.names("PROPERTIES")]
    return [
        prop
        for prop in listed
        if prop in NEEDS_OF_RANGES
        and not re.match(NEEDS_OF_RANGES[prop][1], given.get(NEEDS_OF_RANGES[prop][0], ""))
    ]


OF_RANGES = ("MCRanges", "MCRangesCut")


@pytest.mark.parametrize("name", OF_RANGES)
def test_no_property_of_ranges_is_listed_that_its_world_cannot_break(name: str) -> None:
    cfgs = [configuration.read(m.cfg) for m in models.read() if m.module.stem == name]
    assert cfgs
    assert [said for cfg in cfgs if (said := vacuous_of_ranges(cfg))] == []


def test_a_property_of_ranges_of_another_world_is_found() -> None:
    text = "CONSTANTS\n  Window = 0\n  Admins = {}\nINVARIANTS "
    cfg = configuration.parse(f"{text}AtMostOnce NoneSkipped SetPositionSticks BeginsAtTheStart")
    assert vacuous_of_ranges(cfg) == ["NoneSkipped", "SetPositionSticks", "BeginsAtTheStart"]


OF_MARSHAL = [model for model in models.read() if model.module.stem not in OTHERS]


@pytest.mark.parametrize("name", sorted({model.module.stem for model in OF_MARSHAL}))
def test_no_property_is_listed_that_the_world_cannot_break(name: str) -> None:
    found = {
        model.name: said
        for model in OF_MARSHAL
        if model.module.stem == name and (said := vacuous(configuration.read(model.cfg)))
    }
    assert found == {}


def test_every_world_says_what_a_property_needs() -> None:
    for model in OF_MARSHAL:
        world = configuration.read(model.cfg).substituted.get("World")
        if world is not None:
            assert re.match('"A[LM]O"', field_of(world, "mode") or ""), model.name
            assert field_of(world, "admins"), model.name


def test_a_property_of_the_other_mode_is_found() -> None:
    cfg = configuration.parse("CONSTANTS\n  World <- AloTwins\nINVARIANTS AtMostOnce NoneSkipped")
    assert vacuous(cfg) == ["AtMostOnce"]
    cfg = configuration.parse("CONSTANTS\n  World <- AmoTwo\nINVARIANTS PauseHolds AtMostOnce")
    assert vacuous(cfg) == ["PauseHolds"]
    cfg = configuration.parse("CONSTANTS\n  World <- AmoStrangerAdmin\nINVARIANT PauseHolds")
    assert vacuous(cfg) == []
