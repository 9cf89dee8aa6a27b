"""Checks librdkafka settings given to a command: which of them would lose messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_marshal.admin.doctor.finding import CheckFinding, CheckSeverity

_OURS = "nothing with kafka-marshal's own clients, which decide it themselves; with another client"


def of_client(settings: Mapping[str, str]) -> Iterator[CheckFinding]:
    """Yield settings that lose appended records, or append them twice.

    >>> [one.found for one in of_client({"acks": "1"})]
    ['acks=1 in the settings']
    """
    for name in ("acks", "request.required.acks"):
        if settings.get(name, "all").strip().lower() not in ("all", "-1"):
            yield CheckFinding(
                CheckSeverity.WARNING,
                "acks",
                f"{name}={settings[name]} in the settings",
                f"{_OURS} a record that was confirmed is gone with the leader: a release or a "
                "position, so messages come again",
                "remove it, or set it to all",
            )
    name = "enable.idempotence"
    if settings.get(name, "true").strip().lower() == "false":
        yield CheckFinding(
            CheckSeverity.WARNING,
            name,
            f"{name}=false in the settings",
            f"{_OURS} records lie in the log twice, or overtake each other",
            "remove it, or set it to true",
        )
