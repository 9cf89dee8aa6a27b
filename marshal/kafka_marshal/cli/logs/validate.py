"""`marshal validate`: checks a recorded run, or a log alone, against the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import attrs
import typer

from kafka_marshal.authentication import AuthenticityChecks
from kafka_marshal.capture import RawRecord, UnreadableSource, read_capture
from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    Keys,
    LiveBootstrap,
    Options,
    Properties,
    RulesChoice,
    Topic,
    check_folder,
    check_new_file,
    connection,
    console,
    errors,
    fail,
    keyring_of,
    needs,
    one_sentence,
    path_of,
    rules_with,
    seconds,
)
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.counterexample import Counterexample, story_text, write
from kafka_marshal.markup import name as visible
from kafka_marshal.scratch import whole_file
from kafka_marshal.validate import (
    Judgement,
    LogJudgement,
    Run,
    Slice,
    Unexplained,
    is_run,
    read_folder,
    read_run,
    slice_of,
    story_of,
    story_of_log,
    validate_log,
)
from kafka_marshal.validate import validate as validate_run
from kafka_marshal.validate.explain import guard_name
from kafka_marshal.validate.reading import LOG_FILE

TOLD_MAX = 200
"""Records of a log to print before the one at fault, at most."""


def validate(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            parser=path_of("RUN"),
            show_default=False,
            help="A recorded run (docs/validate.md): a file, or a folder with log.jsonl and "
            "one file of events per process, as a consumer writes it with record_to. Or a "
            "JSONL capture: the log alone.",
        ),
    ],
    heartbeat_interval: Annotated[
        float | None,
        typer.Option(
            "--heartbeat-interval",
            metavar="DURATION",
            parser=seconds("--heartbeat-interval"),
            show_default=False,
            help="The heartbeat interval of groups whose log states none; a run contains it.",
        ),
    ] = None,
    tlc: Annotated[
        bool, typer.Option("--tlc", help="Ask TLC about the same run; it must agree.")
    ] = False,
    slice_out: Annotated[
        Path | None,
        typer.Option(
            "--slice",
            metavar="FILE",
            show_default=False,
            help="Write the smallest part that still fails, as a run; to a new file.",
        ),
    ] = None,
    trace_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=path_of("--trace-out"),
            show_default=False,
            help="Write the result to this folder: RUN.txt, RUN.itf.json and RUN.html.",
        ),
    ] = None,
    keys: Keys = None,
    bootstrap: LiveBootstrap = None,
    topic: Topic = "__marshal",
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Check whether some behaviour of the specification explains everything in a recorded run.

    If none does, print the first event that is not explained, the guard that forbids it, and the
    purpose of that guard. Also print the smallest part of the run with the same problem. Exits 1
    then.

    With --keys, also print the records that are not authentic. They do not change the judgement of
    the run, but the exit code is 1 then, too.

    With --bootstrap, the log is first copied from the cluster into the folder, as log.jsonl, and
    kept.
    """
    check_new_file("--slice", slice_out)
    if slice_out and run.is_dir() and slice_out.resolve().is_relative_to(run.resolve()):
        fail(f"--slice {slice_out} lies within the run: put it elsewhere")
    check_folder("--trace-out", trace_out)
    with one_sentence(UnreadableSource, OSError):
        if bootstrap is not None or properties is not None or options:
            _take_log(run, bootstrap, topic, properties, options)
        if run.is_dir() and not (run / LOG_FILE).is_file():
            fail(f"{run} is no recorded run: it holds no {LOG_FILE}, and there is no --bootstrap")
        if is_run(run):
            if heartbeat_interval is not None:
                fail(
                    f"{run} is a recorded run and states its heartbeat interval: "
                    "leave out --heartbeat-interval"
                )
            code = _run(run, tlc, slice_out, trace_out)
        else:
            if tlc or slice_out is not None:
                fail(f"{run} is a log alone: {'--tlc' if tlc else '--slice'} needs events")
            code = _log(run, heartbeat_interval, trace_out)
        if not _authentic(run, keys):
            code = FOUND_SOMETHING
    raise typer.Exit(code)


def _authentic(run: Path, keys: Path | None) -> bool:
    """Whether every record of the log is authentic; True without keys."""
    keyring = keyring_of(keys)
    if keyring is None:
        return True
    if run.is_file() and is_run(run):
        sentence = f"{run} holds no records as they lie in a log, so keys verify nothing of it"
        if keys is not None:
            fail(sentence)
        errors.print(f"Note: {sentence}")
        return True
    checks = AuthenticityChecks(keyring)
    records = 0
    for raw in read_capture(run / LOG_FILE if run.is_dir() else run):
        records += 1
        checks.check(raw)
    found = list(checks)
    for one in found:
        console.print(f"not authentic: {one.sentence}", style="red", markup=False, soft_wrap=True)
    if not found:
        since = "" if keyring.signed_since_ms is None else ", or older than signed-since"
        console.print(f"{records:,} records: every message is authentic{since}", soft_wrap=True)
    return not found


def _take_log(
    run: Path,
    bootstrap: str | None,
    topic: str,
    properties: Path | None,
    options: list[str] | None,
) -> None:
    """Put the log beside what consumers have recorded of their run."""
    if not run.is_dir():
        fail(f"{run} is not a folder: --bootstrap needs the folder of a recorded run")
    if (run / LOG_FILE).exists():
        fail(f"{run / LOG_FILE} exists already: leave out --bootstrap, or remove it first")
    with needs("kafka"):
        from kafka_marshal.client.coordinate.recording import write_log
    with errors.status(f"reading {topic}"):
        records = write_log(connection(bootstrap, properties, options), topic, run)
    errors.print(f"wrote {run / LOG_FILE}: {records:,} records")


# --- a run ----------------------------------------------------------------------------------------


def _read(path: Path) -> Run:
    return read_folder(path) if path.is_dir() else read_run(path)


def _run(path: Path, tlc: bool, slice_out: Path | None, trace_out: Path | None) -> int:
    with errors.status("validating"):
        judgement = validate_run(_read(path))
    _print_run(judgement)
    found = judgement.unexplained
    if found is not None:
        with errors.status("looking for a smaller run that fails"):
            again = _read(path)
            part = slice_of(again.setting, again.events, found)
        _print_unexplained(found, story_of(part, str(path)), path, trace_out)
        _write_slice(part, slice_out)
    if tlc:
        _compare(path, judgement)
    return FINE if found is None else FOUND_SOMETHING


def _print_run(judgement: Judgement) -> None:
    kinds = ", ".join(f"{count:,} {kind.lower()}" for kind, count in judgement.kinds.most_common())
    console.print(f"{judgement.events:,} events explained ({kinds or 'nothing'})", soft_wrap=True)
    if judgement.strangers:
        console.print(
            f"{judgement.strangers:,} records were sent by nobody who was recorded: they are "
            "folded, and not explained",
            soft_wrap=True,
        )
    for sentence in judgement.unjudged:
        console.print(f"not judged: {sentence}", style="yellow", markup=False, soft_wrap=True)
    if judgement.explained:
        console.print("[green]A behaviour of the specification explains the whole run.[/green]")


def _print_unexplained(
    found: Unexplained, story: Counterexample, path: Path, trace_out: Path | None
) -> None:
    console.print(
        f"[red]No behaviour of the specification explains event {found.number:,}[/red]",
        soft_wrap=True,
    )
    who = f"{found.action} by {found.instance}" if found.instance is not None else found.action
    for line in (
        f"  {found.where}: {who}",
        f"  got:      {found.got}",
        f"  expected: {found.expected}",
        f"  {found.why}",
        "",
        story_text(story),
    ):
        console.print(line, markup=False, soft_wrap=True)
    if trace_out is not None:
        for written in write(trace_out, path.name.removesuffix(".jsonl"), story):
            console.print(f"wrote {written}", markup=False, soft_wrap=True)


def _write_slice(part: Slice, slice_out: Path | None) -> None:
    console.print(f"{len(part.events):,} events still fail in the same way.", markup=False)
    if slice_out is None:
        return
    with whole_file(slice_out) as lines:
        lines.writelines(json.dumps(row) + "\n" for row in part.rows())
    console.print(f"wrote {slice_out}", markup=False, soft_wrap=True)


def _compare(path: Path, judgement: Judgement) -> None:
    """Ask TLC; stop with exit code 2 if it says something else."""
    try:
        from kafka_marshal.modelcheck import runs
        from kafka_marshal.modelcheck.errors import ModelCheckError
    except ModuleNotFoundError as error:
        fail(f"--tlc needs {error.name}; install it with: pip install 'kafka-marshal[model]'")
    with one_sentence(ModelCheckError), errors.status("asking TLC"):
        checked = runs.check(_read(path), up_to=judgement.unexplained)
    ours = judgement.unexplained
    guard = None if ours is None or ours.guard is None else guard_name(ours.guard)
    if (checked.explained, checked.guard) != (judgement.events, guard):
        fail(
            f"TLC disagrees: {checked.explained:,} events explained, then "
            f"{checked.guard or 'nothing more'}. One of the two is wrong; please report it."
        )
    console.print(f"TLC agrees ({checked.seconds:.0f} s).", markup=False)


# --- the log alone --------------------------------------------------------------------------------


def _log(path: Path, interval_s: float | None, trace_out: Path | None) -> int:
    rules = rules_with(RulesChoice.fenced, interval_s)
    with errors.status("validating"):
        records = sorted(read_capture(path), key=lambda raw: (raw.partition, raw.offset))
        judgement = validate_log(records, rules, str(path))
    if interval_s is None and judgement.by_default is not None:
        fail(
            f"{path} is a log alone, and records of group {visible(judgement.by_default)} come "
            "before it states its heartbeat interval: --heartbeat-interval DURATION is needed"
        )
    _print_log(judgement)
    found = judgement.unexplained
    if found is None:
        return FINE
    at_fault = records[found.number - 1]
    found = attrs.evolve(found, where=f"{path}: partition {at_fault.partition}")
    before = [raw for raw in records[: found.number] if raw.partition == at_fault.partition]
    ours = [raw for raw in before if _is_of(raw, found.key)][-TOLD_MAX:]
    story = story_of_log(ours or [at_fault], judgement.rules, found, str(path))
    _print_unexplained(found, story, path, trace_out)
    return FOUND_SOMETHING


def _is_of(raw: RawRecord, key: ClaimKey | None) -> bool:
    try:
        message = raw.decoded().message
    except MalformedRecord:
        return False
    if key is None:
        return False
    if isinstance(message, ReleaseGroup):
        return message.group_id == key.group
    return message.key == key


def _print_log(judgement: LogJudgement) -> None:
    console.print(
        f"{judgement.records:,} records of a log alone: {judgement.judged:,} could have been sent "
        "by their senders",
        soft_wrap=True,
    )
    notes = (
        (judgement.late, "of these landed twice, or after later ones, as after a timeout"),
        (judgement.strangers, "carry no headers: the original's, which may send anything"),
        (judgement.releases, "release or pause a group, which any administrator may do"),
        (judgement.unjudged, "cannot be judged: the log lacks records before them"),
        (judgement.shared, "were sent by consumers that share a partition: they are not judged"),
        (judgement.malformed, "are no messages of the protocol"),
    )
    for count, what in notes:
        if count:
            console.print(f"{count:,} {what}", markup=False, soft_wrap=True)
    if judgement.explained:
        nothing = "" if judgement.judged else " (none of it asked for an explanation)"
        console.print(f"[green]Nothing in it is unexplained[/green]{nothing}.", soft_wrap=True)
