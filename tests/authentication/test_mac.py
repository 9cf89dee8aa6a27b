"""What a MAC covers, and what is noticed. Each promise has been seen to fail, by a mistake here."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal import authentication
from kafka_marshal.authentication import Authenticity, Verification, signed_bytes
from kafka_marshal.capture import HeaderPairs, RawRecord, capture_line, parse_line
from kafka_marshal.core import wire
from tests.authentication.signing import KEY, OURS, THEIRS, signed

VALUE = b"Heartbeat/1/1700000000/i1/c1/g/events/3/500"
HEADERS: HeaderPairs = tuple((header.name, b"7") for header in wire.HEADERS)
PLAIN = RawRecord(3, 17, 1000, VALUE, (*HEADERS, ("marshal-of-a-later-day", None)))
SIGNED = signed(PLAIN)
MAC = SIGNED.headers[-1]
AUTHENTIC, WRONG = Authenticity.AUTHENTIC, Authenticity.WRONG


def with_mac(*values: bytes | None) -> RawRecord:
    """The record with these in the place of its MAC."""
    return attrs.evolve(
        PLAIN, headers=(*PLAIN.headers, *((wire.MAC_HEADER, value) for value in values))
    )


def changed(name: str, value: bytes | None) -> RawRecord:
    pairs = tuple((each, value if each == name else old) for each, old in SIGNED.headers)
    return attrs.evolve(SIGNED, headers=pairs)


def without(name: str) -> RawRecord:
    return attrs.evolve(SIGNED, headers=tuple(pair for pair in SIGNED.headers if pair[0] != name))


def renamed(name: str) -> RawRecord:
    """With the value of a header in its name."""
    pairs = ((f"{n}{(of or b'').decode()}", b"") if n == name else (n, of) for n, of in HEADERS)
    return attrs.evolve(SIGNED, headers=(*pairs, *SIGNED.headers[len(HEADERS) :]))


def flipped(at: int) -> RawRecord:
    """With one digit of its MAC changed."""
    text = bytearray(MAC[1] or b"")
    text[at] = ord("1") if text[at] == ord("0") else ord("0")
    return with_mac(bytes(text))


COVERED = [name for name, _ in PLAIN.headers]
TAMPERED: Mapping[str, RawRecord] = {
    "another partition": attrs.evolve(SIGNED, partition=4),
    "another value": attrs.evolve(SIGNED, value=VALUE + b"0"),
    "no value": attrs.evolve(SIGNED, value=None),
    **{f"{name} is another": changed(name, b"8") for name in COVERED},
    **{f"{name} is gone": without(name) for name in COVERED},
    "an empty header for a null one": changed("marshal-of-a-later-day", b""),
    "a name that took its value": renamed("marshal-epoch"),
    "a header more": attrs.evolve(SIGNED, headers=(*SIGNED.headers, ("marshal-version", b"1"))),
    "a header twice": attrs.evolve(SIGNED, headers=(*SIGNED.headers, ("marshal-epoch", b"8"))),
    "a header twice, the signed one last": attrs.evolve(
        SIGNED, headers=(("marshal-epoch", b"8"), *SIGNED.headers)
    ),
    "the first digit of the MAC": flipped(3),
    "the last digit of the MAC": flipped(-1),
}


def missed() -> set[str]:
    """What is taken for authentic and is not."""
    return {name for name, raw in TAMPERED.items() if OURS.verify(raw).authenticity is AUTHENTIC}


def test_a_signed_record_is_authentic_also_as_a_capture_writes_it() -> None:
    assert OURS.verify(SIGNED) == Verification(AUTHENTIC, "k1")
    read = parse_line(capture_line(SIGNED), "a test")
    assert OURS.verify(read) == Verification(AUTHENTIC, "k1")


def test_the_mac_is_hmac_sha256_of_these_bytes() -> None:
    """What another implementation has to write, spelled out."""
    pairs: HeaderPairs = (("marshal-seen", b"9"), ("trace-id", b"x"), ("marshal-epoch", b"7"))
    parts: tuple[bytes, ...] = (b"kafka-marshal-hmac 1", b"k1", b"3", VALUE, b"marshal-epoch", b"7")
    parts += (b"marshal-seen", b"9")
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert signed_bytes("k1", 3, VALUE, pairs) == text
    mac = hmac.new(KEY, text, hashlib.sha256).hexdigest()
    assert OURS.header(3, VALUE, pairs) == ("kafka-marshal-hmac", f"k1:{mac}".encode())


def test_what_a_mac_adds_to_a_record() -> None:
    name, mac = MAC
    assert len(name) + len((mac or b"").removeprefix(b"k1")) == 83


def test_everything_that_was_changed_is_noticed() -> None:
    assert missed() == set()
    assert {OURS.verify(raw).authenticity for raw in TAMPERED.values()} == {WRONG}


def test_what_no_reader_of_the_protocol_sees_is_not_covered() -> None:
    """Where it lies, when it was stamped, the order of other names, headers of other software."""
    moved = attrs.evolve(SIGNED, offset=99, timestamp_ms=5)
    backwards = attrs.evolve(SIGNED, headers=SIGNED.headers[::-1])
    traced = attrs.evolve(SIGNED, headers=(("Marshal-Epoch", b"1"), *SIGNED.headers, ("b3", b"")))
    for raw in (moved, backwards, traced):
        assert OURS.verify(raw).authenticity is AUTHENTIC


def of_parts(keep: Callable[[int, bytes | None], bool]) -> Callable[..., bytes]:
    """Signed bytes that leave some parts out: 2 is the partition, 3 the value, then headers."""

    def made(key_id: str, partition: int, value: bytes | None, pairs: Iterable[object]) -> bytes:
        whole, parts = signed_bytes(key_id, partition, value, pairs), list[bytes | None]()  # type: ignore[arg-type]
        at = 0
        while at < len(whole):
            size = whole[at : at + 8]
            end = at + 8 + (0 if size == b"\xff" * 8 else int.from_bytes(size, "big"))
            parts.append(whole[at + 8 : end] if size != b"\xff" * 8 else None)
            at = end
        kept = (part for n, part in enumerate(parts) if keep(n, part))
        return b"".join(b"-" if part is None else b"%d:%s" % (len(part), part) for part in kept)

    return made


def uncovered(name: str) -> Callable[..., bytes]:
    def made(key_id: str, partition: int, value: bytes | None, pairs: HeaderPairs) -> bytes:
        left = [pair for pair in pairs if pair[0] != name]
        return signed_bytes(key_id, partition, value, left)

    return made


def last_of_each(key_id: str, partition: int, value: bytes | None, pairs: HeaderPairs) -> bytes:
    return signed_bytes(key_id, partition, value, dict(pairs).items())


def null_is_empty(key_id: str, partition: int, value: bytes | None, pairs: HeaderPairs) -> bytes:
    return signed_bytes(key_id, partition, value, [(name, of or b"") for name, of in pairs])


def of_a_header(name: str) -> set[str]:
    return {each for each in TAMPERED if each.startswith(name)}


def run_together(key_id: str, partition: int, value: bytes | None, pairs: HeaderPairs) -> bytes:
    parts = [b"%s %d" % (key_id.encode(), partition), value or b"null"]
    covered = sorted(pair for pair in pairs if pair[0].startswith(wire.HEADER_PREFIX))
    return b"".join([*parts, *(b"%s%s" % (n.encode(), of or b"") for n, of in covered)])


MISTAKES: list[tuple[str, Callable[..., bytes], set[str]]] = [
    ("the partition is left out", of_parts(lambda n, _: n != 2), {"another partition"}),
    ("the value is left out", of_parts(lambda n, _: n != 3), {"another value", "no value"}),
    *((f"{name} is not covered", uncovered(name), of_a_header(name)) for name in COVERED),
    ("only the last of a name", last_of_each, {"a header twice, the signed one last"}),
    ("no lengths", run_together, {"a name that took its value"}),
    ("null is empty", null_is_empty, {"an empty header for a null one"}),
]


@pytest.mark.parametrize(("mistake", "made", "found"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mac_that_covers_less_is_noticed(
    mistake: str, made: Callable[..., bytes], found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "signed_bytes", made)
    text = OURS.header(PLAIN.partition, PLAIN.value, PLAIN.headers)
    assert text is not None
    tampered = {
        name: attrs.evolve(
            raw, headers=tuple(text if n == wire.MAC_HEADER else (n, of) for n, of in raw.headers)
        )
        for name, raw in TAMPERED.items()
        if "digit" not in name
    }
    passed = {name for name, raw in tampered.items() if OURS.verify(raw).authenticity is AUTHENTIC}
    assert found <= passed, mistake


def test_a_comparison_of_the_first_bytes_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kafka_marshal.authentication.hmac.compare_digest", lambda a, b: a[:16] == b[:16]
    )
    assert missed() == {"the last digit of the MAC"}


def test_the_comparison_takes_as_long_whatever_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.extend((len(a), len(b)))
        return False

    monkeypatch.setattr("kafka_marshal.authentication.hmac.compare_digest", compare)
    assert OURS.verify(SIGNED).authenticity is WRONG
    assert compared == [32, 32]


DIGITS = (MAC[1] or b"").partition(b":")[2]


@pytest.mark.parametrize(
    "values",
    [
        (None,),
        (b"",),
        (b":",),
        (b"k1",),
        (b"k1:",),
        (b":" + DIGITS,),
        (b"k1:" + DIGITS[:-1],),
        (b"k1:" + DIGITS + b"0",),
        (b"k1:" + DIGITS + b"\n",),
        (b"k1:" + DIGITS.upper(),),
        (b" k1:" + DIGITS,),
        (b"k1:k1:" + DIGITS,),
        (b"\xff\xfe:" + DIGITS,),
        ("k\u0661:".encode() + DIGITS,),
        (b"k" * 65 + b":" + DIGITS,),
        (MAC[1], MAC[1]),
        (b"x", MAC[1]),
        (MAC[1], None),
    ],
)
def test_a_mac_that_is_not_one_mac_as_we_write_it_cannot_be_read(
    values: tuple[bytes | None, ...],
) -> None:
    assert OURS.verify(with_mac(*values)) == Verification(Authenticity.UNREADABLE)


def test_a_key_is_known_by_its_name_alone() -> None:
    """The key that they sign with is ours too, under another name."""
    assert OURS.verify(signed(PLAIN, THEIRS)) == Verification(Authenticity.UNKNOWN_KEY, "k9")
    renamed = with_mac(b"k2:" + DIGITS)
    assert OURS.verify(renamed) == Verification(WRONG, "k2")
    assert OURS.verify(with_mac(b"K1:" + DIGITS)) == Verification(Authenticity.UNKNOWN_KEY, "K1")


def test_the_name_of_the_header_is_as_it_is_written() -> None:
    shouted = tuple((n.upper() if n == wire.MAC_HEADER else n, of) for n, of in SIGNED.headers)
    assert OURS.verify(PLAIN) == Verification(Authenticity.NOT_SIGNED)
    assert OURS.verify(attrs.evolve(SIGNED, headers=shouted)).authenticity is (
        Authenticity.NOT_SIGNED
    )


NAMES = st.one_of(st.sampled_from(["marshal-epoch", wire.MAC_HEADER]), st.text(max_size=20))
BYTES = st.one_of(st.none(), st.binary(max_size=80), st.just(MAC[1]))


@settings(max_examples=150, deadline=None)
@given(
    value=BYTES,
    pairs=st.lists(st.tuples(st.one_of(NAMES, st.just("marshal-\ud800")), BYTES), max_size=4),
)
def test_whatever_the_bytes_a_record_is_verified_and_only_a_signed_one_is_authentic(
    value: bytes | None, pairs: list[tuple[str, bytes | None]]
) -> None:
    raw = RawRecord(0, 0, 0, value, tuple(pairs))
    assert OURS.verify(raw).authenticity is not AUTHENTIC
    bare = attrs.evolve(raw, headers=tuple(pair for pair in pairs if pair[0] != wire.MAC_HEADER))
    assert OURS.verify(signed(bare)) == Verification(AUTHENTIC, "k1")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(BYTES, min_size=2, max_size=4), min_size=2, max_size=2, unique_by=repr))
def test_no_two_records_are_signed_as_one(two: list[list[bytes | None]]) -> None:
    """The length before each part keeps the end of one from being the beginning of the next."""

    def bytes_of(parts: list[bytes | None]) -> bytes:
        value, *rest = parts
        return signed_bytes("k1", 0, value, [("marshal-epoch", each) for each in rest])

    assert bytes_of(two[0]) != bytes_of(two[1])
