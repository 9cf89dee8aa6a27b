"""A sender that cannot write its headers is not trusted with the rest."""

import attrs
import pytest

from kafka_marshal import (
    FENCED,
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    RuleSet,
    step,
)
from kafka_marshal.core.claims.fenced import has_bad_headers
from kafka_marshal.core.messages import AMENDMENTS, NOT_DECIMAL
from tests import triples

NUMBERS = [each.name for each in attrs.fields(Headers) if each.name not in {"present", *AMENDMENTS}]
OWNER = (1, 1, "i1", "c1", "g", "t", 0)
OWNED = Claim("i1", "c1", 3, 5, 1000, 1000, won_with_headers=True)
OF_THE_OWNER: list[Message] = [
    Heartbeat(*OWNER, 6),  # type: ignore[arg-type]
    ClaimingPartition(*OWNER),  # type: ignore[arg-type]
    ReleasingPartition(*OWNER, 6),  # type: ignore[arg-type]
    ClaimingMessages(*OWNER, 6),  # type: ignore[arg-type]
]


def judged(message: Message, headers: Headers) -> Accepted | Refused:
    return step(OWNED, Record(0, 9, 2000, message, headers), FENCED)[1]


@pytest.mark.parametrize("message", OF_THE_OWNER, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("name", NUMBERS)
def test_one_header_that_is_not_decimal_refuses_the_owner(message: Message, name: str) -> None:
    good = Headers(present=True, epoch=3)
    assert isinstance(judged(message, good), Accepted)
    odd = attrs.evolve(good, **{name: NOT_DECIMAL})  # type: ignore[arg-type]
    assert judged(message, odd) is Refused.HEADER_NOT_DECIMAL


@pytest.mark.parametrize("name", NUMBERS)
def test_a_release_group_is_accepted_whatever_its_headers_say(name: str) -> None:
    message = ReleaseGroup(0, 1, "a1", "admin", "g", "", 0, 9)  # type: ignore[arg-type]
    odd = Headers(present=True, **{name: NOT_DECIMAL})
    assert judged(message, odd) is Accepted.GROUP_RELEASED


WHATEVER_THE_CLAIM = {
    Refused.UNKNOWN_VERSION,
    Refused.HEADER_NOT_DECIMAL,
    Refused.HEADER_FROM_THE_FUTURE,
}


def test_bad_headers_are_those_that_refuse_whatever_the_claim() -> None:
    for each in triples.read():
        is_group = isinstance(each.record.message, ReleaseGroup)
        if each.rules.rule_set is RuleSet.FENCED and not is_group:
            assert has_bad_headers(each.record) is (each.verdict in WHATEVER_THE_CLAIM)
