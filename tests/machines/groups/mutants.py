"""Controllers that are broken on purpose. Each is a change that `monkeypatch` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from attrs import evolve

from kafka_marshal.core.groups.state import is_due
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.machines.groups import controller
from kafka_marshal.machines.groups.control import (
    answering,
    controlled_log,
    holdings,
    housekeeping,
    partition,
)
from kafka_marshal.machines.groups.control.answering import Answering
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog
from kafka_marshal.machines.groups.control.partition import PartitionController
from kafka_marshal.machines.groups.control.sessions import Sessions
from kafka_marshal.machines.groups.server import GroupServer

Patch = pytest.MonkeyPatch


def answers_from_the_speculative(patch: Patch) -> None:
    flush = PartitionController.flush

    def early(self: PartitionController, now_ms: int) -> None:
        view, c = self.log.view, self.log.c
        self.log.view = self.log.ahead
        for name, group in self.log.view.groups.items():
            self.answering.holdings[name] = holdings.holdings_of(group)
        confirmed, self.log.confirmed = self.log.confirmed, 10**9
        waits, self.answering.waits = self.answering.waits, []
        if controller.is_serving(c, view):
            for wait in waits:
                self.answering._answer(wait)
        else:
            self.answering.waits = waits
        self.log.view, self.log.confirmed = view, confirmed
        flush(self, now_ms)

    patch.setattr(PartitionController, "flush", early)


def answers_before_it_landed(patch: Patch) -> None:
    patch.setattr(answering, "has_landed", lambda view, number: True)


def judges_by_the_view(patch: Patch) -> None:
    patch.setattr(controlled_log, "speculative", lambda c, view: view)


def answers_unconfirmed(patch: Patch) -> None:
    is_ready = Answering.is_ready

    def at_once(self: Answering, wait: Any) -> bool:
        wait.token = 0
        return is_ready(self, wait)

    patch.setattr(Answering, "is_ready", at_once)


def confirms_without_folding(patch: Patch) -> None:
    end_is = ControlledLog.end_is

    def at_once(self: ControlledLog, token: int, offset: int) -> None:
        if self.knowledge is controlled_log.LogKnowledge.ALL:
            offset = 0
        end_is(self, token, offset)

    patch.setattr(ControlledLog, "end_is", at_once)


def answers_while_it_expires(patch: Patch) -> None:
    answer_member = Answering._answer_member

    def anyway(self: Answering, wait: Any) -> None:
        c = self.log.c
        self.log.c = evolve(c, pending=())
        answer_member(self, wait)
        self.log.c = evolve(self.log.c, pending=c.pending, ahead=c.ahead)

    patch.setattr(Answering, "_answer_member", anyway)


def serves_on(patch: Patch) -> None:
    patch.setattr(controlled_log, "is_serving", lambda c, view: c.epoch is not None)
    after = controller.after_reading

    def goes_on(me: int, c: Any, record: Any, verdict: Any) -> Any:
        is_others = verdict is GroupAccepted.STARTED and not controller.is_own_start(me, c, record)
        return c if is_others else after(me, c, record, verdict)

    patch.setattr(controlled_log, "after_reading", goes_on)


def takes_any_start_for_its_own(patch: Patch) -> None:
    patch.setattr(controller, "is_own_start", lambda me, c, record: c.starts and is_start(record))


def is_start(record: Any) -> bool:
    return type(record.event).__name__ == "ControllerStarted"


def expires_at_once(patch: Patch) -> None:
    def silent(self: Sessions, members: Any) -> None:
        self._heard = dict.fromkeys(members, -(10**9))
        self._owes = {}

    patch.setattr(Sessions, "restart", silent)


def session_too_short(patch: Patch) -> None:
    silent_ms = Sessions.silent_ms
    patch.setattr(Sessions, "silent_ms", lambda self, key: silent_ms(self, key) * 2)


def forgets_what_it_sent(patch: Patch) -> None:
    def ignored(self: ControlledLog, record: Any, now_ms: int) -> None:
        if is_start(record):
            self.c = evolve(self.c, starts=False)

    patch.setattr(ControlledLog, "append_failed", ignored)
    after = controller.after_own_event

    def goes_on(c: Any, record: Any, verdict: Any) -> Any:
        return c if not isinstance(verdict, GroupAccepted) else after(c, record, verdict)

    patch.setattr(controller, "after_own_event", goes_on)


def gives_up_the_living(patch: Patch) -> None:
    """Who lets nothing go is given up while it has an answer to go by."""

    def overdue(self: Sessions, name: str, group: Any) -> Any:
        for member in group.members:
            key, timeout_ms = controller.MemberKey(name, member), group.session_timeout_ms
            if self.silent_ms(key) >= timeout_ms or self.is_muted(key, timeout_ms):
                yield member, "unreleased"

    patch.setattr(Sessions, "overdue", overdue)


def counts_nothing_of_the_muted(patch: Patch) -> None:
    """Who was muted is answered in the end, and what it asked does not count."""
    answer_living = Answering._answer_living

    def uncounted(self: Answering, wait: Any, group: Any) -> None:
        heard = dict(self.sessions._heard)
        answer_living(self, wait, group)
        self.sessions._heard = heard

    patch.setattr(Answering, "_answer_living", uncounted)


def keeps_connections(patch: Patch) -> None:
    started = PartitionController._started

    def keeps(self: PartitionController, now_ms: int) -> None:
        started(self, now_ms)
        self._from_before = self._ticks_left = 0

    patch.setattr(PartitionController, "_started", keeps)


def hears_the_old_connection(patch: Patch) -> None:
    patch.setattr(partition, "is_void", lambda c, key, connection: False)
    patch.setattr(PartitionController, "_void_older", lambda self, key, connection: None)


def only_joins_rebalance(patch: Patch) -> None:
    def due(group: Any) -> bool:
        return is_due(group) and bool(group.members.keys() - group.target_of.members.keys())

    patch.setattr(housekeeping, "is_due", due)


def never_counts(patch: Patch) -> None:
    patch.setattr(housekeeping.Housekeeping, "_look_at_topics", lambda self, now_ms: None)


def owner_hears_of_no_rewind(patch: Patch) -> None:
    made = holdings.holdings_of

    def without(group: Any) -> Any:
        concerned = {each.owner: each.revoking for each in group.partitions.values()}
        return evolve(made(group), concerned_at=concerned)

    patch.setattr(answering, "holdings_of", without)


def asks_only_for_news(patch: Patch) -> None:
    made = holdings.holdings_of
    patch.setattr(answering, "holdings_of", lambda group: evolve(made(group), owed=Never()))


class Never(dict[Any, Any]):
    """Names nobody, and is passed on as it was."""

    def __contains__(self, key: object) -> bool:
        return False


def never_gives_up(patch: Patch) -> None:
    patch.setattr(Sessions, "overdue", lambda self, name, group: iter(()))


def moves_too_early(patch: Patch) -> None:
    decide = housekeeping.Housekeeping._write_snapshots

    def early(self: Any, now_ms: int) -> None:
        decide(self, now_ms)
        if self._snapshot is not None:
            self._snapshot.last = self._snapshot.first

    patch.setattr(housekeeping.Housekeeping, "_write_snapshots", early)


def snapshots_what_was_read(patch: Patch) -> None:
    decide = ControlledLog.decide

    def older(self: ControlledLog, group: str, event: Any) -> Any:
        if type(event).__name__ == "GroupSnapshot" and group in self.view.groups:
            event = evolve(event, state=self.view.groups[group])
        return decide(self, group, event)

    patch.setattr(ControlledLog, "decide", older)


def takes_an_earlier_end(patch: Patch) -> None:
    """It takes the answer to an earlier question for the one that it waits for."""
    wait = Answering.wait

    def earlier(self: Answering, wait_: Any, *, prolongs: bool = False) -> None:
        wait(self, wait_, prolongs=prolongs)
        wait_.token = max(0, wait_.token - 1)

    patch.setattr(Answering, "wait", earlier)


def competes_at_once(patch: Patch) -> None:
    """It does not fold up to the end before it competes."""
    compete = ControlledLog.compete

    def at_once(self: ControlledLog, now_ms: int) -> None:
        self._compete_token = 0
        compete(self, now_ms)

    patch.setattr(ControlledLog, "compete", at_once)


def counts_its_sleep(patch: Patch) -> None:
    tick = GroupServer.tick

    def counted(self: GroupServer, now_ms: int) -> Any:
        self._clock.listened_ms += max(0, now_ms - self._clock.now_ms - 200)
        return tick(self, now_ms)

    patch.setattr(GroupServer, "tick", counted)


MUTANTS: Final[Mapping[str, Callable[[Patch], None]]] = {
    each.__name__: each
    for each in (
        answers_from_the_speculative,
        answers_before_it_landed,
        judges_by_the_view,
        answers_unconfirmed,
        confirms_without_folding,
        answers_while_it_expires,
        serves_on,
        takes_any_start_for_its_own,
        expires_at_once,
        session_too_short,
        forgets_what_it_sent,
        gives_up_the_living,
        counts_nothing_of_the_muted,
        keeps_connections,
        hears_the_old_connection,
        only_joins_rebalance,
        never_counts,
        owner_hears_of_no_rewind,
        asks_only_for_news,
        never_gives_up,
        moves_too_early,
        snapshots_what_was_read,
        takes_an_earlier_end,
        competes_at_once,
        counts_its_sleep,
    )
}
