"""Writes a counterexample as three files: text, JSON, and a page."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from kafka_marshal.counterexample import itf, page, story
from kafka_marshal.counterexample.model import Counterexample
from kafka_marshal.scratch import whole_file


def write(folder: Path, name: str, counterexample: Counterexample) -> tuple[Path, ...]:
    """Write `name`.txt, .itf.json and .html into the folder, which is made if it is missing.

    Files of that name are overwritten. After an error there is none of the new ones.

    Raises:
        OSError: a file cannot be written; the error names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "txt": story.story_text(counterexample) + "\n",
        "itf.json": itf.dumps(counterexample),
        "html": page.render(counterexample),
    }
    paths = {folder / f"{name}.{ending}": text for ending, text in texts.items()}
    with ExitStack() as written:
        for path, text in paths.items():
            file = written.enter_context(whole_file(path))
            file.write(text)
            file.flush()  # a lack of room shows before one of them is in its place
    return tuple(paths)
