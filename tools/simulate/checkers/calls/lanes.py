"""`run` begins a message when all earlier ones of its key, or its partition, are done."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for given in judged.history.given:
        if given.beside:
            yield f"{given.process}: {given.where} {given.offset} began beside one of its lane"
