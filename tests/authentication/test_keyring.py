"""Keys come from a file or the environment, and go nowhere."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from pathlib import Path

import attrs
import pytest

from kafka_marshal import InvalidOption
from kafka_marshal.authentication import Authenticity, Keyring, Verification
from kafka_marshal.capture import RawRecord, TimestampType
from tests.authentication.signing import KEY, OTHER_KEY, OURS, keys_text, signed

SINCE = "2026-04-01T00:00+00:00"
SINCE_MS = 1_775_001_600_000
RAW = RawRecord(0, 5, 1000, b"ClaimingPartition/1/1/i/c/g/t/0")


def read(tmp_path: Path, text: str) -> Keyring:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    return Keyring.from_file(path)


def test_a_file_names_keys_which_of_them_signs_and_since_when(tmp_path: Path) -> None:
    text = f"# of our fleet\n\n  {keys_text(sign_with='k2', signed_since=SINCE)}"
    keyring = read(tmp_path, text)
    assert (keyring.key_ids, keyring.sign_with) == (("k1", "k2"), "k2")
    assert keyring.signed_since_ms == SINCE_MS
    assert keyring.verify(signed(RAW, keyring)) == Verification(Authenticity.AUTHENTIC, "k2")
    assert OURS.verify(signed(RAW, keyring)).authenticity is Authenticity.AUTHENTIC
    assert read(tmp_path, keys_text(signed_since="2026-04-01")).signed_since_ms == SINCE_MS
    assert read(tmp_path, f"key.k1={KEY.hex().upper()}\r\n").key_ids == ("k1",)


def test_without_a_key_that_signs_records_are_verified_and_not_signed(tmp_path: Path) -> None:
    keyring = read(tmp_path, keys_text())
    assert keyring.header(0, b"", ()) is None
    assert keyring.verify(signed(RAW)).authenticity is Authenticity.AUTHENTIC


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "keys .*: keys: there is none"),
        ("# nothing\n", "there is none"),
        ("key.k1 = \n", ":1: a line is"),
        ("key.k1 = 00\n", "key k1: it has fewer than 32 bytes"),
        (f"key.k1 = {'00' * 31}\n", "fewer than 32 bytes"),
        (f"key.k1 = {'00' * 31}0\n", ":1: a line is"),
        (f"key.k1 = {'0x' + '00' * 32}\n", ":1: a line is"),
        (f"key. = {'00' * 32}\n", ":1: a line is"),
        (f"key.a/b = {'00' * 32}\n", ":1: a line is"),
        (f"key.{'k' * 65} = {'00' * 32}\n", ":1: a line is"),
        (f"k1 = {'00' * 32}\n", ":1: a line is"),
        (f"{'00' * 32}\n", ":1: a line is"),
        (keys_text() + f"key.k1 = {'00' * 32}\n", ":3: a line before says another value"),
        (keys_text(sign_with="k1") + "sign-with = k2\n", ":4: a line before"),
        (keys_text(sign_with="k3"), "sign-with: there is no key of that name"),
        (keys_text(sign_with=""), "sign-with: there is no key of that name"),
        (keys_text(signed_since="soon"), "signed-since is no ISO 8601 time"),
    ],
)
def test_what_is_no_file_of_keys_is_refused_and_not_shown(
    text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=why) as refused:
        read(tmp_path, text)
    assert "00" * 8 not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"keys .*gone: No such file"):
        Keyring.from_file(tmp_path / "gone")
    (tmp_path / "odd").write_bytes(b"\xff")
    with pytest.raises(InvalidOption, match="odd: not UTF-8 text"):
        Keyring.from_file(tmp_path / "odd")


def test_the_environment_names_a_file_or_holds_the_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(keys_text(sign_with="k1"))
    named = {"MARSHAL_KEYS_FILE": str(tmp_path / "keys")}
    held = {"MARSHAL_KEYS": keys_text(sign_with="k1")}
    assert Keyring.from_environment({}) is None
    assert Keyring.from_environment({"MARSHAL_KEYS": ""}) is None
    for environment in (named, held):
        keyring = Keyring.from_environment(environment)
        assert keyring is not None
        assert keyring.verify(signed(RAW)).authenticity is Authenticity.AUTHENTIC
    with pytest.raises(InvalidOption, match="MARSHAL_KEYS_FILE and MARSHAL_KEYS are both set"):
        Keyring.from_environment({**named, **held})
    with pytest.raises(InvalidOption, match="MARSHAL_KEYS:1: a line is"):
        Keyring.from_environment({"MARSHAL_KEYS": "x"})


def test_a_key_of_text_or_of_few_bytes_is_refused() -> None:
    for key in (b"", b"short", KEY.decode()):
        with pytest.raises(InvalidOption, match="fewer than 32 bytes"):
            Keyring({"k": key})  # type: ignore[dict-item]


def test_a_keyring_is_not_pickled_not_copied_and_its_repr_shows_names_alone() -> None:
    assert repr(OURS) == "Keyring(k1, k2; signs with k1)"
    assert repr(Keyring({"k": KEY})) == "Keyring(k; does not sign)"
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="keys stay in the process"):
            way(OURS)
    with pytest.raises(TypeError):
        vars(OURS)
    holder = attrs.make_class("Holder", ["keyring"])(OURS)
    assert json.dumps(attrs.asdict(holder), default=str) == f'{{"keyring": "{OURS!r}"}}'


def test_only_what_a_broker_stamped_before_all_signed_may_be_unsigned() -> None:
    since = Keyring({"k1": KEY}, sign_with="k1", signed_since_ms=1001)
    appended = attrs.evolve(RAW, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert since.complaint(appended) is None
    assert since.complaint(attrs.evolve(appended, timestamp_ms=1001)) is not None
    for stamp in (TimestampType.CREATE_TIME, TimestampType.NOT_STATED):
        own = attrs.evolve(RAW, timestamp_type=stamp)
        assert (since.complaint(own) is None) == (stamp is TimestampType.NOT_STATED)
    assert since.complaint(attrs.evolve(RAW, timestamp_ms=-1)) is not None
    assert Keyring({"k1": KEY}).complaint(appended) == Verification(Authenticity.NOT_SIGNED)


def test_keys_are_changed_one_step_after_the_other() -> None:
    """All learn the new one, then all sign with it, then all forget the old one."""
    old = Keyring({"old": KEY}, sign_with="old")
    learnt = Keyring({"old": KEY, "new": OTHER_KEY}, sign_with="old")
    changed = Keyring({"old": KEY, "new": OTHER_KEY}, sign_with="new")
    forgot = Keyring({"new": OTHER_KEY}, sign_with="new")
    steps = [old, learnt, changed, forgot]
    for before, after in itertools.pairwise(steps):
        for writer, reader in ((before, after), (after, before)):
            assert reader.complaint(signed(RAW, writer)) is None or reader is forgot
    unknown = Verification(Authenticity.UNKNOWN_KEY, "old")
    assert forgot.complaint(signed(RAW, old)) == unknown
    since = Keyring({"new": OTHER_KEY}, sign_with="new", signed_since_ms=1001)
    assert since.complaint(signed(RAW, old)) is None
