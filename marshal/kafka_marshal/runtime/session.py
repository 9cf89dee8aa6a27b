"""One instance id: its machine, and the thread that reads the coordination topic for it.

It reads from the beginning of the log, or from where a long one is cut short, and gives on what is
of the instance's group. When the log lost records a session is over; the next one is another
instance. It does not know what a record does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Message

from kafka_marshal.client.claiming import Claiming
from kafka_marshal.client.consumer import Me
from kafka_marshal.client.driver import Timing
from kafka_marshal.client.member import Member
from kafka_marshal.runtime.reader import Heard, OffsetsGone, Tail
from kafka_marshal.runtime.recording import RecordedMember
from kafka_marshal.runtime.settings import Settings
from kafka_marshal.runtime.thinning import Thinning

READ_AHEAD: Final = 32
"""So many batches are read before they are folded."""
JOIN_S: Final = 10.0


def open_session(
    settings: Settings,
    topic: str,
    me: Me,
    group: str,
    claiming: Claiming,
    timing: Timing,
    read_max: int,
    record_to: Path | None = None,
) -> Session:
    """Connect, and see where the log begins; of a partition at most `read_max` records are read.

    What happens is recorded in a folder, if one is named.

    Raises:
        BrokerFailed: the cluster cannot be reached, or has no such topic.
        InvalidOption: nothing can be recorded there.
    """
    tail = Tail(settings, topic)
    try:
        firsts = {
            number: max(extent.low, extent.high - read_max)
            for number, extent in tail.extents().items()
        }
        make = Member if record_to is None else partial(RecordedMember, folder=record_to)
        member = make(me, group, len(tail.partitions), claiming, timing, firsts=firsts)
    except BaseException:
        tail.close()
        raise
    return Session(member, tail, firsts)


class Session:
    """A machine, and whoever reads for it."""

    def __init__(self, member: Member, tail: Tail, firsts: Mapping[int, int]) -> None:
        self.member = member
        self._tail, self._firsts = tail, firsts
        self._wanted: dict[int, int] = {}
        self._room = threading.Semaphore(READ_AHEAD)
        self._stopped = False
        self._thread: threading.Thread | None = None

    def want(self, places: Iterable[int]) -> None:
        """Read these coordinating partitions."""
        self._wanted = {place: self._firsts.get(place, 0) for place in places}

    def begin(
        self,
        heard: Callable[[Heard], None],
        truncated: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Read, and give on what is of the group; each time `folded` says that it was dealt with.

        `truncated` takes why the log is not what it was, `failed` why reading ended.
        """
        whole = frozenset(number for number, first in self._firsts.items() if first == 0)
        group, member = self.member.group.encode("utf-8", "surrogateescape"), self.member
        thinning = Thinning[Message](group, whole)
        if isinstance(member, RecordedMember):
            thinning = Thinning(group, whole, member.fetched)

        def run() -> None:
            try:
                for each in self._tail.follow(
                    lambda: self._wanted, lambda: self._stopped, thinning
                ):
                    self._room.acquire()
                    heard(each)
            except OffsetsGone as error:
                truncated(str(error))
            except BaseException as error:
                if not self._stopped:
                    failed(error)

        self._thread = threading.Thread(target=run, name="marshal-reader", daemon=True)
        self._thread.start()

    def folded(self) -> None:
        """What was given on has been dealt with."""
        self._room.release()

    def end(self) -> None:
        """Read no more, and let go of the cluster."""
        self._stopped = True
        self._room.release()
        if self._thread is not None:
            self._thread.join(JOIN_S)
        self._tail.close()
        if isinstance(self.member, RecordedMember):
            self.member.end()
