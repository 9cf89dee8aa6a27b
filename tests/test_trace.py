import json

from kafka_marshal import FENCED, ORIGINAL
from kafka_marshal.capture import RawRecord
from kafka_marshal.trace import Row, trace

CP = b"ClaimingPartition/1/1/i1/c1/g/t/0"
HB = b"Heartbeat/1/1/i1/c1/g/t/0/%d"
KEYS = [
    *("partition", "offset", "type", "verdict", "guard"),
    *("group", "topic", "topic_partition", "state"),
]
FENCED_KEYS = [
    *("owner_instance", "owner_client", "epoch", "position", "position_set"),
    *("last_heartbeat_ms", "paused_by", "paused_until_ms"),
]


def raw(offset: int, value: bytes | None, partition: int = 0, at_ms: int = 1000) -> RawRecord:
    return RawRecord(partition, offset, at_ms, value)


def verdicts(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["verdict"], row["guard"]) for row in rows]


def test_a_row_has_the_documented_keys_in_order() -> None:
    [row] = trace([raw(0, CP)], FENCED)
    assert list(row) == KEYS
    assert isinstance(row["state"], dict)
    assert list(row["state"]) == FENCED_KEYS


def test_rows_come_in_input_order_and_are_folded_in_offset_order() -> None:
    rows = trace([raw(1, HB % 5), raw(0, CP)], FENCED)
    assert [row["offset"] for row in rows] == [1, 0]
    assert verdicts(rows) == [("accepted", None), ("accepted", None)]


def test_every_coordinating_partition_is_a_world_of_its_own() -> None:
    rows = trace([raw(0, CP, partition=0), raw(1, HB % 5, partition=1)], FENCED)
    assert verdicts(rows) == [("accepted", None), ("refused", "nobody_owns")]


def test_a_record_read_twice_is_refused_the_second_time() -> None:
    rows = trace([raw(0, CP), raw(1, HB % 5), raw(1, HB % 5), raw(1, HB % 6)], FENCED)
    assert verdicts(rows)[1:] == [
        ("accepted", None),
        ("refused", "duplicate"),
        ("refused", "conflicting_duplicate"),
    ]
    assert rows[3]["state"] == rows[1]["state"]


def test_a_malformed_row_says_which_field_and_nothing_else() -> None:
    [row] = trace([raw(3, b"Heartbeat/1/1/i/c/g/t/-1/1")], ORIGINAL)
    assert row == dict.fromkeys(KEYS) | {
        "partition": 0,
        "offset": 3,
        "verdict": "malformed",
        "guard": "partition",
    }


def test_a_release_group_row_names_only_the_group() -> None:
    [row] = trace([raw(0, b"ReleaseGroup/0/1/a/adm/g//0/9")], FENCED)
    assert row == {
        "partition": 0,
        "offset": 0,
        "type": "ReleaseGroup",
        "verdict": "accepted",
        "guard": None,
        "group": "g",
        "topic": None,
        "topic_partition": None,
        "state": None,
    }


def test_a_pause_that_is_over_is_not_printed() -> None:
    records = [raw(0, b"ReleaseGroup/0/1/a/adm/g//0/9"), raw(1, HB % 5), raw(2, HB % 5, 0, 9000)]
    rows = trace(records, FENCED)
    pauses = [(r["state"] or {}).get("paused_by") for r in rows[1:]]  # type: ignore[attr-defined]
    assert pauses == ["a", None]


def test_rows_are_json_whatever_the_ids() -> None:
    [row] = trace([raw(0, b"ClaimingPartition/1/1/\xff/c\x00/\xc3\xa9/t/0")], FENCED)
    assert json.loads(json.dumps(row)) == row
