"""The log of claims gets records that nobody expects, and loses some, or all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from tools.simulate.faults.fault import intervals

from kafka_marshal.capture import HeaderPairs
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.claims.world import World as Claims
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.errors import COORDINATION_TOPIC

if TYPE_CHECKING:
    from tools.simulate.world import World

# A stranger who claims in the group is a member, and what it says counts: see SECURITY.md.
Written: TypeAlias = tuple[bytes, HeaderPairs]
"""A value and headers."""
NOTICED_S: Final = 10.0
"""How long it takes until everybody has read something of a log that was made anew."""
STRANGE: Final = (
    b"",
    b"\xff\xfe",
    b"Heartbeat/1",
    b"Heartbeat/1/0/i/c/g/orders/99999999999999999999/1",
    b"ClaimingPartition/1/0/nobody/nobody/others/orders/0",
    b"ReleasingPartition/1/0/nobody/nobody/g/orders/0/0",
    b"Heartbeat/9/0/i/c/g/orders/0/1",
)


def hostile(world: World, chance: Random) -> str:
    """Somebody appends a record that is not of the protocol, or a foreign client's record."""
    ours = world.setting.signing != "required"  # else see `forge`
    strange = [each for each in STRANGE if ours or b"/g/" not in each]
    value = chance.choice(strange)
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    world.kafka.append(COORDINATION_TOPIC, partition, value)
    return f"{value!r} to partition {partition}"


def impersonate(world: World, chance: Random) -> str:
    """Somebody writes a record about an owned claim that every reader refuses."""
    topic = chance.choice(world.setting.topics)
    place = coordinating_partition(topic, world.setting.log_partitions)
    if place >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    claims = Claims(world.setting.rules)
    log = world.kafka.topics[COORDINATION_TOPIC][place]
    for appended in world.history.log:  # also what retention has removed
        if appended.partition == place and appended.offset < log.high and appended.record:
            with suppress(OutOfOrder):  # the log lost its end, and offsets are used anew
                claims.apply(appended.record)
    owned = [(key, claim) for key, claim in claims.claims.items() if claim.owned and claim.epoch]
    owned = [(key, claim) for key, claim in owned if key.topic == topic and key.group == "g"]
    if not owned:
        return "nothing"
    key, claim = chance.choice(owned)
    how = chance.choice(REFUSED)
    if how is sets_a_negative_position and world.setting.recorded:
        return "nothing"  # no specification explains what its sender has not recorded
    value, headers = how(key, claim, log.high)
    now_ms, stale_ms = world.kafka.broker_ms(), world.setting.rules.stale_after_ms
    if how is claims_as_its_client and now_ms - (claim.last_heartbeat_ms or 0) > stale_ms / 2:
        return "nothing"  # else it might win
    world.kafka.append(COORDINATION_TOPIC, place, value, headers)
    return f"{how.__name__} of {topic}/{key.topic_partition}"


def _of(kind: str, key: ClaimKey, instance: str, client: str, *number: int) -> bytes:
    fields = (kind, 1, 0, instance, client, key.group, key.topic, key.topic_partition, *number)
    return "/".join(map(str, fields)).encode()


def beats_under_its_epoch(key: ClaimKey, claim: Claim, end: int) -> Written:
    """FORGED: the epoch is the owner's, the instance is not."""
    value = _of("Heartbeat", key, "nobody", "nobody", claim.position)
    return value, (("marshal-epoch", b"%d" % (claim.epoch or 0)),)


def beats_under_a_later_epoch(key: ClaimKey, claim: Claim, end: int) -> Written:
    """LOG_LOST_RECORDS: nobody won there."""
    value = _of("Heartbeat", key, "nobody", "nobody", claim.position)
    return value, (("marshal-epoch", b"%d" % (end - 1)),)


def beats_under_no_number(key: ClaimKey, claim: Claim, end: int) -> Written:
    """HEADER_NOT_DECIMAL."""
    value = _of("Heartbeat", key, "nobody", "nobody", claim.position)
    return value, (("marshal-epoch", b"first"),)


def has_seen_the_future(key: ClaimKey, claim: Claim, end: int) -> Written:
    """HEADER_FROM_THE_FUTURE."""
    value = _of("ClaimingPartition", key, "nobody", "nobody")
    return value, (("marshal-seen", b"%d" % (end + 1000)),)


def beats_bare(key: ClaimKey, claim: Claim, end: int) -> Written:
    """EPOCH_MISSING, or NOT_OWNER of an original's claim."""
    return _of("Heartbeat", key, "nobody", "nobody", claim.position), ()


def sets_a_negative_position(key: ClaimKey, claim: Claim, end: int) -> Written:
    """NEGATIVE_POSITION: in the owner's own name."""
    owner, client = str(claim.owner_instance), str(claim.owner_client)
    value = _of("ReleasingPartition", key, owner, client, -1)
    epoch = b"%d" % (claim.epoch or 0)
    return value, (("marshal-epoch", epoch), ("marshal-set-position", b"1"))


def claims_as_its_client(key: ClaimKey, claim: Claim, end: int) -> Written:
    """DOES_NOT_SUPERSEDE: a second process under the owner's client id."""
    value = _of("ClaimingPartition", key, "nobody", str(claim.owner_client))
    return value, (("marshal-version", b"1"),)


REFUSED: Final = (
    beats_under_its_epoch,
    beats_under_a_later_epoch,
    beats_under_no_number,
    has_seen_the_future,
    beats_bare,
    sets_a_negative_position,
    claims_as_its_client,
)


def lose_end(world: World, chance: Random) -> str:
    """After an unclean election a partition of the log of claims lacks its last records."""
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    there = world.kafka.topics[COORDINATION_TOPIC][partition]
    end = max(there.low, there.high - chance.choice((1, 3, 10, 40)))
    world.kafka.truncate(COORDINATION_TOPIC, partition, end)
    return f"partition {partition} ends at {end}"


def trim_log(world: World, chance: Random) -> str:
    """Retention removes records older than some intervals from a partition of the log of claims."""
    return _without_old(world, chance, world.kafka.delete_records, "begins at")


def compact_log(world: World, chance: Random) -> str:
    """Compaction removes records older than some intervals; the low watermark does not move."""
    return _without_old(world, chance, world.kafka.compact, "is compacted below")


def _without_old(
    world: World, chance: Random, remove: Callable[[str, int, int], None], what: str
) -> str:
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    there = world.kafka.topics[COORDINATION_TOPIC][partition]
    since_ms = world.kafka.broker_ms() - int(1000 * intervals(world, chance, 2.0, 4.0, 8.0))
    before = there.first_at(since_ms)
    if before < 0:
        return "nothing"
    remove(COORDINATION_TOPIC, partition, before)
    return f"partition {partition} {what} {before}"


def vanish_log(world: World, chance: Random) -> str:
    """The topic with the log of claims is deleted, and later created again.

    Not while somebody does not read it. Once the new log is longer than the old one, that reader
    does not notice, and nothing helps (docs/safety.md).
    """
    stands = any(thread.stands for thread in world.scheduler.threads)
    unread = stands or world.kafka.linked or not world.kafka.log_flows
    if unread or not world.partitions(COORDINATION_TOPIC):
        return "nothing"
    settings = world.kafka.topic_settings[COORDINATION_TOPIC]
    world.kafka.delete(COORDINATION_TOPIC)
    for_s = intervals(world, chance, 0.01, 0.3, 2.0)
    world.read_until_s = world.scheduler.clock.monotonic() + for_s + NOTICED_S
    world.scheduler.sleep(for_s)
    world.kafka.create(COORDINATION_TOPIC, world.setting.log_partitions, settings=settings)
    return f"for {for_s:g} s"
