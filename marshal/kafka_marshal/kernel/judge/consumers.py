"""The state machine of one instance and one claim: `machines.consumer.consumer`, compiled.

One row of numbers is one `ConsumerState`; it begins with the fields of its reader. A row of
`members` is an `InstanceConfig`. The functions are in the order of the original's, whose docstrings
give the reasons. They do not name the reason of a refusal: the original does.
"""

from __future__ import annotations

from typing import Final

import numba

from kafka_marshal.kernel.columns import ABSENT, HEADER_COLUMNS
from kafka_marshal.kernel.judge.readers import (
    CERTAIN,
    CLOCK_HEADER,
    EPOCH_HEADER,
    GRANTED,
    IS_CLOCK,
    IS_OWNER,
    IS_POSITION,
    IS_SET,
    READER_FIELDS,
    SEEN_HEADER,
    SET_POSITION_HEADER,
    SUPERSEDES_HEADER,
    read_record,
)
from kafka_marshal.kernel.steps import (
    CLAIMING_MESSAGES,
    CLAIMING_PARTITION,
    CLOCK,
    EPOCH,
    HEARTBEAT,
    LAST_HEARTBEAT,
    NONE,
    OWNER_CLIENT,
    OWNER_INSTANCE,
    PAUSER,
    POSITION,
    RELEASING_PARTITION,
    SET,
)

GRANTS_MAX: Final = 4
"""The most ranges in a row."""
VIEW, RESIGNED, ASKED, STOPPED, NEXT, GRANTS, RANGES = range(READER_FIELDS, READER_FIELDS + 7)
CONSUMER_FIELDS: Final = RANGES + 2 * GRANTS_MAX
"""The fields of a `ConsumerState` after its reader: `GRANTS` ranges from `RANGES` on."""
(
    INSTANCE, CLIENT, GROUP, AT_MOST_ONCE, WINDOW, BATCH, START, ADMIN, CERTIFIES, INTERVAL_MS,
    STARTED, RUNNING, MEMBER_FIELDS,
) = range(13)  # fmt: skip
"""The properties of an instance, and whether it has started and runs."""
_INTERVAL_HEADER: Final = HEADER_COLUMNS.index("interval_ms")
_START_HEADER: Final = HEADER_COLUMNS.index("start")
_DONE_HEADER: Final = HEADER_COLUMNS.index("done")

_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def _acts_on(me, consumer):  # type: ignore[no-untyped-def]
    return (
        consumer[OWNER_INSTANCE] == me[INSTANCE]
        and consumer[LAST_HEARTBEAT] != NONE
        and consumer[CERTAIN] & IS_OWNER != 0
        and (consumer[RESIGNED] == NONE or consumer[RESIGNED] != consumer[EPOCH])
    )


@_compiled
def _never_set(consumer):  # type: ignore[no-untyped-def]
    return not consumer[SET] and consumer[CERTAIN] & IS_SET != 0


@_compiled
def _granted_end(consumer):  # type: ignore[no-untyped-def]
    count = consumer[GRANTS]
    return consumer[RANGES + 2 * count - 1] if count > 0 else 0


@_compiled
def _offset_to_send(me, consumer):  # type: ignore[no-untyped-def]
    if not me[AT_MOST_ONCE]:
        return consumer[NEXT]
    begun = me[START] if _never_set(consumer) else consumer[POSITION]
    return max(begun, _granted_end(consumer))


@_compiled
def _floor(me, consumer):  # type: ignore[no-untyped-def]
    position = consumer[POSITION]
    if _never_set(consumer) or consumer[CERTAIN] & IS_POSITION == 0:
        return max(position, me[START])
    return position


@_compiled
def _may_claim(me, consumer):  # type: ignore[no-untyped-def]
    if consumer[STOPPED] or (me[ADMIN] and consumer[PAUSER] != me[INSTANCE]):
        return False
    if _acts_on(me, consumer) or consumer[ASKED]:
        return False
    needed = IS_OWNER | IS_POSITION
    sure = consumer[CERTAIN] & needed == needed
    return not me[AT_MOST_ONCE] or me[ADMIN] or sure


@_compiled
def _may_claim_messages(me, consumer, offset):  # type: ignore[no-untyped-def]
    return (
        me[AT_MOST_ONCE]
        and not me[ADMIN]
        and consumer[CERTAIN] & IS_POSITION != 0
        and offset > consumer[POSITION]
        and offset <= consumer[POSITION] + me[BATCH]
    )


@_compiled
def sends(me, consumer, kind, version, number, present, header):  # type: ignore[no-untyped-def]
    """Whether it may send this record about a claim, with this content; its state afterwards.

    Sender, claim and coordinating partition are correct. The time of sending is not checked: no
    rule depends on it.
    """
    if version != 1 or not present:
        return False
    said_ms = header[_INTERVAL_HEADER]
    if said_ms != ABSENT and said_ms != me[INTERVAL_MS]:
        return False
    if kind == CLAIMING_PARTITION:
        if not _may_claim(me, consumer):
            return False
        supersedes = ABSENT
        if consumer[LAST_HEARTBEAT] != NONE and consumer[OWNER_CLIENT] == me[CLIENT]:
            supersedes = ABSENT if consumer[EPOCH] == NONE else consumer[EPOCH]
        if header[SUPERSEDES_HEADER] != supersedes:
            return False
        for column in range(len(header)):
            ours = column in (SUPERSEDES_HEADER, _INTERVAL_HEADER)
            if not ours and header[column] != ABSENT:
                return False
        consumer[ASKED] = 1
        return True
    if consumer[STOPPED] or not _acts_on(me, consumer):
        return False
    if not _are_owners(me, consumer, header):
        return False
    if kind == HEARTBEAT:
        return (
            number == _offset_to_send(me, consumer)
            and _says_start(me, consumer, header)
            and header[SET_POSITION_HEADER] == ABSENT
            and header[_DONE_HEADER] == ABSENT
        )
    if said_ms != ABSENT:
        return False
    if kind == CLAIMING_MESSAGES:
        return (
            _may_claim_messages(me, consumer, number)
            and header[_START_HEADER] == ABSENT
            and header[SET_POSITION_HEADER] == ABSENT
            and header[_DONE_HEADER] == ABSENT
        )
    if kind != RELEASING_PARTITION:
        return False
    if me[ADMIN]:
        if (
            header[SET_POSITION_HEADER] != number
            or header[_START_HEADER] != ABSENT
            or header[_DONE_HEADER] != ABSENT
        ):
            return False
    elif (
        number != _offset_to_send(me, consumer)
        or not _says_start(me, consumer, header)
        or header[SET_POSITION_HEADER] != ABSENT
    ):
        return False
    consumer[RESIGNED] = consumer[EPOCH]
    return True


@_compiled
def _are_owners(me, consumer, header):  # type: ignore[no-untyped-def]
    """Whether epoch, seen and clock equal those of `_owner_headers`."""
    if header[SUPERSEDES_HEADER] != ABSENT:
        return False
    if header[EPOCH_HEADER] != (ABSENT if consumer[EPOCH] == NONE else consumer[EPOCH]):
        return False
    needed = IS_POSITION | IS_CLOCK
    if me[CERTIFIES] and consumer[CERTAIN] & needed == needed:
        seen, clock_ms = consumer[VIEW] - 1, consumer[CLOCK]
        # A negative number does not stand for an absent header.
        if seen < 0 or clock_ms < 0:
            return False
        return header[SEEN_HEADER] == seen and header[CLOCK_HEADER] == clock_ms
    return header[SEEN_HEADER] == ABSENT and header[CLOCK_HEADER] == ABSENT


@_compiled
def _says_start(me, consumer, header):  # type: ignore[no-untyped-def]
    """Whether it states its start as it would, or none, like an older version."""
    start = header[_START_HEADER]
    if start == ABSENT:
        return True
    return start == me[START] and not me[ADMIN] and _offset_to_send(me, consumer) >= me[START]


@_compiled
def processes(me, consumer, start, stop):  # type: ignore[no-untyped-def]
    """Whether it may process these messages; its state afterwards."""
    if me[AT_MOST_ONCE]:
        return _process_grant(consumer, start, stop)
    if me[ADMIN] or consumer[STOPPED] or not _acts_on(me, consumer):
        return False
    if start != consumer[NEXT] or stop - 1 >= _floor(me, consumer) + me[WINDOW]:
        return False
    consumer[NEXT] = stop
    return True


@_compiled
def _process_grant(consumer, start, stop):  # type: ignore[no-untyped-def]
    count = consumer[GRANTS]
    for index in range(count):
        at = RANGES + 2 * index
        if consumer[at] <= start and stop <= consumer[at + 1]:
            before, behind = consumer[at] < start, stop < consumer[at + 1]
            if before and behind:
                if count == GRANTS_MAX:
                    return False
                for place in range(RANGES + 2 * count - 1, at, -1):
                    consumer[place + 2] = consumer[place]
                consumer[at + 1], consumer[at + 2] = start, stop
                consumer[GRANTS] = count + 1
            elif before:
                consumer[at + 1] = start
            elif behind:
                consumer[at] = stop
            else:
                _drop_grants(consumer, index, 1)
            return True
    return False


@_compiled
def _drop_grants(consumer, index, gone):  # type: ignore[no-untyped-def]
    for place in range(RANGES + 2 * index, RANGES + 2 * (consumer[GRANTS] - gone)):
        consumer[place] = consumer[place + 2 * gone]
    consumer[GRANTS] -= gone


@_compiled
def _grant(consumer, start, stop):  # type: ignore[no-untyped-def]
    """`consumer._together`: join a range with adjacent or overlapping granted ones."""
    first = 0
    while first < consumer[GRANTS] and consumer[RANGES + 2 * first + 1] < start:
        first += 1
    last = first
    while last < consumer[GRANTS] and consumer[RANGES + 2 * last] <= stop:
        start = min(start, consumer[RANGES + 2 * last])
        stop = max(stop, consumer[RANGES + 2 * last + 1])
        last += 1
    if last == first:
        for place in range(RANGES + 2 * consumer[GRANTS] - 1, RANGES + 2 * first - 1, -1):
            consumer[place + 2] = consumer[place]
        consumer[GRANTS] += 1
    else:
        _drop_grants(consumer, first, last - first - 1)
    at = RANGES + 2 * first
    consumer[at], consumer[at + 1] = start, stop


@_compiled
def has_room(me, consumer, kind, instance):  # type: ignore[no-untyped-def]
    """Whether the row has room for what this record may grant."""
    own = instance == me[INSTANCE]
    return consumer[GRANTS] < GRANTS_MAX or kind != CLAIMING_MESSAGES or not own


@_compiled
def reads(  # type: ignore[no-untyped-def]
    me, consumers, at, kind, version, number, present, headers, said, offset, timestamp_ms,
    instance, client, stale_ms, pause_max_ms, rewind_max_ms,
):  # fmt: skip
    """`consumer.after_read`, in place, if `has_room`."""
    consumer = consumers[at]
    acted = _acts_on(me, consumer)
    epoch, position, certain = consumer[EPOCH], consumer[POSITION], consumer[CERTAIN]
    verdict = read_record(
        consumers, at, kind, version, number, present, headers, said, offset, timestamp_ms,
        instance, client, stale_ms, pause_max_ms, rewind_max_ms,
    )  # fmt: skip
    acting = _acts_on(me, consumer)
    own = instance == me[INSTANCE]
    consumer[VIEW] = offset + 1
    if own and kind == CLAIMING_PARTITION:
        consumer[ASKED] = 0
    if (
        acted
        and consumer[CERTAIN] & IS_OWNER
        and consumer[LAST_HEARTBEAT] != NONE
        and consumer[OWNER_CLIENT] == me[CLIENT]
        and consumer[OWNER_INSTANCE] != me[INSTANCE]
    ):
        consumer[STOPPED] = 1
    if acting and (not acted or epoch != consumer[EPOCH]):
        consumer[NEXT] = _floor(me, consumer)
    if verdict == GRANTED and own and kind == CLAIMING_MESSAGES:
        needed = IS_OWNER | IS_POSITION
        if certain & needed == needed and position < number:
            _grant(consumer, position, number)
