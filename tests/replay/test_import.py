"""Only what needs Spark imports it."""

import subprocess
import sys

import kafka_marshal.replay
import kafka_marshal.replay.api  # a module may not take the place of `run`

WITHOUT_SPARK = (
    *("sources", "shrink.shrinking", "shrink.slices", "live.dump", "live.watch", "errors"),
    *("options", "api", "engines.local", "one_process.local_fold"),
)


def test_whoever_needs_no_spark_does_not_wait_for_it() -> None:
    imports = "; ".join(f"import kafka_marshal.replay.{name}" for name in WITHOUT_SPARK)
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; print('pyspark' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "False\n"


def test_every_name_of_the_package_is_there() -> None:
    there = [getattr(kafka_marshal.replay, name) for name in kafka_marshal.replay.__all__]
    assert len(there) == len(set(kafka_marshal.replay.__all__))
    assert callable(kafka_marshal.replay.run)
