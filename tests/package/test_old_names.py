"""The names that 0.1.0 gave to users go on for a release, and warn."""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec

import attrs
import pytest

from kafka_marshal import Claiming, Driver, Member
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.runtime import MOVED, RENAMED
from tests.upgrade.versions import WHEEL


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_is_the_module_under_its_new_one(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"kafka_marshal.{old}", raising=False)
    with pytest.warns(
        DeprecationWarning, match=f"kafka_marshal.{old} is kafka_marshal.{MOVED[old]}"
    ):
        found = import_module(f"kafka_marshal.{old}")
    new = import_module(f"kafka_marshal.{MOVED[old]}")
    renamed = RENAMED.get(old, {})
    assert found is new or renamed
    assert {getattr(found, name) is getattr(new, name) for name in dir(new) if name[0] != "_"} == {
        True
    }
    for before, after in renamed.items():
        assert getattr(found, before) is getattr(new, after)


@pytest.mark.parametrize("old", sorted(MOVED))
def test_what_0_1_0_exported_is_found_under_its_old_name(old: str) -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        path = f"kafka_marshal/{old.replace('.', '/')}.py"
        source = wheel.read(path).decode() if path in wheel.namelist() else ""
    defined = [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    exported = re.search(r"__all__ = (\[.*?\])", source, re.DOTALL)
    names = [*defined, *(ast.literal_eval(exported[1]) if exported else [])]
    module = import_module(f"kafka_marshal.{old}")
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_warning_names_the_line_that_imports() -> None:
    sys.modules.pop("kafka_marshal.runtime.consumer", None)
    with pytest.warns(DeprecationWarning, match="goes with the next release") as warned:
        exec(compile("from kafka_marshal.runtime.consumer import Consumer", __file__, "exec"), {})
    assert {each.filename for each in warned} == {__file__}


def test_what_never_was_is_not_found() -> None:
    assert find_spec("kafka_marshal.runtime.nothing") is None
    assert find_spec("kafka_marshal.client.nothing") is None


METHODS = {
    "unknown": "outcome_unknown",
    "available": "messages_available",
    "want": "start_claiming",
    "ask": "request",
    "gone": "log_start_moved",
}


@pytest.mark.parametrize(
    ("machine", "old"),
    [*((Driver, old) for old in METHODS), (Member, "unknown"), (Member, "available")],
)
def test_an_old_method_warns_and_calls_the_one_with_the_new_name(
    machine: type[Driver | Member], old: str
) -> None:
    new = METHODS[old]

    class Overriding(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            pass

    setattr(Overriding, new, lambda _, *args, **options: (args, options))
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now") as warned:
        found = getattr(Overriding(), old)(1, now_ms=2)
    assert found == ((1,), {"now_ms": 2})
    assert {each.filename for each in warned} == {__file__}


def test_a_driver_goes_on_under_the_methods_of_0_1_0() -> None:
    def driver() -> Driver:
        return Driver(InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), ClaimKey("g", "events", 0))

    old, new = driver(), driver()
    [asked] = old.caught_up(now_ms=0)
    assert [asked] == new.caught_up(now_ms=0)
    assert isinstance(asked, Send)
    with pytest.warns(DeprecationWarning, match="unknown is called outcome_unknown now"):
        assert old.unknown(asked, 0) == new.outcome_unknown(asked, 0) == []
    with pytest.warns(DeprecationWarning, match="want is called start_claiming now"):
        assert old.want(0, eager=False) == new.start_claiming(0, eager=False) == []
    with pytest.warns(DeprecationWarning, match="ask is called request now"):
        assert old.ask(5_000) == new.request(5_000) == [asked]


def test_an_option_of_claiming_goes_on_under_its_old_name_and_warns() -> None:
    named = {"not_again_ms": 5}  # typed code knows the new name alone
    renamed = "not_again_ms is called reclaim_delay_ms now"
    with pytest.warns(DeprecationWarning, match=renamed):
        claiming = Claiming(greedy=True, **named)  # type: ignore[arg-type]
    assert claiming == Claiming(greedy=True, reclaim_delay_ms=5)
    with pytest.warns(DeprecationWarning, match=renamed):
        assert getattr(claiming, "not_again_ms") == 5  # noqa: B009
    with pytest.warns(DeprecationWarning, match=renamed):
        slower = attrs.evolve(Claiming(), **named)  # type: ignore[arg-type]
    assert slower == Claiming(reclaim_delay_ms=5)
    assert "not_again_ms" not in repr(claiming)


def test_a_member_goes_on_under_the_property_of_0_1_0() -> None:
    member = Member(InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), "g", partitions=1)
    member.add_topic("events", 1, now_ms=0)
    with pytest.warns(DeprecationWarning, match="places is called coordinating_partitions now"):
        assert member.places == member.coordinating_partitions == {0}
