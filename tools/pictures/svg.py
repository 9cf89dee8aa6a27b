"""What drawn pictures share: one style for light and dark, boxes, arrows. It knows no picture."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

STYLE: Final = """
  svg { color-scheme: light dark; background: var(--paper);
    --paper: #fffefb; --ink: #1f1d1a; --soft: #6b675f; --wash: #f5f2ea; --edge: #6b675f;
    --accent: #8a5a00; --mark: #3f74ad;
    font: 14px system-ui, "Segoe UI", Helvetica, Arial, "Liberation Sans", sans-serif; }
  @media (prefers-color-scheme: dark) { svg {
    --paper: #17171a; --ink: #e6e3dc; --soft: #a29e95; --wash: #1f1f24; --edge: #75726b;
    --accent: #e3b341; --mark: #7ba7d7; } }
  text { fill: var(--ink); }
  .box { fill: var(--wash); stroke: var(--edge); }
  .state, .room { font-size: 19px; text-anchor: middle; }
  .note { fill: var(--soft); text-anchor: middle; font-size: 12px; }
  .line { fill: none; stroke: var(--ink); stroke-width: 1.4; marker-end: url(#head); }
  .both { marker-start: url(#head); }
  .head { fill: var(--ink); }
  .message { text-anchor: middle; }
  .verdict, .code { fill: var(--accent);
    font: 12px ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; }
  .code { text-anchor: middle; }
  .record { fill: var(--paper); stroke: var(--mark); stroke-width: 1.4; }
  .mark { fill: var(--mark); }
  .band { fill: none; stroke: var(--edge); stroke-opacity: .35; }
  .square { stroke-opacity: .6; }
  .diagonal { fill: var(--edge); opacity: .3; }
  .left { text-anchor: start; }
  .right { text-anchor: end; }
"""


def svg(width: int, height: int, title: str, shapes: Iterable[str], top: int = 0) -> str:
    """Return a whole picture, in pixels; `top` is where it begins, 0 or less."""
    marker = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path class="head" d="M0 0 L10 5 L0 10 z"/></marker>'
    )
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top} {width} {height - top}" '
        f'role="img"><title>{escape(title)}</title>',
        f"<style>{STYLE}</style><defs>{marker}</defs>",
        *shapes,
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """Return a box around its middle."""
    corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}"'
    return f'<rect class="{kind}" {corner} width="{width:g}" height="{height:g}" rx="10"/>'


def text(kind: str, x: float, y: float, words: str) -> str:
    """Return words at their baseline."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def line(path: str, kind: str = "line") -> str:
    """Return an arrow along a path."""
    return f'<path class="{kind}" d="{path}"/>'
