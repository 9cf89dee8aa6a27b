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
    "ranges",
]
RANGES_KEYS = ["begun", "window", "frontier", "open", "pool", "alive"]
SHARED = (("marshal-ranges", b"10"),)
ASKS = b"ClaimingRange/1/1/p/p/g/t/0/4"


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


def ranges_of(row: Row) -> object:
    assert isinstance(row["state"], dict)
    return row["state"]["ranges"]


def test_a_claim_that_was_never_shared_has_no_ranges() -> None:
    rows = trace([raw(0, CP), raw(1, ASKS)], FENCED)
    assert verdicts(rows) == [("accepted", None), ("refused", "no_range_tenure")]
    assert [ranges_of(row) for row in rows] == [None, None]


def test_a_request_before_any_other_record_of_its_key_has_no_state() -> None:
    rows = trace([raw(0, ASKS), raw(1, b"ReleaseGroup/0/1/a/adm/g//0/9"), raw(2, ASKS)], FENCED)
    assert [(row["guard"], row["state"]) for row in rows] == [
        ("no_range_tenure", None),
        (None, None),
        ("no_range_tenure", None),
    ]
    assert (rows[0]["group"], rows[0]["topic"], rows[0]["topic_partition"]) == ("g", "t", 0)


def test_a_shared_claim_is_printed_with_its_ranges() -> None:
    given_back = (("marshal-seen", b"2"), ("marshal-keep", b"3"))
    records = [
        RawRecord(0, 0, 1000, CP, SHARED),
        raw(1, ASKS),
        raw(2, ASKS.replace(b"/p/p/", b"/a/a/"), at_ms=1001),
        RawRecord(0, 3, 1002, ASKS[:-1] + b"0", given_back),
        raw(4, ASKS[:-1] + b"9", at_ms=1003),
        raw(5, ASKS[:-1] + b"9", at_ms=1004),
        raw(6, ASKS[:-1] + b"9", at_ms=1005),
    ]
    rows = trace(records, FENCED)
    assert verdicts(rows) == [
        ("accepted", None),
        ("range_granted", None),
        ("range_granted", None),
        ("range_refreshed", None),
        ("range_granted", None),
        ("range_granted", None),
        ("range_refreshed", "window_full"),
    ]
    assert list(ranges_of(rows[0])) == RANGES_KEYS  # type: ignore[call-overload]
    assert ranges_of(rows[3]) == {
        "begun": True,
        "window": 10,
        "frontier": 8,
        "open": [[1, 0, 3, "p"], [2, 4, 8, "a"]],
        "pool": [[3, 4]],
        "alive": {"a": 1001, "p": 1002},
    }
    assert json.loads(json.dumps(rows)) == rows


def test_ranges_that_were_voided_are_empty_and_not_nothing() -> None:
    rows = trace([RawRecord(0, 0, 1000, CP, SHARED), raw(1, ASKS), raw(2, CP)], FENCED)
    assert ranges_of(rows[2]) == {
        **{"begun": False, "window": None, "frontier": 0},
        **{"open": [], "pool": [], "alive": {}},
    }


def test_a_request_read_twice_is_refused_the_second_time() -> None:
    asked = [raw(1, ASKS), raw(1, ASKS), raw(1, CP)]
    rows = trace([RawRecord(0, 0, 1000, CP, SHARED), *asked], FENCED)
    assert verdicts(rows)[1:] == [
        ("range_granted", None),
        ("refused", "duplicate"),
        ("refused", "conflicting_duplicate"),
    ]


def test_silence_is_judged_by_the_interval_that_the_log_says() -> None:
    for interval, held in ((b"1000", [[2, 0, 4, "q"]]), (b"1001", [[1, 0, 4, "p"]])):
        says = (*SHARED, ("marshal-interval", interval))
        asks = raw(2, ASKS.replace(b"/p/p/", b"/q/q/")[:-1] + b"1", at_ms=3002)
        records = [RawRecord(0, 0, 1000, CP, says), raw(1, ASKS, at_ms=1001), asks]
        [*_, last] = trace(records, FENCED, forced=False)
        assert ranges_of(last)["open"][:1] == held  # type: ignore[index]


def test_to_the_original_a_request_is_malformed() -> None:
    rows = trace([raw(0, CP), raw(1, ASKS)], ORIGINAL)
    assert verdicts(rows) == [("accepted", None), ("malformed", "type")]
    assert rows[1]["type"] is None


def test_a_request_that_cannot_be_read_names_its_field() -> None:
    rows = trace([raw(0, ASKS + b"x"), raw(1, ASKS[:-2]), raw(2, ASKS + b"/1")], FENCED)
    assert verdicts(rows) == [("malformed", "n"), ("malformed", "length"), ("malformed", "length")]
