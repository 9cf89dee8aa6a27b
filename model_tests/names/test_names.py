"""One vocabulary: the names in the specification and in Python, compared in both directions."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
from proof.properties import ACCEPTED

import kafka_marshal
from kafka_marshal import Accepted, Claim, Headers, Record, Refused
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.verdicts import FENCED_WINS, SIGNS_OF_LIFE, WON_BY_REQUEST
from kafka_marshal.core.messages import UNSPECIFIED
from kafka_marshal.core.ranges.invariants import RangesProperty
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.stories import stories
from model_tests.from_tla import MESSAGES, snake

ROOT = Path(__file__).parent.parent.parent
SPEC = ROOT / "spec"
PACKAGE = Path(kafka_marshal.__file__).parent


def module(name: str) -> str:
    """A module's text without its comments."""
    [path] = SPEC.rglob(f"{name}.tla")
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL)
    return re.sub(r"\\\*.*", "", text)


def definition(text: str, name: str) -> str:
    """The right side of `name ==`, up to the next definition or a line of dashes."""
    match = re.search(rf"^{name}(?:\([^)]*\))? ==(.*?)(?=^\S)", text, re.DOTALL | re.MULTILINE)
    assert match, f"the specification has no {name}"
    return match.group(1)


def strings(text: str) -> list[str]:
    return re.findall(r'"(\w+)"', text)


def record_fields(text: str) -> list[str]:
    return re.findall(r"(\w+)\s*\|->", text)


def operators(*modules: str) -> set[str]:
    """Every name that the modules define or declare."""
    found: set[str] = set()
    for name in modules:
        text = module(name)
        found |= set(re.findall(r"^(\w+)(?:\([^)]*\))?\s*==", text, re.MULTILINE))
        for declared in re.findall(r"^(?:CONSTANTS?|VARIABLES?)\b(.*?)(?=^\S)", text, re.S | re.M):
            found |= set(re.findall(r"\w+", declared))
    return found


CLAIM = module("Claim")
CONSUMER = module("Consumer")
MARSHAL = module("Marshal")


def test_every_acceptance_has_one_name() -> None:
    assert {snake(name) for name in strings(definition(CLAIM, "Accepted"))} == {
        accepted.value for accepted in Accepted
    }


def test_every_guard_has_one_name_and_one_place() -> None:
    assert [snake(name) for name in strings(definition(CLAIM, "Refused"))] == [
        refused.value for refused in Refused
    ]


def test_every_guard_is_an_operator_of_its_own() -> None:
    assert set(strings(definition(CLAIM, "Refused"))) <= operators("Claim")


@pytest.mark.parametrize(
    ("where", "name", "ours"),
    [
        (MARSHAL, "Wins", FENCED_WINS),
        (module("SetPosition"), "Wins", WON_BY_REQUEST),
        (module("Reader"), "SignsOfLife", SIGNS_OF_LIFE),
    ],
)
def test_a_set_of_verdicts_is_the_same_set(where: str, name: str, ours: set[Accepted]) -> None:
    assert {spec_name(each) for each in ours} == {*strings(definition(where, name))}


@pytest.mark.parametrize("enum", [Accepted, Refused])
def test_a_member_is_called_as_it_is_printed(enum: type[Accepted] | type[Refused]) -> None:
    assert [member.name.lower() for member in enum] == [member.value for member in enum]


def test_every_message_has_one_name() -> None:
    assert set(strings(definition(CLAIM, "MessageTypes"))) == set(MESSAGES)


def test_a_claim_has_the_same_fields_in_the_same_order() -> None:
    assert record_fields(definition(CLAIM, "NewClaim")) == [f.name for f in attrs.fields(Claim)]


def test_headers_have_the_same_fields() -> None:
    ours = [field.name for field in attrs.fields(Headers) if field.name not in UNSPECIFIED]
    assert record_fields(definition(CLAIM, "NoHeaders")) == ours


def test_a_record_has_the_same_fields() -> None:
    ours = {field.name for field in attrs.fields(Record)} - {"partition"}
    free_choices = {"stale", "pause_over"}
    assert set(record_fields(definition(MARSHAL, "Stored"))) - free_choices == ours


def test_a_message_has_the_same_fields() -> None:
    ours = {field.name for kind in MESSAGES.values() for field in attrs.fields(kind)}
    one_key_only = {"group_id", "topic", "partition"}
    assert set(record_fields(definition(CONSUMER, "Message"))) - {"type"} == ours - one_key_only


def checked(*kinds: models.ModelKind) -> set[str]:
    """The properties that the models of these kinds check and that must hold."""
    names: set[str] = set()
    for model in models.read():
        if model.kind in kinds:
            cfg = model.cfg.read_text(encoding="utf-8")
            lists = re.findall(
                r"^(?:INVARIANTS?|PROPERT(?:Y|IES))\b(.*?)(?=^\S|\Z)", cfg, re.DOTALL | re.MULTILINE
            )
            names |= set(re.findall(r"\w+", " ".join(lists)))
    return names


def test_every_property_is_checked_by_a_model_and_every_one_checked_has_a_name() -> None:
    holding = (models.ModelKind.SAFETY, models.ModelKind.LIVENESS, models.ModelKind.CONFORMANCE)
    names_only = {"KnownVerdicts", "KnownReasons", "ClaimsAreApart", "SuffixGuessGrows"}
    names_only |= {"ReducerInvariant", "MachineInvariant", "IdsAreApart", "NeverFull"}
    known = {prop.value for prop in Property} | ACCEPTED.keys() | OF_A_MACHINE | OF_A_TENURE
    known |= OF_WHO_ENDS_A_PAUSE | OF_WHO_COUNTS | OF_RANGES | OF_CHECKPOINTS | OF_A_PARTICIPANT
    known |= OF_GROUP_EVENTS | OF_GROUPS
    assert checked(*holding) - names_only == known


OF_GROUP_EVENTS = {
    *("EpochIsInLog", "OwnerIsMember", "GenerationIsTheLatest", "OwnedWasGranted"),
    *("RevokingIsOwned", "PartitionsAreTheTopics", "AllOrNone", "IsSettled", "NumbersUnbroken"),
    *("ControllerFenced", "FailoverKeepsGeneration", "GenerationGrows", "RevokeBeforeAssign"),
    *("TenureIsOfOneOwner", "CommitFenced", "OffsetsMonotone", "RewindSticks"),
    *("NewTopicBeginsAnew", "RebalanceIsRight", "NotEmptyIsKept"),
}
"""What `MCGroupEvents.tla` promises of every event, of any sender."""

OF_GROUPS = {
    *(
        "NoTwoOwners",
        "LeaseOver",
        "SessionKept",
        "HeldTenureWasGiven",
        "AnswersHold",
        "OneController",
        "OneGeneration",
        "SuffixExact",
        "PositionIsEnough",
        "RebalanceEnds",
        "DeadMemberReplaced",
        "ControllerReplaced",
    ),
}
"""What is promised of controllers and members, and in the end (`MCGroupLiveness.tla`)."""

OF_CHECKPOINTS = {"LieIsNoticed", "TruthProtects"}
"""Of `MCRangesSuffix`: they ask what each reader takes both for, which no one step knows."""

OF_A_MACHINE = {
    *("ClaimsOnlyIfItMay", "ActsOnlyAsOwner", "AsksForItsBatch", "ProcessesItsWindow"),
    *("AnswersTheRest", "SaysWhatItKnows", "BeginsAtThePosition", "StopsWhenItsIdIsUsedTwice"),
    *("ReadsItsGrant", "Remembers"),
}
"""What `MCMachine.tla` promises of one machine, by its memory and the record."""

OF_A_TENURE = {"NoneSkippedByTenure", "TenureKeepsItsWindow"}
"""Sharper forms of NoneSkipped and ReprocessingBound, which ask who processed what."""

OF_RANGES = {prop.value for prop in RangesProperty}
"""What `MCRanges.tla` promises of consumers that share a claim."""

OF_A_PARTICIPANT = {
    *("SendsNoMore", "BegunAtMostOnce", "FinishedBelow", "HoldsInOrder", "OwesWhatItCanGiveBack"),
    *("CanGiveBack", "LeavesForGood"),
}
"""What `MCParticipant.tla` promises of participants, by what they remember."""

OF_WHO_COUNTS = {
    *("CountsTheSilent", "BegunIsCounted", "CountsAreBounded", "CountsNeverFall"),
    "LateCountsNoMore",
}
"""What `MCDeliveries.tla` promises of a reader that counts deliveries."""

OF_WHO_ENDS_A_PAUSE = {"GivesBackWhatItWon"}
"""What `MCResume.tla` promises of an administrator, who has no machine."""


def test_what_must_be_accepted_has_the_same_names_in_the_proof() -> None:
    lemmas = set(re.findall(r"^(\w+)At\(before, record, after\) ==", module("Lemmas"), re.M))
    assert lemmas == ACCEPTED.keys()


def test_the_stories_read_the_variables_of_the_environment() -> None:
    [declared] = re.findall(r"^VARIABLES\b(.*?)(?=^\S)", MARSHAL, re.DOTALL | re.MULTILINE)
    words = set(re.findall(r"\w+", Path(stories.__file__).read_text(encoding="utf-8")))
    assert set(re.findall(r"\w+", declared)) - words <= {
        "mishaps",
        "unaware",
    }  # ghosts, and what Refold says


def test_every_operator_that_a_docstring_names_exists() -> None:
    known = operators(
        *("Claim", "Reader", "Consumer", "Marshal", "Properties", "Lease", "MCRecords", "Lemmas"),
        *("Admin", "SetPosition", "Share", "FairShare", "Interval", "TraceMarshal"),
        *("Ranges", "RangesReader", "Participant", "MCRanges", "MCParticipant"),
        *("Deliveries", "MCDeliveries"),
        *("Group", "GroupEvents", "MCGroupEvents", "Controller", "GroupMember", "GroupWorld"),
        *("GroupProperties", "GroupReader", "MCGroupWorld"),
    )
    known |= {path.stem for path in SPEC.rglob("*.tla")}
    missing = {}
    for source in sorted(PACKAGE.rglob("*.py")):
        for names in re.findall(r"\bSpec: ([\w, ]+)\.", source.read_text(encoding="utf-8")):
            for name in re.findall(r"\b[A-Z]\w+", names):
                if name not in known:
                    missing[name] = str(source.relative_to(PACKAGE))
    assert missing == {}


def test_the_transitions_are_called_as_their_actions() -> None:
    from kafka_marshal.core.claims import fenced, original

    for message in MESSAGES:
        assert message in operators("Claim")
        assert hasattr(fenced, snake(message))
        assert f"Original{message}" in operators("Claim")
        assert hasattr(original, snake(message))
