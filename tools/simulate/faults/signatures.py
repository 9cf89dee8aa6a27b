"""Somebody forges records of the group, and an operator changes the key that all sign with."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tools.simulate.faults.fault import intervals
from tools.simulate.keys import key

from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import HeaderPairs
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.errors import COORDINATION_TOPIC

if TYPE_CHECKING:
    from tools.simulate.world import World


def forge(world: World, chance: Random) -> str:
    """A record of the group is forged or a copy; the operator excuses it after a while."""
    topic = chance.choice(world.setting.topics)
    partition = coordinating_partition(topic, world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    stored = world.kafka.topics[COORDINATION_TOPIC][partition].records
    value = f"ClaimingPartition/1/0/forger/forger/g/{topic}/0".encode()
    headers: HeaderPairs = ()
    how = chance.choice(("no MAC", "unknown key", "another record's MAC", "copy"))
    if how == "unknown key":
        mac = Keyring({"k0": key(99)}, sign_with="k0").header(partition, value, ())
        headers = (mac,) if mac else ()
    elif how != "no MAC" and stored and (original := chance.choice(stored)) is not None:
        headers = original.headers
        value = (original.value or b"") if how == "copy" else value
    world.kafka.append(COORDINATION_TOPIC, partition, value, headers)
    stamp_ms = world.kafka.broker_ms()
    if how != "copy":
        world.forged_ms = stamp_ms
    world.scheduler.sleep(intervals(world, chance, 0.1, 0.5, 1.0))
    world.keys.since_ms = max(world.keys.since_ms or 0, stamp_ms + 1)
    world.keys.changed += 1
    return f"{how}, to partition {partition}"


def rotate_key(world: World, chance: Random) -> str:
    """The operator adds a key, restarts all processes with it, and later lets them sign."""
    keys = world.keys
    if keys.signs < keys.newest:
        return "nothing, another one is under way"
    keys.newest += 1
    for step in ("verify", "sign"):
        if step == "sign":
            keys.signs = keys.newest
        keys.changed += 1
        while old := [
            one for one in world.processes.values() if one.keyring and one.keys < keys.changed
        ]:
            process = chance.choice(old)
            world.end(process.client_id)
            world.start(process.client_id)
    return f"k{keys.newest}"
