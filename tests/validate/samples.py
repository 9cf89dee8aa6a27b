"""Runs that several tests read, and the broken machines that make some of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from tools.runs.simulate import Fleet, simulate

from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.validate import Judgement, run_of, validate
from kafka_marshal.validate.run import Fields, Setting, header

RUNS = Path(__file__).parent.parent / "data" / "runs"

BUSY = Fleet(crash=0.02, stall=0.03, release=0.03, lose=0.01, pause=0.02)
"""So much goes wrong that a few hundred events hold everything."""


def fleets() -> Iterator[Fleet]:
    """Every kind of fleet."""
    for mode in Mode:
        for certifies in (True, False):
            for idempotent in (True, False):
                yield attrs.evolve(BUSY, mode=mode, certifies=certifies, idempotent=idempotent)


def rows(seed: int, events: int, fleet: Fleet = BUSY) -> list[Fields]:
    """A run, its setting first."""
    setting, made = simulate(seed, events, fleet)
    return [header(setting), *made]


def judged(lines: list[Fields]) -> Judgement:
    """What the validator says of these lines."""
    return validate(run_of(lines))


def setting_of(lines: list[Fields]) -> Setting:
    return run_of(lines[:1]).setting


def write(path: Path, lines: list[Fields]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# --- broken machines ------------------------------------------------------------------------------


def grants_itself_what_it_asks(
    me: InstanceConfig, consumer: ConsumerState, offset: int
) -> ConsumerState:
    """The document's AMO: processes what it asked for, at once, and does not read it back."""
    return attrs.evolve(consumer, granted=(range(consumer.known.position, offset),))


@contextmanager
def broken(attribute: str, instead: object) -> Iterator[None]:
    """Every machine has this mistake, for as long as the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, attribute, instead)
        yield
