import attrs
import pytest

from kafka_marshal import (
    FENCED,
    ORIGINAL,
    Accepted,
    Claim,
    ClaimKey,
    OutOfOrder,
    ReadTwice,
    Record,
    Refused,
    Rules,
    Transition,
    World,
    decode,
)
from kafka_marshal.core.claims.reducer import step


def record(offset: int, text: str, at_ms: int = 1000) -> Record:
    return Record(0, offset, at_ms, decode(text.encode()))


def folded(*records: Record) -> World:
    world = World(FENCED)
    for each in records:
        world.apply(each)
    return world


CP = "ClaimingPartition/1/1/i1/c1/{group}/{topic}/0"
RG = "ReleaseGroup/0/1/a1/admin/g//0/{until}"


def cp(offset: int, group: str = "g", topic: str = "t", at_ms: int = 1000) -> Record:
    return record(offset, CP.format(group=group, topic=topic), at_ms)


def test_claims_of_different_keys_do_not_meet() -> None:
    world = folded(cp(0), cp(1, topic="u"), cp(2, group="h"))
    assert [claim.epoch for claim in world.claims.values()] == [0, 1, 2]


def test_a_release_group_reaches_every_claim_of_its_group_and_no_other() -> None:
    world = folded(cp(0), cp(1, topic="u"), cp(2, group="h"))
    outcome = world.apply(record(3, RG.format(until=9)))
    assert outcome.verdict is Accepted.GROUP_RELEASED
    assert [t.key.topic for t in outcome.transitions] == ["t", "u"]
    assert [claim.owned for claim in world.claims.values()] == [False, False, True]


def test_a_claim_first_seen_later_has_the_pause_behind_it() -> None:
    world = folded(record(0, RG.format(until=9), at_ms=5000))
    assert world.claim(ClaimKey("g", "t", 0)).pauser == "a1"
    outcome = world.apply(cp(1, at_ms=1000))
    assert outcome.verdict is Refused.IS_PAUSED
    assert world.claim(ClaimKey("g", "t", 0)).clock_ms == 5000
    assert world.apply(cp(2, at_ms=9000)).verdict is Accepted.CLAIMED


def test_a_claim_first_seen_later_has_every_release_group_behind_it() -> None:
    earlier = record(0, RG.format(until=9), at_ms=5000)
    world = folded(earlier, record(1, RG.format(until=9), at_ms=1000))
    assert world.claim(ClaimKey("g", "t", 0)).clock_ms == 5000


def test_the_pause_of_a_claim_first_seen_later_is_cut_by_the_worlds_rules() -> None:
    world = World(attrs.evolve(FENCED, pause_max_ms=500))
    world.apply(record(0, RG.format(until=9), at_ms=1000))
    assert world.claim(ClaimKey("g", "t", 0)).paused_until_ms == 1500


def test_an_outcome_says_what_every_claim_was_and_is() -> None:
    world = folded(cp(0))
    before = world.claim(ClaimKey("g", "t", 0))
    for each in (cp(1), record(2, RG.format(until=9))):
        [transition] = world.apply(each).transitions
        after = world.claim(ClaimKey("g", "t", 0))
        assert transition == Transition(ClaimKey("g", "t", 0), before, after)
        before = after


def test_a_group_is_its_own_claims() -> None:
    world = folded(cp(0), cp(1, topic="u"), cp(2, group="h"))
    assert [key.topic for key in world.group("g")] == ["t", "u"]
    assert world.group("h") == {ClaimKey("h", "t", 0): world.claim(ClaimKey("h", "t", 0))}


def test_an_unknown_claim_is_nobodys() -> None:
    assert World().claim(ClaimKey("g", "t", 0)) == Claim()
    assert not World().group("g")


def test_a_record_read_twice_is_folded_once() -> None:
    world = folded(cp(0))
    before = dict(world.claims)
    assert world.apply(cp(0)).verdict is ReadTwice.DUPLICATE
    assert world.apply(cp(0, topic="other")).verdict is ReadTwice.CONFLICTING_DUPLICATE
    assert world.claims == before


def test_records_out_of_order_are_our_own_mistake() -> None:
    with pytest.raises(OutOfOrder, match="offset 4 came after offset 5"):
        folded(cp(5), cp(4))


def test_worlds_that_folded_the_same_records_are_equal() -> None:
    assert folded(cp(0), cp(3)) == folded(cp(0), cp(3))
    assert folded(cp(0)) != folded(cp(1))
    assert folded(record(0, RG.format(until=9))) != folded()


def test_a_claim_that_is_known_from_elsewhere_goes_on_as_it_stood() -> None:
    whole = folded(cp(0), cp(1, topic="u"))
    world, key = World(FENCED), ClaimKey("g", "t", 0)
    world.seed(key, whole.claim(key))
    world.seed(ClaimKey("g", "u", 0), whole.claim(ClaimKey("g", "u", 0)))
    beat = record(2, "Heartbeat/1/1/i1/c1/g/t/0/7")
    assert world.apply(beat) == whole.apply(beat)
    assert world == whole
    world.forget(key)
    assert list(world.claims) == [ClaimKey("g", "u", 0)]
    assert world.claim(key) == Claim()


def test_a_record_that_is_passed_over_counts_as_folded() -> None:
    world = folded(cp(3))
    assert world.read_before(cp(4, topic="u")) is None
    world.pass_over(cp(4, topic="u"))
    assert world.claim(ClaimKey("g", "u", 0)) == Claim()
    assert world.read_before(cp(4, topic="u")) is ReadTwice.DUPLICATE
    assert world.read_before(cp(4, topic="v")) is ReadTwice.CONFLICTING_DUPLICATE
    assert world.read_before(cp(5)) is None
    with pytest.raises(OutOfOrder, match="offset 3 came after offset 4"):
        world.read_before(cp(3))


@pytest.mark.parametrize("rules", [FENCED, ORIGINAL], ids=str)
@pytest.mark.parametrize("before", [(cp(0),), (record(0, RG.format(until=9)),), ()])
def test_a_run_of_heartbeats_ends_where_its_last_one_does(
    before: tuple[Record, ...], rules: Rules
) -> None:
    whole, short, key = World(rules), World(rules), ClaimKey("g", "t", 0)
    beats = [record(at, f"Heartbeat/1/1/i1/c1/g/t/0/{at}", at * 1000) for at in (1, 2, 3)]
    for each in (*before, *beats):
        whole.apply(each)
    for each in before:
        short.apply(each)
    after, _ = step(short.claim(key), beats[-1], rules)
    short.seed(key, after)
    assert short == whole
    assert list(short.claims) == [key]
