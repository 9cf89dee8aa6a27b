"""Recorded runs with one thing changed, so that no behaviour explains them any more.

Each mutation says by which guards it must be noticed: a change can make an earlier guard stand
against the event that it was meant for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TypeAlias

from kafka_marshal.validate.run import Fields

Lines: TypeAlias = list[Fields]
Change: TypeAlias = Callable[[Lines, int], None]


def _drop(lines: Lines, place: int) -> None:
    del lines[place]


def _twice(lines: Lines, place: int) -> None:
    lines.insert(place, copy.deepcopy(lines[place]))


def _swap_with_next_of_its_instance(lines: Lines, place: int) -> None:
    who, kind = lines[place]["instance"], lines[place]["event"]
    other = next(
        n
        for n in range(place + 1, len(lines))
        if (lines[n].get("instance"), lines[n]["event"]) == (who, kind)
        and lines[n].get("partition") == lines[place].get("partition")
    )
    lines[place], lines[other] = lines[other], lines[place]


def _before(kind: str) -> Change:
    """The event happens just before the event of that kind before it."""

    def change(lines: Lines, place: int) -> None:
        earlier = next(n for n in range(place - 1, 0, -1) if lines[n]["event"] == kind)
        lines.insert(earlier, lines.pop(place))

    return change


def _more(field: str, by: int) -> Change:
    def change(lines: Lines, place: int) -> None:
        lines[place][field] = int(str(lines[place][field])) + by

    return change


def _header(name: str, by: int) -> Change:
    def change(lines: Lines, place: int) -> None:
        headers = dict(lines[place]["headers"])  # type: ignore[call-overload]
        headers[name] = str(max(0, int(headers[name]) + by))
        lines[place]["headers"] = headers

    return change


def _value(old: str, new: str) -> Change:
    def change(lines: Lines, place: int) -> None:
        lines[place]["value"] = str(lines[place]["value"]).replace(old, new)

    return change


def _bare(lines: Lines, place: int) -> None:
    lines[place].pop("headers")


def _offset_of_the_one_before(lines: Lines, place: int) -> None:
    before = next(
        n
        for n in range(place - 1, 0, -1)
        if lines[n]["event"] == "appended" and lines[n]["partition"] == lines[place]["partition"]
    )
    lines[place]["offset"] = lines[before]["offset"]


def _gives_up(lines: Lines, place: int) -> None:
    sent = lines[place]
    *_, topic, topic_partition, _ = str(sent["value"]).split("/")
    lines.insert(
        place,
        {
            "event": "gave_up",
            "instance": sent["instance"],
            "topic": topic,
            "topic_partition": int(topic_partition),
        },
    )


MUTATIONS: dict[str, tuple[str, str, Change, frozenset[str]]] = {
    # name: (event, text that its line holds, change, guards)
    "start dropped": ("started", "c0-", _drop, frozenset({"not_running"})),
    "started twice": ("started", "c0-", _twice, frozenset({"started_before"})),
    "sent dropped": ("sent", "Heartbeat", _drop, frozenset({"not_under_way"})),
    "claim not sent": (
        *("sent", "ClaimingPartition", _drop),
        frozenset({"not_under_way", "nothing_asked"}),
    ),
    "sends swapped": (
        *("sent", "Heartbeat", _swap_with_next_of_its_instance),
        frozenset(
            {"not_what_it_sends", "not_owner", "beyond_batch", "already_owner", "not_under_way"}
        ),
    ),
    "sent with another offset": (
        *("sent", "Heartbeat", lambda lines, n: lines[n].update(value=f"{lines[n]['value']}1")),
        frozenset({"not_what_it_sends"}),
    ),
    "sent under another epoch": (
        *("sent", "Heartbeat", _header("marshal-epoch", -1)),
        frozenset({"not_what_it_sends"}),
    ),
    "sent with another seen": (
        *("sent", "Heartbeat", _header("marshal-seen", -1)),
        frozenset({"not_what_it_sends"}),
    ),
    "sent with another clock": (
        *("sent", "Heartbeat", _header("marshal-clock", 1)),
        frozenset({"not_what_it_sends"}),
    ),
    "sent without headers": ("sent", "Heartbeat", _bare, frozenset({"not_what_it_sends"})),
    "sent in another group": (
        *("sent", "Heartbeat", _value("/g/", "/h/")),
        frozenset({"not_what_it_sends"}),
    ),
    "sent by another client": (
        *("sent", "ClaimingPartition", _value("/c", "/d")),
        frozenset({"not_what_it_sends"}),
    ),
    "sent, and no message": (
        *("sent", "Heartbeat", _value("Heartbeat", "Heartbeet")),
        frozenset({"not_what_it_sends"}),
    ),
    "release group of no admin": (
        *("sent", "Heartbeat", lambda lines, n: lines[n].update(value=_release_group(lines[n]))),
        frozenset({"not_admin"}),
    ),
    "appended twice": ("appended", "Heartbeat", _twice, frozenset({"offset_taken"})),
    "appended at a taken offset": (
        *("appended", "Heartbeat", _offset_of_the_one_before),
        frozenset({"offset_taken"}),
    ),
    "appended, and another": (
        *("appended", "Heartbeat", _header("marshal-epoch", 1)),
        frozenset({"not_under_way"}),
    ),
    "appended before it was sent": (
        *("appended", "Heartbeat", _before("started")),
        frozenset({"not_under_way", "offset_taken"}),
    ),
    "read dropped": (
        *("read", "", _drop),
        frozenset({"not_next_record", "not_what_it_sends", "beyond_window", "not_owner"}),
    ),
    "read twice": ("read", "", _twice, frozenset({"not_next_record"})),
    "reads swapped": (
        *("read", "", _swap_with_next_of_its_instance),
        frozenset({"not_next_record", "not_appended"}),
    ),
    "read before it was appended": (
        *("read", "", lambda lines, n: lines[n].update(offset=10**6)),
        frozenset({"not_appended"}),
    ),
    "processed twice": (
        *("processed", "", _twice),
        frozenset({"not_next", "not_granted"}),
    ),
    "processed more": (
        *("processed", "", _more("to", 10**4)),
        frozenset({"beyond_window", "not_granted"}),
    ),
    "processed earlier": (
        *("processed", "", lambda lines, n: lines.insert(1 + n // 2, lines.pop(n))),
        frozenset({"not_owner", "not_next", "not_granted", "not_running"}),
    ),
    "gave up what it never asked": (
        *("sent", "Heartbeat", _gives_up),
        frozenset({"nothing_asked"}),
    ),
}


def _release_group(line: Fields) -> str:
    _, _, unix_s, instance, client, group, *_ = str(line["value"]).split("/")
    return f"ReleaseGroup/0/{unix_s}/{instance}/{client}/{group}//0/1795000999"


def mutated(lines: Lines, name: str) -> Iterator[Lines]:
    """The run with this change, at every event that it fits, from the last on."""
    kind, text, change, _ = MUTATIONS[name]
    for place in range(len(lines) - 1, 0, -1):
        line = lines[place]
        if line["event"] == kind and text in f"{line.get('value', '')}{line.get('instance', '')}":
            # A change puts other values into a line, and none into what a value holds.
            copied = [{**line} for line in lines]
            try:
                change(copied, place)
            except (StopIteration, KeyError):
                continue
            if copied != lines:
                yield copied
