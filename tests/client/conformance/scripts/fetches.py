"""Scripts that read: fetches, ends, gaps, assignments, pauses, positions that are gone."""

# a name is the sentence

from __future__ import annotations

from confluent_kafka import TopicPartition

from tests.client.conformance.side import Side


def numbers(count: int, begin: int = 0) -> list[dict[str, object]]:
    return [{"value": b"%d" % number} for number in range(begin, begin + count)]


def an_end_is_reported_after_the_messages_and_again_after_more(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(3))
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.poll(0.2)
    side.produce(topic, numbers(2, 3))
    side.read(fetcher, [(topic, 0)], by="consume")
    fetcher.poll(0.2)
    fetcher.consume(num_messages=10, timeout=0.2)


def an_end_is_not_reported_where_nobody_asks(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(2))
    fetcher = side.fetcher_at(topic, enable_partition_eof="false")
    fetcher.poll(20.0)
    fetcher.poll(20.0)
    fetcher.poll(0.3)


def a_fetch_begins_anywhere(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(5))
    fetcher = side.fetcher()
    for offset in (3, 5, 0, -2, -1):
        fetcher.incremental_assign([TopicPartition(topic, 0, offset)])
        side.read(fetcher, [(topic, 0)])
        fetcher.incremental_unassign([TopicPartition(topic, 0)])
    for _ in range(2):
        fetcher.incremental_assign([TopicPartition(topic, 0, 4)])
        side.read(fetcher, [(topic, 0)])
        fetcher.unassign()


def partitions_are_read_each_in_order(side: Side) -> None:
    topic = side.topic(partitions=3)
    for partition in range(3):
        side.produce(topic, [{**one, "partition": partition} for one in numbers(4)])
    fetcher = side.fetcher_at(topic, 3)
    side.read(fetcher, [(topic, number) for number in range(3)], by="consume")


def an_empty_partition_ends_at_its_begin(side: Side) -> None:
    topic = side.topic()
    side.read(side.fetcher_at(topic), [(topic, 0)])


def nothing_assigned_lets_polls_wait(side: Side) -> None:
    fetcher = side.fetcher()
    fetcher.poll(0)
    fetcher.poll(0.2)
    fetcher.consume(num_messages=1, timeout=0)
    fetcher.consume(num_messages=1, timeout=0.2)
    fetcher.consume(num_messages=0, timeout=0.2)


def a_partition_is_assigned_once(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, numbers(2))
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.incremental_assign([TopicPartition(topic, 1, 0), TopicPartition(topic, 0, 0)])
    side.read(fetcher, [(topic, 1)], within_s=0.5)
    fetcher.incremental_unassign([TopicPartition(topic, 1)])
    fetcher.incremental_assign([TopicPartition(topic, 1, 0), TopicPartition(topic, 1, 0)])
    fetcher.incremental_unassign([TopicPartition(topic, 1)])


def what_is_not_assigned_cannot_be_unassigned(side: Side) -> None:
    topic = side.topic(partitions=2)
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.incremental_unassign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    fetcher.incremental_unassign([TopicPartition(topic, 0)])
    fetcher.incremental_unassign([TopicPartition(topic, 0)])


def assign_takes_the_place_of_what_was_assigned(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, numbers(2))
    reader = side.log_reader_at(topic)
    side.read(reader, [(topic, 0)])
    reader.assign([TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 0)])
    side.read(reader, [(topic, 0), (topic, 1)])
    reader.unassign()
    reader.poll(0.2)
    reader.unassign()


def a_reader_of_the_log_follows_more_partitions(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, numbers(2))
    reader = side.log_reader_at(topic)
    side.read(reader, [(topic, 0)], by="consume")
    reader.pause([TopicPartition(topic, 0)])
    reader.unassign()
    more = [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 0)]
    reader.incremental_assign(more)
    reader.resume(more)
    side.read(reader, [(topic, 0), (topic, 1)])


def what_is_paused_gives_nothing_until_it_is_resumed(side: Side) -> None:
    topic = side.topic(partitions=2)
    fetcher = side.fetcher_at(topic, 2)
    side.read(fetcher, [(topic, 0), (topic, 1)])
    fetcher.pause([TopicPartition(topic, 0)])
    for partition in range(2):
        side.produce(topic, [{**one, "partition": partition} for one in numbers(2)])
    side.read(fetcher, [(topic, 1)])
    fetcher.poll(0.3)
    fetcher.resume([TopicPartition(topic, 0)])
    side.read(fetcher, [(topic, 0)])
    fetcher.resume([TopicPartition(topic, 0)])
    fetcher.poll(0.2)


def what_was_fetched_ahead_is_not_lost_by_a_pause(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(5))
    fetcher = side.fetcher_at(topic)
    fetcher.poll(20.0)
    fetcher.pause([TopicPartition(topic, 0)])
    fetcher.poll(0.3)
    fetcher.resume([TopicPartition(topic, 0)])
    side.read(fetcher, [(topic, 0)])


def an_end_is_reported_again_after_a_pause(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.pause([TopicPartition(topic, 0)])
    fetcher.resume([TopicPartition(topic, 0)])
    fetcher.poll(20.0)


def a_pause_outlives_the_assignment(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.pause([TopicPartition(topic, 0)])
    fetcher.incremental_unassign([TopicPartition(topic, 0)])
    fetcher.incremental_assign([TopicPartition(topic, 0, 0)])
    side.read(fetcher, [(topic, 0)], within_s=1.0)
    fetcher.incremental_unassign([TopicPartition(topic, 0)])
    fetcher.resume([TopicPartition(topic, 0)])
    fetcher.incremental_assign([TopicPartition(topic, 0, 0)])
    side.read(fetcher, [(topic, 0)])


def a_pause_outlives_an_assign(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    reader = side.log_reader_at(topic)
    side.read(reader, [(topic, 0)])
    reader.pause([TopicPartition(topic, 0)])
    reader.assign([TopicPartition(topic, 0, 0)])
    side.read(reader, [(topic, 0)], within_s=1.0)


def what_was_never_assigned_cannot_be_paused(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, numbers(1))
    fetcher = side.fetcher()
    fetcher.pause([TopicPartition(topic, 0)])
    fetcher.resume([TopicPartition(topic, 1)])
    fetcher.incremental_assign([TopicPartition(topic, 0, 0)])
    side.read(fetcher, [(topic, 0)], within_s=1.0)


def a_position_below_the_log_is_an_error(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(5))
    side.delete_records(topic, 0, 3)
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    side.until(lambda: fetcher.poll(0.3), lambda polled: polled is None)  # it may come twice
    fetcher.incremental_unassign([TopicPartition(topic, 0)])
    fetcher.incremental_assign([TopicPartition(topic, 0, 3)])
    side.read(fetcher, [(topic, 0)])


def a_position_beyond_the_log_is_an_error(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(2))
    fetcher = side.fetcher_at(topic, begin=9)
    side.read(fetcher, [(topic, 0)])
    side.produce(topic, numbers(10, 2))
    side.until(lambda: fetcher.poll(0.5), lambda polled: polled is None)  # it may come twice


def a_position_that_is_gone_goes_to_the_earliest(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(5))
    side.delete_records(topic, 0, 3)
    side.read(side.fetcher_at(topic, auto_offset_reset="earliest"), [(topic, 0)])
    side.read(side.fetcher_at(topic, auto_offset_reset="earliest", begin=9), [(topic, 0)])


def a_position_that_is_gone_goes_to_the_latest(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(5))
    side.delete_records(topic, 0, 3)
    side.read(side.fetcher_at(topic, auto_offset_reset="latest"), [(topic, 0)])
    side.read(side.fetcher_at(topic, auto_offset_reset="latest", begin=9), [(topic, 0)])


def a_reader_is_overtaken_by_retention(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(3))
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.pause([TopicPartition(topic, 0)])
    side.produce(topic, numbers(3, 3))
    side.delete_records(topic, 0, 5)
    fetcher.resume([TopicPartition(topic, 0)])
    side.read(fetcher, [(topic, 0)])


def an_empty_log_begins_where_retention_left_it(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(3))
    side.delete_records(topic, 0, 3)
    side.read(side.fetcher_at(topic), [(topic, 0)])
    side.read(side.fetcher_at(topic, begin=3), [(topic, 0)])


def a_topic_that_does_not_exist_gives_nothing(side: Side) -> None:
    topic = side.name("nowhere")
    fetcher = side.fetcher_at(topic, topic_metadata_propagation_max_ms="300")
    side.read(fetcher, [(topic, 0)], within_s=1.0)
    fetcher.poll(0.3)


def a_partition_that_does_not_exist_gives_nothing(side: Side) -> None:
    topic = side.topic()
    fetcher = side.fetcher(topic_metadata_propagation_max_ms="300")
    fetcher.incremental_assign([TopicPartition(topic, 7, 0)])
    side.read(fetcher, [(topic, 7)], within_s=1.0)


def what_was_aborted_is_passed_over(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    side.transaction(topic, [b"aborted", b"aborted too"], commit=False)
    side.transaction(topic, [b"committed"], commit=True)
    side.produce(topic, numbers(1, 1))
    side.read(side.fetcher_at(topic), [(topic, 0)])
    side.read(side.fetcher_at(topic, begin=2), [(topic, 0)])
    side.read(side.fetcher_at(topic, begin=3), [(topic, 0)])
    side.read(side.log_reader_at(topic), [(topic, 0)])


def what_was_aborted_last_moves_the_end(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    side.transaction(topic, [b"aborted"], commit=False)
    side.read(side.fetcher_at(topic), [(topic, 0)])
    side.read(side.log_reader_at(topic), [(topic, 0)])


def an_open_transaction_holds_back_what_follows(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(1))
    end = side.begin_transaction(topic, [b"open"])
    side.produce(topic, numbers(1, 1))
    fetcher, reader = side.fetcher_at(topic), side.log_reader_at(topic)
    side.read(fetcher, [(topic, 0)])
    fetcher.get_watermark_offsets(TopicPartition(topic, 0), timeout=10.0)
    fetcher.get_watermark_offsets(TopicPartition(topic, 0), cached=True)
    side.read(reader, [(topic, 0)])
    reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10.0)
    end(commit=True)
    side.read(fetcher, [(topic, 0)])
    side.read(reader, [(topic, 0)])
    reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10.0)


def a_batch_waits_until_it_is_full(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(2))
    fetcher = side.fetcher_at(topic, enable_partition_eof="false")
    fetcher.consume(num_messages=2, timeout=20.0)
    side.produce(topic, numbers(2, 2))
    fetcher.consume(num_messages=9, timeout=2.0)


def a_closed_client_answers_nothing(side: Side) -> None:
    topic = side.topic()
    fetcher, reader = side.fetcher_at(topic), side.log_reader_at(topic)
    side.read(fetcher, [(topic, 0)])
    one = [TopicPartition(topic, 0, 0)]
    fetcher.close()
    fetcher.poll(0)
    fetcher.consume(num_messages=1, timeout=0)
    fetcher.incremental_assign(one)
    fetcher.incremental_unassign(one)
    fetcher.pause(one)
    fetcher.resume(one)
    fetcher.commit(offsets=one, asynchronous=True)
    fetcher.committed(one, timeout=1.0)
    fetcher.get_watermark_offsets(one[0], timeout=1.0)
    fetcher.get_watermark_offsets(one[0], cached=True)
    fetcher.close()
    reader.close()
    reader.assign(one)
    reader.unassign()
    reader.list_topics(topic, timeout=1.0)
    reader.offsets_for_times(one, timeout=1.0)
