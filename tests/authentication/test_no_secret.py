"""A key is in its file and in a keyring, and in nothing that anybody can read."""

from __future__ import annotations

import base64
import gc
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
import typer

from kafka_marshal import AsyncConsumer, InvalidOption, Keyring, NotAuthentic
from kafka_marshal.authentication import AuthenticityChecks
from kafka_marshal.capture import capture_line
from kafka_marshal.cli.logs.validate import validate
from kafka_marshal.client.connect.authentic_log import AuthenticLog
from kafka_marshal.replay import run
from kafka_marshal.replay.exports.files import Exports
from tests.authentication.signing import KEY, OTHER_KEY, OURS, keys_text
from tests.authentication.test_client import STRANGER, in_log, says, take
from tests.client.doubles import Kafka


def forms(key: bytes) -> Iterator[str]:
    """The ways in which a key may be written."""
    yield from (key.decode(), key.hex(), key.hex().upper(), str(list(key))[1:-1])
    yield from (base64.b64encode(key).decode().rstrip("="), base64.b32encode(key).decode()[:40])


FORMS = [form for key in (KEY, OTHER_KEY) for form in forms(key)]


def shown_in(text: str) -> list[str]:
    return [form for form in FORMS if form in text]


def reprs(*roots: object) -> Iterator[str]:
    """Every object of ours that these lead to."""
    left, seen = list(roots), dict[int, object]()
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, ModuleType | type | FrameType):
            continue
        seen[id(each)] = each
        if isinstance(each, FunctionType):  # not its module
            left += each.__closure__ or ()
            continue
        left += gc.get_referents(each)
        if type(each).__module__.startswith("kafka_marshal"):
            yield repr(each)
            yield str(each)


def files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            yield str(pq.read_table(path).to_pylist())


def test_no_output_holds_a_key(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logs at DEBUG, reprs, errors with their causes, recordings, snapshots, tables, pages."""
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    kafka = Kafka()
    kafka.create("events", messages=8)
    options: dict[str, Any] = {"keyring": OURS, "require_authentic": True}
    with kafka.consumer(record_to=tmp_path / "recorded", **options) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]
        consumer.commit()
        lazy = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c", **options)
        kept = AuthenticLog(OURS, "t", b"g"), AuthenticityChecks(OURS), lazy, vars(lazy)
        shown = list(reprs(consumer, OURS, *kept))
        assert len(shown) > 100
        said += shown
        config = consumer._config
        said += [repr(attrs.asdict(config, recurse=False)), repr(attrs.asdict(config.settings))]
        said.append(repr(config.settings.for_client()))
        said.append(config.settings.without_secrets("all is well"))
    snapshot = tmp_path / "snapshots" / "c1"
    snapshot.parent.mkdir()
    with kafka.consumer(snapshot=snapshot, **options) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [4, 5, 6, 7]
    assert snapshot.exists()
    says(kafka, STRANGER)
    with kafka.consumer(**options) as consumer:
        consumer.add_topic("events")
        with pytest.raises(NotAuthentic) as ended:
            take(consumer, 1)
    said.append("".join(traceback.format_exception(ended.value)))
    said.append(repr(vars(ended.value)))
    with pytest.raises(InvalidOption) as refused:
        Keyring({"k1": KEY[:31]})
    said.append("".join(traceback.format_exception(refused.value)))
    for wrong in (f"key.k1 = {KEY.hex()}0\n", f"{KEY.hex()} = key.k1\n", f"sign-with={KEY.hex()}"):
        with pytest.raises(InvalidOption) as refused:
            Keyring.from_environment({"MARSHAL_KEYS": wrong})
        said.append(str(refused.value))
    with pytest.raises(TypeError) as unpickled:
        pickle.dumps(config)
    said.append(str(unpickled.value))

    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{capture_line(raw)}\n" for raw in in_log(kafka)))
    exports = Exports(tmp_path / "a.sarif", tmp_path / "b.xml", tmp_path / "c.json")
    run([str(log)], out=tmp_path / "out", exports=exports, keyring=OURS)
    keys = keys_text(sign_with="k1")
    monkeypatch.setenv("MARSHAL_KEYS", keys)
    with pytest.raises(typer.Exit):
        validate(log, 60.0)
    said += capsys.readouterr()
    assert "not authentic: 1 record" in said[-2]
    said += [repr(one.__dict__) + one.getMessage() for one in caplog.records]
    said += files(tmp_path)
    assert len(said) > 100
    assert shown_in("\n".join(said)) == []

    monkeypatch.setattr(Keyring, "__repr__", lambda self: str(getattr(self, "_keys", 0)))
    assert shown_in("\n".join(reprs(kept))), "one that is shown is noticed"
