"""A walk that broke a promise, written down: a whiteboard story, a test to paste, a counterexample.

The story has the form of `tests/golden`: prose, a record, what came of it; what happens outside the
log is prose. The test is a list of moves, and fails by the same property. This room also leaves out
what the walk does not need: shrinking knows numbers, and here whole moves are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests import golden_story

from kafka_marshal import codec
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.messages import NOT_DECIMAL, Message, Record
from kafka_marshal.counterexample import Counterexample, story_text
from kafka_marshal.counterexample.records import from_judged
from model_tests.walks.machine import walk
from model_tests.walks.moves import Move, Setting
from model_tests.walks.properties import WALKED, Broken
from model_tests.walks.simulation import Happened, Simulation

RULES_LINE = "rules: fenced 1000ms"
"""`moves.RULES`, as stories say it."""


def outcome(
    setting: Setting, moves: Iterable[Move], only: Iterable[Property] = WALKED, guards: bool = False
) -> Broken | None:
    """What these moves break."""
    try:
        walk(setting, moves, only, guards)
    except Broken as problem:
        return problem
    return None


def shortened(problem: Broken, only: Iterable[Property] = WALKED, guards: bool = False) -> Broken:
    """The same property broken by as few of the moves as any one-by-one trial finds."""
    assert problem.simulation is not None
    setting, moves = problem.simulation.setting, problem.simulation.moves
    best, size = problem, max(1, len(moves) // 2)
    while True:
        begin = 0
        while begin < len(moves):
            fewer = outcome(setting, moves[:begin] + moves[begin + size :], only, guards)
            if fewer is not None and fewer.name == problem.name:
                assert fewer.simulation is not None
                best, moves = fewer, fewer.simulation.moves
            else:
                begin += size
        if size == 1:
            return best
        size //= 2


def told(problem: Broken) -> str:
    """Everything there is to say: the story, the test, the counterexample."""
    parts = [
        f"{problem}",
        f"The story, for tests/golden:\n\n{story(problem)}",
        f"The test, to paste:\n\n{pasted(problem)}",
    ]
    if _world(problem).histories[problem.claim].steps:
        parts.append(f"The counterexample:\n\n{story_text(counterexample(problem))}")
    return "\n\n".join(parts)


def pasted(problem: Broken) -> str:
    """A test that plays these moves, as Python."""
    simulation = _world(problem)
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", problem.name).lower()
    moves = "".join(f"        {move!r},\n" for move in simulation.moves)
    words = set(re.findall(r"\b[A-Z]\w+(?=\()", moves)) - {"Move", "Send"}
    imports = [
        *(["from kafka_marshal.machines.consumer.effects import Send"] if words else []),
        *([f"from kafka_marshal.core.messages import {', '.join(sorted(words))}"] if words else []),
        "from model_tests.walks.machine import walk",
        "from model_tests.walks.moves import Move, Setting",
    ]
    guards = ", guards=True" if problem.name.startswith("Forbidden") else ""
    return "\n".join(
        [
            *imports,
            f"\n\ndef test_{name}_holds_on_a_walk() -> None:",
            f"    # {problem}",
            f"    setting = {simulation.setting!r}",
            f"    moves = [\n{moves}    ]",
            f"    walk(setting, moves{guards})\n",
        ]
    )


def counterexample(problem: Broken, source: str = "a walk") -> Counterexample:
    """The claim's records in the form that all counterexamples have."""
    history = _world(problem).histories[problem.claim]
    return from_judged(history.steps, problem.name, source, about=problem.why)


def story(problem: Broken) -> str:
    """The log of the claim's coordinating partition, with what happened around it as prose."""
    simulation = _world(problem)
    partition = simulation.partition_of(problem.claim)
    lines = [f"# {problem.name}, found by a walk over {problem.claim}.", RULES_LINE, ""]
    for happened in simulation.happened:
        record = happened.appended
        if record is not None and record.partition == partition:
            lines += _about_record(happened, record)
        elif record is None and not _elsewhere(simulation, happened.move, partition):
            lines += [f"# {sentence}" for sentence in _sentences(happened)]
    lines.append(f"# {problem}.")
    return golden_story.retold("\n".join(lines) + "\n", problem.name).text


def _world(problem: Broken) -> Simulation:
    assert problem.simulation is not None, "it was not walked"
    return problem.simulation


def _elsewhere(simulation: Simulation, move: Move, partition: int) -> bool:
    return bool(move.claim) and simulation.partition_of(move.claim) != partition


def _about_record(happened: Happened, record: Record) -> Iterator[str]:
    if happened.move.action == "SendAnything":
        yield "# A stranger's:"
    elif happened.move.action == "AppendCopy":
        yield "# The broker stored it, and its sender will send it once more:"
    value = codec.encode(record.message).decode()
    headers = [f"{name}={text}" for name, text in _headers(record)]
    yield " ".join([f"@{record.offset} {record.timestamp_ms}ms {value}", *headers])


def _headers(record: Record) -> Iterator[tuple[str, str]]:
    """As `codec.encode_headers`, also of strangers that cannot write a number."""
    values = {name: getattr(record.headers, field) for name, field in codec.HEADER_FIELDS.items()}
    said = {name: value for name, value in values.items() if value is not None}
    for name, value in said.items():
        yield name, "no" if value == NOT_DECIMAL else str(value)
    if record.headers.present and not said:
        yield "marshal-version", "1"


def _sentences(happened: Happened) -> Iterator[str]:
    """What happened outside the log."""
    move, produced = happened.move, happened.produced
    match move.action:
        case "Tick":
            yield f"{move.number} ms pass."
        case "StepBack":
            yield f"The broker's clock steps back by {move.number} ms."
        case "Read":
            yield f"{move.who} reads {move.number} more."
        case "Process":
            yield f"{move.who} processes the next message of {move.claim}."
        case "ProcessGrant":
            yield f"{move.who} processes what it was granted of {move.claim}."
        case "Lose":
            yield f"What {move.who} sent is lost (number {move.number} of what waits)."
        case "GiveUp":
            yield f"{move.who} no longer waits for its request for {move.claim}."
        case "Restart" | "Join":
            since = f", without the first {move.number} records" if move.number else ""
            yield f"A new instance of {move.who} begins{since}."
        case "Crash" | "Stall" | "Resume":
            yield f"{move.who}: {move.action.lower()}."
        case _ if produced is not None:
            yield f"{move.who} sends a {_briefly(produced.message)} for {move.claim}."
        case _:
            yield f"{move!r}"


def _briefly(message: Message) -> str:
    offset: int | None = getattr(message, "offset", None)
    return type(message).__name__ + ("" if offset is None else f" at {offset}")
