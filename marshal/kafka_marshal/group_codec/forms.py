"""How a value is written in JSON: each form reads what `json.loads` gave, and writes it again.

A form is strict, because all readers must agree on what is malformed: a whole number is no float, a
list names nothing twice, text can be encoded. This room knows no event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar

from attrs import frozen

from kafka_marshal.codec import PARTITION_MAX, MalformedRecord
from kafka_marshal.core.groups.state import TopicPartition

Json: TypeAlias = Any
"""What `json.loads` gives."""
INT64_MAX: Final = 2**63 - 1
T = TypeVar("T")


@frozen
class Form(Generic[T]):
    """How values of one kind are written."""

    read: Callable[[str, Json], T]
    """The value, given where it stands. Raises MalformedRecord naming that place."""
    write: Callable[[T], Json]


def malformed(where: str, reason: str) -> NoReturn:
    """Something at this place is not as it must be."""
    raise MalformedRecord(where, reason)


def as_it_is(written: Json) -> Json:
    """JSON has the value itself."""
    return written


def _text(where: str, given: Json) -> str:
    if not isinstance(given, str):
        malformed(where, f"{_kind(given)} is no text")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        malformed(where, "a lone surrogate is no text")
    return given


def _name(where: str, given: Json) -> str:
    return _text(where, given) or malformed(where, "it is empty")


def _flag(where: str, given: Json) -> bool:
    return given if isinstance(given, bool) else malformed(where, f"{_kind(given)} is no flag")


def _kind(given: Json) -> str:
    """What JSON calls it."""
    if given is None:
        return "null"
    kinds = {bool: "a flag", int: "a number", float: "a fraction", str: "text", list: "a list"}
    return kinds.get(type(given), "an object")


TEXT: Final = Form(_text, as_it_is)
NAME: Final = Form(_name, as_it_is)
"""Text that is not empty."""
FLAG: Final = Form(_flag, as_it_is)


def number(least: int = 0, most: int = INT64_MAX) -> Form[int]:
    """A whole number from `least` to `most`."""

    def read(where: str, given: Json) -> int:
        if not isinstance(given, int) or isinstance(given, bool):
            malformed(where, f"{_kind(given)} is no whole number")
        if not least <= given <= most:
            malformed(where, f"it is not in {least}..{most}")
        return given

    return Form(read, as_it_is)


def optional(form: Form[T]) -> Form[T | None]:
    """The same, or null."""
    return Form(
        lambda where, given: None if given is None else form.read(where, given),
        lambda value: None if value is None else form.write(value),
    )


def one_of(kind: Callable[[str], T], written: Callable[[T], str]) -> Form[T]:
    """One of some words; `kind` raises ValueError for any other."""

    def read(where: str, given: Json) -> T:
        text = _text(where, given)
        try:
            return kind(text)
        except ValueError:
            malformed(where, f"{text[:40]!r} is none of the words that can stand here")

    return Form(read, written)


def listed(where: str, given: Json) -> list[Json]:
    """A list, of whatever is in it."""
    return given if isinstance(given, list) else malformed(where, f"{_kind(given)} is no list")


def an_object(where: str, given: Json) -> Mapping[str, Json]:
    """An object, of whatever is in it."""
    return given if isinstance(given, dict) else malformed(where, f"{_kind(given)} is no object")


def of_object(given: Mapping[str, Json], where: str, name: str, form: Form[T]) -> T:
    """A field of an object; unknown fields beside it are passed over."""
    place = f"{where}.{name}" if where else name
    if name not in given:
        malformed(place, "it is absent")
    return form.read(place, given[name])


def fields_of(kind: Callable[..., T], **forms: Form[Any]) -> Form[T]:
    """An object whose fields are those of a class."""

    def read(where: str, given: Json) -> T:
        found = an_object(where, given)
        return kind(**{name: of_object(found, where, name, form) for name, form in forms.items()})

    def write(value: T) -> Json:
        return {name: form.write(getattr(value, name)) for name, form in forms.items()}

    return Form(read, write)


def by_name(form: Form[T]) -> Form[Mapping[str, T]]:
    """An object whose keys are names of ours, in order."""

    def read(where: str, given: Json) -> Mapping[str, T]:
        found = an_object(where, given)
        return {_name(where, key): form.read(f"{where}.{key}", found[key]) for key in found}

    def write(value: Mapping[str, T]) -> Json:
        return {key: form.write(value[key]) for key in sorted(value)}

    return Form(read, write)


def _names(where: str, given: Json) -> frozenset[str]:
    found = [_name(f"{where}[{place}]", each) for place, each in enumerate(listed(where, given))]
    return _once(where, found)


def _once(where: str, found: list[T]) -> frozenset[T]:
    """What a list names, each once."""
    names = frozenset(found)
    return names if len(names) == len(found) else malformed(where, "something stands in it twice")


NAMES: Final[Form[frozenset[str]]] = Form(_names, sorted)
"""A list of names, each once."""

_TOPIC: Final = NAME
_PARTITION: Final = number(most=PARTITION_MAX)


def _topic_partition(where: str, given: Json) -> tuple[TopicPartition, Mapping[str, Json]]:
    found = an_object(where, given)
    topic = of_object(found, where, "topic", _TOPIC)
    return TopicPartition(topic, of_object(found, where, "partition", _PARTITION)), found


def by_partition(**forms: Form[Any]) -> Form[Mapping[TopicPartition, Mapping[str, Any]]]:
    """A list of objects, one for each partition, in order; beside it these fields."""

    def read(where: str, given: Json) -> Mapping[TopicPartition, Mapping[str, Any]]:
        parts: dict[TopicPartition, Mapping[str, Any]] = {}
        for place, each in enumerate(listed(where, given)):
            here = f"{where}[{place}]"
            tp, found = _topic_partition(here, each)
            if tp in parts:
                malformed(here, "the partition stands in it twice")
            parts[tp] = {name: of_object(found, here, name, form) for name, form in forms.items()}
        return parts

    def write(value: Mapping[TopicPartition, Mapping[str, Any]]) -> Json:
        return [
            {**tp._asdict(), **{name: form.write(value[tp][name]) for name, form in forms.items()}}
            for tp in sorted(value)
        ]

    return Form(read, write)


def partition_to(name: str, form: Form[T]) -> Form[Mapping[TopicPartition, T]]:
    """As `by_partition`, where one field beside each partition says all."""
    parts = by_partition(**{name: form})
    return Form(
        lambda where, given: {tp: each[name] for tp, each in parts.read(where, given).items()},
        lambda value: parts.write({tp: {name: each} for tp, each in value.items()}),
    )


def partition_of(kind: Callable[..., T], **forms: Form[Any]) -> Form[Mapping[TopicPartition, T]]:
    """As `by_partition`, where the fields beside each partition are those of a class."""
    parts = by_partition(**forms)
    return Form(
        lambda where, given: {tp: kind(**each) for tp, each in parts.read(where, given).items()},
        lambda value: parts.write(
            {tp: {name: getattr(each, name) for name in forms} for tp, each in value.items()}
        ),
    )


def _partitions(value: Iterable[TopicPartition]) -> Json:
    return [tp._asdict() for tp in sorted(value)]


PARTITIONS: Final[Form[frozenset[TopicPartition]]] = Form(
    lambda where, given: frozenset(by_partition().read(where, given)), _partitions
)
"""A list of partitions, each once."""
