"""A quiet Spark session, local or at a master: no web UI, no log, no files left behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import find_java_for_spark, spark_environment
from kafka_marshal.replay.errors import SparkFailed
from kafka_marshal.replay.options import SparkMaster
from kafka_marshal.replay.spark import packed
from kafka_marshal.replay.spark.spark_errors import root_cause
from kafka_marshal.scratch import Scratch

_QUIET = """\
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""


_CLASS_PATH: Final = re.compile("class-?path", re.IGNORECASE)
"""In options of Spark's, those that put something before its own jars."""
_LEAVES_S: Final = 120.0
"""The time for Java to end, in seconds; one that stores its classes writes 140 MB first."""


def jars() -> list[Path]:
    """The jars of the installed PySpark, at the path that Spark's launcher uses, without links."""
    return sorted((Path(pyspark.__file__).resolve().parent / "jars").glob("*.jar"))


HERE: Final = SparkMaster("local[*]")
"""All cores of this machine."""


@contextmanager
def opened_session(
    master: SparkMaster = HERE, *, java_options: Sequence[str] = ()
) -> Iterator[SparkSession]:
    """A session in an `opened_context`, for queries.

    Raises the same errors.
    """
    with opened_context(master, java_options=java_options):
        session = SparkSession.builder.getOrCreate()
        try:
            yield session
        finally:
            with suppress(Exception):  # as below
                session.stop()


@contextmanager
def opened_context(
    master: SparkMaster = HERE, *, java_options: Sequence[str] = ()
) -> Iterator[SparkContext]:
    """Spark on all cores of this machine or at a master, stopped and cleaned up at the end.

    A session in it, `SparkSession.builder.getOrCreate()`, costs another 1.5 s of processor time.

    With `java_options` Java starts with these options, and without its stored classes. At a master,
    the driver runs here. Executors start `$PYSPARK_PYTHON`, else `python3`, with the archives of
    `packed`.

    Raises:
        SparkFailed: it did not start.
        JavaNotFoundError: there is no Java that Spark runs on.
    """
    if SparkContext._active_spark_context is not None:
        raise SparkFailed("this process has a Spark session already; pass it as `spark`")
    environment = {**spark_environment(), "PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.is_local:
        environment |= {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
    before = {name: os.environ.get(name) for name in environment}
    artifacts = Path("artifacts").absolute()
    _remove_empty(artifacts)  # of a session that was killed
    kept = artifacts.exists()
    desk = Scratch("spark")
    scratch = desk.path
    try:
        os.environ.update(environment)
        quiet = scratch / "log4j2.properties"
        quiet.write_text(_QUIET)
        printed = scratch / "printed"
        with _stderr_in(printed), _temporary_files_in(scratch):
            java = tuple(java_options) or _kept_classes()
            context = _start(master, _settings(master, scratch, quiet, java), printed)
        try:
            yield context
        finally:
            # After an interrupt the connection may be in the middle of a call; the JVM ends anyway.
            with suppress(Exception):
                context.stop()
            _forget_gateway()
    finally:
        desk.close()
        if not kept:
            _remove_empty(artifacts)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _remove_empty(artifacts: Path) -> None:
    """Spark 4.0 makes this folder wherever it is started, and leaves it behind."""
    empty = [*artifacts.glob("spark-*")]
    for one in empty:
        with suppress(OSError):
            one.rmdir()
    if empty:
        with suppress(OSError):
            artifacts.rmdir()


def _kept_classes() -> tuple[str, ...]:
    """Java's options to start with the classes that it kept, unless the class path is another."""
    if _CLASS_PATH.search(os.environ.get("PYSPARK_SUBMIT_ARGS", "")):
        return ()
    return class_data.options(find_java_for_spark(), jars())


def _settings(
    master: SparkMaster, scratch: Path, quiet: Path, java_options: Sequence[str]
) -> dict[str, str]:
    """The settings of the session; the user's settings take precedence."""
    options = (
        f"-Dlog4j2.configurationFile=file:{quiet} -Djava.io.tmpdir={scratch} "
        # Python does the work, and a JVM that compiles less starts sooner. Its default space for
        # code would then be too small for many queries.
        f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m {shlex.join(java_options)}"
    )
    settings = {
        "spark.driver.extraJavaOptions": options,
        "spark.driver.memory": "2g",
        "spark.python.daemon.module": "kafka_marshal.replay.spark.daemon",
        "spark.local.dir": str(scratch),  # executors of a cluster have their own
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    if master.is_local:
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    else:
        settings |= packed.executor_settings(scratch)
    return {**settings, **master.settings}


def _start(master: SparkMaster, settings: Mapping[str, str], printed: Path) -> SparkContext:
    conf = SparkConf().setMaster(master.url).setAppName("kafka-marshal replay")
    conf.setAll([*settings.items()])
    try:
        with _interrupts_deferred() as interrupts:
            context = SparkContext(conf=conf)
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        cause = _cause(error, printed)
        _forget_gateway()
        raise SparkFailed(f"Spark did not start ({master}): {cause}") from None
    try:
        for number in interrupts:
            signal.raise_signal(number)
    except BaseException:
        context.stop()
        _forget_gateway()
        raise
    return context


def _cause(error: Exception, printed: Path) -> str:
    """Java's error message, without its trace. If it never answered, its output."""
    if isinstance(error, Py4JJavaError):
        said = root_cause(error).splitlines()[0]
        if "stopped SparkContext" in said:
            return "the master does not answer, or refused the application or all its executors"
        return said.partition(": ")[2] or said
    thrown = re.search(r"^Exception in thread .*?: (.+)", printed.read_text(), re.MULTILINE)
    return str(error) if thrown is None else thrown[1]


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """PySpark waits for Java's port in a folder of its own, which a kill would leave behind."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def _interrupts_deferred() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM while the JVM starts; otherwise it would never be stopped.

    PySpark then installs its own handler, which calls the JVM in the middle of another call; the
    earlier handler is restored. A signal without a handler in Python keeps its effect.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    both = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in both.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _: interrupts.append(number))
    try:
        yield interrupts
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _forget_gateway() -> None:
    """End the Java process too, so that the next session starts with its own environment."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=_LEAVES_S)
        SparkContext._gateway = None
        SparkContext._jvm = None


@contextmanager
def _stderr_in(file: Path) -> Iterator[None]:
    """Redirect the output of Spark's launcher: settings and warnings that no user can act on.

    Only if it does not start, the output contains the reason.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
