"""Marshal promises that the log says what an administrator's pause has left undone."""

from __future__ import annotations

from kafka_marshal import FENCED, Claim, ClaimKey, Headers, Record, decode, step
from kafka_marshal.core.claims.pause_work import (
    NO_WORK,
    PauseWork,
    half_set_in_log,
    left_undone,
    work_after,
    work_paused,
)
from kafka_marshal.core.messages import NO_HEADERS

ONE, TWO = ClaimKey("g", "t", 1), ClaimKey("g", "t", 2)
BOTH = frozenset({ONE, TWO})
OWNED = Claim("x1", "x", 3, 5, 100, 100, won_with_headers=True, pauser="x1")
"""By the administrator, who won at offset 3."""

RELEASE = "ReleasingPartition/1/0/x1/x/g/t/1/9"


def record(text: str, headers: Headers = NO_HEADERS, offset: int = 7) -> Record:
    return Record(0, offset, 200, decode(text.encode()), headers)


def worked(work: PauseWork, before: Claim, taken: Record) -> PauseWork:
    """The work after what the reducer makes of a record of claim ONE."""
    after, _ = step(before, taken, FENCED)
    return work_after(work, ONE, before, taken, after)


def test_once_one_position_is_set_a_claim_that_was_given_back_is_left_undone() -> None:
    work = PauseWork("x1", claimed=BOTH, set=frozenset({ONE}), let_go=frozenset({TWO}))
    assert left_undone(work) == {TWO}
    assert half_set_in_log(work)


def test_claims_that_were_all_given_back_are_nothing_to_tell() -> None:
    work = PauseWork("x1", claimed=BOTH, let_go=frozenset({TWO}))
    assert left_undone(work) == {ONE}
    assert not half_set_in_log(PauseWork("x1", claimed=BOTH, let_go=BOTH))


def test_a_second_pause_of_the_same_instance_goes_on_with_what_it_left() -> None:
    left = PauseWork("x1", claimed=BOTH, set=frozenset({ONE}))
    assert work_paused(left, "x1") is left
    assert work_paused(left, "y1") == PauseWork("y1")
    done = PauseWork("x1", claimed=BOTH, set=BOTH)
    assert work_paused(done, "x1") == PauseWork("x1")


def test_a_release_sets_the_position_if_it_says_so_or_cannot_say() -> None:
    work = PauseWork("x1", claimed=BOTH, set=frozenset({TWO}))
    says = record(RELEASE, Headers(True, epoch=3, set_position=9))
    assert worked(work, OWNED, says).set == BOTH
    bare = Claim("x1", "x", 3, 5, 100, 100, pauser="x1")
    assert worked(work, bare, record(RELEASE)).set == BOTH


def test_a_release_with_headers_that_does_not_say_so_gives_the_claim_back() -> None:
    work = PauseWork("x1", claimed=BOTH, let_go=frozenset({TWO}))
    after = worked(work, OWNED, record(RELEASE, Headers(True, epoch=3)))
    assert after == PauseWork("x1", claimed=BOTH, let_go=BOTH)


def test_a_claim_that_is_won_again_was_not_given_back() -> None:
    work = PauseWork("x1", claimed=BOTH, let_go=BOTH)
    request = record("ClaimingPartition/1/0/x1/x/g/t/1")
    assert worked(work, Claim(), request) == PauseWork("x1", claimed=BOTH, let_go=frozenset({TWO}))


def test_a_sign_of_life_is_no_win() -> None:
    """A reader that began in the middle did not see the win: it does not know in which pause."""
    beat = record("Heartbeat/1/0/x1/x/g/t/1/5", Headers(True, epoch=3))
    assert worked(PauseWork("x1"), OWNED, beat) == PauseWork("x1")


def test_what_others_win_and_release_is_no_work_of_the_pause() -> None:
    work = PauseWork("x1", claimed=BOTH)
    request = record("ClaimingPartition/1/0/c1/c/g/t/1")
    owned, _ = step(Claim(), request, FENCED)
    assert worked(work, Claim(), request) == work
    release = record("ReleasingPartition/1/0/c1/c/g/t/1/9", offset=8)
    assert not step(owned, release, FENCED)[0].owned
    assert worked(work, owned, release) == work
    assert worked(NO_WORK, OWNED, record(RELEASE, Headers(True, epoch=3))) == NO_WORK


def test_a_pause_of_its_own_ends_a_tenure_and_gives_nothing_back() -> None:
    work = PauseWork("x1", claimed=BOTH)
    assert worked(work, OWNED, record("ReleaseGroup/0/0/x1/x/g//0/60")) == work
