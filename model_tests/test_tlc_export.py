"""Marshal promises that rows which TLC exported are taken again for the same content alone."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from tools.runs import passed

from kafka_marshal.modelcheck import edges
from kafka_marshal.modelcheck.edges import Export
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc.output import TlcOutcome, TlcResult
from model_tests import tlc_export

ROWS = "[\tn\t1\n[\tn\t2\n"


@attrs.define
class Doubled:
    """TLC's double, and a module that it exports."""

    folder: Path
    runs: int = 0
    fails: bool = False

    def run(self, _: Path, __: Path, target: Path, **___: object) -> Export:
        self.runs += 1
        if self.fails:
            raise ModelCheckError("TLC did not finish")
        target.write_text(ROWS)
        return Export(target, 2, 7, TlcResult(TlcOutcome.OK, None, None, 3, 7, 2, 0.5))

    def export(self, **options: object) -> Export:
        module, cfg, target = (self.folder / name for name in ("A.tla", "A.cfg", "rows"))
        target.unlink(missing_ok=True)
        made = tlc_export.export(module, cfg, target, libraries=[self.folder / "more"], **options)
        assert target.read_text() == ROWS
        assert (made.rows, made.calls, made.result.edges) == (2, 7, 7)
        return made


@pytest.fixture
def tlc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doubled:
    (tmp_path / "more").mkdir()
    (tmp_path / "A.tla").write_text("EXTENDS B")
    (tmp_path / "more/B.tla").write_text("Next == x")
    (tmp_path / "A.cfg").write_text("SPECIFICATION Spec")
    doubled = Doubled(tmp_path)
    monkeypatch.setattr(edges, "export", doubled.run)
    monkeypatch.setattr(passed, "kept_in", lambda: tmp_path / "kept")
    monkeypatch.setattr(tlc_export, "reuses", True)
    return doubled


def test_rows_of_the_same_content_are_taken_again(tlc: Doubled) -> None:
    first = tlc.export()
    assert [*tlc.export().read()] == [*first.read()]
    assert tlc.runs == 1


def test_by_night_tlc_makes_them_anew(tlc: Doubled, monkeypatch: pytest.MonkeyPatch) -> None:
    tlc.export()
    monkeypatch.setattr(tlc_export, "reuses", False)
    tlc.export()
    assert tlc.runs == 2


def test_the_day_takes_them_and_the_night_does_not(pytestconfig: pytest.Config) -> None:
    assert tlc_export.reuses is not pytestconfig.getoption("all")


@pytest.mark.parametrize("file", ["A.tla", "more/B.tla", "A.cfg"])
def test_rows_of_another_content_are_made_anew(tlc: Doubled, file: str) -> None:
    tlc.export()
    (tlc.folder / file).write_text((tlc.folder / file).read_text() + " ")
    tlc.export()
    assert tlc.runs == 2


def test_rows_of_another_question_are_made_anew(tlc: Doubled) -> None:
    tlc.export()
    tlc.export(check_deadlock=False)
    assert tlc.runs == 2


@pytest.mark.parametrize(
    "written",
    [lambda entry: entry[:-9], lambda entry: b"", lambda entry: gzip.compress(b"{}")],
)
def test_a_file_that_was_changed_is_not_read(
    tlc: Doubled, written: Callable[[bytes], bytes]
) -> None:
    tlc.export()
    [kept] = (tlc.folder / "kept/exports").iterdir()
    whole = gzip.decompress(kept.read_bytes())
    kept.write_bytes(written(kept.read_bytes()))
    tlc.export()
    assert tlc.runs == 2
    kept.write_bytes(gzip.compress(whole.replace(b"\t2", b"\t3")))
    tlc.export()
    assert tlc.runs == 3


def test_what_tlc_did_not_finish_is_not_kept(tlc: Doubled) -> None:
    tlc.fails = True
    for _ in range(2):
        with pytest.raises(ModelCheckError):
            tlc.export()
    assert tlc.runs == 2
