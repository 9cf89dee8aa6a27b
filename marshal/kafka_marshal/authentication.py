"""Authentication of records: a MAC in its own header, made with keys that a fleet shares.

No verdict depends on the MAC: a reader without a key folds the same (docs/concepts/protocol.md,
"Authentication"). This module knows keys, bytes and the header. It knows neither the effect of a
record, nor what follows if one is not authentic.
"""

from __future__ import annotations

import datetime as dt
import enum
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Final, NoReturn, Self

from attrs import define, field, frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core import wire
from kafka_marshal.errors import SHOWN_MAX, InvalidOption

KEYS_FILE_VARIABLE: Final = "MARSHAL_KEYS_FILE"
"""The environment variable that names a file of keys."""
KEYS_VARIABLE: Final = "MARSHAL_KEYS"
"""The environment variable that holds the contents of such a file."""
KEY_BYTES_MIN: Final = 32
"""The minimum length of a key: that of a SHA-256 digest."""
SENDERS_MAX: Final = 1_000
"""How many kinds to distinguish at most, since a writer may invent any number of names."""
PROOFS_MAX: Final = 5
"""How many records to keep of each kind at most."""
_CONTEXT: Final = b"kafka-marshal-hmac 1"
"""The prefix of what is signed, so that a MAC for another purpose or format never matches."""
_NOTHING: Final = b"\xff" * 8
"""The length of a null value, which differs from an empty one."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAC: Final = re.compile(rb"([A-Za-z0-9._-]{1,64}):([0-9a-f]{64})")
_KEY: Final = re.compile(r"([0-9a-fA-F]{2})+")


class Authenticity(enum.Enum):
    """Whether a record is authentic. The value describes its MAC."""

    AUTHENTIC = "a MAC of its own"
    NOT_SIGNED = "no MAC"
    UNREADABLE = "a MAC that cannot be read"
    """Or more than one."""
    UNKNOWN_KEY = "a MAC of a key that is not known here"
    WRONG = "a MAC that is not its own"
    """Its value, a header or its coordinating partition differs from what was signed."""


@frozen
class Verification:
    """The result of verifying one record."""

    authenticity: Authenticity
    key_id: str | None = None
    """The key that the record names; None if it names no readable key."""


class Keyring:
    """The keys of one log: several that verify, and at most one of them that signs.

    It cannot be pickled or copied, and its `repr` shows only the names of keys. A key belongs to
    one coordination topic of one cluster, because a MAC covers neither name.

    >>> keyring = Keyring({"2026a": bytes(32)}, sign_with="2026a")
    >>> keyring
    Keyring(2026a; signs with 2026a)
    """

    __slots__ = ("_keys", "sign_with", "signed_since_ms")

    def __init__(
        self,
        keys: Mapping[str, bytes],
        *,
        sign_with: str | None = None,
        signed_since_ms: int | None = None,
    ) -> None:
        """Take these keys. A name has up to 64 letters, digits, dots, dashes and underscores.

        Args:
            keys: by name, each of 32 bytes or more.
            sign_with: the name of the key that signs; None: records are verified, but not signed.
            signed_since_ms: the time since which all members of the fleet sign, Unix milliseconds.
                Records that a broker stamped before may be unsigned; None: no record may.

        Raises:
            InvalidOption: there is no key, or a key is too short or has an invalid name.
        """
        if not keys:
            raise InvalidOption("keys: there is none")
        for key_id, key in keys.items():
            if not _ID.fullmatch(key_id):
                raise InvalidOption(
                    "keys: a name is up to 64 letters, digits, dots, dashes and underscores"
                )
            if not isinstance(key, bytes) or len(key) < KEY_BYTES_MIN:  # type: ignore[redundant-expr]
                raise InvalidOption(f"key {key_id}: it has fewer than {KEY_BYTES_MIN} bytes")
        if sign_with is not None and sign_with not in keys:
            raise InvalidOption("sign-with: there is no key of that name")
        self._keys: Final = dict(keys)
        self.sign_with: Final = sign_with
        self.signed_since_ms: Final = signed_since_ms

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read keys from lines: `key.NAME = HEX`, `sign-with = NAME`, `signed-since = TIME`.

        A time is ISO 8601; without a zone it is UTC. Lines that begin with `#` are comments.

        Raises:
            InvalidOption: the file cannot be read, or a line is none of these. The message contains
                nothing of a line but its number.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InvalidOption(f"keys {path}: {reason}") from None
        return cls._parsed(text, f"keys {path}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the keys that `MARSHAL_KEYS_FILE` names or `MARSHAL_KEYS` holds; None if unset.

        Raises:
            InvalidOption: both are set, or see `from_file`.
        """
        file, text = environment.get(KEYS_FILE_VARIABLE), environment.get(KEYS_VARIABLE)
        if file and text:
            raise InvalidOption(f"{KEYS_FILE_VARIABLE} and {KEYS_VARIABLE} are both set")
        if file:
            return cls.from_file(file)
        return cls._parsed(text, KEYS_VARIABLE) if text else None

    @classmethod
    def _parsed(cls, text: str, called: str) -> Self:
        keys: dict[str, bytes] = {}
        options: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            where = f"{called}:{number}"
            name, _, value = (part.strip() for part in line.partition("="))
            key_id = name.removeprefix("key.")
            if key_id in keys or name in options:
                raise InvalidOption(f"{where}: a line before says another value")
            if name in ("sign-with", "signed-since"):
                options[name] = value
            elif key_id != name and _ID.fullmatch(key_id) and _KEY.fullmatch(value):
                keys[key_id] = bytes.fromhex(value)
            else:
                raise InvalidOption(
                    f"{where}: a line is key.NAME = HEX, sign-with = NAME or signed-since = TIME"
                )
        since = options.get("signed-since")
        try:
            return cls(
                keys,
                sign_with=options.get("sign-with"),
                signed_since_ms=None if since is None else _unix_ms(since),
            )
        except (InvalidOption, ValueError) as error:
            why = error if isinstance(error, InvalidOption) else "signed-since is no ISO 8601 time"
            raise InvalidOption(f"{called}: {why}") from None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The names of all keys, sorted."""
        return tuple(sorted(self._keys))

    def header(
        self, partition: int, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> tuple[str, bytes] | None:
        """The header that signs a record; None if no key signs."""
        key_id = self.sign_with
        if key_id is None:
            return None
        mac = _mac(self._keys[key_id], signed_bytes(key_id, partition, value, headers))
        return wire.MAC_HEADER, b"%s:%s" % (key_id.encode(), mac.hex().encode())

    def verify(self, raw: RawRecord) -> Verification:
        """Whether the record is authentic. Never raises, whatever the bytes."""
        stated = [value for name, value in raw.headers if name == wire.MAC_HEADER]
        if not stated:
            return Verification(Authenticity.NOT_SIGNED)
        read = _MAC.fullmatch(stated[0] or b"") if len(stated) == 1 else None
        if read is None:
            return Verification(Authenticity.UNREADABLE)
        key_id = read[1].decode()
        key = self._keys.get(key_id)
        if key is None:
            return Verification(Authenticity.UNKNOWN_KEY, key_id)
        mac = _mac(key, signed_bytes(key_id, raw.partition, raw.value, raw.headers))
        if hmac.compare_digest(mac, bytes.fromhex(read[2].decode())):
            return Verification(Authenticity.AUTHENTIC, key_id)
        return Verification(Authenticity.WRONG, key_id)

    def complaint(self, raw: RawRecord) -> Verification | None:
        """What is wrong with a record that must be authentic; None if it is, or need not be.

        A record that a broker stamped before `signed_since_ms` need not be authentic. A producer's
        timestamp does not count, since its sender chose it.
        """
        since_ms = self.signed_since_ms
        appended = raw.timestamp_type is not TimestampType.CREATE_TIME
        if since_ms is not None and appended and 0 <= raw.timestamp_ms < since_ms:
            return None
        found = self.verify(raw)
        return None if found.authenticity is Authenticity.AUTHENTIC else found

    def __repr__(self) -> str:
        signs = "does not sign" if self.sign_with is None else f"signs with {self.sign_with}"
        return f"Keyring({', '.join(self.key_ids)}; {signs})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keyring is not pickled: keys stay in the process that read them")


@define
class UnauthenticRecords:
    """Records of one sender that must be authentic and are not, all for the same reason."""

    partition: int
    """The coordinating partition."""
    group: str | None
    """As the record names it. None, like instance and client, for all senders beyond `SENDERS_MAX`.
    """
    instance: str | None
    client: str | None
    verification: Verification
    first: RawRecord
    last: RawRecord
    count: int = 0
    proofs: list[RawRecord] = field(factory=list)
    """The first few records."""

    @property
    def sentence(self) -> str:
        """A description for people."""
        records, have = ("record", "has") if self.count == 1 else ("records", "have")
        key_id = self.verification.key_id
        key = "" if key_id is None else f", as of key {key_id}"
        names = {"client": self.client, "instance": self.instance, "group": self.group}
        sender = ", ".join(
            f"{what} {name[:SHOWN_MAX]!r}" for what, name in names.items() if name is not None
        )
        return (
            f"{self.count:,} {records} of coordinating partition {self.partition}, the first at "
            f"offset {self.first.offset}, {have} {self.verification.authenticity.value}{key}. "
            f"Sender, as the record has it: {sender or 'one of many'}."
        )


class AuthenticityChecks:
    """Verifies every record of a log, and collects those at which a strict client would stop."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._found: dict[tuple[object, ...], UnauthenticRecords] = {}

    def check(self, raw: RawRecord) -> UnauthenticRecords | None:
        """Verify one record; return its kind if it is the first one of that kind.

        Records without a message are skipped, as in a fold.
        """
        complaint = self._keyring.complaint(raw)
        if complaint is None:
            return None
        try:
            message = raw.decoded().message
        except MalformedRecord:
            return None
        sender = message.group_id, message.instance_id, message.client_id
        name: tuple[object, ...] = (raw.partition, *sender, complaint)
        found = self._found.get(name)
        if found is None and len(self._found) >= SENDERS_MAX:
            complaint = Verification(complaint.authenticity)
            name = (raw.partition, complaint.authenticity)
            found = self._found.get(name)
            return self._add(found, name, raw, (None, None, None), complaint)
        return self._add(found, name, raw, sender, complaint)

    def _add(
        self,
        found: UnauthenticRecords | None,
        name: tuple[object, ...],
        raw: RawRecord,
        sender: tuple[str | None, str | None, str | None],
        complaint: Verification,
    ) -> UnauthenticRecords | None:
        begins = found is None
        if found is None:
            found = self._found[name] = UnauthenticRecords(
                raw.partition, *sender, complaint, raw, raw
            )
        found.count, found.last = found.count + 1, raw
        if len(found.proofs) < PROOFS_MAX:
            found.proofs.append(raw)
        return found if begins else None

    def __iter__(self) -> Iterator[UnauthenticRecords]:
        """All kinds of records that are not authentic, in order of their first record."""
        return iter(self._found.values())


def signed_bytes(
    key_id: str, partition: int, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> bytes:
    """The bytes that a MAC covers; no two records share them.

    Each part is preceded by its length. The value is as stored in the log. All `marshal-` headers
    are covered, sorted by name; those with the same name keep their order, since the fold uses the
    last.
    """
    covered = [each for each in headers if each[0].startswith(wire.HEADER_PREFIX)]
    parts = [_CONTEXT, key_id.encode(), b"%d" % partition, value]
    for name, of_header in sorted(covered, key=itemgetter(0)):
        parts += (name.encode("utf-8", "surrogatepass"), of_header)
    return b"".join(
        _NOTHING if part is None else len(part).to_bytes(8, "big") + part for part in parts
    )


def _mac(key: bytes, covered: bytes) -> bytes:
    return hmac.digest(key, covered, "sha256")


def _unix_ms(time: str) -> int:
    at = dt.datetime.fromisoformat(time)
    return int((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)
