"""Checks the current user's permissions on the topic and the groups, and how to grant them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafka_marshal.admin.doctor.finding import (
    CheckFinding,
    CheckSeverity,
    names,
    not_examined,
    unchecked,
)
from kafka_marshal.client.connect.admin_client import TopicDescription

NEEDED: Final[Mapping[str, str]] = {
    "READ": "who may not read the log cannot claim anything",
    "WRITE": "who may not append cannot claim, heartbeat or release",
    "DESCRIBE": "who may not see the topic finds no partition",
}
"""On the coordination topic, and why. Kafka's READ and WRITE imply DESCRIBE."""


def on_topic(seen: TopicDescription) -> Iterator[CheckFinding]:
    """Yield missing permissions on the coordination topic."""
    if seen.allowed is None:
        yield unchecked("permissions", "the cluster does not say what is allowed", "DESCRIBE")
        return
    for name, endangers in NEEDED.items():
        if name not in seen.allowed:
            found = f"the user of these settings may not {name} the topic"
            do = command(name, "topic", seen.name)
            yield CheckFinding(CheckSeverity.ERROR, "permissions", found, endangers, do)


def unseen(topic: str) -> CheckFinding:
    """The finding for a user without DESCRIBE, who cannot see whether the topic exists."""
    return CheckFinding(
        CheckSeverity.ERROR,
        "permissions",
        f"the user of these settings may not see whether there is a topic {topic}",
        "who may neither READ nor WRITE the log cannot claim, heartbeat or release",
        f"{command('READ', 'topic', topic)}, and the same for WRITE",
    )


def on_groups(allowed: Mapping[str, frozenset[str] | None]) -> Iterator[CheckFinding]:
    """Yield missing permissions on the groups; None: no coordinator reported them."""
    unanswered = [group for group, operations in allowed.items() if operations is None]
    if unanswered:
        yield not_examined(
            "group permissions",
            f"the brokers did not report what is allowed on {names(unanswered)}",
            "run marshal doctor again when the group coordinators answer",
        )
    for group, operations in sorted(allowed.items()):
        if operations is None or "READ" in operations:
            continue
        sees = "DESCRIBE" in operations
        yield CheckFinding(
            CheckSeverity.WARNING if sees else CheckSeverity.ERROR,
            "group permissions",
            f"the user of these settings may not {'READ' if sees else 'see'} group {group}",
            "positions cannot be committed as the group's offsets: lag tools do not see them"
            if sees
            else "its consumers do not start: where they begin may be in the group's offsets",
            command("READ", "group", group),
        )


def command(operation: str, kind: str, name: str) -> str:
    """The command of Kafka's own tool with which an authorized user grants it."""
    return (
        f"allow {operation}: kafka-acls.sh --bootstrap-server HOST:PORT --add "
        f"--allow-principal User:NAME --operation {operation} --{kind} {name}"
    )
