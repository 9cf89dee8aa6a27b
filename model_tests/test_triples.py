"""Every distinct (claim, record, next claim) that TLC explores, held against `step`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from kafka_marshal import Accepted, Refused, step
from kafka_marshal.modelcheck import edges
from kafka_marshal.modelcheck.models import Model, load
from model_tests import from_tla

EXPORTING = [model for model in load() if model.export]


@pytest.fixture(scope="module", params=EXPORTING, ids=lambda model: model.name)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    model: Model = request.param
    target = tmp_path_factory.mktemp("edges") / f"{model.name}.tsv"
    export = edges.export(
        model.module_path,
        model.cfg_path,
        target,
        workers=2,
        check_deadlock=False,
    )
    return Exported(model, export)


@attrs.frozen
class Exported:
    model: Model
    export: edges.Export


def disagreements(export: edges.Export) -> tuple[list[str], Counter[str]]:
    """What the reducer says otherwise, at most ten of it; and how often every verdict came."""
    wrong: list[str] = []
    verdicts: Counter[str] = Counter()
    for rules, interval, pause_max, before, record, after, verdict in export.read():
        given = from_tla.claim(before), from_tla.record(record)
        expected = from_tla.claim(after), from_tla.verdict(verdict)
        got = step(*given, from_tla.rules(rules, interval, pause_max))
        verdicts[str(verdict)] += 1
        if got != expected and len(wrong) < 10:
            wrong.append(f"{given}\n  TLC:    {expected}\n  Python: {got}")
    return wrong, verdicts


def test_the_reducer_takes_every_step_as_the_specification_does(
    exported: Exported, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, verdicts = disagreements(exported.export)
    assert wrong == []
    assert exported.export.calls >= exported.export.rows > 0
    with capsys.disabled():
        refused = sum(n for name, n in verdicts.items() if is_refusal(name))
        print(
            f"\n{exported.model.name}: {exported.export.rows:,} triples "
            f"({refused:,} of them refused) from {exported.export.calls:,} edges agree"
        )


def is_refusal(name: str) -> bool:
    return isinstance(from_tla.verdict(name), Refused)


def test_the_exports_hold_every_verdict(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    seen: set[object] = set()
    for model in EXPORTING:
        target = tmp_path / model.name
        export = edges.export(
            model.module_path, model.cfg_path, target, workers=2, check_deadlock=False
        )
        seen |= {from_tla.verdict(row[-1]) for row in export.read()}
    assert seen >= set(Accepted) | set(Refused)
