"""The keys of a simulated fleet: what an operator has put into everybody's file by now."""

from __future__ import annotations

from typing import Final

from attrs import define

from kafka_marshal.authentication import Keyring

KEPT: Final = 2
"""How many keys verify after a rotation."""


@define
class Keys:
    """The newest keyring, which a process takes when it starts."""

    newest: int = 0
    """The key that was made last."""
    signs: int = 0
    """The key that signs."""
    since_ms: int | None = None
    """What a broker stamped before need not be authentic."""
    changed: int = 0
    """How often the file was changed."""

    def keyring(self) -> Keyring:
        """As the file says it now."""
        oldest = max(0, self.newest - KEPT)
        keys = {f"k{each}": key(each) for each in range(oldest, self.newest + 1)}
        return Keyring(keys, sign_with=f"k{self.signs}", signed_since_ms=self.since_ms)


def key(number: int) -> bytes:
    """A key by its number."""
    return number.to_bytes(32, "big")
