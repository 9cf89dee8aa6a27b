"""The configuration of a consumer: all options, validated once, in one frozen object.

Every part that needs an option takes this object. Nothing here connects to a cluster.
"""

from __future__ import annotations

import math
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Final, Literal, TypeAlias

import attrs
from attrs import frozen

from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.settings import Settings, refuse_no_names
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.numbers import number_of_seconds, whole_number
from kafka_marshal.client.observe.health import HealthChecks
from kafka_marshal.core.state import FENCED, milliseconds
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Timing
from kafka_marshal.machines.ranges.participant import ANCHOR

StartPolicy: TypeAlias = Literal["earliest", "latest"]
"""Where to begin in a partition without a known position: Kafka's `auto.offset.reset`."""
Semantics: TypeAlias = Literal["at_least_once", "at_most_once"]

HEARTBEAT_INTERVAL_MIN_S: Final = 0.1
"""The minimum `heartbeat_interval_s`: below it, a pause of the garbage collector loses claims."""


@frozen(kw_only=True)
class Configuration:
    """The options of one consumer. `Consumer` documents them."""

    settings: Settings
    coordination_topic: str
    group_id: str
    me: InstanceConfig
    """The consumer's identity, except for the instance id, which each session creates."""
    auto_offset_reset: StartPolicy
    timing: Timing
    wedged_after_beats: int
    claiming: Claiming
    bounds: BufferLimits
    coordination_read_max: int
    metadata_refresh_s: float
    commit_to_kafka: bool
    record_to: Path | None
    snapshot: Path | None
    require_authentic: bool

    @property
    def mode(self) -> Mode:
        """At least once, or at most once."""
        return self.me.mode

    @property
    def health_checks(self) -> HealthChecks:
        """The health checks for one consumer's claims."""
        interval_ms = self.me.rules.heartbeat_interval_ms
        return HealthChecks(self.timing.heartbeat_every_ms, interval_ms, self.wedged_after_beats)


def configured(
    *,
    settings: Settings,
    group_id: str,
    client_id: str,
    semantics: str,
    auto_offset_reset: StartPolicy,
    heartbeat_interval_s: float,
    heartbeat_every_s: float | None,
    window: int,
    batch: int,
    claiming: Claiming | None,
    bounds: BufferLimits | None,
    coordination_topic: str,
    coordination_read_max: int,
    commit_to_kafka: bool,
    metadata_refresh_s: float,
    wedged_after_beats: int,
    record_to: str | Path | None,
    snapshot: str | Path | None,
    keyring: Keyring | None,
    require_authentic: bool,
) -> Configuration:
    """Validate these options, and return the configuration.

    Raises:
        InvalidOption: an option has an invalid value; the message names it.
    """
    window, batch = whole_number("window", window), whole_number("batch", batch)
    coordination_read_max = whole_number("coordination_read_max", coordination_read_max)
    wedged_after_beats = whole_number("wedged_after_beats", wedged_after_beats)
    for name, path in (("record_to", record_to), ("snapshot", snapshot)):
        if path is not None and not str(path):
            raise InvalidOption(f"{name} must be a path, and this one is empty")
    _refuse_other_types(keyring=(keyring, Keyring), claiming=(claiming, Claiming))
    _refuse_other_types(bounds=(bounds, BufferLimits))
    heartbeat_interval_s = number_of_seconds("heartbeat_interval_s", heartbeat_interval_s)
    if heartbeat_every_s is not None:
        heartbeat_every_s = number_of_seconds("heartbeat_every_s", heartbeat_every_s)
    _refuse_no_interval(heartbeat_interval_s, heartbeat_every_s)
    metadata_refresh_s = number_of_seconds("metadata_refresh_s", metadata_refresh_s)
    if not 0 < metadata_refresh_s <= TIMEOUT_MAX:
        raise InvalidOption(
            f"metadata_refresh_s must be greater than 0 and at most {TIMEOUT_MAX:.0f}, not "
            f"{metadata_refresh_s!r}"
        )
    if semantics not in ("at_least_once", "at_most_once"):
        raise InvalidOption(f"semantics must be at_least_once or at_most_once, not {semantics!r}")
    refuse_no_start_policy(auto_offset_reset)
    refuse_no_names(group_id=group_id, client_id=client_id, coordination_topic=coordination_topic)
    if client_id == ANCHOR:
        raise InvalidOption(
            f"client_id {ANCHOR!r} is reserved for consumers that share a partition"
        )
    if keyring is not None:
        settings = attrs.evolve(settings, keyring=keyring)
    if require_authentic and (settings.keyring is None or settings.keyring.sign_with is None):
        raise InvalidOption(
            "require_authentic needs a keyring that signs: its own records would not be authentic"
        )
    every_s = heartbeat_interval_s / 2 if heartbeat_every_s is None else heartbeat_every_s
    try:
        rules = attrs.evolve(FENCED, heartbeat_interval_ms=milliseconds(heartbeat_interval_s))
        mode = Mode.AT_LEAST_ONCE if semantics == "at_least_once" else Mode.AT_MOST_ONCE
        me = InstanceConfig(
            "", client_id, mode, window=window, batch=batch, rules=rules, says_interval=True
        )
        timing = Timing(
            heartbeat_every_ms=max(1, int(milliseconds(every_s))),
            ask_again_after_ms=max(1, min(5_000, int(rules.heartbeat_interval_ms / 2))),
        )
    except ValueError as error:
        raise InvalidOption(str(error)) from None
    return Configuration(
        settings=settings,
        coordination_topic=coordination_topic,
        group_id=group_id,
        me=me,
        auto_offset_reset=auto_offset_reset,
        timing=timing,
        wedged_after_beats=wedged_after_beats,
        claiming=claiming or Claiming(),
        bounds=bounds or BufferLimits(),
        coordination_read_max=coordination_read_max,
        metadata_refresh_s=metadata_refresh_s,
        commit_to_kafka=commit_to_kafka,
        record_to=None if record_to is None else Path(record_to),
        snapshot=None if snapshot is None else Path(snapshot),
        require_authentic=require_authentic,
    )


def refuse_no_start_policy(start: str) -> None:
    """Raise InvalidOption if this is not a start policy."""
    if start not in ("earliest", "latest"):
        raise InvalidOption(f"auto_offset_reset must be earliest or latest, not {start!r}")


def _refuse_other_types(**options: tuple[object, type]) -> None:
    for name, (value, kind) in options.items():
        if value is not None and not isinstance(value, kind):
            raise InvalidOption(f"{name} must be of type {kind.__name__}, not {value!r:.80}")


def _refuse_no_interval(interval_s: float, every_s: float | None) -> None:
    if not (math.isfinite(interval_s) and interval_s >= HEARTBEAT_INTERVAL_MIN_S):
        raise InvalidOption(
            f"heartbeat_interval_s must be {HEARTBEAT_INTERVAL_MIN_S} or more, not {interval_s!r}"
        )
    if not milliseconds(interval_s).is_integer():
        raise InvalidOption(
            f"heartbeat_interval_s must be a whole number of milliseconds, not {interval_s!r} s"
        )
    if every_s is not None and not 0.001 <= every_s <= interval_s:
        raise InvalidOption(
            "heartbeat_every_s must be greater than 0 and at most heartbeat_interval_s "
            f"({interval_s!r}), not {every_s!r}"
        )
