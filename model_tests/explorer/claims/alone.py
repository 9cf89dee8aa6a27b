"""The models of `MCMachine.tla`: one machine alone, any record of a set after any other.

Who the machine is and the sets are read from TLC. A state is what the machine knows and remembers.
"""

from __future__ import annotations

import time

from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import parse
from model_tests import from_tla
from model_tests.explorer import configuration
from model_tests.explorer.claims import records
from model_tests.explorer.claims.records import Rows
from model_tests.explorer.claims.world import rules_at
from model_tests.explorer.explore import Graph
from model_tests.explorer.substitutions import UnknownName, shaping

READS_ONLY = {"Spec": False, "ReadsOnly": True}


def explore(model: Model) -> Graph:
    """The graph of one model of `MCMachine.tla`, by the Python machine."""
    cfg = configuration.read(model.cfg)
    names = ("IsStale", "IsPaused", "ClockRewindMaxMs", "RecordsAt", "Self")
    others = set(cfg.substituted) - set(names) | set(shaping(cfg))
    if others or cfg.names("VIEW") != ("Machine",):
        raise UnknownName(f"{model.name}: {others or cfg.names('VIEW')}")
    log_max = cfg.number("LogMax")
    begins = parse(cfg.assigned["Begins"])
    assert isinstance(begins, frozenset)
    rows = records.rows(model, cfg, log_max, also="Self")
    [specification] = cfg.names("SPECIFICATION")
    reads_only = READS_ONLY[specification]
    me = from_tla.me(rows.also, rules_at(cfg, "fenced", 0))
    return _explore(me, rows, {int(str(first)) for first in begins}, reads_only)


def _explore(me: InstanceConfig, rows: Rows, begins: set[int], reads_only: bool) -> Graph:
    started = time.monotonic()
    frontier = [ConsumerState.beginning_at(first) for first in begins]
    seen, edges, depth = set(frontier), 0, 0
    while frontier:
        depth += 1
        found = []
        for consumer in frontier:
            after = [] if reads_only else does(me, consumer)
            if consumer.view < len(rows.at):
                after += [machine.after_read(me, consumer, each) for each in rows.at[consumer.view]]
            edges += len(after)
            for each in after:
                if each not in seen:
                    seen.add(each)
                    found.append(each)
        frontier = found
    return Graph(len(seen), edges, depth, time.monotonic() - started)


def does(me: InstanceConfig, consumer: ConsumerState) -> list[ConsumerState]:
    """What it then remembers, for each thing that its guards allow. Spec: Next."""
    ways = (
        (machine.may_claim(me, consumer), machine.after_claiming_partition),
        (machine.may_release(me, consumer), machine.after_release),
        (machine.may_process(me, consumer, consumer.next), machine.after_process),
        (machine.may_process_grant(me, consumer), machine.after_process_grant),
        (machine.may_give_up(me, consumer), machine.after_giving_up),
    )
    return [after(me, consumer) for against, after in ways if against is None]
