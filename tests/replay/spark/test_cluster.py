"""A replay at a master: executors without our packages, and one that dies in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import logs
from benchmarks.cluster import plan
from benchmarks.written import written

from kafka_marshal.replay import InvalidOption, SparkMaster, run
from kafka_marshal.replay.engines.engine import EngineName, choose
from tests.replay.spark.standalone import executors, kill, standalone

COUNT = 1_000_000
# An executor that is killed tidies nothing, so its temporary files are in the test's folder.
REPLAYING = """
import sys
from pathlib import Path
from kafka_marshal.replay import SparkMaster, run

def report(done, of):
    print(done, of, flush=True)

log, out, url, folder = sys.argv[1:]
settings = (
    "spark.executor.memory=640m",
    f"spark.executor.extraJavaOptions=-Djava.io.tmpdir={folder}",
)
master = SparkMaster.parsed(url, settings)
run([log], out=Path(out), spark=master, on_tasks=report)
"""


@pytest.mark.night
@pytest.mark.parametrize("dies", [False, True], ids=["all live", "one dies"])
def test_a_cluster_whose_python_has_no_packages_makes_the_same_output(
    dies: bool, tmp_path: Path
) -> None:
    log = tmp_path / "log.parquet"
    logs.write(log, COUNT)
    run([str(log)], out=tmp_path / "here" / "out", engine="local")
    with standalone(tmp_path / "cluster", workers=2) as cluster:
        command = [sys.executable, "-c", REPLAYING, str(log), str(tmp_path / "there" / "out")]
        with subprocess.Popen(
            [*command, cluster.url, str(tmp_path)],
            env={**os.environ, "PYSPARK_PYTHON": str(cluster.python)},
            stdout=subprocess.PIPE,
            text=True,
        ) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                done, of = map(int, line.split())
                if dies and 0 < done < of and executors(cluster.workers[0]):
                    kill(cluster.workers[0])
                    dies = False
        assert driver.returncode == 0
        assert not dies
    assert written(tmp_path / "there" / "out") == written(tmp_path / "here" / "out")


@pytest.mark.parametrize(
    ("url", "settings", "says"),
    [
        ("sc://host", (), "--master sc://host is Spark Connect"),
        ("host:7077", (), "--master must be local"),
        ("yarn", ("executor.memory=4g",), "--spark-conf must be spark.KEY=VALUE, not 'executor"),
        ("yarn", ("spark.executor.memory",), "--spark-conf must be spark.KEY=VALUE, not 'spark.ex"),
    ],
)
def test_what_is_no_master_is_refused(url: str, settings: tuple[str, ...], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        SparkMaster.parsed(url, settings)


@pytest.mark.parametrize("url", ["local[2]", "spark://a:7077,b:7077", "yarn", "k8s://https://a"])
def test_masters_and_settings_arrive_unchanged(url: str) -> None:
    master = SparkMaster.parsed(url, ["spark.yarn.queue=night", "spark.a=b=c"])
    assert master.url == url
    assert master.settings == {"spark.yarn.queue": "night", "spark.a": "b=c"}
    assert str(choose(EngineName.auto, (), master)) == f"Folded on Spark: --master {url}."
    with pytest.raises(InvalidOption, match="--engine local folds here, and --master"):
        choose(EngineName.local, (), master)


def test_a_plan_waits_for_the_largest_coordinating_partition() -> None:
    assert plan.makespan([3, 1, 1, 1], 2) == 3
    assert plan.makespan([1, 1, 1, 3], 2) == 4
    costs = plan.Costs(record=1e-6, row=1e-4, run=1e-3)
    found = plan.planned(10_000_000, [5, 95, 100], 4, costs, np.random.default_rng(1))
    assert found.read == pytest.approx(2.5)
    assert found.largest == pytest.approx(found.fold) == pytest.approx(100 * (20e-4 + 2e-3))
