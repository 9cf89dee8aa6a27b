"""Scripts of compaction, for which a broker takes its time."""

# a name is the sentence

from __future__ import annotations

from typing import Any

from tests.client.conformance.side import Side


def what_compaction_took_is_passed_over(side: Side) -> None:
    settings: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.001",
    }
    topic = side.topic(**settings)
    pairs = [(b"k1", b"a"), (b"k2", b"b"), (b"k1", b"c"), (b"k2", None), (b"k1", b"d")]
    side.produce(topic, [{"key": key, "value": value} for key, value in pairs])
    side.settle(0.3)
    side.produce(topic, [{"key": b"k1", "value": b"e"}])  # in a segment that is not cleaned
    side.compact(topic, 5)
    side.read(side.fetcher_at(topic), [(topic, 0)])
    side.read(side.log_reader_at(topic, begin=1), [(topic, 0)])
    side.read(side.fetcher_at(topic, begin=4), [(topic, 0)])
