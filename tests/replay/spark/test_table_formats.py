"""Tables as Delta and as Iceberg: by night with the jars of both, by day what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks import logs
from typer.testing import CliRunner

from kafka_marshal.cli.app import app
from kafka_marshal.java.jars import ensure_all, listed
from kafka_marshal.replay import InvalidOption, SparkMaster, run
from kafka_marshal.replay.engines.engine import EngineName, choose
from kafka_marshal.replay.options import TableFormat
from kafka_marshal.replay.spark.session import opened_session

JARS = Path(__file__).with_name("lake.jars")
DUMP = Path(__file__).parents[2] / "data" / "dumps" / "kcat.json"
EXTENSIONS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {},
}
LISTED_IN = {"delta": "_delta_log", "iceberg": "metadata"}


@pytest.mark.night
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_tables_of_each_format_hold_the_rows_of_the_parquet(
    table_format: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.parquet"
    logs.write(log, 60_000)
    jars = ",".join(map(str, ensure_all(listed(JARS.read_text()))))
    settings = {"spark.jars": jars, **EXTENSIONS[table_format]}
    with opened_session(SparkMaster("local[2]", settings)) as spark:
        for name, source in {"few": DUMP, "many": log}.items():
            expected, out = tmp_path / f"{name}-here", tmp_path / name
            run([str(source)], out=expected, engine="local")
            run([str(source)], out=out, table_format=table_format, spark=spark)
            tables = sorted(path.name for path in expected.iterdir() if path.is_dir())
            assert len(tables) > 3
            for table in tables:
                assert (out / table / LISTED_IN[table_format]).is_dir()
                files = [
                    path
                    for path in (out / table).rglob("*.parquet")
                    if LISTED_IN[table_format] not in path.parts
                ]
                found = [row for file in files for row in pq.read_table(file).to_pylist()]
                assert in_order(found) == in_order(pq.read_table(expected / table).to_pylist())
            there = spark.read.format(table_format).load((out / "claims").as_uri())
            here = pq.read_table(expected / "claims").to_pylist()
            assert in_order(there.toArrow().to_pylist()) == in_order(here)


def in_order(rows: Sequence[dict[str, object]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--table-format", "csv"], "must be one of parquet, delta, iceberg, not 'csv'"),
        (["--table-format", "delta"], "delta is written by a Spark that has its packages: give"),
    ],
)
def test_a_format_that_nobody_here_writes_is_refused(
    options: list[str], sentence: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = CliRunner().invoke(app, ["replay", str(DUMP), "--out", str(out), *options])
    assert ran.exit_code == 2
    assert sentence in " ".join(ran.output.split())
    assert not out.exists()


def test_a_format_goes_to_the_spark_that_is_named() -> None:
    master = SparkMaster.parsed("yarn", ["spark.jars.packages=io.delta:delta-spark_2.13:4.0.0"])
    assert master.settings == {"spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0"}
    chosen = choose(EngineName.auto, (), master, table_format=TableFormat.delta)
    assert chosen.engine is EngineName.spark
    with pytest.raises(InvalidOption, match="--table-format iceberg is written by a Spark"):
        choose(EngineName.spark, (), None, table_format=TableFormat.iceberg)


@pytest.mark.night
def test_a_spark_without_the_package_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with opened_session(SparkMaster("local[1]")) as spark:
        for table_format in ("delta", "iceberg"):
            refused = f"--table-format {table_format}: Spark refuses it .*{table_format}"
            with pytest.raises(InvalidOption, match=refused):
                run([str(DUMP)], out=tmp_path / "out", table_format=table_format, spark=spark)
            assert not (tmp_path / "out").exists()
