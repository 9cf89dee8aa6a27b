"""One model by TLC's recorded figures and by the Python machines.

TLC's figures are those of `spec/models.toml`, which `make spec` holds against TLC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from attrs import frozen

from kafka_marshal.modelcheck.models import Model, ModelKind
from model_tests.explorer import configuration, explore, substitutions
from model_tests.explorer.admins.properties import JUDGED as JUDGED_OF_ADMINS
from model_tests.explorer.claims import alone, records
from model_tests.explorer.claims.properties import JUDGED
from model_tests.explorer.explore import Graph
from model_tests.explorer.groups import graphs as graphs_of_groups
from model_tests.explorer.intervals.environment import JUDGED as JUDGED_OF_INTERVALS
from model_tests.explorer.ranges import graphs as graphs_of_ranges
from model_tests.explorer.ranges.liveness import EVERYTHING_PROCESSED
from model_tests.explorer.shares.environment import JUDGED as JUDGED_OF_SHARES
from model_tests.explorer.substitutions import UnknownName

HEADING = (
    f"{'':42}{'TLC: states':>13}{'edges':>12}{'Python: states':>16}{'edges':>12}  equal  edges/s"
)


@frozen
class Compared:
    """What TLC and Python found in one model."""

    name: str
    tlc: tuple[int | None, ...]
    """States, edges, depth; or the length of the counterexample, if TLC's is the shortest."""
    python: tuple[int | None, ...]
    python_edges: int
    edges_per_second: float
    tlc_violated: str | None = None
    python_violated: str | None = None
    unknown: str | None = None
    """What the explorer does not know, so that there is no graph."""

    @property
    def equal(self) -> bool:
        """Both found the same."""
        return self.tlc == self.python and self.tlc_violated == self.python_violated

    @property
    def difference(self) -> str:
        """In words."""
        if self.unknown:
            return f"the explorer does not know {self.unknown}"
        return (
            f"TLC {self.tlc} {self.tlc_violated or ''}, "
            f"Python {self.python} {self.python_violated or ''}"
        )

    def line(self) -> str:
        """One line of the table."""
        verdict = "yes" if self.equal else "NO"
        if self.tlc_violated:
            tlc, python = (
                f"{violated} after {length[0]} states" if length else str(violated)
                for violated, length in (
                    (self.tlc_violated, self.tlc),
                    (self.python_violated, self.python),
                )
            )
            return f"{self.name:52}  {tlc} | {python}  {verdict}"
        figures = [f"{each:,}" if each is not None else "-" for each in (*self.tlc, *self.python)]
        states, edges, _, py_states, py_edges, _ = figures
        return (
            f"{self.name:42}{states:>13}{edges:>12}{py_states:>16}{py_edges:>12}"
            f"  {verdict:>5}{self.edges_per_second:9,.0f}"
        )


WITHOUT_COUNTERPART = (
    *(
        "MCDeliveries",
        "MCEndPause",
        "MCGroupEvents",
        "MCGroupLiveness",
        "MCGroupSuffix",
        "MCGroups",
        "MCLate",
        "MCLogClock",
        "MCParticipant",
        "MCRangesKeys",
        "MCResume",
        "MCTenure",
    ),
)
"""Modules with a variable or actions of their own, which no machine has."""


def is_compared(model: Model) -> bool:
    """It has a whole graph, or the Python makes its mistake and judges its property."""
    if not model.must_fail:
        return model.module.stem not in WITHOUT_COUNTERPART
    if model.module.stem == "MCGroupWorld":
        return graphs_of_groups.is_compared(model)
    if model.module.stem in graphs_of_ranges.EXPLORERS:
        return model.violates in judged(model)
    if model.kind not in (ModelKind.BROKEN, ModelKind.REACHABILITY) or model.violates not in judged(
        model
    ):
        return False
    return "World" in configuration.read(model.cfg).substituted and _is_known(model)


def judged(model: Model) -> Set[str]:
    """The names of the properties that Python judges in a model."""
    of_module: Mapping[str, Set[str]] = {
        "MCSetPosition": JUDGED_OF_ADMINS,
        "MCFairShare": JUDGED_OF_SHARES,
        "MCInterval": JUDGED_OF_INTERVALS.keys(),
        **graphs_of_ranges.JUDGED,
    }
    return of_module.get(model.module.stem, JUDGED)


def _is_known(model: Model) -> bool:
    """A mistake that Python can make, in a world that asks no clock when it reads."""
    try:
        substitutions.of(configuration.read(model.cfg))
    except UnknownName:
        return False
    return "OwnClocks" not in configuration.read(model.cfg).substituted["World"]


EXPLORERS: Mapping[str, Callable[[Model], Graph]] = {
    "MCRecords": records.explore,
    "MCMachine": alone.explore,
    "MCSetPosition": explore.explore_admins,
    "MCFairShare": explore.explore_shares,
    "MCInterval": explore.explore_intervals,
    "MCGroupWorld": graphs_of_groups.explore_groups,
    **graphs_of_ranges.EXPLORERS,
}
"""By module; every other one is a world of `Marshal.tla`."""


def python_graph(model: Model) -> Graph:
    """The graph that the Python machines give."""
    return EXPLORERS.get(model.module.stem, explore.explore)(model)


def compare(model: Model) -> Compared:
    """Explore a model, and hold what was found against the recorded figures."""
    try:
        graph = python_graph(model)
    except UnknownName as unknown:
        figures = (model.states, model.edges, model.depth)
        return Compared(model.name, figures, (None,) * 3, 0, 0, unknown=str(unknown))
    speed = graph.edges_per_second
    if model.must_fail:
        # TLC's way to a behaviour that never comes there is not the shortest.
        compared = model.violates != EVERYTHING_PROCESSED
        return Compared(
            model.name,
            (model.length,) if compared else (),
            (graph.length,) if compared else (),
            graph.edges,
            speed,
            model.violates,
            graph.broken,
        )
    depth = graph.depth if model.depth is not None else None
    return Compared(
        model.name,
        (model.states, model.edges, model.depth),
        (graph.states, graph.edges, depth),
        graph.edges,
        speed,
        None,
        graph.broken,
    )
