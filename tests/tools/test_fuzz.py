"""Hostile inputs that were found once are played, and what watches over a target notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tools.fuzz import corpus
from tools.fuzz.engine import Fuzzer, checked, minimal
from tools.fuzz.oracle import Finding, check_text
from tools.fuzz.supervisor import fuzz
from tools.fuzz.targets import frames, messages, states
from tools.fuzz.targets.every import EVERY
from tools.fuzz.targets.pages import check_page
from tools.fuzz.targets.planted import PLANTED

from kafka_marshal import capture, codec, markup
from kafka_marshal.capture import UnreadableSource
from kafka_marshal.cli import common
from kafka_marshal.client.connect import settings
from kafka_marshal.client.coordinate.snapshot import SnapshotRefused
from kafka_marshal.core.messages import NO_HEADERS
from kafka_marshal.errors import InvalidOption
from kafka_marshal.kernel import columns
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.fold.partition_fold import PartitionFold
from kafka_marshal.replay.model.published import MalformedRow
from kafka_marshal.replay.model.rows import Row
from kafka_marshal.replay.sources import console
from kafka_marshal.replay.state import checkpoint


def inputs(name: str) -> list[bytes]:
    return [*EVERY[name].seeds(), *corpus.kept(name)]


@pytest.mark.parametrize("name", EVERY)
def test_a_hostile_input_is_read_or_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    for data in inputs(name):
        assert checked(EVERY[name], data, tmp_path) is None, data


def test_corpora_are_small_and_of_targets() -> None:
    files = list(corpus.FOLDER.iterdir())
    assert {path.stem for path in files} == set(EVERY)
    assert sum(path.stat().st_size for path in files) < 300_000


# --- what watches over a target -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hang", "crash"])
def test_what_ends_a_process_is_found_with_its_input(name: str, tmp_path: Path) -> None:
    [(finding, data)] = fuzz(name, tmp_path, 1, 0, 0, longest_s=3).findings
    assert (finding.kind, data) == (name, b"bad")


@pytest.mark.parametrize("name", ["memory", "traceback"])
def test_what_takes_too_much_or_raises_is_found_with_its_input(name: str, tmp_path: Path) -> None:
    outcome = fuzz(name, tmp_path, 1, 0, 0)
    [(finding, data)] = outcome.findings
    assert (finding.kind, data) == (name, b"bad")
    assert outcome.counts.inputs == 2


def test_a_seed_gives_the_same_inputs_again(tmp_path: Path) -> None:
    def given(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        Fuzzer(
            EVERY["decode"],
            tmp_path,
            seed,
            on_finding=lambda finding, data: None,
            on_input=lambda number, data: seen.append(data),
        ).run((), 0, 10)
        return seen

    assert given(1) == given(1)
    assert given(1) != given(2)


def test_an_input_that_goes_a_new_way_is_kept_and_no_other(tmp_path: Path) -> None:
    line = b"Heartbeat/1/5/i/c/g/t/0/%d"
    chosen = minimal(
        EVERY["decode"], [line % number for number in range(5)] + [b"x\tmarshal-\xff=1"], tmp_path
    )
    assert len(chosen) <= 1


# --- each oracle is seen to find ------------------------------------------------------------------


ODD = {
    "console": b"Partition:2147483648\tOffset:1\tx\n",
    "checkpoint": next(states.manifests()).replace(b"partition-2.1", b"partition-3.1"),
}


def first_found(name: str, folder: Path) -> Finding | None:
    given = [*inputs(name), *filter(None, [ODD.get(name)])]
    found = (checked(EVERY[name], data, folder) for data in given)
    return next((finding for finding in found if finding), None)


PLANTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = {
    "the decoder lets an error out": (
        "decode",
        lambda patch: patch.setattr(
            messages,
            "decode",
            lambda value: codec.decode(value).offset,  # type: ignore[union-attr]
        ),
        "traceback",
    ),
    "a frame's answer lets an error out": (
        "frames",
        lambda patch: patch.setattr(frames, "encode_answer", lambda answer: b""),
        "differs",
    ),
    "headers are read with signs": (
        "kernel",
        lambda patch: patch.setattr(columns, "decode_headers", lambda pairs: NO_HEADERS),
        "differs",
    ),
    "what a file holds is printed as it is": (
        "console",
        lambda patch: patch.setattr(capture, "printable", lambda text: text),
        "text",
    ),
    "any number is a partition": (
        "console",
        lambda patch: patch.setattr(console, "PARTITION_MAX", 2**62),
        "range",
    ),
    "a capture is split where Python splits text": (
        "capture",
        lambda patch: patch.setattr(capture, "record_of", _next_offset),
        "differs",
    ),
    "a checkpoint is believed": (
        "checkpoint",
        lambda patch: patch.setattr(checkpoint, "_is_state_of", lambda number, file: True),
        "range",
    ),
    "markup is not escaped": (
        "report",
        lambda patch: patch.setattr(markup, "escape", lambda text: markup.Html(text)),
        "page",
    ),
    "a record that is no message is not counted": (
        "garbage",
        lambda patch: patch.setattr(PartitionFold, "_emit", _no_malformed_row),
        "differs",
    ),
}


_EMIT = PartitionFold._emit


def _no_malformed_row(fold: PartitionFold, row: Row, rules: str | None = None) -> None:
    if not isinstance(row, MalformedRow):
        _EMIT(fold, row, rules)


def _next_offset(fields: dict[str, object], where: str) -> capture.RawRecord:
    return capture.RawRecord(0, 1, 2, b"")


@pytest.mark.parametrize("plant", PLANTS)
def test_each_oracle_finds_a_mistake(
    plant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, put, kind = PLANTS[plant]
    with monkeypatch.context() as patch:
        put(patch)
        finding = first_found(name, tmp_path)
    assert finding is not None
    assert finding.kind == kind, finding


SOURCES = ("packed", "kcat", "dump_log", "segment", "connect_json", "connect_avro", "parquet")
NAMELESS: dict[str, type[Exception]] = {
    **dict.fromkeys((*SOURCES, "connect_parquet", "validate"), UnreadableSource),
    "state": CheckpointRefused,
    "snapshot": SnapshotRefused,
}
"""Targets, and the errors by which they refuse."""


@pytest.mark.parametrize("name", NAMELESS)
def test_a_refusal_that_names_nothing_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [b"Offset: x", b"{", EVERY[name].repaired(next(iter(EVERY[name].seeds()))[:-9])]
    assert [checked(EVERY[name], data, tmp_path) for data in broken] == [None] * 3
    monkeypatch.setattr(NAMELESS[name], "__str__", lambda error: "damaged")
    found = [checked(EVERY[name], data, tmp_path) for data in broken]
    assert "text" in {finding.kind for finding in found if finding}


def test_an_argument_that_ends_in_a_traceback_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(text: str) -> int:
        raise KeyError(text)

    monkeypatch.setattr(common, "milliseconds_of", planted)
    finding = first_found("arguments", tmp_path)
    assert finding is not None
    assert finding.kind == "traceback"


def test_a_secret_in_a_message_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def showing(text: str, where: str) -> tuple[str, str]:
        raise InvalidOption(f"{where}: {text} is no setting")

    monkeypatch.setattr(settings, "_setting", showing)
    data = b"sasl.password=secret-word\n"
    finding = checked(EVERY["settings"], data, tmp_path)
    assert finding is not None
    assert finding.kind == "secret"


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", "does not name"), ("f: ", "no reason"), ("f: a\nb", "printable"), ("f" * 2000, "char")],
)
def test_an_error_that_does_not_serve_is_found(text: str, kind: str) -> None:
    with pytest.raises(Finding, match=kind):
        check_text(text, "f" if kind != "char" else "")


@pytest.mark.parametrize(
    "body",
    [
        "<img src=x>",
        "<p onclick=x></p>",
        "<a href='javascript:x'></a>",
        "<!-- -->",
        "<p>",
        "</p>",
        "<p id=a id=b></p>",
        "<p>\x1b</p>",
        "<script>alert(1)</script>",
    ],
)
def test_an_element_that_came_from_a_record_is_found(body: str) -> None:
    check_page("<html><p>x</p><script>ours</script></html>", frozenset({"ours"}))
    with pytest.raises(Finding, match="page"):
        check_page(f"<html>{body}</html>", frozenset({"ours"}))


def test_every_target_and_plant_has_a_name_of_its_own() -> None:
    assert not set(EVERY) & set(PLANTED)
