"""What must stay flat while nothing happens, and by how much it may grow.

Starts nothing, waits for nothing: it is given what the consumers sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

Samples: TypeAlias = Mapping[str, NDArray[np.float64]]
"""By the names of the samples, a value for each; `at` is seconds since the load began."""

MIB: Final = 2**20
ERRORS: Final = 3
"""A slope that chance makes is at most this many of its standard errors."""
SAMPLES_MIN: Final = 10
"""Fewer samples are not judged: a second of a busy machine is no trend."""


@frozen
class Metric:
    """Something that is sampled."""

    name: str
    title: str
    unit: float
    """What is sampled is divided by this to be shown."""
    allowed: float | None
    """How much it may grow in an hour, and also in less; None if that is not judged."""


METRICS: Final = (
    Metric("resident", "resident memory, MiB", MIB, 24),
    Metric("allocated", "held by C code, MiB", MIB, 8),
    # The log filter remembers 10,000 heads of heartbeats, two objects each, before it begins anew.
    Metric("blocks", "objects of Python, thousands", 1000, 20),
    Metric("handles", "open handles", 1, 2),
    Metric("threads", "threads", 1, 1),
    Metric("late", "lateness of heartbeats, s", 1, 0.5),
    Metric("record_bytes", "bytes written for a message", 1, 20),
    Metric("lines", "lines of the log", 1, 2),
    Metric("moved", "claims won or lost", 1, 0.5),
    Metric("processed_rate", "messages processed a second", 1, None),
)


@frozen
class Fit:
    """A straight line through what was sampled after the warm-up."""

    name: str
    metric: Metric
    start: float
    slope: float
    """By the second."""
    error: float
    """Standard error of the slope."""
    hours: float

    @property
    def grew(self) -> float:
        """By so much in all, along the line."""
        return self.slope * self.hours * 3600

    @property
    def allowed(self) -> float | None:
        """How much it may grow, in all: as much as in an hour, if it is less."""
        return None if self.metric.allowed is None else self.metric.allowed * max(1, self.hours)

    @property
    def wrong(self) -> str | None:
        """What is wrong, beyond what chance may make of a short run."""
        chance = ERRORS * self.error * self.hours * 3600
        if self.allowed is None or self.grew <= self.allowed + chance:
            return None
        grew = f"grew by {self.grew:.3g}, {self.allowed:.3g} allowed"
        return f"{self.name}: {self.metric.title}: {grew}"


def derived(raw: Sequence[Mapping[str, float | None]], began: float) -> Samples:
    """Samples as columns, with those that two samples make."""
    columns = {
        name: np.array([each[name] for each in raw], dtype=np.float64)  # None is not a number
        for name in raw[0]
    }
    columns["at"] -= began
    messages = np.diff(columns["processed"], prepend=np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_each = np.diff(columns["recorded"], prepend=np.nan) / messages
    columns["record_bytes"] = np.where(messages > 0, of_each, np.nan)
    columns["processed_rate"] = messages / np.diff(columns["at"], prepend=np.nan)
    return columns


def fits(name: str, samples: Samples, warm_up_s: float, until_s: float) -> list[Fit]:
    """A line for each metric that has samples; of the load's time without the warm-up."""
    at = samples["at"]
    found = []
    for metric in METRICS:
        values = samples[metric.name] / metric.unit
        judged = (at >= warm_up_s) & (at <= until_s) & np.isfinite(values)
        if judged.sum() < SAMPLES_MIN:
            continue
        (slope, start), covariance = np.polyfit(at[judged], values[judged], 1, cov=True)
        error = float(np.sqrt(covariance[0, 0]))
        hours = float(np.ptp(at[judged])) / 3600
        found.append(Fit(name, metric, float(start), float(slope), error, hours))
    return found


def table(fitted: Sequence[Fit]) -> str:
    """How much everything grows in an hour, and may grow; the worst of the consumers."""
    lines = [f"{'':32}{'slope/hour':>12}{'grew':>10}{'allowed':>10}  of"]
    for metric in METRICS:
        of_all = [fit for fit in fitted if fit.metric is metric]
        if not of_all:
            lines.append(f"{metric.title:32}{'-':>12}")
            continue
        worst = max(of_all, key=lambda fit: fit.slope)
        allowed = "-" if worst.allowed is None else f"{worst.allowed:.3g}"
        numbers = f"{worst.slope * 3600:>12.3g}{worst.grew:>10.3g}{allowed:>10}"
        lines.append(f"{metric.title:32}{numbers}  {worst.name}")
    return "\n".join(lines)
