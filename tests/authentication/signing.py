"""Keys for tests, and records that are signed with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import RawRecord, TimestampType

KEY: Final = b"0123456789abcdef0123456789abcdef"
OTHER_KEY: Final = b"fedcba9876543210fedcba9876543210"
OURS: Final = Keyring({"k1": KEY, "k2": OTHER_KEY}, sign_with="k1")
THEIRS: Final = Keyring({"k9": OTHER_KEY}, sign_with="k9")
"""Somebody else's."""


def keys_text(**options: str) -> str:
    """What a file of these keys holds."""
    lines = [f"key.k1 = {KEY.hex()}", f"key.k2 = {OTHER_KEY.hex()}"]
    return "\n".join([*lines, *(f"{k.replace('_', '-')} = {v}" for k, v in options.items())]) + "\n"


def signed(raw: RawRecord, keyring: Keyring = OURS) -> RawRecord:
    """The record as its sender would have signed it."""
    header = keyring.header(raw.partition, raw.value, raw.headers)
    assert header is not None
    return attrs.evolve(raw, headers=(*raw.headers, header))


def log(values: Iterable[bytes], **headers: bytes) -> list[RawRecord]:
    """Records of partition 0, one a second, stamped by the broker; all with these headers."""
    pairs = tuple((f"marshal-{name}", value) for name, value in headers.items())
    kind = TimestampType.LOG_APPEND_TIME
    return [RawRecord(0, n, 1000 * n, value, pairs, kind) for n, value in enumerate(values)]
