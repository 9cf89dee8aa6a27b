"""The fencing token in a record's headers: who wrote it, and under which epoch.

A reader remembers the newest tenure of each name, and drops later records of older tenures. This
module does not know the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Self, TypeAlias

from attrs import field, frozen

from kafka_marshal.client.message import Claim, Message
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.validators import is_text
from kafka_marshal.errors import InvalidOption

HEADER: Final = "marshal-fence"
"""The header's name. Its value is the tenure in decimal, a space, and the name."""
_VALUE: Final = re.compile(rb"(\d{1,19}) (.+)", re.DOTALL)


@frozen
class Fence:
    """The right to write under a name, until another writer has a newer one.

    >>> Fence("billing/orders/3", 17).header
    ('marshal-fence', b'17 billing/orders/3')
    >>> Fence.in_headers([("marshal-fence", b"17 billing/orders/3")])
    Fence(name='billing/orders/3', tenure=17)
    """

    name: str = field()
    """What is owned, such as `GROUP/TOPIC/PARTITION`. Tenures of different names cannot be
    compared."""
    tenure: int = field()
    """Grows with every new owner: an epoch, or the id of a range."""

    @name.validator
    def _has_a_name(self, _: object, name: object) -> None:
        if not isinstance(name, str) or not name or not is_text(name):
            raise InvalidOption(f"the name of a fence is a string, not {name!r}")

    @tenure.validator
    def _grows(self, _: object, tenure: object) -> None:
        if not isinstance(tenure, int) or not 0 <= tenure < 2**63:
            raise InvalidOption(f"the tenure of a fence must be 0 or more, not {tenure!r}")

    @classmethod
    def of(cls, token: FencingToken) -> Self:
        """The fence of a claim, of a message, or of a name and a tenure.

        For a whole partition the name is `GROUP/TOPIC/PARTITION`, and the tenure is the epoch. For
        a message of a range the name ends with its offset, and the tenure is the id of the range.
        Several ranges of a partition are held at the same time, so only a single offset has one
        owner.

        Raises:
            InvalidOption: it is a claim of a range, or not a token.
        """
        if isinstance(token, Fence):
            return cls(token.name, token.tenure)
        if isinstance(token, tuple) and len(token) == 2:
            return cls(*token)
        if not isinstance(token, Claim | Message):
            raise InvalidOption(f"fence is a message, a claim or (name, tenure), not {token!r}")
        claim = token if isinstance(token, Claim) else token.claim
        name = f"{claim.key.group}/{claim.topic}/{claim.partition}"
        if claim.range is None:
            return cls(name, claim.epoch)
        if isinstance(token, Claim):
            raise InvalidOption(
                f"fence: {name} is shared, so several consumers own parts of it; give the message"
            )
        return cls(f"{name}/{token.offset}", claim.range.id)

    @classmethod
    def in_headers(cls, headers: Iterable[tuple[str, str | bytes | None]]) -> Self | None:
        """The fence in a record's headers; the last one if there are several, or None.

        Raises:
            MalformedRecord: the header's value is not a tenure and a name.
        """
        values = [value for name, value in headers if name == HEADER]
        if not values:
            return None
        value = values[-1].encode() if isinstance(values[-1], str) else values[-1]
        found = None if value is None else _VALUE.fullmatch(value)
        if found is None or int(found[1]) >= 2**63:
            raise MalformedRecord(f"header {HEADER}", f"{value!r:.80} is not 'TENURE NAME'")
        return cls(found[2].decode(errors="replace"), int(found[1]))

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that carries it."""
        return HEADER, f"{self.tenure} {self.name}".encode()


FencingToken: TypeAlias = Fence | Claim | Message | tuple[str, int]
"""The arguments of `Fence.of`."""
