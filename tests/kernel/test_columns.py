"""What a value says does not depend on the values before it, however they resemble it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.core import wire
from kafka_marshal.kernel.columns import MALFORMED, NameCodes
from kafka_marshal.kernel.parsing import REQUEST

HEAD = b"Heartbeat/1/1700000000/"
ONE, OTHER = HEAD + b"i/c/g/t/11", HEAD + b"i/c/g/t/22"
DIGITS = b"1234567890123456"


def told(values: Sequence[bytes | None]) -> Iterator[tuple[object, ...]]:
    """What each of them says, decoded together."""
    names = NameCodes()
    columns = names.decoded(pa.array(values, pa.binary()), None)
    for row, kind in enumerate(columns.kind.tolist()):
        if kind == MALFORMED:
            yield (MALFORMED,)
            continue
        address = names._addresses.names()[columns.address[row]]
        numbers = (columns.version, columns.unix_s, columns.number)
        yield kind, address, *(int(each[row]) for each in numbers)


def by_codec(value: bytes | None) -> tuple[object, ...]:
    """The same, as it is defined."""
    try:
        message = decode(value)
    except MalformedRecord:
        return (MALFORMED,)
    layout = wire.BY_CLASS[type(message)]
    address = "/".join(str(getattr(message, name)) for name in wire.ADDRESS)
    number = getattr(message, layout.number) if layout.number else 0
    return wire.number_of(layout.message), address, message.version, message.unix_s, number


@pytest.mark.parametrize(
    "value",
    [
        *(OTHER + b"/" + DIGITS[:length] for length in range(len(DIGITS))),
        *(
            OTHER + b"/" + DIGITS[:at] + odd + DIGITS[at + 1 :]
            for at in range(len(DIGITS))
            for odd in (b"/", b":", b"\xb1", b"p")
        ),
        *(OTHER + more for more in (b"", b"/", b"34", b"3/4", b"/3/4", b"/+7", b"/007", b"/-3")),
        OTHER + b"/" + b"9" * 19,
        OTHER[:-1] + b"/4",
        OTHER[:-1] + b"3/4",
        OTHER.replace(b"i", b"j") + b"/4",
        OTHER.replace(b"1700000000", b"1700000001") + b"/4",
        OTHER.replace(b"1700000000", b"17000000000000000000") + b"/4",
        OTHER.replace(b"/1/", b"/0/") + b"/4",
        OTHER.replace(b"Heartbeat", b"HeartbeaX") + b"/4",
        OTHER.replace(b"Heartbeat", b"ClaimingPartition"),
        OTHER.replace(b"Heartbeat", b"ClaimingMessages") + b"/4",
        OTHER.replace(b"Heartbeat", b"ClaimingRange") + b"/4",
        HEAD,
        HEAD[:-1],
        b"",
        None,
    ],
)
def test_a_value_like_the_one_that_is_likely_says_what_it_says(value: bytes | None) -> None:
    values = [ONE + b"/1", OTHER + b"/2", ONE + b"/3", value, ONE + b"/5", OTHER + b"/6"]
    assert [*told(values)] == [*map(by_codec, values)]


def test_a_claim_like_the_one_before_has_no_number_all_the_same() -> None:
    one, other = (each.replace(b"Heartbeat", b"ClaimingPartition") for each in (ONE, OTHER))
    values = [one, other, one, other + b"/4", other, one]
    assert [*told(values)] == [*map(by_codec, values)]


def test_requests_that_resemble_each_other_are_decoded_for_who_asks() -> None:
    values = [ONE.replace(b"Heartbeat", b"ClaimingRange") + b"/%d" % n for n in range(3)]
    columns = NameCodes().decoded(pa.array(values, pa.binary()), None, requests=True)
    assert columns.kind.tolist() == [REQUEST] * 3
    assert columns.number.tolist() == [0, 1, 2]
