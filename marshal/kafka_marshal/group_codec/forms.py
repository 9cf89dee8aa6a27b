"""JSON forms of values: each form decodes the result of `json.loads`, and encodes it again.

A form is strict, because all readers must agree on what is malformed: a whole number is not a
float, a list has no duplicate names, text can be encoded. This module knows no event.
"""

# ruff: noqa: D102  # what `read` and `write` do is documented once, at `Form`

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar

from attrs import frozen

from kafka_marshal.codec import PARTITION_MAX, MalformedRecord
from kafka_marshal.core.groups.state import TopicPartition

Json: TypeAlias = Any
"""A result of `json.loads`."""
INT64_MAX: Final = 2**63 - 1
T = TypeVar("T")
Word = TypeVar("Word", bound=Enum)


class Form(ABC, Generic[T]):
    """How values of one kind are written."""

    @abstractmethod
    def read(self, where: str, given: Json) -> T:
        """Decode the value. Raises MalformedRecord, naming the place `where`."""

    def write(self, value: T) -> Json:
        """Return its JSON: that of most is the value itself."""
        return value


def malformed(where: str, reason: str) -> NoReturn:
    """Something at this place is not as it must be."""
    raise MalformedRecord(where, reason)


def _kind(given: Json) -> str:
    """The JSON name of its type."""
    if given is None:
        return "null"
    kinds = {bool: "a flag", int: "a number", float: "a fraction", str: "text", list: "a list"}
    return kinds.get(type(given), "an object")


# --- single values --------------------------------------------------------------------------------


class _Text(Form[str]):
    """Text, which may be empty."""

    def read(self, where: str, given: Json) -> str:
        if not isinstance(given, str):
            malformed(where, f"{_kind(given)} is no text")
        try:
            given.encode()
        except UnicodeEncodeError:
            malformed(where, "a lone surrogate is no text")
        return given


class _Name(Form[str]):
    """Text that is not empty."""

    def read(self, where: str, given: Json) -> str:
        return TEXT.read(where, given) or malformed(where, "it is empty")


class _Flag(Form[bool]):
    """True or false."""

    def read(self, where: str, given: Json) -> bool:
        return given if isinstance(given, bool) else malformed(where, f"{_kind(given)} is no flag")


TEXT: Final = _Text()
NAME: Final = _Name()
FLAG: Final = _Flag()


@frozen
class Whole(Form[int]):
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = INT64_MAX

    def read(self, where: str, given: Json) -> int:
        if not isinstance(given, int) or isinstance(given, bool):
            malformed(where, f"{_kind(given)} is no whole number")
        if not self.least <= given <= self.most:
            malformed(where, f"it is not in {self.least}..{self.most}")
        return given


@frozen
class OrNull(Form[T | None]):
    """The same, or null."""

    form: Form[T]

    def read(self, where: str, given: Json) -> T | None:
        return None if given is None else self.form.read(where, given)

    def write(self, value: T | None) -> Json:
        return None if value is None else self.form.write(value)


@frozen
class OneOf(Form[Word]):
    """One of the words of an enum."""

    words: type[Word]

    def read(self, where: str, given: Json) -> Word:
        text = TEXT.read(where, given)
        try:
            return self.words(text)
        except ValueError:
            malformed(where, f"{text[:40]!r} is none of the words that can stand here")

    def write(self, value: Word) -> Json:
        return value.value


@frozen
class Checked(Form[T]):
    """A value with more conditions than its form has."""

    form: Form[T]
    check: Callable[[str, T], None]
    """Raises MalformedRecord."""

    def read(self, where: str, given: Json) -> T:
        value = self.form.read(where, given)
        self.check(where, value)
        return value

    def write(self, value: T) -> Json:
        return self.form.write(value)


# --- objects --------------------------------------------------------------------------------------


def an_object(where: str, given: Json) -> Mapping[str, Json]:
    """An object, of whatever is in it."""
    return given if isinstance(given, dict) else malformed(where, f"{_kind(given)} is no object")


def of_object(given: Mapping[str, Json], where: str, name: str, form: Form[T]) -> T:
    """A field of an object; unknown fields next to it are ignored."""
    place = f"{where}.{name}" if where else name
    if name not in given:
        malformed(place, "it is absent")
    return form.read(place, given[name])


@frozen
class Fields(Form[T]):
    """An object whose fields are those of a class."""

    kind: Callable[..., T]
    forms: Mapping[str, Form[Any]]

    def read(self, where: str, given: Json) -> T:
        found, forms = an_object(where, given), self.forms.items()
        return self.kind(**{name: of_object(found, where, name, form) for name, form in forms})

    def write(self, value: T) -> Json:
        return {name: form.write(getattr(value, name)) for name, form in self.forms.items()}


@frozen
class OnlyField(Form[T]):
    """An object whose meaning is in one field."""

    name: str
    form: Form[T]

    def read(self, where: str, given: Json) -> T:
        return of_object(an_object(where, given), where, self.name, self.form)

    def write(self, value: T) -> Json:
        return {self.name: self.form.write(value)}


@frozen
class ByName(Form[Mapping[str, T]]):
    """An object whose keys are names of ours, in order."""

    form: Form[T]

    def read(self, where: str, given: Json) -> Mapping[str, T]:
        found = an_object(where, given)
        return {
            NAME.read(where, key): self.form.read(f"{where}.{key}", found[key]) for key in found
        }

    def write(self, value: Mapping[str, T]) -> Json:
        return {key: self.form.write(value[key]) for key in sorted(value)}


# --- lists ----------------------------------------------------------------------------------------


def listed(where: str, given: Json) -> Mapping[str, Json]:
    """A list, of whatever is in it: each under its place."""
    if not isinstance(given, list):
        malformed(where, f"{_kind(given)} is no list")
    return {f"{where}[{number}]": each for number, each in enumerate(given)}


class _Names(Form[frozenset[str]]):
    """A list of names, each once, in order."""

    def read(self, where: str, given: Json) -> frozenset[str]:
        found = [NAME.read(*each) for each in listed(where, given).items()]
        names = frozenset(found)
        if len(names) < len(found):
            malformed(where, "something stands in it twice")
        return names

    def write(self, value: frozenset[str]) -> Json:
        return sorted(value)


NAMES: Final = _Names()
_PARTITION: Final = Whole(most=PARTITION_MAX)


@frozen
class ByPartition(Form[Mapping[TopicPartition, T]]):
    """A list of objects, one for each partition, in order."""

    form: Form[T]
    """That of an object, which names the partition besides."""

    def read(self, where: str, given: Json) -> Mapping[TopicPartition, T]:
        parts: dict[TopicPartition, T] = {}
        for here, each in listed(where, given).items():
            found = an_object(here, each)
            topic = of_object(found, here, "topic", NAME)
            tp = TopicPartition(topic, of_object(found, here, "partition", _PARTITION))
            if tp in parts:
                malformed(here, "the partition stands in it twice")
            parts[tp] = self.form.read(here, found)
        return parts

    def write(self, value: Mapping[TopicPartition, T]) -> Json:
        return [{**tp._asdict(), **self.form.write(value[tp])} for tp in sorted(value)]


_ALONE: Final[Form[Mapping[TopicPartition, Any]]] = ByPartition(Fields(dict, {}))


class _Partitions(Form[frozenset[TopicPartition]]):
    """A list of partitions, each once, in order."""

    def read(self, where: str, given: Json) -> frozenset[TopicPartition]:
        return frozenset(_ALONE.read(where, given))

    def write(self, value: frozenset[TopicPartition]) -> Json:
        return _ALONE.write(dict.fromkeys(value))


PARTITIONS: Final = _Partitions()
