from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.settings import Settings, addresses, connection, settings_of
from kafka_marshal.errors import InvalidOption


def consumer(bootstrap: Any) -> Consumer:
    return Consumer(bootstrap, group_id="g", client_id="c")


@pytest.mark.parametrize("brokers", ["a:1,b:2", ["a:1", "b:2"], ("a:1", "b:2")])
def test_a_list_of_brokers_is_a_bootstrap(brokers: object) -> None:
    assert addresses(brokers) == "a:1,b:2"


@pytest.mark.parametrize(
    ("brokers", "kind"), [({"sasl.password": "geheim"}, "dict"), ([1], "list"), (9092, "int")]
)
def test_what_is_no_bootstrap_is_refused_at_once_and_not_shown(brokers: object, kind: str) -> None:
    with pytest.raises(InvalidOption, match=f"not of type {kind}") as refused:
        consumer(brokers)
    assert "geheim" not in str(refused.value)


def written(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_of_one_setting_option_counts_then_file_named_then_environment_then_configuration(
    tmp_path: Path,
) -> None:
    everyday = written(tmp_path / "c", "bootstrap.servers=config:1", "client.id=config")
    named = written(tmp_path / "f", "bootstrap.servers=file:1")
    known = {"MARSHAL_CONFIG": str(everyday), "MARSHAL_BOOTSTRAP": "environment:1"}
    here = ["bootstrap.servers=x:1"]
    assert settings_of("option:1", named, here, known).bootstrap == "option:1"
    assert settings_of(None, named, here, known).bootstrap == "x:1"
    assert settings_of(None, named, (), known).bootstrap == "file:1"
    assert settings_of(None, None, (), known).bootstrap == "environment:1"
    del known["MARSHAL_BOOTSTRAP"]
    assert settings_of(None, None, (), known).bootstrap == "config:1"


def test_a_program_gives_numbers_and_booleans_as_to_kafkas_client() -> None:
    given: dict[str, Any] = {"linger.ms": 5, "enable.idempotence": True, "acks": "all"}
    values = connection("b:9092", given, None).values
    assert (values["linger.ms"], values["enable.idempotence"]) == ("5", "true")


@pytest.mark.parametrize("value", [None, print, ["a"], "caf\udce9", "secret\0"])
def test_a_setting_that_kafkas_client_cannot_take_is_named_and_not_shown(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"^settings: 'sasl.password' is text,") as refused:
        connection("b:9092", {"sasl.password": value}, None)
    assert "caf" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_named_replaces_the_configuration_file(tmp_path: Path) -> None:
    """Or a password of everyday would go to whatever cluster the file names."""
    known = {"MARSHAL_CONFIG": str(written(tmp_path / "c", "sasl.password=geheim"))}
    named = written(tmp_path / "f", "bootstrap.servers=file:1")
    assert settings_of(None, named, (), known).values == {"bootstrap.servers": "file:1"}
    assert settings_of("a:1", None, (), known).values["sasl.password"] == "geheim"


@pytest.mark.parametrize("xdg", [True, False])
def test_the_configuration_file_lies_where_the_user_keeps_them(tmp_path: Path, xdg: bool) -> None:
    folder = tmp_path / ("xdg" if xdg else ".config")
    written(folder / "kafka-marshal" / "config.properties", "bootstrap.servers=config:1")
    known = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(folder) if xdg else "relative"}
    assert settings_of(None, environment=known).bootstrap == "config:1"


def test_what_is_wrong_with_a_configuration_file_is_said_by_name(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(InvalidOption, match=f"MARSHAL_CONFIG {missing}: No such file"):
        settings_of("a:1", environment={"MARSHAL_CONFIG": str(missing)})
    wrong = written(tmp_path / ".config" / "kafka-marshal" / "config.properties", "", "secret word")
    with pytest.raises(InvalidOption) as refused:
        settings_of("a:1", environment={"HOME": str(tmp_path)})
    assert str(refused.value) == f"{wrong}:2: a setting is written key=value"


def test_without_an_environment_nothing_of_the_user_is_read() -> None:
    with pytest.raises(InvalidOption, match="no cluster given"):
        settings_of(None)


def test_settings_go_to_another_process() -> None:
    settings = settings_of("a:1")
    assert (
        pickle.loads(pickle.dumps(settings)) == deepcopy(settings) == settings == settings_of("a:1")
    )


@pytest.mark.parametrize(
    ("wanted", "decided"), [({}, 16384), ({"batch.size": "9"}, 9), ({"batch.size": "99999"}, 16384)]
)
def test_a_batch_is_as_large_as_its_topic_takes_or_smaller_where_the_user_says_so(
    wanted: dict[str, str], decided: int
) -> None:
    assert Settings(wanted).batches() == {"batch_size": str(decided)}
    assert Settings(wanted).batches(5) == {"batch_size": "5"}
