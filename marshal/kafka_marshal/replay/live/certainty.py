"""Finds the offset from which a log of groups with a missing head is certain.

A controller moves the position of its claim to a snapshot that it has read back as accepted. This
module queries a cluster. It does not know how groups are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

import attrs

from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.groups.claims import CONTROLLERS, INTERVAL_S
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.state import FENCED, milliseconds
from kafka_marshal.errors import BrokerFailed

_RULES: Final = attrs.evolve(FENCED, heartbeat_interval_ms=milliseconds(INTERVAL_S))


def certain_from(
    settings: Settings, topic: str, coordination_topic: str, note: Callable[[str], None]
) -> Mapping[int, int]:
    """By partition of `topic`, the position of its controllers' claim, if that is certain.

    Empty if every partition has its head, since then no position is needed. `note` receives a
    sentence if the claims cannot be read.

    Raises:
        BrokerFailed: `topic` cannot be read.
    """
    with closing(CoordinationReader(settings, topic)) as reader:
        if not any(extent.low for extent in reader.extents().values()):
            return {}
    try:
        with View(settings, coordination_topic, _RULES, group=CONTROLLERS) as view:
            claims = view.read().claims(CONTROLLERS)
    except BrokerFailed as error:
        note(f"from where on {topic} is certain is not known: {error}")
        return {}
    return {
        key.topic_partition: reader.claim.position
        for (_, key), reader in claims.items()
        if key.topic == topic and Field.POSITION in reader.certain and reader.claim.position > 0
    }
