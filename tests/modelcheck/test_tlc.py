import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import (
    ActionCoverage,
    OutputReader,
    Progress,
    TlcOutcome,
    TlcResult,
    properties_of,
)
from kafka_marshal.modelcheck.tlc.values import record

pytestmark = pytest.mark.tlc

Check = Callable[..., TlcResult]


def test_a_run_without_fault_counts_states_edges_and_depth(check: Check) -> None:
    seen: list[Progress] = []
    result = check("SPECIFICATION Spec", "INVARIANT Fine", on_progress=seen.append, coverage=True)
    assert (result.outcome, result.violated, result.trace) == (TlcOutcome.OK, None, None)
    assert (result.states, result.edges, result.depth) == (4, 4, 4)
    assert seen[-1] == Progress(depth=4, generated=5, distinct=4, queued=0)
    assert result.coverage == {"Up": ActionCoverage(3, 3), "Wrap": ActionCoverage(0, 1)}


def test_a_violated_invariant_is_named_and_its_states_are_values(check: Check) -> None:
    result = check("SPECIFICATION Spec", "INVARIANTS Fine Early")
    assert (result.outcome, result.violated) == (TlcOutcome.INVARIANT, "Early")
    assert result.trace is not None
    assert result.trace.back_to is None
    assert [state.action for state in result.trace.states] == ["", "Up", "Up", "Up"]
    assert result.trace.states[1].variables == {
        "hour": 1,
        "log": (record(hour=0, note='a"b\\'),),
    }


def test_an_invariant_that_fails_at_once_has_a_trace_of_one_state(check: Check) -> None:
    result = check("SPECIFICATION Spec", "INVARIANT NotYet")
    assert (result.outcome, result.violated) == (TlcOutcome.INVARIANT, "NotYet")
    assert (result.states, result.edges) == (1, 0)
    assert result.trace is not None
    assert [dict(state.variables) for state in result.trace.states] == [{"hour": 0, "log": ()}]


def test_a_behaviour_that_goes_round_says_where_it_goes_back_to(check: Check) -> None:
    result = check("SPECIFICATION FairSpec", "PROPERTY ReachesSeven")
    assert (result.outcome, result.violated) == (TlcOutcome.PROPERTY, "ReachesSeven")
    assert result.trace is not None
    assert (len(result.trace.states), result.trace.back_to) == (4, 0)


def test_a_behaviour_that_stops_for_ever_stutters_in_its_last_state(check: Check) -> None:
    result = check("SPECIFICATION Spec", "PROPERTY ReachesThree")
    assert result.outcome is TlcOutcome.PROPERTY
    assert result.trace is not None
    assert result.trace.back_to == len(result.trace.states) - 1


@pytest.mark.parametrize("name", ["OnlyUp", "Refines"])
def test_a_forbidden_step_is_a_violated_property(check: Check, name: str) -> None:
    result = check("SPECIFICATION Spec", f"PROPERTY {name}")
    assert (result.outcome, result.violated) == (TlcOutcome.PROPERTY, name)
    assert result.trace is not None
    assert result.trace.states[-1].action == "Wrap"


def test_of_two_properties_that_tlc_does_not_name_none_is_named(check: Check) -> None:
    result = check("SPECIFICATION FairSpec", "PROPERTIES ReachesThree ReachesSeven")
    assert (result.outcome, result.violated) == (TlcOutcome.PROPERTY, None)


def test_a_deadlock_is_found_unless_it_is_not_looked_for(check: Check) -> None:
    result = check("SPECIFICATION StopsSpec")
    assert (result.outcome, result.violated) == (TlcOutcome.DEADLOCK, None)
    assert result.trace is not None
    assert result.trace.states[-1].variables["hour"] == 3
    assert check("SPECIFICATION StopsSpec", check_deadlock=False).outcome is TlcOutcome.OK


@pytest.mark.parametrize(
    ("cfg", "says"),
    [
        (["SPECIFICATION Nope"], "name Nope specified in the configuration file"),
        (["SPECIFICATION Spec", "INVARIANT Broken"], "hour.nobody|record"),
        (["SPECIFICATION"], "TLC did not finish: .+"),
    ],
)
def test_a_model_that_cannot_be_checked_is_an_error_in_tlcs_words(
    check: Check, cfg: list[str], says: str
) -> None:
    with pytest.raises(ModelCheckError, match=says):
        check(*cfg)


def test_a_module_that_does_not_parse_says_where(check: Check, clock: Path) -> None:
    clock.write_text(clock.read_text().replace("Fine ==", "Fine"))
    with pytest.raises(ModelCheckError, match=r"(?s)Encountered.*line 10"):
        check("SPECIFICATION Spec")


def test_a_missing_file_is_named(clock: Path) -> None:
    with pytest.raises(ModelCheckError, match=r"Missing\.cfg is not there"):
        tlc.run(clock, clock.with_name("Missing.cfg"))


def test_modules_of_other_folders_are_found(check: Check, clock: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (clock.parent / "Export.tla").rename(elsewhere / "Export.tla")
    with pytest.raises(ModelCheckError, match="Export"):
        check("SPECIFICATION Spec")
    assert check("SPECIFICATION Spec", libraries=[elsewhere]).outcome is TlcOutcome.OK


def test_nothing_is_left_beside_the_specification(check: Check, clock: Path) -> None:
    check("SPECIFICATION Spec", "INVARIANT Early")
    names = sorted(path.name for path in clock.parent.iterdir())
    assert names == ["Clock.cfg", "Clock.tla", "Export.tla"]


@pytest.fixture
def desk(clock: Path, tmp_path: Path) -> Path:
    """An empty folder for temporary files, and a model that takes for ever."""
    clock.write_text(clock.read_text().replace("hour < 3", "hour < 2000000000"))
    clock.with_suffix(".cfg").write_text("SPECIFICATION Spec")
    desk = tmp_path / "desk"
    desk.mkdir()
    return desk


def running_tlc(clock: Path, desk: Path) -> subprocess.Popen[str]:
    """A Python that runs TLC, which has begun to write its states."""
    # Where the tests run in the background of a shell, SIGINT is ignored.
    code = f"from pathlib import Path as P; from kafka_marshal.modelcheck.tlc import tlc; \
import signal; signal.signal(signal.SIGINT, signal.default_int_handler); \
tlc.run(P({str(clock)!r}), P({str(clock.with_suffix('.cfg'))!r}))"
    python = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(desk)},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while not list(desk.glob("*/states")) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(desk.glob("*/states")), "TLC did not start"
    return python


def is_in_a_command(path: Path) -> bool:
    """Some process was started with this path."""
    ps = ["ps", "-eww", "-o", "args"]
    return str(path) in subprocess.run(ps, capture_output=True, text=True, check=True).stdout


def test_ctrl_c_ends_tlc_and_removes_its_files(clock: Path, desk: Path) -> None:
    python = running_tlc(clock, desk)
    python.send_signal(signal.SIGINT)
    _, complaint = python.communicate(timeout=120)
    assert "KeyboardInterrupt" in complaint
    assert list(desk.iterdir()) == []
    assert not is_in_a_command(desk)


def test_a_tlc_whose_starter_was_killed_ends_with_its_files(clock: Path, desk: Path) -> None:
    python = running_tlc(clock, desk)
    python.kill()
    python.communicate(timeout=30)
    until = time.monotonic() + 30
    while (is_in_a_command(desk) or list(desk.iterdir())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_in_a_command(desk)
    assert list(desk.iterdir()) == []


def test_the_reader_calls_a_silent_tlc_an_error() -> None:
    with pytest.raises(ModelCheckError, match="it printed nothing"):
        OutputReader().result(seconds=0.0)


def test_a_tlc_that_was_killed_after_its_finding_is_an_error() -> None:
    reader = OutputReader()
    for line in ("STARTMSG 2110:1", "Invariant Fine is violated.", "ENDMSG 2110"):
        reader.feed(f"@!@!@{line} @!@!@" if "MSG" in line else line)
    with pytest.raises(ModelCheckError, match="did not finish"):
        reader.result(seconds=0.0)


def test_comments_in_a_cfg_name_no_property() -> None:
    assert properties_of("PROPERTY A \\* B\n(* PROPERTY\nC *) D\nCONSTANT E = 1") == ("A", "D")
