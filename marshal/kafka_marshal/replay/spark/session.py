"""A quiet local Spark session: no web page, no log, no files left behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import find_java_for_spark, spark_environment
from kafka_marshal.replay.errors import SparkFailed
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
"""How long Java may take to leave; one that keeps its classes writes 140 MB first."""


def jars() -> list[Path]:
    """The jars of the installed PySpark."""
    return sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


@contextmanager
def local_session(java_options: Sequence[str] = ()) -> Iterator[SparkSession]:
    """A session on all cores of this machine, stopped and swept away at the end.

    With `java_options` Java starts with these, and without the classes that it kept.

    Raises:
        SparkFailed: it did not start.
        JavaNotFoundError: there is no Java that Spark runs on.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        raise SparkFailed("this process has a Spark session already; pass it as `spark`")
    environment = {
        **spark_environment(),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
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
        with _silenced_stderr(), _temporary_files_in(scratch):
            spark = _start(scratch, quiet, tuple(java_options) or _kept_classes())
        try:
            yield spark
        finally:
            # After an interrupt the connection may be in the middle of a call; the JVM ends anyway.
            with suppress(Exception):
                spark.stop()
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


def _start(scratch: Path, quiet: Path, java_options: Sequence[str]) -> SparkSession:
    cores = os.cpu_count() or 1
    options = (
        f"-Dlog4j2.configurationFile=file:{quiet} -Djava.io.tmpdir={scratch} "
        # Python does the work; a JVM that compiles less starts sooner. Its default room for code
        # is then too small for many queries.
        f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m {shlex.join(java_options)}"
    )
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("kafka-marshal replay")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(2 * cores))
        .config("spark.sql.session.timeZone", "UTC")
    )
    try:
        with _interrupts_deferred() as interrupts:
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise SparkFailed(f"Spark did not start: {error}") from None
    if interrupts:
        spark.stop()
        _forget_gateway()
        raise KeyboardInterrupt
    return spark


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
    """Collect interrupts while the JVM starts, or it would be left behind with nobody to end it.

    PySpark then installs a handler of its own, which talks to the JVM in the middle of another call
    to it; the one that was there before comes back.
    """
    interrupts: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _forget_gateway() -> None:
    """End the Java process too, so that the next session starts with its own environment."""
    from pyspark import SparkContext

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
def _silenced_stderr() -> Iterator[None]:
    """Spark's launcher prints what it will use and warns of native code; nobody can act on it."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
