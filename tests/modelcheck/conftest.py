"""A specification small enough to check in a blink, with one fault of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import TlcResult

CLOCK = r"""---- MODULE Clock ----
EXTENDS Integers, Sequences, Export
VARIABLES hour, log
Init == hour = 0 /\ log = <<>>
Up == hour < 3 /\ hour' = hour + 1 /\ log' = Append(log, [hour |-> hour, note |-> "a\"b\\"])
Wrap == hour = 3 /\ hour' = 0 /\ log' = <<>>
Spec == Init /\ [][Up \/ Wrap]_<<hour, log>>
FairSpec == Spec /\ WF_<<hour, log>>(Up \/ Wrap)
StopsSpec == Init /\ [][Up]_<<hour, log>>
Fine == hour \in 0..3
Early == hour < 3
NotYet == hour > 0
OnlyUp == [][hour' > hour]_hour
ReachesSeven == <>(hour = 7)
ReachesThree == <>(hour = 3)
Refines == hour = 0 /\ [][hour' = hour + 1]_hour
Broken == hour.nobody = 1
Edge == Export(<<hour, log, [hour |-> hour']>>)
====
"""
EXPORT = """---- MODULE Export ----
Export(value) == TRUE
FirstTime(value) == TRUE
====
"""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The module in a folder of its own."""
    module = tmp_path / "Clock.tla"
    module.write_text(CLOCK)
    (tmp_path / "Export.tla").write_text(EXPORT)
    return module


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLC expects few states, whatever the model."""
    run = tlc.run

    def shortly(*files: Path, **options: Any) -> TlcResult:
        return run(*files, **{**options, "short": True})

    monkeypatch.setattr(tlc, "run", shortly)


@pytest.fixture
def check(clock: Path) -> Callable[..., TlcResult]:
    """Run TLC on the clock with the given lines of a cfg."""

    def run(*lines: str, **options: object) -> TlcResult:
        cfg = clock.with_suffix(".cfg")
        cfg.write_text("\n".join(lines))
        return tlc.run(clock, cfg, short=True, **options)  # type: ignore[arg-type]

    return run
