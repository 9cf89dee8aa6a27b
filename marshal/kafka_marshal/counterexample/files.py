"""Writes a counterexample as three files: text, JSON, and a page."""

from __future__ import annotations

from pathlib import Path

from kafka_marshal.counterexample import itf, page, story
from kafka_marshal.counterexample.model import Counterexample


def write(folder: Path, name: str, counterexample: Counterexample) -> tuple[Path, ...]:
    """Write `name`.txt, .itf.json and .html into the folder, which is made if it is missing.

    Files of that name are overwritten. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "txt": story.story_text(counterexample) + "\n",
        "itf.json": itf.dumps(counterexample),
        "html": page.render(counterexample),
    }
    paths = []
    for ending, text in texts.items():
        path = folder / f"{name}.{ending}"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return tuple(paths)
