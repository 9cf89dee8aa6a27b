"""The threads, Kafka clients, files, buffers and log lines of a consumer are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged.claims import Judged

from kafka_marshal.client.api.delivery import CHUNK
from kafka_marshal.client.fetch.fetcher import FETCH_MAX

MOST: Final = {"threads": 16, "clients": 6, "files": 3}
"""Of one process. A consumer that begins anew has the old session's beside its own."""
LINES_EACH: Final = 4
"""Lines of one wording for each incident and partition."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    has = {
        "threads": history.threads_max,
        "clients": history.clients_max,
        "files": history.files_max,
    }
    for what, most in MOST.items():
        if has[what] > most:
            yield f"a process had {has[what]} {what}"
    # A turn may end right after a fetch: then what is left of its chunk comes back.
    if history.buffered_max > judged.setting.bounds.messages + FETCH_MAX + CHUNK:
        yield f"a process had {history.buffered_max} messages in one buffer"
    yield from history.miscounted[:1]
    # One whose release was lost; at least once also one whose end no commit has reported.
    tenures = 2 if judged.setting.at_least_once else 1
    if history.tenures_max > tenures:
        yield f"a process kept {history.tenures_max} tenures of one partition that were over"
    yield from history.outlived[:1]
    incidents = len(history.faults) + sum(history.ways.values())
    most = LINES_EACH * incidents * len(history.ends)
    for line, count in history.lines.items():
        if count > most and "an observer of the consumer failed" not in line:  # each time it does
            yield f"{count} lines, and {incidents} incidents: {line}"
