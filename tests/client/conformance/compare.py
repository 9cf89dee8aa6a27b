"""Runs scripts against both sides, and finds the first difference."""

from __future__ import annotations

import itertools
import random
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from attrs import frozen
from confluent_kafka.admin import AdminClient

from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.testing import Broker
from tests.client.conformance.real import RealSide
from tests.client.conformance.scripts import Script
from tests.client.conformance.side import Side
from tests.client.conformance.simulated import SimulatedSide

AT_ONCE: Final = 24
"""How many scripts run against the real cluster at a time: they mostly wait."""
_NUMBERS: Final = itertools.count(random.SystemRandom().randrange(10**8) * 1000)


SideT = TypeVar("SideT", bound=Side)


@frozen
class Compared:
    """What a script saw on both sides."""

    name: str
    simulated: Side
    real: Side

    @property
    def difference(self) -> str | None:
        """The story up to the first call that differs; None if both sides agree."""
        told: list[str] = []
        for ours, theirs in itertools.zip_longest(self.simulated.seen, self.real.seen):
            if ours != theirs:
                words = [f"  real:      {_words(theirs)}", f"  simulated: {_words(ours)}"]
                text = "\n".join([*told, *words])
                return text.replace(f"-{self.real.number}", "")
            told.append(f"  {_words(ours)}")
        return None


def _words(seen: tuple[str, str] | None) -> str:
    return "nothing" if seen is None else f"{seen[0]} -> {seen[1]}"


def run(script: Script, side: SideT) -> SideT:
    """Let a script see what it sees; an error that it does not expect is part of that."""
    try:
        script(side)
    except Exception as error:
        side.seen.append(("the script", f"{shown_briefly(error)}"))
    finally:
        side.close()
    return side


def shown_briefly(error: Exception) -> str:
    """The error and where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.name})"


def compared(scripts: Mapping[str, Script], bootstrap: str) -> Iterator[Compared]:
    """Each script on both sides, against the real one many at once."""
    owner = AdminClient({"bootstrap.servers": bootstrap}, logger=MutedLogger())

    def one(name: str) -> Compared:
        number = next(_NUMBERS)
        simulated = run(scripts[name], SimulatedSide(number))
        real = RealSide(bootstrap, owner, number, simulated.reached)
        return Compared(name, simulated, run(scripts[name], real))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(one, scripts)


def compared_alone(scripts: Mapping[str, Script], broker: Broker) -> Iterator[Compared]:
    """One after the other, since each breaks the broker."""
    owner = AdminClient({"bootstrap.servers": broker.bootstrap}, logger=MutedLogger())
    for name, script in scripts.items():
        number = next(_NUMBERS)
        real = RealSide(broker.bootstrap, owner, number)
        real.broker = broker
        yield Compared(name, run(script, SimulatedSide(number)), run(script, real))
