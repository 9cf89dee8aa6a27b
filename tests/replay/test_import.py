"""Only what needs Spark, aiokafka or pandas imports it."""

import os
import subprocess
import sys

import kafka_marshal.replay
import kafka_marshal.replay.api  # a module may not take the place of `run`

WITHOUT_SPARK = (
    *("sources", "shrink.shrinking", "shrink.slices", "live.dump", "live.watch", "errors"),
    *("options", "api", "engines.local", "one_process.local_fold"),
)


def test_a_replay_without_spark_or_segments_does_not_wait_for_their_packages() -> None:
    imports = "; ".join(f"import kafka_marshal.replay.{name}" for name in WITHOUT_SPARK)
    slow = "{'pyspark', 'aiokafka'} & {*sys.modules}"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; print({slow})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "set()\n"


def test_every_name_of_the_package_is_there() -> None:
    there = [getattr(kafka_marshal.replay, name) for name in kafka_marshal.replay.__all__]
    assert len(there) == len(set(kafka_marshal.replay.__all__))
    assert callable(kafka_marshal.replay.run)


def test_a_command_has_no_pandas_and_its_libraries_are_told_before_they_are_loaded() -> None:
    told = "{'MIMALLOC_PURGE_DELAY', 'OPENBLAS_NUM_THREADS'} <= {*os.environ}"
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, sys; from kafka_marshal.replay.own_process import prepare; "
            f"before = {told} or 'pyarrow' in sys.modules; prepare(); "
            f"print(before, {told}, 'pyarrow' in sys.modules, 'pandas' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name[:4] not in ("MIMA", "OPEN")},
    )
    assert said.stdout == "False True True False\n"


KEEPS = """
import resource
import numpy as np
from kafka_marshal.replay.own_process import prepare
prepare()
def used(size=30 << 20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(size, np.uint8) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print([used() * resource.getpagesize() > 8 << 20 for _ in range(3)])
"""


def test_arrays_that_are_freed_are_used_again() -> None:
    said = subprocess.run([sys.executable, "-c", KEEPS], capture_output=True, text=True, check=True)
    assert said.stdout == "[True, False, False]\n"
