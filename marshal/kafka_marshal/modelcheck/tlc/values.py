r"""Converts TLA+ values, as TLC prints them, to Python and back.

It knows the notation and nothing of what the values mean. Every value is immutable and hashable:

    | TLA+                                  | Python                                 |
    |---------------------------------------|----------------------------------------|
    | `-4`, `TRUE`, `"a\"b"`                | int, bool, str                         |
    | `{1, 2}`, `1..3`                      | frozenset                              |
    | `<<1, "a">>`                          | tuple                                  |
    | `[a |-> 1]`, `("a b" :> 1 @@ 3 :> 4)` | Function, a mapping                    |
    | `n1` (a model value)                  | ModelValue                             |

What TLA+ calls equal is equal here: a record is a function of strings, a sequence is a function
of 1..n and always a tuple, `1..3` is `{1, 2, 3}`. One thing is not kept apart: to Python `TRUE`
and `1` are equal. TLC never compares the two, so no state holds both in one place.

>>> parse('[owner |-> "i1", seen |-> <<3, {}>>]')["seen"]
(3, frozenset())
>>> unparse(parse('(2 :> TRUE @@ 1 :> n1)'))
'<<n1, TRUE>>'
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import attrs

Value: TypeAlias = "int | bool | str | ModelValue | tuple[Value, ...] | frozenset[Value] | Function"
"""Any TLA+ value that TLC prints."""

INTERVAL_MAX: Final = 1_000_000
"""An interval with more elements than this is refused: it would be written out."""


class MalformedValueError(ValueError):
    """The text is not a TLA+ value; the message names the position of the error."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        """State what was `expected` at `position`, and the text around it."""
        before, after = text[max(0, position - 30) : position], text[position : position + 30]
        super().__init__(f"expected {expected} at position {position}: {before!r} here {after!r}")
        self.position = position
        self.expected = expected


@attrs.frozen
class ModelValue:
    """A value equal only to itself, as a cfg's `CONSTANT Nobody = Nobody` declares it."""

    name: str


class Function(Mapping["Value", "Value"]):
    """A TLA+ function whose domain is not 1..n; a record is one whose domain is strings.

    Make it with `function`, which returns a tuple for a TLA+ sequence.
    """

    __slots__ = ("_hash", "_pairs")

    def __init__(self, pairs: Mapping["Value", "Value"]) -> None:
        if _is_sequence(pairs):
            raise ValueError("the domain is 1..n, so this is a sequence: use function()")
        self._pairs = dict(pairs)
        self._hash: int | None = None

    def __getitem__(self, argument: "Value") -> "Value":
        return self._pairs[argument]

    def __iter__(self) -> Iterator["Value"]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._pairs.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._pairs == other._pairs

    def __repr__(self) -> str:
        return f"Function({self._pairs!r})"


def function(pairs: Mapping[Value, Value]) -> Value:
    """Return the function with these pairs: a tuple if its domain is 1..n (also for n = 0)."""
    if _is_sequence(pairs):
        return tuple(pairs[n] for n in range(1, len(pairs) + 1))
    return Function(pairs)


def record(**fields: Value) -> Value:
    """Return the record with these fields.

    >>> unparse(record(b=1, a="x"))
    '[a |-> "x", b |-> 1]'
    """
    pairs: dict[Value, Value] = dict(fields.items())
    return function(pairs)


def parse(text: str, known: dict[str, Value] | None = None) -> Value:
    """Parse a value; raises MalformedValueError if `text` is not one value.

    `known` is for texts that repeat their records: it stores the value of each, by its text, for
    later look-ups. Pass the same dictionary again; equal texts are one object.
    """
    parser = _Parser(text, known)
    value = parser.value()
    parser.take("", "the end")
    return value


def parse_conjuncts(text: str) -> dict[str, Value]:
    r"""Return the variables of a state as TLC prints it: `/\ name = value`, one after the other.

    A state of a single variable comes without the leading conjunction sign.

    >>> parse_conjuncts('/\\ log = <<>>\n/\\ now = 3')
    {'log': (), 'now': 3}
    """
    parser = _Parser(text)
    variables: dict[str, Value] = {}
    while not parser.at(""):
        if parser.at("/\\"):
            parser.take("/\\", "/\\")
        name = parser.name()
        parser.take("=", "=")
        variables[name] = parser.value()
    return variables


def unparse(value: Value) -> str:
    """Return `value` in TLC's notation, on one line; elements and fields in a fixed order.

    TLC orders strings by when it first met them. Here equal values have equal texts.
    """
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case str():
            return '"' + _SPECIAL.sub(lambda found: _ESCAPED[found.group()], value) + '"'
        case ModelValue(name):
            return name
        case tuple():
            return "<<" + ", ".join(map(unparse, value)) + ">>"
        case frozenset():
            return "{" + ", ".join(map(unparse, _ordered(value))) + "}"
        case Function():
            if all(isinstance(key, str) and _NAME.fullmatch(key) for key in value):
                fields = (f"{key} |-> {unparse(value[key])}" for key in _ordered(value))
                return "[" + ", ".join(fields) + "]"
            pairs = (f"{unparse(key)} :> {unparse(value[key])}" for key in _ordered(value))
            return "(" + " @@ ".join(pairs) + ")"


T = TypeVar("T")

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f"}
_UNESCAPED = {escaped: plain for plain, escaped in _ESCAPED.items()}
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPED)))
_ESCAPE = re.compile(r"\\.")
_NAME = re.compile(r"(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]+")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<word>(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]+)
    | (?P<int>-?\d+)
    | (?P<sign><<|>>|\|->|:>|@@|\.\.|/\\|[{}\[\](),=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


_RECORD = r"\[(?:[^\[\]\"]++|\"(?:[^\"\\]|\\.)*+\")*+\]"
for _ in range(4):  # a consumer holds a reader, which holds a claim
    _RECORD = rf"\[(?:[^\[\]\"]++|\"(?:[^\"\\]|\\.)*+\"|{_RECORD})*+\]"
_WHOLE_RECORD = re.compile(_RECORD, re.DOTALL)
"""A record with its content, up to five levels deep; deeper ones are not found."""


class _Parser:
    """One pass over the tokens, one function for each construct; never goes back."""

    def __init__(self, text: str, known: dict[str, Value] | None = None) -> None:
        self._text = text
        self._known = known
        self._end = 0
        self._advance()

    def at(self, sign: str) -> bool:
        """Whether the next token is this sign; the empty one is the end of the text."""
        return self._token == sign and self._kind in ("sign", "end")

    def take(self, sign: str, expected: str) -> None:
        if not self.at(sign):
            raise self._wrong(expected)
        self._advance()

    def name(self) -> str:
        if self._kind != "word":
            raise self._wrong("a name")
        name = self._token
        self._advance()
        return name

    def value(self) -> Value:
        kind, token = self._kind, self._token
        if kind == "int":
            return self._int_or_interval()
        if kind == "string":
            self._advance()
            return self._string(token)
        if kind == "word":
            self._advance()
            return token == "TRUE" if token in ("TRUE", "FALSE") else ModelValue(token)
        if token == "[" and kind == "sign" and self._known is not None:
            return self._record_once(self._known)
        if kind == "sign" and token in self._OPENING:
            self._advance()
            return self._OPENING[token](self)
        raise self._wrong("a value")

    def _int_or_interval(self) -> Value:
        low = int(self._token)
        self._advance()
        if not self.at(".."):
            return low
        self._advance()
        if self._kind != "int":
            raise self._wrong("the upper end of an interval")
        high = int(self._token)
        if high - low >= INTERVAL_MAX:
            raise self._wrong(f"an interval of at most {INTERVAL_MAX} elements")
        self._advance()
        return frozenset(range(low, high + 1))

    def _string(self, token: str) -> str:
        if "\\" not in token:
            return token[1:-1]
        try:
            return _ESCAPE.sub(lambda found: _UNESCAPED[found.group()], token[1:-1])
        except KeyError as unknown:
            start = self._text.rindex(token, 0, self._start)
            raise MalformedValueError(
                self._text, start, f"a string without the escape {unknown}"
            ) from None

    def _sequence(self) -> Value:
        return tuple(self._separated(self.value, ",", ">>"))

    def _set(self) -> Value:
        return frozenset(self._separated(self.value, ",", "}"))

    def _record(self) -> Value:
        start = self._start
        return self._function(self._separated(self._field, ",", "]"), start)

    def _record_once(self, known: dict[str, Value]) -> Value:
        found = _WHOLE_RECORD.match(self._text, self._start)
        if found is not None and (value := known.get(found.group())) is not None:
            self._end = found.end()
            self._advance()
            return value
        self._advance()
        value = self._record()
        if found is not None:
            known[found.group()] = value
        return value

    def _pairs(self) -> Value:
        start = self._start
        return self._function(self._separated(self._pair, "@@", ")"), start)

    def _field(self) -> tuple[Value, Value]:
        name = self.name()
        self.take("|->", "|->")
        return name, self.value()

    def _pair(self) -> tuple[Value, Value]:
        argument = self.value()
        self.take(":>", ":>")
        return argument, self.value()

    def _function(self, pairs: list[tuple[Value, Value]], start: int) -> Value:
        made = dict(pairs)
        if not made:
            raise MalformedValueError(self._text, start, "at least one field or pair")
        if len(made) != len(pairs):
            raise MalformedValueError(self._text, start, "each field or argument once")
        return function(made)

    def _separated(self, item: Callable[[], T], separator: str, closing: str) -> list[T]:
        items: list[T] = []
        if self.at(closing):
            self._advance()
            return items
        while True:
            items.append(item())
            if self.at(closing):
                self._advance()
                return items
            self.take(separator, f"{separator} or {closing}")

    def _advance(self) -> None:
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            skipped = len(self._text) - len(self._text[self._end :].lstrip())
            raise MalformedValueError(self._text, skipped, "a token of TLA+")
        kind = found.lastgroup
        assert kind is not None
        self._kind = kind
        self._token = found.group(kind)
        self._start = found.start(kind)
        self._end = found.end()

    def _wrong(self, expected: str) -> MalformedValueError:
        return MalformedValueError(self._text, self._start, expected)

    _OPENING: Final[dict[str, Callable[["_Parser"], Value]]] = {
        "<<": _sequence,
        "{": _set,
        "[": _record,
        "(": _pairs,
    }


def _is_sequence(pairs: Mapping[Any, Value]) -> bool:
    """Whether the domain is 1..n; `True` is in Python's 1..1, but not in TLA+'s."""
    return all(type(key) is int and 1 <= key <= len(pairs) for key in pairs)


def _ordered(values: Iterable[Value]) -> list[Value]:
    """Sort by kind, integers by size, all others by their text."""

    def rank(value: Value) -> tuple[str, int, str]:
        if isinstance(value, int):
            return (type(value).__name__, int(value), "")
        return (type(value).__name__, 0, unparse(value))

    return sorted(values, key=rank)
