"""Scripts that ask: watermarks, offsets of times, committed offsets, topics and their settings."""

# a name is the sentence

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.client.conformance.scripts.fetches import numbers
from tests.client.conformance.side import Side

ASKED_S = 10.0


def watermarks_are_what_the_partition_holds(side: Side) -> None:
    topic = side.topic()
    fetcher = side.fetcher()
    one = TopicPartition(topic, 0)
    fetcher.get_watermark_offsets(one, timeout=ASKED_S)
    side.produce(topic, numbers(5))
    fetcher.get_watermark_offsets(one, timeout=ASKED_S)
    side.delete_records(topic, 0, 2)
    fetcher.get_watermark_offsets(one, timeout=ASKED_S)


def cached_watermarks_are_those_of_the_last_fetch(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(3))
    reader = side.log_reader()
    one = TopicPartition(topic, 0)
    reader.get_watermark_offsets(one, cached=True)
    reader.assign([TopicPartition(topic, 0, 0)])
    side.read(reader, [(topic, 0)])
    reader.get_watermark_offsets(one, cached=True)
    reader.pause([one])
    reader.poll(0.2)
    side.produce(topic, numbers(2, 3))
    reader.get_watermark_offsets(one, cached=True)
    reader.get_watermark_offsets(one, timeout=ASKED_S)
    reader.get_watermark_offsets(one, cached=True)
    reader.unassign()
    reader.get_watermark_offsets(one, cached=True)


def watermarks_of_what_does_not_exist(side: Side) -> None:
    topic = side.topic()
    fetcher = side.fetcher()
    fetcher.get_watermark_offsets(TopicPartition(topic, 7), timeout=5.0)
    fetcher.get_watermark_offsets(TopicPartition(side.name("nowhere"), 0), timeout=5.0)
    fetcher.get_watermark_offsets(TopicPartition(topic, 7), cached=True)


def offsets_of_times(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, [{"value": b"v", "timestamp": at} for at in (1_000, 3_000, 2_000, 4_000)])
    reader = side.log_reader()
    for at in (0, 1_000, 1_001, 2_500, 3_500, 4_000, 4_001):
        reader.offsets_for_times([TopicPartition(topic, 0, at)], timeout=ASKED_S)
    reader.offsets_for_times([TopicPartition(topic, 1, 0)], timeout=ASKED_S)
    reader.offsets_for_times([TopicPartition(topic, 0, -1)], timeout=ASKED_S)
    reader.offsets_for_times([TopicPartition(topic, 0, -2)], timeout=ASKED_S)
    side.delete_records(topic, 0, 2)
    reader.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=ASKED_S)


def offsets_of_times_where_there_is_none(side: Side) -> None:
    topic = side.topic()
    reader = side.log_reader()
    reader.offsets_for_times([TopicPartition(topic, 7, 0)], timeout=5.0)
    reader.offsets_for_times([TopicPartition(side.name("nowhere"), 0, 0)], timeout=5.0)


def committed_offsets_of_a_group(side: Side) -> None:
    topic = side.topic(partitions=2)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    fetcher = side.fetcher()
    fetcher.committed(both, timeout=ASKED_S)
    fetcher.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=True)
    side.until(
        lambda: fetcher.committed(both, timeout=ASKED_S), lambda answer: answer[0].offset == 7
    )
    side.fetcher().committed(both, timeout=ASKED_S)
    side.fetcher(group_id=side.name("other")).committed(both, timeout=ASKED_S)
    fetcher.committed([TopicPartition(side.name("nowhere"), 0)], timeout=ASKED_S)
    fetcher.committed([TopicPartition(topic, 9)], timeout=ASKED_S)


def a_commit_is_reported_by_a_poll(side: Side) -> None:
    topic = side.topic()

    def committed(error: object, offsets: object) -> None:
        side.note("on_commit", [error, offsets])

    fetcher = side.fetcher(on_commit=committed)
    fetcher.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=True)
    side.quiet(fetcher, 20.0, lambda: side.count("on_commit") == 1)
    fetcher.commit(offsets=[], asynchronous=True)
    side.quiet(fetcher, 20.0, lambda: side.count("on_commit") == 2)


def a_commit_to_what_does_not_exist_is_reported(side: Side) -> None:
    topic = side.topic()

    def committed(error: object, offsets: object) -> None:
        side.note("on_commit", [error, offsets])

    fetcher = side.fetcher(on_commit=committed)
    wanted = [TopicPartition(side.name("nowhere"), 0, 3), TopicPartition(topic, 0, 4)]
    fetcher.commit(offsets=wanted, asynchronous=True)
    side.quiet(fetcher, 20.0, lambda: side.count("on_commit") == 1)
    fetcher.committed([TopicPartition(topic, 0)], timeout=ASKED_S)


def a_topic_is_listed(side: Side) -> None:
    topic = side.topic(partitions=2)
    reader = side.log_reader()
    reader.list_topics(topic, timeout=ASKED_S)
    reader.list_topics(side.name("nowhere"), timeout=ASKED_S)
    found = reader.client.list_topics(timeout=ASKED_S)
    side.note("is in the list of all", topic in found.topics)
    side.note("nowhere is", side.name("nowhere") in found.topics)


def the_admin_client_lists_and_describes(side: Side) -> None:
    topic = side.topic(partitions=2)
    admin = side.admin()
    admin.list_topics(topic, timeout=ASKED_S)
    admin.poll(0)
    for asked in (False, True):
        admin.describe_topics(
            TopicCollection([topic, side.name("nowhere")]),
            include_authorized_operations=asked,
            request_timeout=ASKED_S,
        )


def the_admin_client_finds_offsets(side: Side) -> None:
    topic = side.topic(partitions=2)
    side.produce(topic, [{"value": b"v", "timestamp": at} for at in (1_000, 2_000, 3_000)])
    side.delete_records(topic, 0, 1)
    admin = side.admin()
    earliest: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    at = OffsetSpec.for_timestamp
    specs = [earliest, latest, at(1_500), at(9_000)]
    for spec in specs:
        wanted = {TopicPartition(topic, number): spec for number in range(2)}
        admin.list_offsets(wanted, request_timeout=ASKED_S)
    missing = {TopicPartition(topic, 7): specs[0], TopicPartition(topic, 0): specs[0]}
    admin.list_offsets(missing, request_timeout=10.0)
    admin.list_offsets({TopicPartition(side.name("nowhere"), 0): specs[0]}, request_timeout=10.0)


def a_topic_is_created_once(side: Side) -> None:
    topic, admin = side.name("made"), side.admin()
    new = NewTopic(topic, 3, 1, config={"retention.ms": "1000", "cleanup.policy": "compact"})
    admin.create_topics([new], request_timeout=ASKED_S)
    admin.create_topics([new], request_timeout=ASKED_S)
    side.until(
        lambda: admin.list_topics(topic, timeout=ASKED_S),
        lambda found: len(found.topics[topic].partitions) == 3,
    )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.client.describe_configs([resource], request_timeout=ASKED_S)[resource].result(10)
    side.called.add(("Admin", "describe_configs"))
    for name in ("retention.ms", "cleanup.policy", "message.timestamp.type", "segment.ms"):
        side.note(name, found[name].value)
    admin.create_topics([NewTopic(side.name("copies"), 1, 7)], request_timeout=ASKED_S)
    admin.create_topics([NewTopic("not a name", 1, 1)], request_timeout=ASKED_S)
    admin.create_topics([NewTopic(side.name("none"), 0, 1)], request_timeout=ASKED_S)
    wrong = NewTopic(side.name("wrong"), 1, 1, config={"retention.ms": "many"})
    admin.create_topics([wrong], request_timeout=ASKED_S)
    placed = NewTopic(side.name("placed"), 2, replica_assignment=[[1], [1]])
    admin.create_topics([placed], request_timeout=ASKED_S)


def settings_of_what_does_not_exist(side: Side) -> None:
    resource = ConfigResource(ResourceType.TOPIC, side.name("nowhere"))
    side.admin().describe_configs([resource], request_timeout=ASKED_S)


def a_topic_is_deleted_once(side: Side) -> None:
    topic, admin = side.topic(), side.admin()
    admin.delete_topics([topic], request_timeout=ASKED_S)
    side.until(
        lambda: admin.list_topics(topic, timeout=ASKED_S),
        lambda found: found.topics[topic].error is not None,
    )
    admin.delete_topics([topic], request_timeout=ASKED_S)
    admin.describe_topics(TopicCollection([topic]), request_timeout=ASKED_S)


def the_admin_client_sets_a_groups_offsets(side: Side) -> None:
    topic, admin = side.topic(partitions=2), side.admin()
    group = side.name("group")
    wanted = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)]
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    fetcher = side.fetcher()
    fetcher.committed(both, timeout=ASKED_S)  # its coordinator is there
    admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=ASKED_S
    )
    fetcher.committed(both, timeout=ASKED_S)
    nowhere = [TopicPartition(side.name("nowhere"), 0, 3), TopicPartition(topic, 0, 9)]
    admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, nowhere)], request_timeout=ASKED_S
    )
    fetcher.committed(both, timeout=ASKED_S)


def a_group_is_described(side: Side) -> None:
    topic, admin = side.topic(), side.admin()
    fetcher = side.fetcher()
    fetcher.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=True)
    side.until(
        lambda: fetcher.committed([TopicPartition(topic, 0)], timeout=ASKED_S),
        lambda answer: answer[0].offset == 7,
    )
    for group in (side.name("group"), side.name("nobody")):
        for asked in (False, True):
            admin.describe_consumer_groups(
                [group], include_authorized_operations=asked, request_timeout=ASKED_S
            )
