"""`python -m tools.runs.spec`: run the models and compare with models.toml.

Prints a line for each model as it ends and exits 0 if all were as recorded, 1 if one was not, 2 if
one could not be run. A model of which nothing changed since it was as recorded is not run again:
its line says `unchanged`, and `--fresh` runs it. With `--update` it writes down what it found
instead: the numbers in models.toml and the counterexamples in `spec/traces/`. A model that ends
otherwise than it must is never written down.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tools.runs.passed import Passed, texts

from kafka_marshal import modelcheck
from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import TlcResult

ONLY_IF_NAMED = "full"
"""Models with this tag take minutes: they run if they are named, and `make model-full` explores
their graph with the Python machines."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named models, or all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.runs.spec")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all, if none is named")
    parser.add_argument("--update", action="store_true", help="record what the runs give")
    parser.add_argument("--fresh", action="store_true", help="run also what has not changed")
    asked = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        folder = models.spec_folder()
        known = models.read(folder)
        chosen = tuple(models.find(name, known) for name in asked.names) or tuple(
            model for model in known if ONLY_IF_NAMED not in model.tags
        )
        if not asked.names:
            traces.check_no_strangers(folder, known)
    except ModelCheckError as error:
        print(f"spec: {error}", file=sys.stderr)
        return 2
    failed, stopped = 0, 0
    width = max((len(model.name) for model in chosen), default=0)
    passed = Passed("spec", program())
    fingerprints = {model.name: passed.fingerprint(model) for model in chosen}
    unchanged = {}
    if not (asked.fresh or asked.update):
        unchanged = {name: line for name, of in fingerprints.items() if (line := passed.find(of))}
    for name, line in unchanged.items():
        print(f"{'unchanged':<11} {name:<{width}}  {line}", flush=True)
    for model, result in run_all([model for model in chosen if model.name not in unchanged]):
        if isinstance(result, ModelCheckError):
            stopped += 1
            print(f"ERROR {model.name:<{width}}  {result}", flush=True)
            continue
        check = _record if asked.update else _compare
        differences = check(folder, model, result)
        failed += bool(differences)
        if not (differences or asked.update):
            passed.keep(fingerprints[model.name], _summary(result))
        verdict = "DIFFERS" if differences else "as recorded"
        print(f"{verdict:<11} {model.name:<{width}}  {_summary(result)}", flush=True)
        for difference in differences:
            print(f"            {difference}", flush=True)
    seconds = time.monotonic() - started
    right = len(chosen) - failed - stopped
    not_run = f" ({len(unchanged)} unchanged and not run again: --fresh)" if unchanged else ""
    print(
        f"{len(chosen)} models: {right} as recorded{not_run}, {failed} not, "
        f"{stopped} could not be run; {seconds:.0f} s"
    )
    return 2 if stopped else 1 if failed else 0


def program() -> dict[str, bytes]:
    """What judges a run, besides the specification: this module and those that run and read TLC."""
    here, room = Path(__file__), Path(modelcheck.__file__).parent
    return texts([here, here.with_name("passed.py"), *room.glob("*.py"), *room.glob("tlc/*.py")])


def run_all(
    chosen: Sequence[Model],
) -> Generator[tuple[Model, TlcResult | ModelCheckError], None, None]:
    """Run the models, as many at a time as there are cores to work on them; yield as they end.

    The long ones start first, so that at the end no core waits for one of them. If the caller
    stops listening, what runs is ended.
    """
    cores = os.cpu_count() or 1
    waiting = sorted(chosen, key=lambda model: -(model.edges or 0))
    running: dict[Future[TlcResult], Model] = {}
    with ThreadPoolExecutor(max_workers=cores) as pool:
        try:
            while waiting or running:
                free = cores - sum(_cores_of(model, cores) for model in running.values())
                for model in [m for m in waiting if _cores_of(m, cores) <= free]:
                    if (needs := _cores_of(model, cores)) <= free:
                        running[pool.submit(model.run)] = model
                        waiting.remove(model)
                        free -= needs
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(ended), _outcome(ended)
        finally:
            tlc.kill_all()


def _cores_of(model: Model, cores: int) -> int:
    return 1 if model.must_fail else min(model.workers, cores)


def _outcome(ended: Future[TlcResult]) -> TlcResult | ModelCheckError:
    error = ended.exception()
    if isinstance(error, ModelCheckError):
        return error
    return ended.result()


def _compare(folder: Path, model: Model, result: TlcResult) -> list[str]:
    differences = model.differences(result)
    if not differences and traces.is_kept(model) and traces.stored(folder, model) != result.trace:
        differences.append(
            "another counterexample than the one in spec/traces: make spec ARGS=--update"
        )
    return differences


def _record(folder: Path, model: Model, result: TlcResult) -> list[str]:
    if otherwise := model.ended_otherwise(result):
        return [otherwise]
    path = folder / "models.toml"
    before = path.read_text(encoding="utf-8")
    if (now := _with_figures(before, model.name, model.figures(result))) != before:
        path.write_text(now, encoding="utf-8")
    if traces.is_kept(model):
        traces.store(folder, model, result)
    return []


def _with_figures(toml: str, name: str, figures: Mapping[str, int]) -> str:
    """Write the figures into the table of one model; everything else stays as it is."""
    tables = re.split(r"(?m)^(?=\[\[model\]\])", toml)
    named = re.compile(rf'(?m)^name *= *"{re.escape(name)}"')
    (number,) = (n for n, table in enumerate(tables) if named.search(table))
    for key, value in figures.items():
        line, written = re.compile(rf"(?m)^{key} *=.*$"), f"{key} = {value}"
        if line.search(tables[number]):
            tables[number] = line.sub(written, tables[number])
        else:
            # Behind the last key, before the blank lines and comments that lead to the next table.
            tables[number] = re.sub(
                r"(?s)\A(.*^\w+ *=[^\n]*\n?)", rf"\g<1>{written}\n", tables[number], flags=re.M
            )
    return "".join(tables)


def _summary(result: TlcResult) -> str:
    length = f"trace of {len(result.trace.states)}, " if result.trace else ""
    depth = f", depth {result.depth}" if result.depth is not None else ""
    counts = f"{result.states:,} states, {result.edges:,} edges{depth}"
    return f"{length}{counts}, {result.seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
