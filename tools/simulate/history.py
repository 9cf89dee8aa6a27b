"""What happened in one simulated run, in order, for the checkers to judge. It decides nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from attrs import define, field, frozen

from kafka_marshal.client.message import Range
from kafka_marshal.codec import MalformedRecord, decode, decode_headers
from kafka_marshal.core.messages import Record
from kafka_marshal.testing.in_memory import Stored

Topic = tuple[str, int]
"""A topic and the number of one of its partitions."""


NO_EPOCH = -1
"""Under which an original processes: it knows none."""


@frozen
class Given:
    """A message that an application was given."""

    at_s: float
    process: str
    instance: str
    topic: str
    partition: int
    epoch: int
    offset: int
    unordered: bool = False
    """Its application takes the messages of a partition in any order."""
    worker: str = ""
    """The thread that begins it."""
    withheld: str = ""
    """Why it is not to begin: its claim is lost, silent or paused, it was passed over, or the
    consumer has stopped; nothing where it may."""
    beside: bool = False
    """Another message of its lane is in hand: of its key, or of its partition."""
    turn_s: float = 0.0
    """For how long its claim has its turn while another one waits; only where both are known."""
    range: Range | None = None
    """The range that it came under, where its partition is shared; then `epoch` is its id."""

    @property
    def where(self) -> Topic:
        """Its partition."""
        return self.topic, self.partition


@frozen
class Called:
    """What a consumer reported of a claim: claimed, lost, fenced, drained or left."""

    at_s: float
    process: str
    instance: str
    kind: str
    topic: str
    partition: int
    epoch: int
    reason: str = ""
    in_hand: int = 0
    """How many messages of it the application had begun and not finished."""
    gives_up: bool = False
    """The application was asked to end, or has failed."""


@frozen
class NotCommitted:
    """A commit of a message that failed."""

    process: str
    message: str
    error: str
    took_s: float
    lost: str
    """Why its claim was lost then; nothing, if it was not."""
    calm: bool
    """It was called for a claim of ours, and there were no faults any more."""


@frozen
class Sought:
    """A `seek` of an application, at least once."""

    log: int
    """How many entries `History.log` had when it was called."""
    topic: str
    partition: int
    epoch: int
    offset: int
    """What lies before it is passed over, as if it were done."""

    @property
    def tenure(self) -> tuple[Topic, int]:
        """Its partition and epoch."""
        return (self.topic, self.partition), self.epoch


@frozen
class TimedCall:
    """A call that waits for messages, without faults."""

    process: str
    what: str
    timeout_s: float
    took_s: float


@frozen
class Committed:
    """A message whose commit has returned."""

    at_s: float
    process: str
    topic: str
    partition: int
    epoch: int
    offset: int

    @property
    def where(self) -> Topic:
        """Its partition."""
        return self.topic, self.partition


@frozen
class Appended:
    """A record of the coordination topic, and what had been processed when it was appended."""

    partition: int
    offset: int
    stored: Stored
    processed: int
    """How many entries `History.processed` had."""
    at_s: float
    index: int
    """How many entries `History.log` had."""
    processed_of_ranges: int = 0
    """How many entries `History.processed_of_ranges` had."""

    @property
    def record(self) -> Record | None:
        """As a reader of the log decodes it; None where it is no record of the protocol."""
        stored = self.stored
        try:
            message, headers = decode(stored.value), decode_headers(stored.headers)
        except MalformedRecord:
            return None
        return Record(self.partition, self.offset, stored.timestamp_ms, message, headers)


@frozen
class LogCut:
    """A coordinating partition lost its end."""

    index: int
    """How many entries `History.log` had."""
    partition: int
    end: int
    """Everything from this offset on is gone."""
    committed: dict[Topic, int]
    """Kafka's committed offsets of the group at that moment."""


@define
class History:
    """Everything that a checker may look at."""

    given: list[Given] = field(factory=list)
    """In the order in which applications were given messages."""
    processed: list[Given] = field(factory=list)
    """Those that an application has finished, in that order."""
    given_of_ranges: list[Given] = field(factory=list)
    """Of shared partitions, what applications were given."""
    processed_of_ranges: list[Given] = field(factory=list)
    """Of shared partitions, what an application has finished."""
    committed_of_ranges: list[tuple[int, Committed]] = field(factory=list)
    """How many entries `log` had when a commit of a range's message returned, and which."""
    raised: set[tuple[str, Topic, int]] = field(factory=set)
    """Process, partition and offset where an application failed: it may be given that again."""
    called: list[Called] = field(factory=list)
    """Callbacks, in their order."""
    observed: list[Called] = field(factory=list)
    """What observers heard, in its order; also `fenced` and `left`."""
    committed: list[Committed] = field(factory=list)
    not_committed: list[NotCommitted] = field(factory=list)
    sought: list[Sought] = field(factory=list)
    calls: list[TimedCall] = field(factory=list)
    """Calls that had a timeout and began when there were no faults any more."""
    wedged: list[str] = field(factory=list)
    """Claims that were called wedged while the application was busy with another one."""
    trusting: list[str] = field(factory=list)
    """Processes that require signatures and went on after a record without one."""
    log: list[Appended] = field(factory=list)
    """The coordination topic, in the order of the appends to all its partitions."""
    cuts: list[LogCut] = field(factory=list)
    """What the coordination topic lost, in that order."""
    removed: dict[Topic, list[tuple[int, int]]] = field(factory=lambda: defaultdict(list))
    """What retention removed of a partition: how many entries `log` had, and below which offset."""
    vanished: dict[Topic, list[int]] = field(factory=lambda: defaultdict(list))
    """Where a partition ended, each time that its topic was deleted."""
    faults: list[tuple[float, str, str]] = field(factory=list)
    """When, which, and to whom."""
    ways: Counter[str] = field(factory=Counter)
    """How often each way of consuming was begun."""
    unhandled: list[str] = field(factory=list)
    """Exceptions in an event loop that nobody heard of."""
    ended: list[tuple[float, str, str]] = field(factory=list)
    """When a process ended by itself, which, and the error that it met, or nothing."""
    unended: list[str] = field(factory=list)
    """Processes that were asked to end while there were no faults, and did not in time."""
    interrupted: set[str] = field(factory=set)
    """Processes whose consumer was closed while the application was at work."""
    survived: set[str] = field(factory=set)
    """Processes whose application went on after a signal's handler had raised in a call."""
    lines: Counter[str] = field(factory=Counter)
    """Log lines, by their wording without what varies."""
    ends: dict[Topic, int] = field(factory=dict)
    """The end of each partition when the run ended."""
    group_offsets: dict[Topic, int] = field(factory=dict)
    """Kafka's committed offsets of the group when the run ended."""
    ended_well: list[tuple[int, str, str]] = field(factory=list)
    """Who was asked to end without faults, and did: when, by the entries of `log`, which process
    and which instance."""
    finished: bool = False
    """When the run ended, the log had every message as processed, or granted."""
    simulated_s: float = 0.0
    ended_ms: int = 0
    """The brokers' clock when the run ended, unix milliseconds."""
    switched: int = 0
    threads_max: int = 0
    """The most threads of one process."""
    clients_max: int = 0
    """The most clients of Kafka that one process had open to read."""
    files_max: int = 0
    """The most files that one process had open."""
    buffered_max: int = 0
    """The most messages in one buffer."""
    miscounted: list[str] = field(factory=list)
    """Buffers that held something else than they counted."""
    outlived: list[str] = field(factory=list)
    """Tenures that one process kept at the end though a later one has decided all of them."""
    tenures_max: int = 0
    """The most tenures of one partition that were over and one process kept at the end."""

    def cut(self, partition: int, end: int, committed: Mapping[tuple[str, str, int], int]) -> None:
        """Note that the coordination topic lost the end of a partition."""
        ours = {(topic, number): at for (_, topic, number), at in committed.items()}
        self.cuts.append(LogCut(len(self.log), partition, end, ours))

    def gone_below(self, where: Topic) -> set[int]:
        """Where a partition began at some time, since retention had removed what was before."""
        return {before for _, before in self.removed.get(where, ())}

    def sought_by(self, tenure: tuple[Topic, int]) -> list[int]:
        """The offsets that a tenure was to go on from, in the order of the calls."""
        return [one.offset for one in self.sought if one.tenure == tenure]

    @property
    def happened(self) -> set[str]:
        """The faults that there were."""
        return {name for _, name, _ in self.faults}
