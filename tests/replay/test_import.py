"""Only what needs Spark, or aiokafka, imports it."""

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
