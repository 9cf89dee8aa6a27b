"""Finds a small part of a run that still shows the same violation.

If possible, the instance also has the same knowledge of the claim as in the whole run.

A part is a run itself. Events are left out in units: a record with its being sent and read, an
instance with all its actions. Offsets stay the same, and the same guard forbids the same instance
the same event. The search judges events, and their number is limited.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

import attrs

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.validate.explain import Unexplained
from kafka_marshal.validate.run import (
    SHARE_EVENTS,
    Appended,
    BeginsAt,
    Fields,
    GaveUp,
    Gone,
    Processed,
    Read,
    RunEvent,
    Sent,
    Setting,
    header,
    without,
)
from kafka_marshal.validate.shared_log import is_about
from kafka_marshal.validate.validator import Validator, first_unexplained

EFFORT_MAX = 1_000_000
"""The most events to judge in each of three searches."""
TELLING = 100
"""A part with more events is too long to be an explanation."""


@attrs.frozen
class Slice:
    """A part of a run that ends with the unexplained event."""

    setting: Setting
    events: tuple[RunEvent, ...]
    unexplained: Unexplained
    """With the number and expectation of this part, which may differ from the whole run's."""

    def rows(self) -> list[Fields]:
        """Yield the lines of the part, the setting first."""
        return [header(self.setting), *(event.fields for event in self.events)]


def slice_of(
    setting: Setting,
    events: Iterable[RunEvent],
    unexplained: Unexplained,
    effort_max: int = EFFORT_MAX,
) -> Slice:
    """Leave out everything up to the unexplained event that is not needed for it."""
    taken = []
    for event in events:
        taken.append(event)
        if len(taken) == unexplained.number:
            break
    whole = Slice(setting, tuple(taken), unexplained)
    found = whole
    for same in (_all_it_believes, _who_owns, _nothing):
        # A part with the same knowledge explains more than one with the same failure only.
        found = _Search(unexplained, effort_max, same, taken, setting).smaller(whole)
        if len(found.events) <= TELLING:
            break
    return found


def _all_it_believes(validator: Validator, fault: Unexplained) -> object:
    """Knowledge of the claim in question: owner, position, and the instance's own request."""
    shares = _what_it_shares(validator, fault)
    if shares is not None:
        return shares
    consumer = _consumer(validator, fault)
    if consumer is None:
        return None
    known = consumer.known
    return (
        (known.owner_instance, known.epoch, known.position, consumer.granted),
        (consumer.asked, consumer.stopped, consumer.resigned),
    )


def _what_it_shares(validator: Validator, fault: Unexplained) -> object:
    """Knowledge of a shared claim: its owner, and what the instance holds and waits for."""
    instance = validator.instances.get(fault.instance or "")
    if instance is None or fault.key is None or fault.key not in instance.parts:
        return None
    known = instance.parts[fault.key].participant
    return (
        (known.claim.owner_instance, known.claim.position, known.held),
        (known.asked, known.requested, known.leaving),
    )


def _who_owns(validator: Validator, fault: Unexplained) -> object:
    consumer = _consumer(validator, fault)
    return consumer and (consumer.known.owner_instance, consumer.known.epoch)


def _nothing(validator: Validator, fault: Unexplained) -> object:
    return None


def _consumer(validator: Validator, fault: Unexplained) -> ConsumerState | None:
    instance = validator.instances.get(fault.instance or "")
    if instance is None or not instance.running or fault.key is None:
        return None
    return instance.consumer(fault.key)


def _without_instances(events: Iterable[RunEvent], gone: set[str]) -> list[RunEvent]:
    """Leave out the events of these instances; their records become strangers'."""
    return [event for event in events if getattr(event, "instance", None) not in gone]


def _of_claim(events: Iterable[RunEvent], key: ClaimKey) -> list[RunEvent]:
    """The events of one claim, and of its participants."""
    records: set[tuple[int, int]] = set()
    kept: list[RunEvent] = []
    for event in events:
        match event:
            case Appended():
                keep = event.said is not None and is_about(event.said, key)
                if keep:
                    records.add((event.partition, event.offset))
            case Sent():
                keep = event.said is None or is_about(event.said, key)
            case Read():
                keep = (event.partition, event.offset) in records
            case Processed() | GaveUp() | BeginsAt() | Gone():
                keep = (event.topic, event.topic_partition) == (key.topic, key.topic_partition)
            case _ if isinstance(event, SHARE_EVENTS):
                keep = (event.topic, event.topic_partition) == (key.topic, key.topic_partition)
            case _:
                keep = True
        if keep:
            kept.append(event)
    return kept


class _Search:
    """Searches for smaller parts with the same fault, until the effort is used up."""

    def __init__(
        self,
        fault: Unexplained,
        effort_max: int,
        same: Callable[[Validator, Unexplained], object],
        events: Sequence[RunEvent],
        setting: Setting,
    ) -> None:
        self._fault = fault
        self._left = effort_max
        self._same = same
        validator = Validator(setting)
        first_unexplained(validator, events)
        self._must_be = same(validator, fault)

    def smaller(self, whole: Slice) -> Slice:
        """First leave out other instances and claims, then everything else that is not needed."""
        others = {name for name in whole.setting.members if name != self._fault.instance}
        alone = without(whole.setting, others)
        found = self._judged(alone, _without_instances(whole.events, others)) or whole
        if self._fault.key is not None:
            found = self._judged(found.setting, _of_claim(found.events, self._fault.key)) or found
        return self._smallest(found)

    def _judged(self, setting: Setting, events: Sequence[RunEvent]) -> Slice | None:
        self._left -= len(events)
        validator = Validator(setting)
        unexplained = first_unexplained(validator, events)
        if unexplained is None or not self._fault.same_fault(unexplained):
            return None
        if self._same(validator, unexplained) != self._must_be:
            return None
        return Slice(setting, tuple(events[: unexplained.number]), unexplained)

    def _smallest(self, found: Slice) -> Slice:
        """Leave out more and more, in smaller and smaller portions (ddmin)."""
        portions = 2
        while True:
            units = _units(found.events[:-1])
            size = -(-len(units) // portions)
            if not units or self._left <= 0:
                return found
            for start in range(0, len(units), size):
                rest = [*units[:start], *units[start + size :]]
                smaller = self._judged(found.setting, _in_order(rest, found.events))
                if smaller is not None:
                    found, portions = smaller, max(portions - 1, 2)
                    break
                if self._left <= 0:
                    return found
            else:
                if size == 1:
                    return found
                portions = min(2 * portions, len(units))


Unit = list[int]
"""Indices of events that are left out together."""


def _units(events: Sequence[RunEvent]) -> list[Unit]:
    """A record with its being sent and read; every other event by itself."""
    units: list[Unit] = []
    under_way: dict[object, deque[Unit]] = defaultdict(deque)
    landed: dict[tuple[int, int], Unit] = {}
    for index, event in enumerate(events):
        match event:
            case Sent() if event.message is not None or event.shared is not None:
                unit = [index]
                units.append(unit)
                under_way[event.content].append(unit)
            case Appended():
                waiting = under_way.get(event.content)
                if waiting:
                    unit = waiting.popleft()
                    unit.append(index)
                else:
                    unit = [index]
                    units.append(unit)
                landed[event.partition, event.offset] = unit
            case Read() if (event.partition, event.offset) in landed:
                landed[event.partition, event.offset].append(index)
            case _:
                units.append([index])
    return units


def _in_order(units: Iterable[Unit], events: Sequence[RunEvent]) -> list[RunEvent]:
    """The events of these units in order, and the unexplained one."""
    indices = sorted(index for unit in units for index in unit)
    return [*(events[index] for index in indices), events[-1]]
