"""TLA+ values in the Informal Trace Format, and back.

It knows both notations. The file around the values is `kafka_marshal.counterexample.itf`'s.

    | value                               | expression                              |
    |-------------------------------------|-----------------------------------------|
    | int                                 | a number, `{"#bigint": "..."}` if large |
    | bool, str                           | the same                                |
    | tuple                               | an array: TLC prints tuples as sequences|
    | frozenset                           | `{"#set": [...]}`                       |
    | Function of names (a record)        | an object                               |
    | any other Function                  | `{"#map": [[argument, result], ...]}`   |
    | ModelValue                          | `{"#unserializable": "..."}`            |

TLC does not say whether a function of strings is a record, so one whose strings are names is
written as a record. A tuple of others (`{"#tup": [...]}`) is read as a sequence.
"""

import re
from collections.abc import Mapping

from kafka_marshal.counterexample.itf import MalformedTraceError, integer
from kafka_marshal.counterexample.model import Expression
from kafka_marshal.modelcheck.tlc.values import (
    Function,
    ModelValue,
    Value,
    function,
    unparse,
)

_NAME = re.compile(r"(?=[A-Za-z0-9_]*[A-Za-z])[A-Za-z0-9_]+")


def expression(value: Value) -> Expression:
    """Return the value in JSON; equal values give equal texts.

    >>> from kafka_marshal.modelcheck.tlc.values import parse
    >>> expression(parse('[owner |-> n1, seen |-> {2, 1}, log |-> <<3>>]'))
    {'log': [3], 'owner': {'#unserializable': 'n1'}, 'seen': {'#set': [1, 2]}}
    """
    match value:
        case bool() | str():
            return value
        case int():
            return integer(value)
        case ModelValue(name):
            return {"#unserializable": name}
        case tuple():
            return [expression(element) for element in value]
        case frozenset():
            return {"#set": [expression(element) for element in _ordered(value)]}
        case Function():
            if all(isinstance(key, str) and _NAME.fullmatch(key) for key in value):
                return {str(key): expression(value[key]) for key in _ordered(frozenset(value))}
            pairs = ((key, value[key]) for key in _ordered(frozenset(value)))
            return {"#map": [[expression(key), expression(result)] for key, result in pairs]}


def value(written: object) -> Value:
    """Return the value that an expression writes; raises MalformedTraceError if it is none.

    >>> unparse(value({"#map": [[0, {"#tup": ["a", {"#bigint": "7"}]}]]}))
    '(0 :> <<"a", 7>>)'
    """
    match written:
        case bool() | int() | str():
            return written
        case list():
            return tuple(map(value, written))
        case {"#bigint": str(digits)} if re.fullmatch(r"-?[0-9]+", digits):
            return int(digits)
        case {"#tup": list(elements)}:
            return tuple(map(value, elements))
        case {"#set": list(elements)}:
            return frozenset(map(value, elements))
        case {"#map": list(pairs)} if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return function({value(key): value(result) for key, result in pairs})
        case {"#unserializable": str(name)} if _NAME.fullmatch(name):
            return ModelValue(name)
        case Mapping() if not any(str(key).startswith("#") for key in written):
            return function({str(key): value(field) for key, field in written.items()})
        case _:
            raise MalformedTraceError(f"{written!r} is no expression of the format")


def _ordered(values: frozenset[Value]) -> list[Value]:
    """Sort integers by size, all others by their text, so that a diff only shows changes."""
    return sorted(values, key=lambda v: (0, v, "") if isinstance(v, int) else (1, 0, unparse(v)))
