"""With keys, what is not authentic is a finding; all else that is found is the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import typer

from kafka_marshal import InvalidOption, NotAuthentic
from kafka_marshal.admin.doctor.records import records as checked
from kafka_marshal.admin.doctor.topic_sample import TopicSample
from kafka_marshal.admin.view import View
from kafka_marshal.authentication import SENDERS_MAX, AuthenticityChecks, Keyring
from kafka_marshal.capture import RawRecord, TimestampType, capture_line
from kafka_marshal.cli.cluster.opened import check_signing
from kafka_marshal.cli.logs.replay import replay
from kafka_marshal.cli.logs.validate import validate
from kafka_marshal.client.connect.authentic_log import AuthenticLog
from kafka_marshal.core import wire
from kafka_marshal.replay import Change, run
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.live.live_findings import LiveEvent
from kafka_marshal.replay.live.watch import watch
from kafka_marshal.replay.live.watch_context import WatchOptions
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.options import judging_of
from tests.authentication.signing import KEY, OURS, THEIRS, keys_text, signed
from tests.authentication.test_decides_nothing import WAYS
from tests.client.connect.test_log_filter import MockMessage
from tests.client.doubles import LOG as LOG_TOPIC
from tests.client.doubles import Kafka
from tests.kernel import hostile
from tests.replay.told import beats, records

LOG = [signed(raw) for raw in records(["0 CP a1/A", *beats("a1/A", 1, 8)])]
ZEROS = (wire.MAC_HEADER, b"k1:" + b"0" * 64)
BARE = attrs.evolve(LOG[2], headers=LOG[2].headers[:-1])
FORGED = attrs.evolve(LOG[3], headers=(*LOG[3].headers[:-1], ZEROS))


def of(raws: Sequence[RawRecord], keyring: Keyring = OURS) -> list[FindingRow]:
    checks = AuthenticityChecks(keyring)
    for raw in raws:
        checks.check(raw)
    return [finding_of("log", one) for one in checks]


def with_(*others: RawRecord) -> list[RawRecord]:
    there = {raw.offset: raw for raw in (*LOG, *others)}
    return [there[offset] for offset in sorted(there)]


def test_a_record_without_a_mac_is_a_warning_and_one_with_a_wrong_mac_an_error() -> None:
    assert of(LOG) == []
    bare, forged = of(with_(BARE, FORGED))
    assert (bare.code, bare.severity, bare.count) == ("record_not_signed", "warning", 1)
    assert (forged.code, forged.severity, forged.offset) == ("record_not_authentic", "error", 3)
    assert (bare.group, bare.instance, bare.client) == ("g", "a1", "A")
    assert bare.sentence == (
        "1 record of coordinating partition 2, the first at offset 2, has no MAC. Sender, as the "
        "record has it: client 'A', instance 'a1', group 'g'."
    )
    assert "has a MAC that is not its own, as of key k1." in forged.sentence
    assert [proof.offset for proof in forged.records] == [3]


def test_all_of_one_sender_and_reason_are_one_finding_with_the_first_and_the_last() -> None:
    plain = [attrs.evolve(raw, headers=raw.headers[:-1]) for raw in LOG * 3]
    [row] = of([attrs.evolve(raw, offset=n) for n, raw in enumerate(plain)])
    assert (row.count, row.offset, row.last_offset) == (len(plain), 0, len(plain) - 1)
    assert [proof.offset for proof in row.records] == [0, 1, 2, 3, 4, len(plain) - 1]
    theirs = [signed(raw, THEIRS) for raw in plain]
    assert [row.code for row in of([*theirs, FORGED])] == ["record_not_authentic"] * 2


def test_names_that_somebody_makes_up_do_not_fill_memory_nor_a_sentence() -> None:
    long = b"c" * 1_000_000
    many = [
        RawRecord(n % 2, n, n, b"ClaimingPartition/1/1/i%d/%s/g/t/0" % (n, long if n < 2 else b"c"))
        for n in range(SENDERS_MAX + 10)
    ]
    rows = of(many)
    assert len(rows) == SENDERS_MAX + 2
    assert sum(row.count for row in rows) == len(many)
    assert [(row.count, row.client) for row in rows[-2:]] == [(5, None)] * 2
    assert rows[-1].sentence.endswith("Sender, as the record has it: one of many.")
    assert max(len(row.sentence) for row in rows) < 300
    error = NotAuthentic("t", 0, 0, long.decode(), None, "no MAC")
    assert len(str(error)) < 300


@pytest.mark.parametrize("way", [*WAYS, "none"])
def test_the_findings_are_what_a_client_stops_at_that_requires_authentic_records(way: str) -> None:
    kind = TimestampType.LOG_APPEND_TIME
    plain = [attrs.evolve(raw, timestamp_type=kind) for raw in hostile.log(11, 200)]
    raws = [WAYS[way](raw) if way in WAYS else raw for raw in plain]
    since_ms = raws[100].timestamp_ms
    keyring = Keyring({"k1": KEY}, sign_with="k1", signed_since_ms=since_ms)
    client = AuthenticLog(keyring, "__marshal", b"g")
    stops = []
    for raw in raws:
        try:
            client.check([LikeClient(raw)])
        except NotAuthentic as error:
            stops.append(error.offset)
    found = [row for row in of(raws, keyring) if row.group == "g"]
    assert len(stops) == sum(row.count for row in found)
    assert {row.offset for row in found} <= set(stops)
    assert (stops == []) == (way == "valid")


class LikeClient(MockMessage):
    """Stamped by a broker."""

    def timestamp(self) -> tuple[int, int]:
        return 2, self.raw.timestamp_ms


# --- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "keys").write_text(keys_text(sign_with="k1"))
    return tmp_path / "keys"


def written(tmp_path: Path, raws: Sequence[RawRecord]) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{capture_line(raw)}\n" for raw in raws))
    return path


def findings(out: Path) -> dict[str, int]:
    summary = json.loads((out / "summary.json").read_text())
    return {one["code"]: one["findings"] for one in summary["findings"]}


def test_a_replay_with_keys_finds_what_one_without_finds_and_this(
    tmp_path: Path, keys: Path
) -> None:
    log = written(tmp_path, with_(BARE, FORGED))
    run([str(log)], out=tmp_path / "without", heartbeat_interval_s=4)
    run([str(log)], out=tmp_path / "with", heartbeat_interval_s=4, keyring=Keyring.from_file(keys))
    without = findings(tmp_path / "without")
    assert findings(tmp_path / "with") == {
        **without,
        "record_not_signed": 1,
        "record_not_authentic": 1,
    }
    changed = run(
        [str(log)],
        out=tmp_path / "other",
        heartbeat_interval_s=4,
        keyring=OURS,
        what_if=Change.parsed(["heartbeat_interval=8s"]),
    ).what_if
    assert changed is not None
    counts = {one.code: (one.before, one.after) for one in changed.findings}
    assert counts["record_not_signed"] == counts["record_not_authentic"] == (1, 1)
    page = (tmp_path / "with" / "report.html").read_text()
    assert "has a MAC that is not its own, as of key k1" in page


def test_the_commands_take_keys_from_a_file_or_from_the_environment(
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, fine = written(tmp_path, with_(FORGED)), tmp_path / "fine.jsonl"
    fine.write_text("".join(f"{capture_line(raw)}\n" for raw in LOG))
    out, sentence = tmp_path / "out", "not authentic: 1 record of coordinating partition 2, the"
    assert ends(partial(validate, log, 4.0, keys=keys)) == 1
    assert sentence in capsys.readouterr().out
    assert ends(partial(validate, fine, 4.0, keys=keys)) == 0
    assert f"{len(LOG)} records: every message is authentic\n" in capsys.readouterr().out
    assert ends(partial(validate, log, 4.0, keys=tmp_path / "gone")) == 2
    assert "gone: No such file" in capsys.readouterr().err
    assert ends(partial(validate, log, 4.0)) == 0, "without keys nothing is verified"
    monkeypatch.setenv("MARSHAL_KEYS_FILE", str(keys))
    assert ends(partial(validate, log, 4.0)) == 1
    assert sentence in capsys.readouterr().out
    assert ends(partial(replay, [str(log)], heartbeat_interval=4.0, out=str(out), quiet=True)) == 1
    assert findings(out)["record_not_authentic"] == 1


def ends(command: Callable[[], object]) -> int:
    with pytest.raises(typer.Exit) as ended:
        command()
    return ended.value.exit_code


def test_a_watch_reports_what_is_not_authentic_as_it_begins() -> None:
    kafka = Kafka()
    for raw in with_(BARE, FORGED):
        kafka.append(LOG_TOPIC, 0, raw.value, raw.headers)
    told: list[LiveEvent] = []

    class Sink:
        def emit(self, event: LiveEvent) -> None:
            told.append(event)

        def flush(self) -> None: ...

        def settle(self) -> None: ...

    options: dict[str, Any] = {"until_end": True, "sinks": (Sink(),), "keyring": OURS}
    judging = judging_of("fenced", 4.0, 60, None)
    watch(WatchOptions(kafka.settings(), LOG_TOPIC, judging, **options), lambda: False)
    rows = [(one.state, one.row) for one in told if isinstance(one.row, FindingRow)]
    found = [(state, row.code, row.offset) for state, row in rows if row.code.startswith("record_")]
    # Signed for partition 2, they lie on 0: each is a copy that is noticed.
    assert found[0] == ("begun", "record_not_authentic", 0)
    assert ("begun", "record_not_signed", 2) in found
    assert len(found) == 2


def test_a_command_writes_nothing_unsigned_into_a_group_that_signs() -> None:
    kafka = Kafka()
    kafka.append(LOG_TOPIC, 0, b"ClaimingPartition/1/1/i/c/h/t/0")
    kafka.append(LOG_TOPIC, 0, LOG[0].value, LOG[0].headers)
    for keyring, refused in ((None, True), (Keyring({"k1": KEY}), True), (OURS, False)):
        with View(attrs.evolve(kafka.settings(), keyring=keyring), LOG_TOPIC) as view:
            view.read()
            check_signing(view, "h")
            assert (ends_or_none(partial(check_signing, view, "g")) == 2) is refused


def ends_or_none(command: Callable[[], object]) -> int | None:
    try:
        command()
    except typer.Exit as ended:
        return ended.exit_code
    return None


def test_the_doctor_says_which_clients_do_not_sign() -> None:
    for keyring, expected in ((OURS, ["error", "warning"]), (None, [])):
        sample = TopicSample(1, keyring=keyring)
        for raw in with_(BARE, FORGED):
            sample.add(raw)
        said = [one for one in checked(sample) if one.check == "authentication"]
        assert [one.severity.value for one in said] == expected
        for one in said:
            assert one.found.startswith(f"1 of {len(LOG)} records carry")
            assert one.found.endswith(": A")


def test_a_watch_on_spark_gets_no_keys() -> None:
    from kafka_marshal.replay.live.on_spark import watch_on_spark

    judging = judging_of("fenced", None, 60, None)
    watching = WatchOptions(Kafka().settings(), LOG_TOPIC, judging, keyring=OURS)
    with pytest.raises(InvalidOption, match="tasks of Spark get no keys"):
        watch_on_spark(watching, lambda: True)
