"""Marshal promises that a soak sees what grows, and that the consumers do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tools.night import ROOT
from tools.soak.__main__ import options
from tools.soak.judge import METRICS, Samples, derived, fits, table
from tools.soak.run import Soak

from kafka_marshal.testing import Broker

WARM_UP_S, UNTIL_S = 600.0, 3600.0


def samples(**columns: object) -> Samples:
    """An hour in which nothing grows but these, whose values are a function of the minute."""
    minutes = np.arange(0, 60, 0.1)
    flat = {metric.name: metric.unit * (7 + np.cos(40 * minutes) / 10) for metric in METRICS}
    of_columns = {name: value(minutes) for name, value in columns.items() if callable(value)}
    return {"at": minutes * 60, **flat, **of_columns}


def wrong(**columns: object) -> list[str]:
    fitted = fits("c0", samples(**columns), WARM_UP_S, UNTIL_S)
    return [fit.metric.name for fit in fitted if fit.wrong]


def test_what_stays_flat_is_well() -> None:
    assert wrong() == []
    assert wrong(resident=lambda minutes: 2**27 - 2**20 * minutes) == []


@pytest.mark.parametrize("metric", [each for each in METRICS if each.allowed is not None])
def test_each_metric_that_grows_by_more_than_is_allowed_is_seen(metric: object) -> None:
    name, unit, allowed = metric.name, metric.unit, metric.allowed  # type: ignore[attr-defined]
    for factor, seen in ((0.9, []), (1.3, [name])):
        assert wrong(**{name: lambda m, by=factor * allowed * unit: by * m / 60}) == seen


def test_what_grows_only_in_the_warm_up_is_no_leak() -> None:
    assert wrong(resident=lambda minutes: 2**30 * np.minimum(minutes, 10)) == []


def test_a_sample_that_nobody_can_take_is_left_out() -> None:
    raw = [
        {"at": 100.0 + n, "allocated": None, "recorded": 50.0 * n, "processed": 10.0 * n}
        for n in range(9)
    ]
    columns = derived(raw, 100.0)
    assert list(columns["record_bytes"][1:]) == [5.0] * 8
    assert list(columns["processed_rate"][1:]) == [10.0] * 8
    full = {**samples(), "allocated": np.full(600, np.nan)}
    fitted = fits("c0", full, WARM_UP_S, UNTIL_S)
    assert "held by C code, MiB                        -" in table(fitted)


@pytest.mark.night  # As `make soak` is: by day nothing runs `Soak.run`.
@pytest.mark.parametrize("leak", [None, "leaks_handles"])
def test_a_short_soak_is_flat_and_finds_a_leak(
    leak: str | None, kafka_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seconds=2", "--rate=200", "--partitions=4", "--interval=1", "--every=0.1"]
    asked = options([*words, "--seed=5", *([f"--leak={leak}"] if leak else [])])
    found = Soak(kafka_broker, asked, tmp_path).run()
    printed = capsys.readouterr().out
    assert found == (1 if leak else 0), printed
    assert ("open handles: grew by" in printed) == bool(leak)


def test_a_soak_refuses_what_makes_no_sense() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tools.soak", "--rate", "0"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "--rate: 0 is not above 0" in ran.stderr
