"""What TLC goes through in `MCMachine.tla`, in Python's words, and a sample of it for `tests/`.

As with triples (`sample`): this room defines what a machine can ask of what it knows and of a
record. It keeps rows until every two answers that occur together in the export, in some situation,
are in the sample. `make triples` writes it to `tests/data/machines.jsonl.gz`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import attrs
from tests import machine_samples as machines
from tests.machine_samples import Row, State

from kafka_marshal import Claim, Record, Rules
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration
from model_tests.transitions.sample import covering, kinds, side


def export_all(folder: Path, only: Sequence[str] | None = None) -> Mapping[str, list[Row]]:
    """Run every model of `MCMachine.tla`, or `only` some; `folder` is for what TLC writes."""
    made = {}
    for model in models.read():
        if model.module.stem == "MCMachine" and (only is None or model.name in only):
            target, cfg = folder / f"{model.name}.tsv", folder / f"{model.name}.cfg"
            cfg.write_text(configuration.without_promises(model.cfg), encoding="utf-8")
            export = tlc_export.export(
                model.module,
                cfg,
                target,
                workers=2,
                check_deadlock=model.deadlock_check,
                short=True,
                libraries=models.libraries(),
            )
            made[model.name] = [_row(each) for each in export.read()]
            target.unlink()
    assert made or only, "spec/models.toml has no model of MCMachine"
    return made


def _row(value: Value) -> Row:
    """One row, its columns as `MCMachine.tla` writes them."""
    assert isinstance(value, tuple)
    deed, durations, who, before, what, after = value
    assert isinstance(durations, tuple)
    rules = _rules(*durations)
    if deed == "Reader":
        record = from_tla.record(what)
        return Row(rules, None, from_tla.reader(before), record, from_tla.reader(after))
    me, consumer = from_tla.me(who, rules), from_tla.consumer(before)
    if deed == "Read":
        return Row(rules, me, consumer, from_tla.record(what), from_tla.consumer(after))
    return Row(rules, me, consumer, None, _state(what))


@cache
def _rules(heartbeat_interval_ms: Value, pause_max_ms: Value, clock_rewind_max_ms: int) -> Rules:
    rules = from_tla.rules("fenced", heartbeat_interval_ms, pause_max_ms)
    return attrs.evolve(rules, clock_rewind_max_ms=clock_rewind_max_ms)


def _state(value: Value) -> State:
    given = from_tla.fields(value)

    def answer(said: Value) -> object:
        if isinstance(said, Mapping):
            return {number: from_tla.forbidden(each) for number, each in said.items()}
        return from_tla.forbidden(said)

    return State(
        may={name: answer(said) for name, said in from_tla.fields(given["may"]).items()},  # type: ignore[misc]
        sends={n: from_tla.sent(each) for n, each in from_tla.fields(given["sends"]).items()},
        remembers={
            n: from_tla.consumer(each) for n, each in from_tla.fields(given["remembers"]).items()
        },
    )


# --- the sample -----------------------------------------------------------------------------------


def _changed(before: attrs.AttrsInstance, after: attrs.AttrsInstance) -> tuple[str, ...]:
    """The names of the fields that are not what they were."""
    return tuple(
        [name for name in _names(type(before)) if getattr(before, name) != getattr(after, name)]
    )


@cache
def _names(of: type[attrs.AttrsInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(of))


def _of_claim(claim: Claim) -> tuple[Hashable, ...]:
    return (
        claim.owned,
        claim.won_with_headers,
        claim.position_set,
        claim.epoch is None,
        claim.pauser is None,
        claim.paused_until_ms is None,
    )


def _of_record(reader: Reader, record: Record, row: Row) -> tuple[Hashable, ...]:
    """Everything that `Reader.tla` asks of a record and of what is known."""
    claim, headers, message, rules = reader.claim, record.headers, record.message, row.rules
    clock_ms = max(claim.clock_ms, record.timestamp_ms)
    first_ms = record.timestamp_ms + rules.clock_rewind_max_ms
    head_ms = first_ms if reader.head_ms is None else reader.head_ms
    alive_ms = max(head_ms, -1 if reader.alive_ms is None else reader.alive_ms)
    since = claim.last_heartbeat_ms
    undecided = reader.undecided
    offset = getattr(message, "offset", None)
    return (
        message.version,
        # Who.
        (message.instance_id == claim.owner_instance, message.client_id == claim.owner_client),
        message.instance_id == claim.pauser,
        # Headers.
        headers.present,
        kinds(headers),
        (side(headers.epoch, claim.epoch), side(headers.epoch, record.offset)),
        (side(headers.seen, undecided), side(headers.seen, record.offset)),
        undecided is not None and headers.seen == undecided - 1,
        side(headers.supersedes, claim.epoch),
        side(headers.clock, clock_ms),
        # Numbers.
        (side(offset, claim.position), side(offset, 0)),
        side(offset, reader.reached),
        side(record.timestamp_ms, claim.clock_ms),
        side(clock_ms, reader.head_ms),
        (
            side(clock_ms, head_ms + rules.pause_max_ms),
            side(clock_ms - alive_ms, rules.stale_after_ms),
        ),
        side(None if since is None else clock_ms - since, rules.stale_after_ms),
        side(clock_ms, claim.paused_until_ms),
    )


def _of_reader(reader: Reader) -> tuple[Hashable, ...]:
    return (
        *(each in reader.certain for each in Field),
        *(value is None for value in (reader.undecided, reader.reached, reader.head_ms)),
        *_of_claim(reader.claim),
    )


def _of_consumer(consumer: ConsumerState) -> tuple[Hashable, ...]:
    known = consumer.known
    return (
        consumer.reader.known,
        Field.POSITION in consumer.reader.certain,
        Field.CLOCK in consumer.reader.certain,
        consumer.asked,
        consumer.stopped,
        side(consumer.resigned, known.epoch),
        (side(consumer.next, known.position), known.position == 0),
        len(consumer.granted),
        side(consumer.granted[-1].stop if consumer.granted else None, known.position),
        (known.owner_instance, known.owner_client, known.pauser),
    )


def situation(row: Row) -> Hashable:
    """What was asked, and roughly what came of it."""
    said, before = row.said, row.before
    if isinstance(said, Reader):
        assert isinstance(before, Reader)
        return "reader", type(row.record.message), before.knowledge, said.knowledge  # type: ignore[union-attr]
    assert row.me is not None
    who = (row.me.mode, row.me.admin, row.me.certifies)
    if isinstance(said, ConsumerState):
        return "read", who, type(row.record.message), said.stopped  # type: ignore[union-attr]
    return "state", who


def answers(row: Row) -> tuple[Hashable, ...]:
    """Everything that is asked of a row, and the effect."""
    said, before = row.said, row.before
    if isinstance(before, Reader):
        assert isinstance(said, Reader)
        assert row.record is not None
        effect = (_changed(before, said), _changed(before.claim, said.claim), said.certain)
        return (*_of_reader(before), *_of_record(before, row.record, row), *effect)
    if isinstance(said, ConsumerState):
        assert row.record is not None
        assert row.me is not None
        own = row.record.message.instance_id == row.me.instance_id
        epochs = side(said.known.epoch, before.known.epoch)
        offset = getattr(row.record.message, "offset", None)
        return (
            (own, _changed(before.known, said.known)),
            side(offset, before.known.position),
            *_of_consumer(before),
            _changed(before, said),
            said.known.owner_instance,
            len(said.granted),
            epochs,
        )
    assert isinstance(said, State)
    flat = (
        tuple(against.items()) if isinstance(against, Mapping) else against
        for against in said.may.values()
    )
    return (*_of_consumer(before), *flat)


def chosen(exports: Mapping[str, Iterable[Row]]) -> list[Row]:
    """The same rows for the same export, in whatever order it is."""
    every = (row for rows in exports.values() for row in rows)
    return covering(every, situation, answers, machines.line)
