"""Operators of a simulated world: they pause the group and set positions, at any moment.

Each is a process of its own that does what the command does, and may be killed on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from kafka_marshal import MarshalError
from kafka_marshal.admin import pause as pausing
from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.set_positions import SetPositionsOperation
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.errors import COORDINATION_TOPIC

if TYPE_CHECKING:
    from tools.simulate.world import World

GROUP = "g"


def set_position(world: World, chance: Random) -> str:
    """An operator runs `marshal set-position` for one topic or partition."""
    topic = chance.choice(world.setting.topics)
    number = chance.randrange(max(1, world.partitions(topic)))
    target = chance.choice(("earliest", "latest", "-50", "+20"))
    of = chance.choice((topic, f"{topic}:{number}"))

    def do(log: LogWriter, view: View) -> None:
        cluster = ClusterClient(log.settings)
        operation = SetPositionsOperation(view, GROUP, [topic], _ms(world, 3.0))
        for batch in view.changes(view.ends):
            operation.read(batch)
        planned = plan([wish(f"{of}={target}")], GROUP, cluster, view)
        operation.set_positions(cluster, log, planned)

    return f"{of}={target}{_operate(world, chance, do)}"


def pause(world: World, chance: Random) -> str:
    """An operator runs `marshal pause`, for a while or until somebody ends the pause."""
    for_ms = _ms(world, chance.choice((0.5, 2.0, 4.0)))
    ends = chance.random() < 0.5

    def do(log: LogWriter, view: View) -> None:
        view.read()
        pausing.pause(view, log, GROUP, for_ms)
        if ends:
            world.scheduler.sleep(for_ms / 2000)
            pausing.resume(view, log, GROUP)

    return f"for {for_ms} ms{', and ends it' if ends else ''}{_operate(world, chance, do)}"


def _ms(world: World, intervals: float) -> int:
    return int(1000 * intervals * world.setting.heartbeat_interval_s)


def _operate(world: World, chance: Random, do: Callable[[LogWriter, View], None]) -> str:
    """Run it; now and then it is killed on the way."""
    scheduler, settings = world.scheduler, world.settings
    name = f"operator {chance.getrandbits(32)}"
    failed = ""

    def run() -> None:
        nonlocal failed
        try:
            with (
                LogWriter(settings, COORDINATION_TOPIC) as log,
                View(settings, COORDINATION_TOPIC, world.setting.rules) as view,
            ):
                do(log, view)
        except MarshalError as error:
            failed = f", {type(error).__name__}: {error}"

    thread = scheduler.begin(name, run)
    if chance.random() < 0.3:
        scheduler.sleep(chance.uniform(0.0, 5.0))
        if thread.is_alive():
            scheduler.kill(name)
            return ", killed"
    thread.join()
    return failed
