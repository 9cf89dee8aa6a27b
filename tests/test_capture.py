from pathlib import Path

import attrs
import pytest

from kafka_marshal.capture import (
    RawRecord,
    TimestampType,
    UnreadableSource,
    capture_line,
    parse_line,
    read_capture,
)

LINE = '{"partition": 2, "offset": 0, "timestamp_ms": 7, "timestamp_type": 2, "value": "x"}'


def test_a_line_is_a_record() -> None:
    assert parse_line(LINE, "f:1") == RawRecord(2, 0, 7, b"x", (), TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ('{"marshal-epoch": "12"}', (("marshal-epoch", b"12"),)),
        ('[["a", "1"], ["a", null]]', (("a", b"1"), ("a", None))),
        ("null", ()),
    ],
)
def test_headers_are_a_map_or_pairs(headers: str, expected: object) -> None:
    line = LINE.replace('"value"', f'"headers": {headers}, "value"')
    assert parse_line(line, "f:1").headers == expected


def test_a_null_value_and_bytes_that_are_not_text_are_read() -> None:
    assert parse_line(LINE.replace('"x"', "null"), "f:1").value is None
    assert parse_line(LINE.replace('"x"', r'"\udcff\ud800"'), "f:1").value is not None


def test_a_key_is_read_and_written_like_a_value_and_an_old_line_has_none() -> None:
    assert parse_line(LINE, "f:1").key is None
    assert "key" not in capture_line(parse_line(LINE, "f:1"))
    for key in (b"g", b"", b"\xff/"):
        keyed = attrs.evolve(parse_line(LINE, "f:1"), key=key)
        assert parse_line(capture_line(keyed), "f:1") == keyed
    assert parse_line(LINE.replace('"value"', '"key": null, "value"'), "f:1").key is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "f:1: not a JSON object"),
        ("[]", "f:1: not a JSON object"),
        ("[" * 100_000, "f:1: not a JSON object"),
        (LINE.replace('"offset": 0, ', ""), "f:1: field 'offset' is missing"),
        (LINE.replace('"offset": 0', '"offset": "0"'), "f:1: field 'offset' is not an integer"),
        (LINE.replace('"offset": 0', '"offset": true'), "f:1: field 'offset' is not an integer"),
        (LINE.replace('"offset": 0', '"offset": -1'), "f:1: field 'offset' is negative"),
        (LINE.replace('"offset": 0', f'"offset": {2**63}'), "f:1: field 'offset' does not fit"),
        (LINE.replace(', "value": "x"', ""), "f:1: field 'value' is missing"),
        (LINE.replace('"x"', "5"), "f:1: field 'value' is neither text nor null"),
        (LINE.replace('"x"', '"x", "key": 5'), "f:1: field 'key' is neither text nor null"),
        (LINE.replace('"x"', '"x", "headers": 5'), "f:1: field 'headers' is neither"),
        (LINE.replace('"x"', '"x", "headers": {"a": 5}'), "f:1: header 'a' is not text"),
    ],
)
def test_an_unreadable_line_is_named(line: str, complaint: str) -> None:
    with pytest.raises(UnreadableSource) as raised:
        parse_line(line, "f:1")
    assert str(raised.value).startswith(complaint)


def test_what_is_complained_of_is_one_printable_line(tmp_path: Path) -> None:
    """A record may hold what moves a terminal's cursor, and a library's reason a line end."""
    path = tmp_path / "c.jsonl"
    said = str(UnreadableSource(f"{path}:1: \x1b[31m\u202e\udcff: invalid\n"))
    assert said == f"{path}:1: \\x1b[31m\\u202e\\xff: invalid"


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """JSON takes a carriage return for a blank, so line by line it is one, too."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(LINE.replace(", ", ",\r").encode() + b"\r\n")
    assert len(list(read_capture(path))) == 1


def test_a_capture_is_read_in_order_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(f"{LINE}\n\n{LINE.replace('7', '8')}\n", encoding="utf-8")
    assert [raw.timestamp_ms for raw in read_capture(path)] == [7, 8]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "No such file"), (b"", "empty"), (b"\n \n", "empty"), (b"\xff\xff\n", "not UTF-8")],
)
def test_a_source_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "c.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableSource, match=complaint) as raised:
        list(read_capture(path))
    assert str(path) in str(raised.value)


def test_timestamp_types_are_converted_at_the_source() -> None:
    client = TimestampType.of_kafka_client
    assert [client(n) for n in (1, 2, 0, None)] == [
        TimestampType.CREATE_TIME,
        TimestampType.LOG_APPEND_TIME,
        TimestampType.NOT_STATED,
        TimestampType.NOT_STATED,
    ]
