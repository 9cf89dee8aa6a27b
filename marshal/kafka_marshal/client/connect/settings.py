"""Connection settings for librdkafka, from a file and from options. They are never printed.

Every setting of librdkafka is passed on unchanged; this module knows only the few that a reader
must set itself. It also knows which ones hold secrets, so that no message contains one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.environment import REAL, Environment
from kafka_marshal.core.validators import is_text
from kafka_marshal.errors import BrokerFailed, InvalidOption, in_words

_LINE: Final = re.compile(r"\s*([A-Za-z][\w.\-]*)\s*=\s*(.*?)\s*")
_SECRET: Final = re.compile(r".*(password|secret|token|pem|jaas|config).*")
_PLAIN: Final = re.compile(
    r"bootstrap\.servers|client\.id|group\.id|security\.protocol|sasl\.mechanisms?|debug|"
    r".*\.(ms|bytes|location|enable)"
)
_HARMLESS: Final = re.compile(r"\d+|true|false|")


APPENDS_ONCE: Final = {"enable_idempotence": "true", "acks": "all"}
"""Settings of a producer whose records must be appended once, and in order."""
ONE_AT_A_TIME: Final = {"max_in_flight_requests_per_connection": "1"}
"""Additional settings, if its topic may be new.

A broker that has only just heard of a topic may refuse the first request, and accept the second as
the beginning of the sequence. It then takes the first, when sent again, for a duplicate: the
records are lost, and librdkafka reports them as delivered, without an offset.
"""
TOPIC_BYTES_MIN: Final = 16_384
"""The smallest `max.message.bytes` allowed for a topic of ours. A message of the protocol is a
line of ids: it is smaller, even with long names and headers. A heartbeat of a shared claim may be
larger."""
SHARED_TOPIC_BYTES_MIN: Final = 65_536
"""The smallest `max.message.bytes` that suffices for heartbeats of shared claims. Such a heartbeat
carries a checkpoint, which takes some 50,000 bytes where 512 instances have the most ranges that
the protocol allows, at the highest offsets."""
_ALIASES: Final = {"request.required.acks": "acks", "auto.commit.enable": "enable.auto.commit"}
"""Different names of librdkafka for the same setting."""


def _plain(value: str) -> str:
    """The value in one canonical form."""
    value = value.strip().lower()
    return "all" if value == "-1" else value


def may_be_secret(name: str, value: str) -> bool:
    """Whether the value must not be shown: also true for settings with an unknown name."""
    if _SECRET.fullmatch(name):
        return bool(value)
    return not _PLAIN.fullmatch(name) and not _HARMLESS.fullmatch(value)


_NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})

TokenCallback: TypeAlias = Callable[[str | None], tuple[str, float]]
"""Takes `sasl.oauthbearer.config`; returns a token and when it expires, in unix seconds."""


def is_name(given: object) -> bool:
    r"""Whether Kafka's client can take it: of other text it cuts a part off, or it crashes.

    >>> [is_name(given) for given in ("orders", "or\0ders", "caf\udce9", None)]
    [True, False, False, False]
    """
    return isinstance(given, str) and "\0" not in given and is_text(given)


def refuse_no_names(**names: object) -> None:
    """Refuse what cannot stand in a message of the protocol.

    Raises:
        InvalidOption: one of these is no name; the message says which.
    """
    for name, text in names.items():
        if not is_name(text) or not text or "/" in str(text):
            raise InvalidOption(f"{name} must be a name without '/', not {text!r}")


def _as_text(given: Mapping[str, Any]) -> dict[str, str]:
    """Settings as text: a program may give numbers and booleans, as to confluent-kafka."""
    return {name: _value(name, value) for name, value in given.items()}


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if is_name(name) and is_name(value):
        return str(value)
    kind = "with lone surrogates or NUL" if isinstance(value, str) else f"of {type(value)}"
    raise InvalidOption(f"settings: {name!r} is text, a number or a boolean, not one {kind}")


@frozen
class Settings:
    """Settings of librdkafka. Their `repr` shows only the names."""

    values: Mapping[str, str] = field(
        converter=_as_text,
        repr=lambda values: ", ".join(sorted(values)),
    )
    oauth_cb: TokenCallback | None = None
    """Returns a token for SASL/OAUTHBEARER; confluent-kafka's `oauth_cb`."""
    environment: Environment = field(default=REAL, repr=False, eq=False)
    """Kafka's clients, clocks and threads; another environment in tests."""
    keyring: Keyring | None = field(default=None, repr=False, eq=False)
    """Signs records for a coordination topic; None: they are not signed."""

    _overridden: dict[str, str] = field(factory=dict, repr=False, eq=False, init=False)

    @property
    def overridden(self) -> dict[str, str]:
        """Settings that a client got with other values than here, and those values."""
        return dict(sorted(self._overridden.items()))

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers."""
        return self.values["bootstrap.servers"]

    def for_client(self, **decided: str) -> dict[str, Any]:
        """The settings of a client; `decided` wins, and its `_` stand for `.`.

        Raises:
            InvalidOption: `group.id` is empty; it aborts the process (confluent-kafka 2.16).
            BrokerFailed: there is no token for it.
        """
        wins = {name.replace("_", "."): value for name, value in decided.items()}
        self._overridden.update(
            (name, wins[_ALIASES.get(name, name)])
            for name, value in self.values.items()
            if _plain(wins.get(_ALIASES.get(name, name), value)) != _plain(value)
        )
        made_of = {**self.values, **wins}
        if made_of.get("group.id") == "":
            raise InvalidOption("group.id must not be empty")
        return made_of if self.oauth_cb is None else {**made_of, "oauth_cb": self._tokens()}

    def _tokens(self) -> TokenCallback:
        """The callback, which we have called once for the first token.

        A client whose callback raises during construction waits for ten seconds, and then raises
        something that only a bare `except` catches (confluent-kafka 2.16).
        """
        ask = self.oauth_cb
        assert ask is not None
        try:
            first = [ask(self.values.get("sasl.oauthbearer.config"))]
        except Exception as error:
            raise BrokerFailed(
                self.without_secrets(
                    f"{self.values.get('bootstrap.servers')}: oauth_cb got no token: "
                    f"{in_words(error)}"
                )
            ) from error
        return lambda config: first.pop() if first else ask(config)

    def batches(self, bytes_max: int = TOPIC_BYTES_MIN) -> dict[str, str]:
        """Batch settings of a producer whose topic takes at most `bytes_max` (`max.message.bytes`).

        A broker refuses a larger batch with all its records, however small each is. A record that
        is larger is a batch of its own. The default is for producers that cannot read the topic's
        settings, as most applications cannot. A smaller `batch.size` of the user stays.
        """
        wanted = self.values.get("batch.size", "")
        if wanted.isdecimal():
            bytes_max = min(int(wanted), bytes_max)
        return {"batch_size": str(max(1, bytes_max))}

    def telling(self, to: Callable[[str], None] | None) -> dict[str, str | Callable[[str], None]]:
        """Options for a client's statistics: every ten seconds, unless a setting gives a time."""
        if to is None:
            return {}
        every_ms = self.values.get("statistics.interval.ms", "10000")
        return {"statistics.interval.ms": every_ms, "stats_cb": to}

    def without_secrets(self, text: str) -> str:
        """The text without any value that may be a secret."""
        for name, value in self.values.items():
            if may_be_secret(name, value):
                text = text.replace(value, "***")
        return text


def addresses(bootstrap: object) -> str:
    """`bootstrap.servers`, from a string or from a list or tuple of strings.

    Raises:
        InvalidOption: it is neither.

    >>> addresses(["a:9092", "b:9092"])
    'a:9092,b:9092'
    """
    if isinstance(bootstrap, str):
        return bootstrap
    if isinstance(bootstrap, list | tuple) and all(isinstance(one, str) for one in bootstrap):
        return ",".join(bootstrap)
    raise InvalidOption(
        f"bootstrap must be 'host:port,...' or a list of 'host:port', not of type "
        f"{type(bootstrap).__name__}; settings=... takes a mapping"
    )


def settings_from(given: str | Sequence[str] | Mapping[str, str] | Settings) -> Settings:
    """Settings from a bootstrap address, from several, or from settings of librdkafka.

    Raises:
        InvalidOption: they do not name a cluster.
    """
    if isinstance(given, Settings):
        return given
    if isinstance(given, Mapping) and given.get("bootstrap.servers"):
        return Settings(dict(given))
    if isinstance(given, Mapping):
        raise InvalidOption("no cluster given: bootstrap.servers is missing in the settings")
    return Settings({"bootstrap.servers": addresses(given)})


def connection(
    bootstrap: str | Sequence[str] | None,
    settings: Settings | Mapping[str, str] | None,
    oauth_cb: TokenCallback | None,
) -> Settings:
    """Connection settings from those of these arguments that are given.

    Raises:
        InvalidOption: they do not name a cluster.
    """
    values = dict(settings.values) if isinstance(settings, Settings) else dict(settings or {})
    environment, keyring = REAL, None
    if isinstance(settings, Settings):
        oauth_cb, environment = oauth_cb or settings.oauth_cb, settings.environment
        keyring = settings.keyring
    if bootstrap is not None:
        values["bootstrap.servers"] = addresses(bootstrap)
    if not values.get("bootstrap.servers"):
        raise InvalidOption(
            "no cluster given: pass bootstrap='host:9092' or settings={'bootstrap.servers': ...}"
        )
    return Settings(values, oauth_cb, environment, keyring)


def settings_of(
    bootstrap: str | None,
    file: Path | None = None,
    options: Sequence[str] = (),
    environment: Mapping[str, str] = _NO_ENVIRONMENT,
) -> Settings:
    """The connection settings of a command.

    For each setting, the first of these sources that has it counts:

    1. `bootstrap`, then `options`, each `key=value`;
    2. `file` (-F);
    3. the environment: `MARSHAL_BOOTSTRAP`;
    4. the configuration file, unless there is a `file`: `MARSHAL_CONFIG`, or
    `kafka-marshal/config.properties` in the user's configuration folder.

    Raises:
        InvalidOption: a file cannot be read, a line or an option is not `key=value`, or no source
            names a cluster. The message contains no value.
    """
    values: dict[str, str] = {}
    if file is None:
        values.update(_configured(environment))
    if environment.get("MARSHAL_BOOTSTRAP"):
        values["bootstrap.servers"] = environment["MARSHAL_BOOTSTRAP"]
    if file is not None:
        values.update(_properties(file, f"-F {file}"))
    for option in options:
        values.update([_setting(option, "-X")])
    if bootstrap:
        values["bootstrap.servers"] = bootstrap
    if not values.get("bootstrap.servers"):
        raise InvalidOption(
            "no cluster given: use --bootstrap HOST:PORT or MARSHAL_BOOTSTRAP, or set "
            "bootstrap.servers in -F or in the configuration file"
        )
    return Settings(values)


def configuration_file(environment: Mapping[str, str]) -> Path:
    """The path of the configuration file if `MARSHAL_CONFIG` names none.

    By the XDG specification: an empty folder counts as unset, a relative one is ignored.

    >>> str(configuration_file({"XDG_CONFIG_HOME": "/etc/xdg"}))
    '/etc/xdg/kafka-marshal/config.properties'
    """
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(environment.get("HOME", "/")) / ".config"
    return folder / "kafka-marshal" / "config.properties"


def _configured(environment: Mapping[str, str]) -> dict[str, str]:
    named = environment.get("MARSHAL_CONFIG")
    if named:
        return _properties(Path(named), f"MARSHAL_CONFIG {named}")
    if not environment:
        return {}
    file = configuration_file(environment)
    return _properties(file, str(file)) if file.is_file() else {}


def _properties(file: Path, called: str) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidOption(f"{called}: {reason}") from None
    return dict(
        _setting(line, f"{called}:{number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith(("#", "!"))
    )


def _setting(text: str, where: str) -> tuple[str, str]:
    found = _LINE.fullmatch(text)
    if found is None:
        raise InvalidOption(f"{where}: a setting is written key=value")
    return found[1], found[2]
