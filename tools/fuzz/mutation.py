"""Inputs made from inputs: bytes flipped, numbers made odd, words put in, lines moved.

Everything is drawn from one chance, so a seed gives the same inputs again. This room does not know
what an input means, but for the words that a target brings.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from attrs import frozen

WORDS: Final = tuple(
    word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
    for word in (
        *(b"\xff", b"\x00", b"\xed\xa0\x80", b"\x1b[31m", b"\r", b"\n", b"\r\n", b"\t", b"\x0b"),
        *("\u2028", "\u202e", "\ufeff", "\u0663", "\U0001f600", "\ud800", "\u0000"),
        *("-1", "0", "+7", "007", "-0", "1e400", "NaN", "Infinity", "null", "true", "2147483647"),
        *("2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
        *("18446744073709551616", "9" * 25, "9" * 400, "9" * 5000, "1.5", "9007199254740993"),
        *("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "]]>"),
        *("javascript:alert(1)", "\"'&<>", "&lt;", "{{x}}", "[red]", "[/red]", "%s%n", "\\u0000"),
        *('"\\ud800"', '"\\udcff"', "[" * 3000, '{"a":' * 3000, "[]", "{}", '""', "../../x", "/"),
    )
)
"""What has broken programs before."""

_NUMBER: Final = re.compile(rb"-?\d+")
_QUOTED: Final = re.compile(rb'"[^"\\\n]*"')

Mutation: TypeAlias = Callable[[bytes, "Chance"], bytes]


@frozen
class Chance:
    """What an input is drawn with."""

    random: random.Random
    words: Sequence[bytes]
    others: Sequence[bytes]
    """The corpus."""

    def at(self, data: bytes) -> int:
        """A place in it."""
        return self.random.randrange(len(data) + 1)

    def span(self, data: bytes) -> tuple[int, int]:
        """A part of it, mostly short."""
        begin = self.at(data)
        longest = self.random.choice((1, 2, 4, 16, 64, len(data)))
        return begin, min(len(data), begin + self.random.randint(1, max(1, longest)))


def mutated(data: bytes, chance: Chance, size_max: int) -> bytes:
    """The input after one to eight mutations, and not longer than that."""
    for _ in range(chance.random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = chance.random.choice(_MUTATIONS)(data, chance)[:size_max]
    return data


def _flip(data: bytes, chance: Chance) -> bytes:
    if not data:
        return data
    at = chance.random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.random.randrange(8))]) + data[at + 1 :]


def _byte(data: bytes, chance: Chance) -> bytes:
    at = chance.at(data)
    odd = chance.random.choice((0, 1, 0x7F, 0x80, 0xFF, chance.random.randrange(256)))
    return data[:at] + bytes([odd]) + data[at + 1 :]


def _word(data: bytes, chance: Chance) -> bytes:
    begin, end = chance.span(data)
    word = chance.random.choice(chance.words)
    return data[:begin] + word + data[begin if chance.random.random() < 0.5 else end :]


def _leave_out(data: bytes, chance: Chance) -> bytes:
    begin, end = chance.span(data)
    return data[:begin] + data[end:]


def _again(data: bytes, chance: Chance) -> bytes:
    begin, end = chance.span(data)
    times = chance.random.choice((1, 1, 2, 5, 40))
    return data[:end] + data[begin:end] * times + data[end:]


def _of_another(data: bytes, chance: Chance) -> bytes:
    other = chance.random.choice(chance.others)
    begin, end = chance.span(other)
    at, to = chance.span(data)
    return data[:at] + other[begin:end] + data[chance.random.choice((at, to)) :]


def _number(data: bytes, chance: Chance) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return _byte(data, chance)
    one = chance.random.choice(found)
    if chance.random.random() < 0.5 and len(one[0]) < 20:
        new = str(int(one[0]) + chance.random.choice((-1, 1, -1000, 1000, 1 << 31, 1 << 62)))
        return data[: one.start()] + new.encode() + data[one.end() :]
    new_word = chance.random.choice(chance.words)
    return data[: one.start()] + new_word + data[one.end() :]


def _quoted(data: bytes, chance: Chance) -> bytes:
    """What stands between quotes, or instead of it and them, becomes a word."""
    found = list(_QUOTED.finditer(data))
    if not found:
        return _word(data, chance)
    one, word = chance.random.choice(found), chance.random.choice(chance.words)
    kept = chance.random.random() < 0.7
    return data[: one.start() + kept] + word + data[one.end() - kept :]


def _lines(data: bytes, chance: Chance) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return _again(data, chance)
    one, other = (chance.random.randrange(len(lines)) for _ in range(2))
    way = chance.random.randrange(3)
    if way == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif way == 1:
        lines.insert(one, lines[other])
    else:
        del lines[one]
    return b"".join(lines)


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_flip, _byte, _word, _word, _leave_out, _again, _of_another, _number, _number, _quoted),
    *(_quoted, _lines),
)
