"""How to connect: librdkafka's settings, from a file and from options, and never shown.

Every setting of librdkafka passes through unchanged; this room knows none but the few that a
reader must decide itself. It knows which ones hold secrets, so that no message can hold one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from kafka_marshal.runtime.environment import REAL, Environment
from kafka_marshal.runtime.errors import BrokerFailed, InvalidOption

_LINE: Final = re.compile(r"\s*([A-Za-z][\w.\-]*)\s*=\s*(.*?)\s*")
_SECRET: Final = re.compile(r".*(password|secret|token|pem|jaas|config).*")
_PLAIN: Final = re.compile(
    r"bootstrap\.servers|client\.id|group\.id|security\.protocol|sasl\.mechanisms?|debug|"
    r".*\.(ms|bytes|location|enable)"
)
_HARMLESS: Final = re.compile(r"\d+|true|false|")


_ALIASES: Final = {"request.required.acks": "acks", "auto.commit.enable": "enable.auto.commit"}
"""Names of librdkafka for the same setting."""


def _plain(value: str) -> str:
    """The same for values that mean the same."""
    value = value.strip().lower()
    return "all" if value == "-1" else value


def may_be_secret(name: str, value: str) -> bool:
    """Whether the value must not be shown: also that of a setting whose name nobody knows."""
    if _SECRET.fullmatch(name):
        return bool(value)
    return not _PLAIN.fullmatch(name) and not _HARMLESS.fullmatch(value)


TokenCallback: TypeAlias = Callable[[str | None], tuple[str, float]]
"""Takes `sasl.oauthbearer.config`; gives a token and when it expires, in unix seconds."""


@frozen
class Settings:
    """Settings of librdkafka. Printing them shows their names."""

    values: Mapping[str, str] = field(repr=lambda values: ", ".join(sorted(values)))
    oauth_cb: TokenCallback | None = None
    """Gets a token for SASL/OAUTHBEARER; confluent-kafka's `oauth_cb`."""
    environment: Environment = field(default=REAL, repr=False, eq=False)
    """What the client is made of beneath the settings; another one in tests."""

    _overridden: dict[str, str] = field(factory=dict, repr=False, eq=False, init=False)

    @property
    def overridden(self) -> dict[str, str]:
        """Settings that a client was not made with as they are here, and what it has instead."""
        return dict(sorted(self._overridden.items()))

    @property
    def bootstrap(self) -> str:
        """Where the cluster is."""
        return self.values["bootstrap.servers"]

    def for_client(self, **decided: str) -> dict[str, Any]:
        """What a client is made with; `decided` wins, its `_` stand for `.`.

        Raises:
            BrokerFailed: there is no token for it.
        """
        wins = {name.replace("_", "."): value for name, value in decided.items()}
        self._overridden.update(
            (name, wins[_ALIASES.get(name, name)])
            for name, value in self.values.items()
            if _plain(wins.get(_ALIASES.get(name, name), value)) != _plain(value)
        )
        made_of = {**self.values, **wins}
        return made_of if self.oauth_cb is None else {**made_of, "oauth_cb": self._tokens()}

    def _tokens(self) -> TokenCallback:
        """The callback, which was asked for the first token by us.

        A client whose callback raises while it is made waits for ten seconds, and then raises
        something that no `except` but a bare one catches (confluent-kafka 2.16).
        """
        ask = self.oauth_cb
        assert ask is not None
        try:
            first = [ask(self.values.get("sasl.oauthbearer.config"))]
        except Exception as error:
            raise BrokerFailed(
                self.without_secrets(
                    f"{self.values.get('bootstrap.servers')}: oauth_cb got no token: "
                    f"{type(error).__name__}: {error}"
                )
            ) from error
        return lambda config: first.pop() if first else ask(config)

    def telling(self, to: Callable[[str], None] | None) -> dict[str, str | Callable[[str], None]]:
        """What makes a client say how it fares, every ten seconds unless a setting says else."""
        if to is None:
            return {}
        every_ms = self.values.get("statistics.interval.ms", "10000")
        return {"statistics.interval.ms": every_ms, "stats_cb": to}

    def without_secrets(self, text: str) -> str:
        """The text with every value taken out that may be a secret."""
        for name, value in self.values.items():
            if may_be_secret(name, value):
                text = text.replace(value, "***")
        return text


def settings_of(
    bootstrap: str | None, file: Path | None = None, options: Sequence[str] = ()
) -> Settings:
    """Settings of a properties file, then `key=value` options, then the bootstrap address.

    Raises:
        InvalidOption: the file cannot be read, a line or an option is no `key=value`, or nothing
            says where the cluster is. No message holds a value.
    """
    values: dict[str, str] = {}
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InvalidOption(f"-F {file}: {reason}") from None
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith(("#", "!")):
                values.update([_setting(line, f"-F {file}:{number}")])
    for option in options:
        values.update([_setting(option, "-X")])
    if bootstrap:
        values["bootstrap.servers"] = bootstrap
    if not values.get("bootstrap.servers"):
        raise InvalidOption("--bootstrap HOST:PORT, or bootstrap.servers in -F, is needed")
    return Settings(values)


def _setting(text: str, where: str) -> tuple[str, str]:
    found = _LINE.fullmatch(text)
    if found is None:
        raise InvalidOption(f"{where}: a setting is written key=value")
    return found[1], found[2]
