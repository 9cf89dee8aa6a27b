"""TLC on a recorded run: the run becomes constant data of `spec/claims/TraceMarshal.tla`.

This module writes the data and reads TLC's answer. It judges nothing: the caller compares the
answer with that of `kafka_marshal.validate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import attrs

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Headers, Message, Record, ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import TlcResult
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate.explain import Unexplained
from kafka_marshal.validate.run import (
    SHARE_EVENTS,
    Appended,
    BeginsAt,
    Crashed,
    Gap,
    GaveUp,
    Gone,
    Processed,
    Read,
    Run,
    RunEvent,
    Sent,
    Setting,
    Started,
)

CHUNK: Final = 500
"""Events in one sequence: TLC's parser is slow with, and deep in, a sequence of all."""
INTEGER_MAX: Final = 2**31 - 1
"""TLC counts in 32 bits."""
START_MS: Final = 1_000_000
"""The beginning of the run in TLC's time: above 0, since 0 and -1 mean "never" and "nothing"."""
NOBODY: Final = "none"
EVENTS_MAX: Final = 50_000
"""More would take TLC minutes; the Python validator has no such limit."""


class TooMuchForTLC(ModelCheckError):
    """The run has values that TLC cannot represent, or too many events."""


@attrs.frozen
class RunVerdict:
    """TLC's verdict on a run."""

    explained: int
    """How many events have a behaviour."""
    guard: str | None
    """Why the next one has none, by the specification's name; nothing if all have."""
    seconds: float


BEYOND: Final = 100
"""The number of events after the unexplained one that TLC receives."""


def check(
    run: Run, up_to: Unexplained | None = None, data_folder: Path | None = None
) -> RunVerdict:
    """Let TLC search the behaviour that explains the run, with one worker.

    If a run is not explained, events long after the fault are not passed to TLC: no verdict depends
    on them. `data_folder` is where the generated module is left.

    Raises TooMuchForTLC; ModelCheckError as `tlc.run` does, or if TLC did not finish.
    """
    [verdict] = check_each([(run, up_to)], data_folder)
    return verdict


def check_each(
    runs: Iterable[tuple[Run, Unexplained | None]], data_folder: Path | None = None
) -> list[RunVerdict]:
    """Like `check` for several runs with the same durations, in one TLC process.

    If TLC cannot evaluate one of them, the check of all ends.
    """
    shown = [
        (run.setting, list(islice(run.events, None if up_to is None else up_to.number + BEYOND)))
        for run, up_to in runs
    ]
    lengths = [len(events) for _, events in shown]
    spec = models.spec_folder()
    with Scratch("run") as desk:
        folder = data_folder or desk
        (folder / "TraceData.tla").write_text(trace_data(shown), encoding="ascii")
        result = tlc.run(
            spec / "claims" / "TraceMarshal.tla",
            spec / "claims" / "TraceMarshal.cfg",
            check_deadlock=False,
            short=True,  # also with the most events that are taken
            libraries=(*models.libraries(spec), folder),
        )
    return _verdicts(result, lengths)


def _verdicts(result: TlcResult, lengths: Sequence[int]) -> list[RunVerdict]:
    verdicts = [RunVerdict(events, None, result.seconds) for events in lengths]
    for printed in result.printed:
        match printed:
            case ("Unexplained", int(run), int(number), str(guard)):
                verdicts[run - 1] = RunVerdict(number - 1, guard, result.seconds)
            case _:
                raise ModelCheckError(f"TLC printed {printed!r}")
    # Each run has one initial state, one for every explained event, and one with the reason why the
    # next is not explained. No run has more, so if the total is right, none has fewer.
    expected = sum(1 + each.explained + (each.guard is not None) for each in verdicts)
    if result.states != expected or len(result.printed) != sum(
        each.guard is not None for each in verdicts
    ):
        raise ModelCheckError(
            f"TLC found {result.states} states of {sum(lengths)} events, not {expected}, "
            f"and printed {result.printed!r}"
        )
    return verdicts


# --- the data -------------------------------------------------------------------------------------


def trace_data(runs: Sequence[tuple[Setting, list[RunEvent]]]) -> str:
    """The text of TraceData.tla. Raises TooMuchForTLC; ValueError if durations differ."""
    made = [_Data(number, *run) for number, run in enumerate(runs, start=1)]
    durations, *others = (each.durations() for each in made)
    if any(other != durations for other in others):
        raise ValueError("runs in one check have the same durations")
    chunks = {name: chunk for data in made for name, chunk in data.chunks.items()}
    all_runs = _sequence(data.text() for data in made)
    defined = {"TraceChunkSize": str(CHUNK), **durations, **chunks, "TraceRuns": all_runs}
    body = "\n".join(f"{name} == {value}" for name, value in defined.items())
    legend = "".join(data.legend() for data in made)
    return f"---- MODULE TraceData ----\nEXTENDS Integers\n{legend}{body}\n====\n"


class _Data:
    """One of the runs, by its number."""

    def __init__(self, number: int, setting: Setting, events: list[RunEvent]) -> None:
        if len(events) > EVENTS_MAX:
            raise TooMuchForTLC(f"TLC takes at most {EVENTS_MAX:,} events, not {len(events):,}")
        for event in events:
            if isinstance(event, BeginsAt):
                raise TooMuchForTLC(f"{event.where}: TLC takes one start for all of an instance")
            if isinstance(event, Gone):
                raise TooMuchForTLC(f"{event.where}: TLC takes no messages that are gone")
            if isinstance(event, SHARE_EVENTS) or (isinstance(event, Sent) and event.shared):
                raise TooMuchForTLC(f"{event.where}: TLC takes no claims that are shared")
        self._setting = setting
        self._length = len(events)
        stamps = [e.record.timestamp_ms for e in events if isinstance(e, Appended) and e.record]
        first_ms, last_ms = min(stamps, default=0), max(stamps, default=0)
        # Whole seconds, since an expiry counts in them.
        self._base_ms = first_ms // 1000 * 1000 - START_MS
        self._end_ms = last_ms - self._base_ms + setting.rules.pause_max_ms + 1000
        self._instances = {name: f"i{n}" for n, name in enumerate(setting.members, start=1)}
        self._strangers: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        for member in setting.members.values():
            self._client(member.me.client_id)
        groups = {member.group for member in setting.members.values()}
        keys = {key: None for event in events for key in self._keys_of(event)}
        self._claims: Mapping[ClaimKey, int] = {
            key: n for n, key in enumerate((k for k in keys if k.group in groups), start=1)
        }
        self._logs: dict[int, list[int]] = {p: [] for p in range(setting.partitions)}
        self._offsets: dict[int, list[int]] = {p: [] for p in range(setting.partitions)}
        for n, event in enumerate(events, start=1):
            if isinstance(event, Appended) and event.partition in self._logs:
                self._logs[event.partition].append(n)
                self._offsets[event.partition].append(event.offset)
        self.chunks = {
            f"Run{number}Chunk{n}": _sequence(map(self._event, events[start : start + CHUNK]))
            for n, start in enumerate(range(0, len(events), CHUNK), start=1)
        }

    def durations(self) -> dict[str, str]:
        rules = self._setting.rules
        return {
            "TraceHeartbeatIntervalMs": self._duration(rules.heartbeat_interval_ms),
            "TracePauseMaxMs": self._duration(rules.pause_max_ms),
            "TraceClockRewindMaxMs": self._duration(rules.clock_rewind_max_ms),
        }

    def text(self) -> str:
        setting = self._setting
        fields = {
            "length": str(self._length),
            "chunks": _sequence(self.chunks),
            "partitions": str(setting.partitions),
            "idempotent": _bool(setting.idempotent),
            "homes": _sequence([str(self._home(key) + 1) for key in self._claims]),
            "instances": self._members(),
            "log": _sequence(
                [_sequence([str(number) for number in log]) for log in self._logs.values()]
            ),
        }
        return f"[{', '.join(f'{name} |-> {value}' for name, value in fields.items())}]"

    def legend(self) -> str:
        names = {**self._instances, **self._strangers}
        return "".join(
            f"\\* {ours} is {name.encode('ascii', 'backslashreplace').decode()!r}\n"
            for name, ours in names.items()
        )

    def _members(self) -> str:
        fields = []
        for name, member in self._setting.members.items():
            me = member.me
            claims = [n for key, n in self._claims.items() if key.group == member.group]
            fields.append(
                f"{self._instances[name]} |-> [me |-> ["
                f'instance_id |-> "{self._instances[name]}", '
                f'client_id |-> "{self._client(me.client_id)}", '
                f"admin |-> {_bool(me.admin)}, headerless |-> FALSE, "
                f"certifies |-> {_bool(me.certifies)}, "
                f'mode |-> "{me.mode.value}", window |-> {self._integer(me.window)}, '
                f"batch |-> {self._integer(me.batch)}, start |-> {self._integer(me.start)}, "
                f'rules |-> "fenced", now_ms |-> 0], claims |-> {_set(claims)}]'
            )
        return f"[{', '.join(fields)}]" if fields else "<<>>"

    # --- one event ------------------------------------------------------------------------------

    def _event(self, event: RunEvent) -> str:
        match event:
            case Read():
                who = self._instances[event.instance]
                offset = self._integer(event.offset)
                return f'<<"read", "{who}", {event.partition + 1}, {offset}>>'
            case Gap():
                p = event.partition
                record = 1 + sum(offset < event.offset for offset in self._offsets[p])
                return (
                    f'<<"gap", "{self._instances[event.instance]}", {p + 1}, '
                    f"{self._integer(event.offset)}, {record}>>"
                )
            case Sent():
                return self._sent(event)
            case Appended():
                return self._appended(event)
            case Processed():
                claim = self._claims[self._key(event)]
                return (
                    f'<<"processed", "{self._instances[event.instance]}", {claim}, '
                    f"{self._integer(event.start)}, {self._integer(event.stop)}>>"
                )
            case Started():
                firsts = [event.first.get(p, 0) for p in self._logs]
                next_read = [
                    1 + sum(offset < first for offset in self._offsets[p])
                    for p, first in enumerate(firsts)
                ]
                return (
                    f'<<"started", "{self._instances[event.instance]}", '
                    f"{_sequence([self._integer(first) for first in firsts])}, "
                    f"{_sequence([str(n) for n in next_read])}>>"
                )
            case Crashed():
                return f'<<"crashed", "{self._instances[event.instance]}">>'
            case GaveUp():
                claim = self._claims[self._key(event)]
                return f'<<"gave_up", "{self._instances[event.instance]}", {claim}>>'
            case _:
                raise TypeError(f"not an event of a run: {event!r}")

    def _sent(self, event: Sent) -> str:
        message, member = event.message, self._setting.members[event.instance]
        claim = -1
        if message is not None and message.group_id == member.group:
            if isinstance(message, ReleaseGroup):
                claim = 0
            else:
                key = message.key
                claim = self._claims[key] if self._home(key) == event.partition else -1
        return (
            f'<<"sent", "{self._instances[event.instance]}", {event.partition + 1}, {claim}, '
            f"{self._message(message)}, {self._headers(event.headers)}>>"
        )

    def _appended(self, event: Appended) -> str:
        if event.partition not in self._logs:
            raise TooMuchForTLC(f"{event.where}: there is no partition {event.partition}")
        record = event.record
        message = record.message if record is not None else None
        sender = self._instances.get(message.instance_id) if message is not None else None
        stamp = record.timestamp_ms - self._base_ms if record is not None else 0
        return (
            f'<<"appended", {event.partition + 1}, {self._integer(event.offset)}, '
            f"{self._integer(stamp)}, {_set(self._reached(event.partition, record))}, "
            f'"{sender or NOBODY}", {self._message(message)}, '
            f"{self._headers(record.headers) if record is not None else '<<>>'}>>"
        )

    def _reached(self, partition: int, record: Record | None) -> list[int]:
        if record is None:
            return []
        message = record.message
        if isinstance(message, ReleaseGroup):
            return [
                n
                for key, n in self._claims.items()
                if key.group == message.group_id and self._home(key) == partition
            ]
        key = message.key
        return [self._claims[key]] if key in self._claims and self._home(key) == partition else []

    def _message(self, message: Message | None) -> str:
        if message is None:
            return f'<<"Malformed", 0, "{NOBODY}", "{NOBODY}", -1, -1>>'
        offset, expires = getattr(message, "offset", -1), -1
        if isinstance(message, ReleaseGroup):
            # Beyond every clock of the run, and before all of them, one is as good as another.
            at_ms = message.expires_unix_s * 1000 - self._base_ms
            expires = max(0, min(at_ms, self._end_ms)) // 1000
        return (
            f'<<"{type(message).__name__}", {self._integer(message.version)}, '
            f'"{self._name(message.instance_id)}", "{self._client(message.client_id)}", '
            f"{self._integer(offset)}, {self._integer(expires)}>>"
        )

    def _headers(self, headers: Headers) -> str:
        if not headers.present:
            return "<<>>"
        clock = headers.clock
        if clock is not None and clock >= 0:
            clock = max(0, clock - self._base_ms)
        numbers = (
            *(headers.epoch, headers.seen, clock),
            *(headers.supersedes, headers.set_position, headers.start),
        )
        return _sequence([self._integer(-1 if n is None else n) for n in numbers])

    # --- names and numbers ----------------------------------------------------------------------

    def _home(self, key: ClaimKey) -> int:
        return coordinating_partition(key.topic, self._setting.partitions)

    def _key(self, event: Processed | GaveUp) -> ClaimKey:
        group = self._setting.members[event.instance].group
        return ClaimKey(group, event.topic, event.topic_partition)

    def _keys_of(self, event: RunEvent) -> list[ClaimKey]:
        if isinstance(event, Processed | GaveUp):
            return [self._key(event)]
        message: Message | None = None
        if isinstance(event, Sent):
            message = event.message
        elif isinstance(event, Appended) and event.record is not None:
            message = event.record.message
        if message is None or isinstance(message, ReleaseGroup):
            return []
        return [message.key]

    def _name(self, instance: str) -> str:
        ours = self._instances.get(instance)
        return ours or self._strangers.setdefault(instance, f"s{len(self._strangers) + 1}")

    def _client(self, client: str) -> str:
        return self._clients.setdefault(client, f"c{len(self._clients) + 1}")

    def _duration(self, duration_ms: float) -> str:
        if duration_ms != int(duration_ms):
            raise TooMuchForTLC(f"TLC counts whole milliseconds, not {duration_ms}")
        return self._integer(int(duration_ms))

    @staticmethod
    def _integer(number: int) -> str:
        if abs(number) > INTEGER_MAX:
            raise TooMuchForTLC(f"TLC does not count to {number} (it counts in 32 bits)")
        return str(number)


def _bool(answer: bool) -> str:
    return "TRUE" if answer else "FALSE"


def _sequence(items: Iterable[str]) -> str:
    return f"<<{', '.join(items)}>>"


def _set(items: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, items))}}}"
