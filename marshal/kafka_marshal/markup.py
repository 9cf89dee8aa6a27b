"""Builds XML and HTML in which every shown value is escaped.

`el` builds an element, and escapes every child and attribute that is not `Html` already, so text
from records is safe by its type. This module knows no page, except the common style: `base.css`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final, TypeAlias

CHARACTERS_MAX: Final = 600
"""Longer text is cut in the middle; the tables of the replay hold it whole."""

_VOID: Final = frozenset({"meta", "br", "hr", "link", "input", "col"})
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SAFE_IN_JS: Final = 2**53 - 1


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = str | None
Attribute: TypeAlias = str | int | float | bool | None
Json: TypeAlias = "str | int | list[Json] | dict[str, Json] | None"


def visible(text: str, characters_max: int = CHARACTERS_MAX) -> str:
    r"""The text in a readable and printable form, whatever it contains.

    Characters that are invisible or move their neighbours (controls, direction marks, lone
    surrogates) become escapes. A byte that was not UTF-8 becomes `\xNN`, and a backslash is
    doubled, so that no other text looks like an escape.

    >>> visible("a\x00b\u202ec\udcffd")
    'a\\x00b\\u202ec\\xffd'
    >>> visible("0123456789", characters_max=5)
    '012 … (+6) … 9'
    """
    if len(text) > characters_max:
        tail = characters_max // 4
        head = characters_max - tail - 1
        cut = len(text) - head - tail
        end = text[len(text) - tail :]
        return f"{visible(text[:head])} … (+{cut:,}) … {visible(end)}"
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_visible_character, text))


def printable(text: str) -> str:
    r"""The text with an escape in place of each character that cannot be printed; spaces stay.

    >>> printable("a\tb c\n")
    'a\\x09b c\\x0a'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _visible_character(c) for c in text)


def _visible_character(c: str) -> str:
    if c == "\\":
        return "\\\\"
    code = ord(c)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    category = unicodedata.category(c)
    if category not in _INVISIBLE and not (category == "Zs" and c != " "):
        return c
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def name(text: str, characters_max: int = 48) -> str:
    """An id in a sentence or a label: visible, short, and never nothing."""
    return visible(text, characters_max) if text else "(empty)"


def escape(text: str) -> Html:
    """Text as markup. `Html` is returned unchanged, so nothing is escaped twice.

    Characters that `visible` escapes are escaped here too, so that a forgotten call cannot put a
    NUL or a lone surrogate into the file.
    """
    if isinstance(text, Html):
        return text
    return Html(
        printable(text)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&#39;")
    )


def el(tag: str, attributes: Mapping[str, Attribute] | None = None, *children: Child) -> Html:
    """An element. Attributes that are None or False are omitted; True has no value.

    >>> el("p", {"class": "x", "hidden": False}, "a < b", el("b", None, "c"))
    '<p class="x">a &lt; b<b>c</b></p>'
    """
    parts = ["<", tag]
    for key, value in (attributes or {}).items():
        if value is None or value is False:
            continue
        parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    parts.append(">")
    if tag not in _VOID:
        parts.extend(escape(child) for child in children if child is not None)
        parts.append(f"</{tag}>")
    return Html("".join(parts))


def join(parts: Iterable[Child], between: str = "") -> Html:
    """One piece of markup from many."""
    return Html(escape(between).join(escape(part) for part in parts if part is not None))


def embedded_json(value: Json) -> Html:
    r"""JSON that cannot end its script element: ASCII, and `<`, `>`, `&` as escapes.

    >>> embedded_json(["</script><!--"])
    '["\\u003c/script\\u003e\\u003c!--"]'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def js_int(number: int | None) -> int | str | None:
    """An integer for JavaScript: as text if a double would round it."""
    return number if number is None or abs(number) <= _SAFE_IN_JS else str(number)


def base_style() -> Html:
    """The style that all pages share; a page's own goes after it."""
    return Html(resources.files(__package__).joinpath("base.css").read_text(encoding="utf-8"))
