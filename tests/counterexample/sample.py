"""Counterexamples to try things on: one by hand, and any at all."""

from __future__ import annotations

from hypothesis import strategies as st

from kafka_marshal.counterexample.model import (
    LOG,
    REFUSED,
    Counterexample,
    Expression,
    Participant,
    Step,
    StepKind,
)

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "</title></style></svg><p>",
    '" onload="alert(1)',
    "\x00\x1b[31m",
    "\u202egnp.exe",
    "\udc80\ud800",
    "",
    "x" * 10_000,
    "url(https://elsewhere.example/x.png)",
)

LATE_HEARTBEAT = Counterexample(
    violated="Fenced",
    source="a test",
    participants=(Participant("a1", "client a"), Participant("b1", "client b"), Participant(LOG)),
    steps=(
        Step(0, state={"now": 0}),
        Step(
            1,
            "SendHeartbeat",
            StepKind.SENT,
            "a1 sends Heartbeat at 0",
            who="a1",
            source="a1",
            target=LOG,
            label="Heartbeat at 0",
            time="0 s",
            state={"now": 0},
        ),
        Step(2, "Stall", StepKind.STALLED, "a1 stalls", who="a1", time="0 s", state={"now": 0}),
        Step(3, "Tick", StepKind.TIME, time="1 s", state={"now": 1}),
        Step(4, "Tick", StepKind.TIME, "time passes", time="2 s", state={"now": 2}),
        Step(
            5,
            "Append",
            StepKind.APPENDED,
            "offset 0: a1's Heartbeat at 0: Overwritten",
            who="a1",
            source="a1",
            target=LOG,
            since=1,
            offset=0,
            verdict="Overwritten",
            time="2 s",
            state={"now": 2},
        ),
    ),
    violated_at=5,
    about="A late heartbeat steals.",
)

names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6))
# What JSON may hold in its strings: a lone surrogate is one of them.
expressions: st.SearchStrategy[Expression] = st.recursive(
    st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda elements: {"#set": elements})
    ),
    max_leaves=6,
)


@st.composite
def counterexamples(draw: st.DrawFn) -> Counterexample:
    """Any that the form allows, whether or not it makes sense."""
    unique = draw(st.lists(names.filter(lambda name: name != LOG), unique=True, max_size=4))
    has_log = draw(st.booleans())
    if unique and has_log:
        unique.append(LOG)
    participants = [Participant(name, draw(names)) for name in unique]
    somebody: st.SearchStrategy[str | None] = st.sampled_from([None, *unique])
    variables = draw(st.lists(st.text("xyz", min_size=1, max_size=2), unique=True, max_size=2))
    states = st.none() | st.fixed_dictionaries(dict.fromkeys(variables, expressions))
    steps = [Step(0, state=draw(states))]
    for number in range(1, draw(st.integers(1, 6))):
        steps.append(
            Step(
                number,
                action=draw(st.sampled_from(["Append", "Read", "Surprise"])),
                kind=draw(st.sampled_from(StepKind)),
                sentence=draw(names),
                who=draw(somebody),
                source=draw(somebody),
                target=draw(somebody),
                since=draw(st.none() | st.integers(0, number - 1)),
                offset=draw(st.none() | st.integers(0, 2**63)),
                label=draw(names),
                verdict=draw(st.none() | st.sampled_from([*sorted(REFUSED), "Claimed"])),
                time=draw(st.none() | names.filter(bool)),
                state=draw(states),
            )
        )
    place = st.none() | st.integers(0, len(steps) - 1)
    return Counterexample(
        violated=draw(st.none() | st.sampled_from(["Fenced", "LiveOwner"])),
        source=draw(names),
        participants=tuple(participants),
        steps=tuple(steps),
        violated_at=draw(place),
        loop_back_to=draw(place),
        about=draw(names),
    )
