"""What we write, the original reads: by a model of its decoder that its own vectors made."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal.codec import (
    PARTITION_MAX,
    coordinating_partition,
    decode,
    encode,
    encode_headers,
)
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Message,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from tests.machines.interop.originals import (
    READS_GROUPS,
    READS_NO_GROUPS,
    Decoder,
    Invalid,
    as_it_reads,
)
from tests.machines.town import PLACES, Town, key

DATA = Path(__file__).parents[2] / "data"
CAPTURES = sorted((DATA / "captures" / "original").glob("*.trace.jsonl"))
VERSIONS = {"decode_80cc6d1.jsonl": READS_NO_GROUPS, "decode_e79661b_admin.jsonl": READS_GROUPS}
Told = tuple[str, dict[str, int | str]] | str


def vectors(name: str) -> list[dict[str, object]]:
    lines = (DATA / "vectors" / name).read_text(encoding="utf-8").splitlines()
    assert lines
    return [json.loads(line) for line in lines]


def told(decoder: Decoder, value: bytes) -> Told:
    try:
        return decoder.read(value)
    except Invalid as error:
        return str(error)


def recorded(vector: Mapping[str, object]) -> Told:
    if not vector["ok"]:
        return str(vector["error"])
    decoded = vector["decoded"]
    assert isinstance(decoded, dict)
    return str(vector["go_type"]).removeprefix("*marshal.msg"), decoded


def differs_from_vectors(decoder: Decoder, name: str) -> bool:
    return any(
        told(decoder, base64.b64decode(str(vector["input_b64"]))) != recorded(vector)
        for vector in vectors(name)
    )


def differs_from_captures(decoder: Decoder) -> bool:
    """Its own handlers reported whose claim each recorded record touched."""
    for path in CAPTURES:
        values = path.with_name(path.name.replace(".trace", "")).read_text(encoding="utf-8")
        states = path.read_text(encoding="utf-8")
        for line, row in zip(values.splitlines(), states.splitlines(), strict=True):
            state = json.loads(row).get("state")
            if state is None:
                continue
            read = told(decoder, json.loads(line)["value"].encode())
            if isinstance(read, str):
                return True
            touched = {"GroupID": "group_id", "Topic": "topic", "PartID": "part"}
            if any(read[1][go] != state[theirs] for go, theirs in touched.items()):
                return True
            if read[0] == "Heartbeat" and (
                read[1]["CurrentOffset"] != state["current_offset"]
                or read[1]["InstanceID"] != state["instance_id"]
                or read[1]["ClientID"] != state["client_id"]
                or read[1]["Time"] != state["last_heartbeat"]
            ):
                return True
    return False


@pytest.mark.parametrize("name", VERSIONS)
def test_the_model_of_its_decoder_says_what_the_decoder_said(name: str) -> None:
    for vector in vectors(name):
        value = base64.b64decode(str(vector["input_b64"]))
        assert told(VERSIONS[name], value) == recorded(vector), value


def test_the_model_of_its_decoder_reads_what_its_handlers_obeyed() -> None:
    assert len(CAPTURES) == 8
    assert not differs_from_captures(READS_GROUPS)


def length_of(kind: str, count: int) -> Decoder:
    fields = tuple(
        (word, short, count if word == kind else n) for word, short, n in READS_GROUPS.fields
    )
    return attrs.evolve(READS_GROUPS, fields=fields)


def place_of(name: str, at: int) -> Decoder:
    return attrs.evolve(
        READS_GROUPS,
        texts=tuple((n, at if n == name else was) for n, was in READS_GROUPS.texts),
        numbers=tuple((n, w, at if n == name else was) for n, w, was in READS_GROUPS.numbers),
    )


MUTANTS = {
    "knows no groups": READS_NO_GROUPS,
    "heartbeats of eight": length_of("Heartbeat", 8),
    "heartbeats of ten": length_of("Heartbeat", 10),
    "releases of eight": length_of("ReleasingPartition", 8),
    "claims of nine": length_of("ClaimingPartition", 9),
    "groups of eight": length_of("ReleaseGroup", 8),
    "nine at least": attrs.evolve(READS_GROUPS, least=9),
    "no sign": attrs.evolve(READS_GROUPS, number=r"[0-9]+"),
    "no minus": attrs.evolve(READS_GROUPS, number=r"\+?[0-9]+"),
    "as Python reads numbers": attrs.evolve(READS_GROUPS, number=r"\s*[+-]?[0-9_]+\s*"),
    "32 bits": attrs.evolve(READS_GROUPS, bits=32),
    "more than 64 bits": attrs.evolve(READS_GROUPS, bits=65),
    "groups may name a topic": attrs.evolve(READS_GROUPS, groups_name_no_topic=False),
    "length first": attrs.evolve(READS_GROUPS, length_before_partition=True),
    "instance where the client is": place_of("InstanceID", 4),
    "client where the group is": place_of("ClientID", 5),
    "group where the topic is": place_of("GroupID", 6),
    "topic where the group is": place_of("Topic", 5),
    "time where the version is": place_of("Time", 1),
    "partition where the version is": place_of("PartID", 1),
}


@pytest.mark.parametrize("decoder", MUTANTS.values(), ids=MUTANTS)
def test_the_vectors_and_captures_notice_a_wrong_model(decoder: Decoder) -> None:
    by_vectors = differs_from_vectors(decoder, "decode_e79661b_admin.jsonl")
    assert by_vectors or differs_from_captures(decoder)


@define
class Kept(Town):
    """A town that keeps what was sent."""

    sent: list[Send] = field(factory=list)

    def append(self, sent: Send, place: int | None = None) -> None:
        self.sent.append(sent)
        Town.append(self, sent, place)


def everything_sent() -> list[Send]:
    """What members and an administrator send in a day of everything."""
    town = Kept()
    for name, mode in (("a1", Mode.AT_LEAST_ONCE), ("b1", Mode.AT_MOST_ONCE)):
        member = town.join(name, Claiming(fair_share=False), mode)
        partitions = [0, 1] if name == "a1" else [2]
        town.do(name, member.add_topic("events", 3, town.now_ms, only=partitions))
        for claim in list(member.owned):
            town.do(name, member.messages_available(claim, 10, town.now_ms))
            town.do(name, member.done(claim, 10, town.now_ms))
        town.pass_time(200_000)
        town.do(name, member.stop(town.now_ms))

    place = coordinating_partition("events", PLACES)
    admin, seen, claim = (
        InstanceConfig("x1", "x", Mode.AT_LEAST_ONCE, admin=True),
        ConsumerState(),
        key("events", 0),
    )

    def does(sent: Send) -> ConsumerState:
        town.append(sent, place)
        return moves.after_read(admin, seen, town.logs[place][-1])

    seen = does(moves.release_group_sent(admin, "g", 1_000))
    seen = does(moves.claiming_partition_sent(admin, seen, claim, 1))
    does(moves.position_sent(admin, seen, claim, 7, 1))
    assert town.worlds[place].claim(claim).position == 7
    return town.sent


def test_everything_that_our_machines_send_is_what_the_original_reads() -> None:
    sent = everything_sent()
    kinds = {type(one.message) for one in sent}
    assert kinds == {
        ClaimingPartition,
        Heartbeat,
        ReleasingPartition,
        ClaimingMessages,
        ReleaseGroup,
    }
    assert {bool(encode_headers(one.headers)) for one in sent} == {True, False}
    for one in sent:
        value = encode(one.message)
        assert told(READS_GROUPS, value) == as_it_reads(one.message)
        if isinstance(one.message, ReleaseGroup):
            assert told(READS_NO_GROUPS, value) == "Invalid message"
        else:
            assert told(READS_NO_GROUPS, value) == as_it_reads(one.message)


INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITION = st.integers(0, PARTITION_MAX)
ID = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), max_size=9)
BASE = (st.integers(0, 1), INT64, ID, ID, ID)


@given(
    st.one_of(
        st.builds(ClaimingPartition, *BASE, ID, PARTITION),
        st.builds(ReleaseGroup, *BASE, st.just(""), st.just(0), INT64),
        *(
            st.builds(kind, *BASE, ID, PARTITION, INT64)
            for kind in (Heartbeat, ReleasingPartition, ClaimingMessages)
        ),
    )
)
def test_whatever_ids_and_numbers_we_write_the_original_reads(message: Message) -> None:
    value = encode(message)
    assert told(READS_GROUPS, value) == as_it_reads(message)
    assert as_it_reads(decode(value)) == as_it_reads(message)
