"""Marshal promises that silence counts from the last word, and a debt from when some was let go.

Mutants of `sessions` that stories about whole servers do not notice.
"""

from __future__ import annotations

from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.machines.groups.control.sessions import ListeningClock, Sessions
from kafka_marshal.machines.groups.controller import MemberKey
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk

M1, M2 = MemberKey(GROUP, "m1"), MemberKey(GROUP, "m2")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 1_000


def sessions() -> tuple[ListeningClock, Sessions]:
    clock = ListeningClock()
    return clock, Sessions(clock)


def test_a_request_that_came_earlier_makes_nobody_more_silent() -> None:
    clock, known = sessions()
    known.heard(M1, 100)
    known.heard(M1, 50)
    clock.listened_ms = 300
    assert known.silent_ms(M1) == 200


def test_who_was_never_heard_is_silent_from_when_somebody_asks() -> None:
    clock, known = sessions()
    clock.listened_ms = 100
    assert known.silent_ms(M1) == 0
    clock.listened_ms = 350
    assert known.silent_ms(M1) == 250
    known.forget(M1)
    assert known.silent_ms(M1) == 0


def owing(known: Sessions, *tps: TopicPartition, group: str = GROUP) -> None:
    known.owing(group, {"m1": frozenset(tps)} if tps else {})


def muted_from(clock: ListeningClock, known: Sessions, key: MemberKey = M1) -> int | None:
    """When it is answered no more; None: not within a while."""
    before, found = clock.listened_ms, None
    for at_ms in range(0, 5_000, 100):
        clock.listened_ms = at_ms
        if found is None and known.is_muted(key, TIMEOUT_MS):
            found = at_ms
    clock.listened_ms = before
    return found


def test_who_lets_something_go_has_another_timeout_and_nobody_else() -> None:
    clock, known = sessions()
    owing(known, T0)
    clock.listened_ms = 300
    owing(known, T0)
    owing(known, T0, T1)  # it owes more, and has let nothing go
    assert muted_from(clock, known) == TIMEOUT_MS
    owing(known, T1)
    assert muted_from(clock, known) == 300 + TIMEOUT_MS


def test_who_owes_nothing_any_more_is_not_muted_and_other_groups_are_as_before() -> None:
    clock, known = sessions()
    owing(known, T0)
    owing(known, T0, group="h")
    owing(known)
    assert muted_from(clock, known) is None
    assert muted_from(clock, known, MemberKey("h", "m1")) == TIMEOUT_MS
    clock.listened_ms = 400
    owing(known, T0)
    owing(known, T0, group="h")
    assert muted_from(clock, known) == 400 + TIMEOUT_MS
    known.forget(M1)
    assert muted_from(clock, known) is None


def test_a_member_is_overdue_after_its_timeout_and_the_reason_is_what_it_owes() -> None:
    desk = Desk().serve().create()
    for key in (M1, M2):
        desk.join(key.member)
    clock, known = sessions()
    known.restart([M1, M2])
    owing(known, T0)
    clock.listened_ms = SESSION_MS - 1
    assert [*known.overdue(GROUP, desk.group)] == []
    clock.listened_ms = SESSION_MS
    assert {*known.overdue(GROUP, desk.group)} == {("m1", "unreleased"), ("m2", "silent")}
