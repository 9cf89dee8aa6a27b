"""The frame of every page: a document that loads nothing, and the lists of its legend.

This module knows no section and no protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_marshal.markup import Html, Json, base_style, el, embedded_json, join, name
from kafka_marshal.replay.report.base import pieces
from kafka_marshal.replay.report.base.palette import HUES, Palette


def document(
    title: str,
    definitions: Html,
    header: Html,
    parts: Mapping[str, Html | None],
    contents: Mapping[str, str],
    embedded: Json,
    styles: Iterable[str] = (),
    scripts: Iterable[Html] = (),
) -> str:
    """The text of a page.

    `parts` are the sections by their anchors, in order, and `contents` holds the texts of links to
    them. `styles` are files in addition to the common one.
    """
    head = el(
        "head",
        None,
        el("meta", {"charset": "utf-8"}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("title", None, title),
        el("style", None, base_style(), pieces.asset("style.css")),
        *(el("style", None, pieces.asset(file)) for file in styles),
    )
    links = [
        el("a", {"href": f"#{anchor}"}, contents[anchor])
        for anchor, part in parts.items()
        if part is not None
    ]
    body = el(
        "body",
        None,
        definitions,
        el(
            "main",
            None,
            header,
            el("nav", {"aria-label": "Contents"}, join(links, " ")),
            *parts.values(),
            el(
                "footer",
                None,
                el(
                    "p",
                    None,
                    "Written by kafka-marshal. The tables beside this file hold every row.",
                ),
            ),
        ),
        el("div", {"id": "tip", "role": "tooltip", "hidden": True}),
        el("script", {"type": "application/json", "id": "data"}, embedded_json(embedded)),
        el("script", None, pieces.asset("report.js")),
        *scripts,
    )
    return "<!doctype html>\n" + el("html", {"lang": "en"}, head, body) + "\n"


def legend(
    palette: Palette,
    shades: str,
    marks: Iterable[tuple[str, str]],
    stretches: Iterable[tuple[str, str]],
) -> Html:
    """The meaning of colours and glyphs.

    `shades` describes the shades of a colour. Marks are pairs of a glyph's name and its meaning,
    stretches of a kind and its meaning.
    """
    owners = [
        el(
            "li",
            None,
            el("i", {"class": f"swatch {palette.client(client)}"}),
            el("bdi", None, name(client, 24)),
        )
        for client in palette.clients[:HUES]
    ]
    if len(palette.clients) > HUES:
        owners.append(
            el("li", None, f"and {len(palette.clients) - HUES:,} more, in the same colours again")
        )
    if palette.shaded:
        owners.append(el("li", None, shades))
    glyphs = [
        el(
            "li",
            None,
            el(
                "svg",
                {"width": 16, "height": 16, "viewBox": "-8 -8 16 16", "aria-hidden": "true"},
                el("use", {"href": f"#g-{kind}", "class": f"mark {kind}"}),
            ),
            meaning,
        )
        for kind, meaning in marks
    ]
    swatches = [
        el("li", None, el("i", {"class": f"swatch {kind}"}), meaning) for kind, meaning in stretches
    ]
    return el(
        "div",
        {"class": "legend"},
        el("ul", {"class": "owners", "aria-label": "Owners"}, *owners) if owners else None,
        el("ul", {"aria-label": "Marks"}, *glyphs),
        el("ul", {"aria-label": "Stretches of time"}, *swatches),
    )
