"""The models of `MCRecords.tla`: no instances, any record of a set after any other.

The sets are read from TLC, the claims are `step`'s. A state is a claim and the length of its log.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from kafka_marshal import Claim, Record, step
from kafka_marshal.modelcheck import edges
from kafka_marshal.modelcheck.models import Model
from model_tests import from_tla
from model_tests.explorer import configuration
from model_tests.explorer.explore import Graph
from model_tests.explorer.substitutions import ONLY_EXPORTS, UnknownName

OWN_ROOM = {"IsStale": "ClockSaysStale", "IsPaused": "ClockSaysPaused"}
"""What the Python does anyway."""


def explore(model: Model) -> Graph:
    """The graph of one model of `MCRecords.tla`, by the Python reducer."""
    cfg = configuration.read(model.cfg)
    shaping = {*cfg.names("CONSTRAINTS"), *cfg.names("ACTION_CONSTRAINTS")} - ONLY_EXPORTS
    others = {n: o for n, o in cfg.substituted.items() if n != "RecordsAt"}
    if shaping or others != OWN_ROOM or cfg.names("VIEW") != ("ClaimAndLength",):
        raise UnknownName(f"{model.name}: {shaping or others}")
    log_max = cfg.number("LogMax")
    durations = cfg.number("HeartbeatIntervalMs"), cfg.number("PauseMaxMs")
    rules = from_tla.rules(cfg.assigned["Rules"].strip('"'), *durations)
    records = _records(model, cfg.substituted["RecordsAt"], log_max)
    started = time.monotonic()
    frontier = {Claim()}
    states, found = 1, 0
    for length in range(log_max):
        found += len(frontier) * len(records[length])
        frontier = {
            step(claim, record, rules)[0] for claim in frontier for record in records[length]
        }
        states += len(frontier)
    return Graph(states, found, log_max + 1, time.monotonic() - started)


def _records(model: Model, operator: str, log_max: int) -> list[list[Record]]:
    """The records that may stand at each offset. Spec: RecordsAt."""
    with tempfile.TemporaryDirectory(prefix="records-") as desk:
        folder = Path(desk)
        asked = folder / f"RecordsOf{operator}.tla"
        asked.write_text(
            f"---- MODULE {asked.stem} ----\nEXTENDS {model.module.stem}\n"
            f"ASSUME \\A n \\in 0 .. {log_max - 1} : \\A record \\in {operator}(n) :\n"
            "    Export(<<n, record>>)\n"
            "Nothing == Init /\\ [][FALSE]_vars\n====\n"
        )
        text = configuration.read(model.cfg)
        lines = ["SPECIFICATION Nothing", "CONSTANTS"]
        lines += [f"  {name} = {value}" for name, value in text.assigned.items()]
        lines += [f"  {name} <- {value}" for name, value in text.substituted.items()]
        cfg = folder / f"{asked.stem}.cfg"
        cfg.write_text("\n".join(lines) + "\n")
        made = edges.export(
            asked,
            cfg,
            folder / "records.tsv",
            check_deadlock=False,
            libraries=[model.module.parent],
        )
        found: list[list[Record]] = [[] for _ in range(log_max)]
        for row in made.read():
            assert isinstance(row, tuple)
            assert isinstance(row[0], int)
            found[row[0]].append(from_tla.record(row[1]))
    return found
