"""The models of `MCRecords.tla`: no instances, any record of a set after any other.

The sets are read from TLC, the claims are `step`'s. A state is a claim and the length of its log.
"""

from __future__ import annotations

import time

from attrs import frozen

from kafka_marshal import Claim, Record, step
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration
from model_tests.explorer.claims.world import rules_at
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.explore import Graph
from model_tests.explorer.substitutions import UnknownName, shaping

BY_THE_CLOCK = {"IsStale": "ClockSaysStale", "IsPaused": "ClockSaysPaused"}
"""What the Python does anyway."""


def explore(model: Model) -> Graph:
    """The graph of one model of `MCRecords.tla`, by the Python reducer."""
    cfg = configuration.read(model.cfg)
    others = {n: o for n, o in cfg.substituted.items() if n != "RecordsAt"}
    view = cfg.names("VIEW")
    if shaping(cfg) or others != BY_THE_CLOCK or view != ("ClaimAndLength",):
        raise UnknownName(f"{model.name}: {shaping(cfg) or others} {view}")
    log_max = cfg.number("LogMax")
    rules = rules_at(cfg, cfg.assigned["Rules"].strip('"'), 0)
    records = rows(model, cfg, log_max).at
    started = time.monotonic()
    frontier = {Claim()}
    states, found, depth = 1, 0, 1
    for length in range(log_max):
        found += len(frontier) * len(records[length])
        frontier = {
            step(claim, record, rules)[0] for claim in frontier for record in records[length]
        }
        states += len(frontier)
        depth += 1
    return Graph(states, found, depth, time.monotonic() - started)


@frozen
class Rows:
    """What TLC says about a model of single records."""

    at: list[list[Record]]
    """The records that may stand at each offset. Spec: RecordsAt."""
    also: Value
    """The value of one more operator, if it was asked for."""


def rows(model: Model, cfg: Configuration, log_max: int, also: str = "0") -> Rows:
    """Ask TLC for the records of a model, and for one more operator."""
    operator = cfg.substituted["RecordsAt"]
    with Scratch("records") as folder:
        asked = folder / f"RecordsOf{operator}.tla"
        asked.write_text(
            f"---- MODULE {asked.stem} ----\nEXTENDS {model.module.stem}\n"
            f"ASSUME \\A n \\in 0 .. {log_max - 1} : \\A record \\in {operator}(n) :\n"
            "    Export(<<n, record>>)\n"
            f"ASSUME Export(<<-1, {also}>>)\n"
            "StaysAsItIs == Init /\\ [][FALSE]_vars\n====\n"
        )
        lines = ["SPECIFICATION StaysAsItIs", "CONSTANTS"]
        lines += [f"  {name} = {value}" for name, value in cfg.assigned.items()]
        lines += [f"  {name} <- {value}" for name, value in cfg.substituted.items()]
        asking = folder / f"{asked.stem}.cfg"
        asking.write_text("\n".join(lines) + "\n")
        libraries = models.libraries()
        made = tlc_export.export(
            asked,
            asking,
            folder / "records.tsv",
            check_deadlock=False,
            short=True,
            libraries=libraries,
        )
        found: list[list[Record]] = [[] for _ in range(log_max)]
        more: Value = 0
        for row in made.read():
            assert isinstance(row, tuple)
            offset, value = row
            assert isinstance(offset, int)
            if offset < 0:
                more = value
            else:
                found[offset].append(from_tla.record(value))
    return Rows(found, more)
