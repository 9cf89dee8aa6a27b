"""Marshal promises that `ls` and `set-position` report what is not authentic, and go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from kafka_marshal.admin.doctor.doctor import examine
from kafka_marshal.admin.view import View
from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.testing import Broker
from tests.authentication.signing import OURS, THEIRS, keys_text
from tests.cli.run import marshal
from tests.client.hands import Hands


class SigningHands(Hands):
    """Their records are signed, with whichever keyring they hold."""

    def sign(self, keyring: Keyring | None) -> None:
        self._log.close()
        self._log = LogWriter(attrs.evolve(self.settings, keyring=keyring), self.topic)


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[SigningHands]:
    with SigningHands(kafka_broker) as hands:
        hands.sign(OURS)
        yield hands


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(keys_text(sign_with="k1"))
    return path


def heartbeats(hands: SigningHands, topic: str) -> None:
    """A win and three heartbeats; the second one, which says nothing new, is a stranger's."""
    epoch = hands.wins("g", topic, 0, "east")
    hands.beats("g", topic, 0, epoch, 4, "east")
    hands.sign(THEIRS)
    hands.beats("g", topic, 0, epoch, 5, "east")
    hands.sign(OURS)
    hands.beats("g", topic, 0, epoch, 6, "east")


def test_ls_reports_records_that_are_not_authentic(hands: SigningHands, keys: Path) -> None:
    topic = hands.data(messages=10)
    epoch = hands.wins("g", topic, 0, "east")
    hands.beats("g", topic, 0, epoch, 4, "east")
    ours = ("ls", "g", *hands.options, "--keys", str(keys))
    assert "not authentic" not in marshal(*ours).stdout
    hands.sign(None)
    hands.wins("h", topic, 0, "mallory")
    assert "not authentic" not in marshal(*ours).stdout, "of another group"
    hands.sign(THEIRS)
    hands.beats("g", topic, 0, epoch, 5, "east")
    for listed in (marshal(*ours), marshal("ls", *hands.options, "--keys", keys)):
        assert (listed.returncode, listed.stderr) == (0, "")
        assert "not authentic: 1 record of coordinating partition" in listed.stdout
        assert "as of key k9. Sender, as the record has it: client 'east'" in listed.stdout
    assert "mallory" in marshal("ls", *hands.options, "--keys", keys).stdout
    assert "not authentic" not in marshal("ls", "g", *hands.options).stdout
    assert "not authentic" in marshal("ls", *hands.options, MARSHAL_KEYS_FILE=str(keys)).stdout
    as_json = marshal(*ours, "--json")
    assert as_json.stderr.startswith("Warning: not authentic: 1 record of coordinating partition")
    assert json.loads(as_json.stdout)["position"] == 5, "it counts all the same"
    gone = marshal("ls", *hands.options, "--keys", keys.parent / "gone")
    assert (gone.returncode, "gone: No such file" in gone.stderr) == (2, True)


@pytest.mark.parametrize("group", [None, "g"])
def test_what_a_view_need_not_fold_is_verified_too(hands: SigningHands, group: str | None) -> None:
    heartbeats(hands, hands.data(messages=10))
    settings = attrs.evolve(hands.settings, keyring=OURS)
    with View(settings, hands.topic, group=group, verify=True) as view:
        view.read()
    assert [(one.first.offset, one.count) for one in view.unauthentic or ()] == [(2, 1)]
    with View(settings, hands.topic, group=group) as view:
        assert view.read().unauthentic is None


def test_set_position_reports_what_is_not_authentic_and_signs(
    hands: SigningHands, keys: Path
) -> None:
    topic = hands.data(messages=10)
    heartbeats(hands, topic)
    hands.frees("g", topic, 0, 0, 6, "east")
    command = ("set-position", "g", f"{topic}:0=8", *hands.options)
    unsigned = marshal(*command)
    assert (unsigned.returncode, "would not be" in unsigned.stderr) == (2, True)
    done = marshal(*command, "--keys", keys)
    assert done.returncode == 0, done.stderr
    assert "Warning: not authentic: 1 record of coordinating partition" in done.stderr
    settings = attrs.evolve(hands.settings, keyring=OURS)
    [found] = [
        one for one in examine(settings, hands.topic).findings if one.check == "authentication"
    ]
    assert found.found.startswith("1 of "), "what the command wrote is authentic"
