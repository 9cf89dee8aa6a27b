"""The bounds of a model, read from TLC.

`World` is the record of that name in `Marshal.tla`, field by field; TLC evaluates it, so that
bounds are written once. What else a cfg says is in `substitutions`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from kafka_marshal import Rules
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.scratch import Scratch
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration
from model_tests.explorer.claims.instance import Instance
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.free_time import Fold


@frozen
class World:
    """Who takes part and how much of it there is. Spec: World; fields are the specification's."""

    rules: str
    mode: Mode
    time_is_free: bool
    readers_own_clock: bool
    client_of: Mapping[str, str]
    starts_up: frozenset[str]
    admins: frozenset[str]
    headerless: frozenset[str]
    strangers: frozenset[str]
    certifies: bool
    joins_late: frozenset[str]
    misses: frozenset[str]
    skew_s: Mapping[str, int]
    start_of: Mapping[str, int]
    sends_max: Mapping[str, Mapping[str, int]]
    window: int
    batch: int
    message_count: int
    set_targets: frozenset[int]
    pause_s: int
    tick_s: int
    log_max: int
    crashes_max: int
    stalls_max: int
    losses_max: int
    copies_max: int
    cuts_max: int
    rewinds_max: int
    reorders: bool
    gives_up: bool

    @property
    def instances(self) -> tuple[str, ...]:
        """Every process that will ever run, in a fixed order. Spec: Instances."""
        return tuple(sorted(self.client_of))


@frozen
class Bounds:
    """Everything that makes the graph of one model of `Marshal.tla`."""

    name: str
    world: World
    fold: Fold

    def instance(self, name: str) -> Instance:
        """The machine of one instance. Spec: Me."""
        world = self.world
        me = InstanceConfig(
            instance_id=name,
            client_id=world.client_of[name],
            mode=world.mode,
            window=world.window,
            batch=world.batch,
            start=world.start_of.get(name, 0),
            admin=name in world.admins,
            certifies=world.certifies,
            rules=self.fold.rules,
        )
        return Instance(me, self.fold, name in world.headerless)


def bounds(model: Model) -> Bounds:
    """The bounds of a model; TLC runs once for each module."""
    cfg = configuration.read(model.cfg)
    world = _world(values(model.module)[cfg.substituted["World"]])
    return Bounds(model.name, world, fold(cfg, world))


def rules_at(cfg: Configuration, rule_set: str, tick_s: int) -> Rules:
    """The rules at a configuration's durations; one that is an operator is known by its name."""
    durations = cfg.number("HeartbeatIntervalMs"), cfg.number("PauseMaxMs")
    rewind = cfg.substituted.get("ClockRewindMaxMs")
    rewind_ms = {None: 0, "OneTick": tick_s * 1000, "OneSecond": 1000}[rewind]
    return attrs.evolve(from_tla.rules(rule_set, *durations), clock_rewind_max_ms=rewind_ms)


def fold(cfg: Configuration, world: World) -> Fold:
    """The rules at a configuration's durations, in its time."""
    rules = rules_at(cfg, world.rules, world.tick_s)
    says = (cfg.substituted["IsStale"], cfg.substituted["IsPaused"])
    free = {
        ("RecordSaysStale", "RecordSaysPaused"): True,
        ("ClockSaysStale", "ClockSaysPaused"): False,
    }[says]
    assert free == world.time_is_free, f"{says} in a world where time is free: {free}"
    return Fold(rules, free)


@functools.cache
def values(module: Path) -> Mapping[str, Mapping[str, Any]]:
    """Every world that a cfg of a module names, by its name, as TLC evaluates it."""
    cfgs = [configuration.read(m.cfg) for m in models.read() if m.module == module]
    names = sorted({cfg.substituted["World"] for cfg in cfgs})
    with Scratch("worlds") as folder:
        asked = folder / f"WorldsOf{module.stem}.tla"
        exports = "\n".join(f'ASSUME Export(<<"{name}", {name}>>)' for name in names)
        asked.write_text(
            f"---- MODULE {asked.stem} ----\nEXTENDS {module.stem}, Export\n{exports}\n"
            "StaysAsItIs == Init /\\ [][FALSE]_vars\n====\n"
        )
        cfg = folder / f"{asked.stem}.cfg"
        constants = [f"World <- {names[0]}"]
        if any(cfg.assigned for cfg in cfgs):
            constants += ["HeartbeatIntervalMs = 1", "PauseMaxMs = 1"]
            constants += ["IsStale <- RecordSaysStale", "IsPaused <- RecordSaysPaused"]
        cfg.write_text("SPECIFICATION StaysAsItIs\nCONSTANTS\n" + "\n".join(constants) + "\n")
        libraries = models.libraries()
        made = tlc_export.export(
            asked,
            cfg,
            folder / "worlds.tsv",
            check_deadlock=False,
            short=True,
            libraries=libraries,
        )
        rows = [row for row in made.read() if isinstance(row, tuple)]
    return {str(name): from_tla.fields(value) for name, value in rows}


def _world(given: Mapping[str, Any]) -> World:
    """The record of TLC; fails if a field is missing or new."""
    mode = Mode(given["mode"])
    instances = set(given["client_of"])
    per_instance = {
        name: {
            i: dict(each) if isinstance(each, Mapping) else each
            for i, each in given[name].items()
            if i in instances
        }
        for name in ("skew_s", "sends_max")
    }
    starts = given["start_of"]
    per_instance["start_of"] = dict(starts) if isinstance(starts, Mapping) else {}  # <<>>
    return World(**{**given, **per_instance, "mode": mode, "client_of": dict(given["client_of"])})
