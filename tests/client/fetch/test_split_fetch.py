"""A fetch in pieces of one partition each."""

from __future__ import annotations

from confluent_kafka import Message

from kafka_marshal.client.fetch.split_fetch import offset_of, runs_of


def pieces(*places: tuple[str, int, int]) -> list[list[tuple[str, int, int]]]:
    batch = [Message(topic=topic, partition=number, offset=at) for topic, number, at in places]
    return [
        [(one.topic(), one.partition(), offset_of(one)) for one in run]  # type: ignore[misc]
        for run in runs_of(batch)
    ]


def test_what_is_of_one_partition_is_one_piece() -> None:
    assert pieces() == []
    places = [("t", 0, n) for n in (0, 1, 5, 6)]
    assert pieces(*places) == [places]
    batch = [Message(topic="t", partition=n, offset=n) for n in (0, 0, 1)]
    assert [len(run) for run in runs_of(batch, of_one_topic=True)] == [2, 1]


def test_a_message_between_two_of_another_partition_is_a_piece_where_offsets_are_missing() -> None:
    """Offset 1 is a transaction's marker: first and last lie as far apart as the batch is long."""
    places = [("t", 0, 0), ("t", 1, 7), ("t", 0, 2)]
    assert pieces(*places) == [[place] for place in places]


def test_topics_are_kept_apart() -> None:
    places = [("t", 0, 0), ("u", 0, 1), ("u", 0, 2)]
    assert pieces(*places) == [places[:1], places[1:]]
