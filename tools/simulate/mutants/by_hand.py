"""Mutants of the client's runtime that somebody thought of: one edit of one function each.

This code invites them: a stale object is looked up by key, a reset or a notification is left out, a
position is one further. Or a lost claim is asked all the same.
"""

from __future__ import annotations

from typing import Final

from tools.simulate.mutants.edits import Edit

_FETCHER, _OWNERSHIP = "client/fetch/fetcher.py", "client/coordinate/ownership.py"
_IN_FLIGHT, _OWNED = "client/fetch/in_flight.py", "client/coordinate/owned_partition.py"
_HANDLING, _LOOP = "client/process/handling.py", "client/coordinate/consumer_loop.py"
_RESUMES = "self._fetcher.resume(tenure.fetched)"
_WRITER = "client/connect/log_writer.py"
_COMMITS, _DELIVERY = "client/coordinate/commits.py", "client/api/delivery.py"

BY_HAND: Final = (
    Edit(_FETCHER, "Fetcher.drop", "dropped = self._buffers.drop(one)", "dropped = 0"),
    Edit(_FETCHER, "Fetcher.allow", "self._arrived.notify_all()", "pass"),
    Edit(_FETCHER, "Fetcher._anew", "begin = one.fetched = one.position", "begin = one.fetched"),
    Edit(_FETCHER, "Fetcher._anew", "self._unassign(one)", "pass"),
    Edit(_FETCHER, "Fetcher.keeps", "one.dropped or one.moved", "one.dropped"),
    Edit(_FETCHER, "Fetcher.keeps", "return one.may_begin", "return True"),
    Edit(_FETCHER, "Fetcher.give_back", "one.position = rest.start", "pass"),
    Edit(_FETCHER, "Fetcher._settle", "if one.wanted]", "if not one.paused]"),
    Edit(_FETCHER, "Fetcher._unassign", "self._consumer.resume(partition)", "pass"),
    Edit(_FETCHER, "Fetcher._has_room", "if one not in full and one.held]", "if one.dropped]"),
    Edit(_FETCHER, "Fetcher._run", "self._obey()", "pass"),
    Edit(_IN_FLIGHT, "InFlight._cut", "last + 1 if given", "last + 2 if given"),
    Edit(_IN_FLIGHT, "InFlight.next", "max(self._last, self._acked)", "self._last + 1"),
    Edit(_IN_FLIGHT, "InFlight.commit", "given = self._last", "given = self.end - 1"),
    Edit(_IN_FLIGHT, "InFlight.abandon", "self.end = self.next", "pass"),
    Edit(_IN_FLIGHT, "InFlight.give_back", "rest, self.end, end)", "rest, self.start, end)"),
    Edit(_OWNED, "OwnedPartition.reached", " and not self._chunks[0].abandoned", ""),
    Edit(_OWNED, "OwnedPartitions.begin", "older.release = None", "pass"),
    Edit(_OWNED, "OwnedPartitions.newest", "found[-1] if found", "found[0] if found"),
    Edit(_OWNED, "OwnedPartition.unfinished", "not in_flight.finished", "in_flight.left"),
    Edit(_OWNERSHIP, "Ownership.lost", "self.to_commit.pop(claim.key, None)", "pass"),
    Edit(_OWNERSHIP, "Ownership.lost", "tenure.cut()", "pass"),
    Edit(_OWNERSHIP, "Ownership._won", "self.lost(old, Lost.UNCERTAIN)", "pass"),
    Edit(_OWNERSHIP, "Ownership._done", "if tenure.claim.lost is not None:", "if False:"),
    Edit(_OWNERSHIP, "Ownership.fetched", " and claim.lost is None", ""),
    Edit(_OWNERSHIP, "Ownership.look_at", "tenure.notified = False", "pass"),
    Edit(_OWNERSHIP, "Ownership.withdraw_unwanted", "self._fetcher.drop(tenure.fetched)", "pass"),
    Edit(_OWNERSHIP, "Ownership.redeliver", "fetched, first.next)", "fetched, first.end)"),
    Edit(_OWNERSHIP, "Ownership.redeliver", "tenure.forget(chunks)", "pass"),
    Edit(_OWNERSHIP, "Ownership.read_back", " and epoch == reader.claim.epoch", ""),
    Edit(_OWNERSHIP, "Ownership._heard", "self._go_on(tenure)", _RESUMES),
    Edit(_OWNERSHIP, "Ownership.resume", "self._go_on(tenure)", _RESUMES),
    Edit(_OWNERSHIP, "Ownership.handlers_left", "self._fetcher.pause(tenure.fetched)", "pass"),
    Edit(
        _OWNERSHIP,
        "Ownership._hold_back_silent",
        "silent_ms > stale_ms",
        "silent_ms > 9 * stale_ms",
    ),
    Edit(_OWNERSHIP, "Ownership.appended", "self.under_way -= 1", "pass"),
    Edit(_OWNERSHIP, "Ownership._withhold", "if end < before and in_flight.left:", "if False:"),
    Edit(
        _OWNERSHIP,
        "Ownership._abandon_grant",
        "hand_back(reached",
        "hand_back(tenure.claim.position",
    ),
    Edit(
        _LOOP,
        "ConsumerLoop.commit_positions",
        "self.ownership.to_commit, {}",
        "(at := self.ownership.to_commit), at",
    ),
    Edit(_LOOP, "ConsumerLoop._counted", "partitions <= known.partitions", "True"),
    Edit(
        "client/coordinate/coordinator.py",
        "Coordinator._run",
        "self.loop.commit_positions()",
        "pass",
    ),
    Edit("client/coordinate/session.py", "Session.taken", "self._room.release()", "pass"),
    Edit(_COMMITS, "Commit.settled", "claim.owned or awaited(claim)", "claim.owned"),
    Edit(_COMMITS, "Commit.settled", "if lost:", "if False:"),
    Edit(_COMMITS, "has", "claim.committed >= end", "claim.committed >= end - 1"),
    Edit(_HANDLING, "Handling._let_go", "if not self._in_hand[claim]:", "if True:"),
    Edit(_HANDLING, "Handling.done", "begun.dropped or claimed is None", "claimed is None"),
    Edit(
        _HANDLING,
        "Handling.feed",
        "claimed.claim is not in_flight.claim",
        "claimed.chunks[0].claim.key != in_flight.claim.key",
    ),
    Edit(_HANDLING, "Handling.look", "not claimed.begun and self._given_up", "self._given_up"),
    Edit(
        "client/process/offsets.py",
        "InFlightOffsets.finished",
        "return self.next",
        "return offset + 1",
    ),
    Edit(
        "client/process/work_queues.py",
        "WorkQueues._lane_of",
        "self.order is Order.KEY and",
        "self.order is None and",
    ),
    Edit("client/process/pool.py", "WorkerPool._finish", "self._more.notify()", "pass"),
    Edit(_DELIVERY, "Delivery._deliver", "if self.stopped or self.closed:", "if self.closed:"),
    Edit(_DELIVERY, "Delivery._split", "elif self._way is not DeliveryMode.POLL:", "else:"),
    Edit("client/api/consumer.py", "Consumer.__iter__", "in_flight, True", "None, False"),
    Edit(_WRITER, "RecordWriter._delivered", "error is not None", "False"),
    Edit(_WRITER, "LogWriter.__init__", "**settings.batches(batch_bytes_max),", ""),
)
