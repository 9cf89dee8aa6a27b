"""Scripts that append: delivery reports, order, partitions, headers, times, refusals."""

# a name is the sentence

from __future__ import annotations

from tests.client.conformance.side import Side


def an_append_is_confirmed_with_its_offset(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    for value in (b"a", b"b", b"c"):
        appender.append(topic, value, partition=0)
        side.delivered(appender)
    side.read(side.log_reader_at(topic), [(topic, 0)])


def appends_that_share_a_request_keep_their_order(side: Side) -> None:
    topic = side.topic(partitions=2)
    appender = side.appender()
    for number in range(20):
        appender.append(topic, b"%d" % number, partition=number % 2)
    side.delivered(appender)
    reports = [(one.partition(), one.offset()) for _, one in appender.reports]
    del side.seen[1:]
    for partition in range(2):
        side.note(f"reports of {partition}", [at for number, at in reports if number == partition])
    side.read(side.log_reader_at(topic, 2), [(topic, 0), (topic, 1)])


def keys_and_values_may_be_none_or_empty(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    for key, value in ((None, None), (b"", b""), (b"k", None), (None, b"v"), (b"k", b"v")):
        appender.append(topic, value, key, partition=0)
        side.delivered(appender)
    side.read(side.fetcher_at(topic), [(topic, 0)])


def headers_may_be_none_empty_or_twice(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    for headers in (
        [],
        [("one", b"1")],
        [("none", None), ("empty", b"")],
        [("twice", b"1"), ("twice", b"2"), ("text", "zwölf")],
    ):
        appender.append(topic, b"v", partition=0, headers=headers)
        side.delivered(appender)
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    side.read(side.fetcher_at(topic), [(topic, 0)])


def a_topic_of_create_time_keeps_the_senders_time(side: Side) -> None:
    topic = side.topic(message_timestamp_type="CreateTime")
    side.produce(topic, [{"value": b"old", "timestamp": 1_000}, {"value": b"now"}])
    appender = side.appender()
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    side.read(side.fetcher_at(topic), [(topic, 0)])


def a_topic_of_log_append_time_has_the_brokers_time(side: Side) -> None:
    topic = side.topic(message_timestamp_type="LogAppendTime")
    side.produce(topic, [{"value": b"old", "timestamp": 1_000}])
    appender = side.appender()
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    side.read(side.fetcher_at(topic), [(topic, 0)])


def what_is_larger_than_the_client_sends_is_not_taken(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    appender.append(topic, b"x" * 1_100_000, partition=0)
    side.delivered(appender)
    appender.append(topic, b"small", partition=0)
    side.delivered(appender)


def what_is_larger_than_the_topic_takes_is_refused(side: Side) -> None:
    topic = side.topic(max_message_bytes="1000")
    appender = side.appender()
    appender.append(topic, b"x" * 2_000, partition=0)
    side.delivered(appender)
    appender.append(topic, b"small", partition=0)
    side.delivered(appender)
    side.read(side.log_reader_at(topic), [(topic, 0)])


def a_topic_that_does_not_exist_refuses(side: Side) -> None:
    appender = side.appender(topic_metadata_propagation_max_ms="300")
    appender.append(side.name("nowhere"), b"v", partition=0)
    side.delivered(appender)


def a_partition_that_does_not_exist_refuses_at_first_in_the_report(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(topic_metadata_propagation_max_ms="300")
    appender.append(topic, b"v", partition=7)
    side.delivered(appender)


def a_partition_that_does_not_exist_is_not_taken_once_the_topic_is_known(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    appender.append(topic, b"v", partition=7)
    side.delivered(appender)


def a_record_without_a_partition_goes_to_that_of_its_key(side: Side) -> None:
    topic = side.topic(partitions=4)
    appender = side.appender()
    for number in range(8):
        appender.append(topic, b"v", b"key-%d" % number)
        side.delivered(appender)


def a_full_queue_takes_no_more(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(queue_buffering_max_messages="2", linger_ms="500")
    for number in range(3):
        appender.append(topic, b"%d" % number, partition=0)
    side.note("under way", len(appender.client))
    side.delivered(appender)


def what_is_purged_from_the_queue_is_reported(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(linger_ms="20000")
    appender.append(topic, b"v", partition=0)
    len(appender)
    appender.purge()
    side.delivered(appender)
    side.read(side.log_reader_at(topic), [(topic, 0)])


def nothing_to_report_lets_a_poll_wait(side: Side) -> None:
    appender = side.appender()
    # What the client logs is served by a poll, too.
    side.until(lambda: appender.poll(0.3), lambda served: served == 0)
    len(appender)
    appender.purge()


def nobody_needs_a_report(side: Side) -> None:
    topic = side.topic()
    appender = side.appender()
    appender.produce(topic, b"v", partition=0)
    side.delivered(appender)
    side.read(side.log_reader_at(topic), [(topic, 0)])
