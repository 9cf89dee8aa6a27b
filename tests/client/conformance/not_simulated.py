"""What librdkafka and brokers do, and the Kafka in memory does not."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class NotSimulated:
    """A behaviour, as each side has it."""

    what: str
    real: str
    simulated: str


NOT_SIMULATED: Final = (
    NotSimulated(
        "fetching ahead",
        "fetches in the background, so it may have what was there before a log was cut",
        "a poll sees the log as it is then; a `Link` with latency delays it",
    ),
    NotSimulated(
        "how long a fetch takes",
        "an end is reported when a fetch has waited for `fetch.wait.max.ms`; a resumed partition "
        "takes up to a second",
        "at once",
    ),
    NotSimulated(
        "a position that is gone",
        "is reported now and then twice (`_AUTO_OFFSET_RESET`)",
        "is reported once",
    ),
    NotSimulated(
        "metadata that is old",
        "a topic that was deleted, made or has grown is known after the next look-up",
        "at once, but for a producer that never asked for the topic",
    ),
    NotSimulated(
        "batches and requests",
        "several records share a request, and the outcome of all of them",
        "each record is a request, unless `waits_for_more` lets it wait for others; simulated runs "
        "decide that by seed",
    ),
    NotSimulated(
        "a report of several records",
        "`poll` returns 1 for all that came with one reply",
        "`poll` counts each record",
    ),
    NotSimulated(
        "duplicates of an idempotent producer",
        "after a record whose outcome is unknown, a new sequence may append another one twice",
        "each record lies there at most once, unless a test appends it again",
    ),
    NotSimulated(
        "connections",
        "break after `socket.timeout.ms`; what was sent on one may have arrived",
        "a `Link` decides for each request: `DOWN`, `CUT`, `PAUSED`, `REPLIES_CUT`",
    ),
    NotSimulated(
        "leader epochs",
        "finds a log that was truncated by its leader epoch (`_LOG_TRUNCATION`)",
        "a truncated log is noticed by an offset that is out of range, or not at all",
    ),
    NotSimulated(
        "elections",
        "controllers elect leaders; copies in sync are counted",
        "`move_leader` moves them; every copy is in sync",
    ),
    NotSimulated(
        "groups",
        "`subscribe` joins a group and rebalances",
        "there is none: the shipped client never subscribes",
    ),
    NotSimulated(
        "security, quotas and throttling",
        "connections are refused, requests delayed by brokers",
        "everybody may do everything; a `Link` with latency delays requests",
    ),
    NotSimulated(
        "statistics, logs and the error callback",
        "`stats_cb` and `error_cb` report what happens below",
        "silent, unless a test calls them",
    ),
    NotSimulated(
        "futures of the admin client",
        "are resolved later",
        "are resolved when the call returns, which takes as long as the answer",
    ),
)
"""In the order of the page."""
