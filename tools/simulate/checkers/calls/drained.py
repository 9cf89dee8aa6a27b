"""When `on_drained` is called, the application holds no message of that tenure.

Not where the application or its consumer has failed, or was asked to end: what it has then is
given up. Nor after a `seek`, which passes over what is in hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    drained = {}
    for called in history.called:
        if called.kind == "drained" and not called.gives_up:
            tenure = called.process, (called.topic, called.partition), called.epoch
            drained[tenure] = called.at_s
            sought = history.sought_by(((called.topic, called.partition), called.epoch))
            if called.in_hand and not sought:
                yield f"{tenure} was drained, and {called.in_hand} messages of it were in hand"
    for given in history.given:
        tenure = given.process, given.where, given.epoch
        if given.at_s > drained.get(tenure, given.at_s) and not history.sought_by(tenure[1:]):
            yield f"{tenure} was drained, and {given.offset} of it was given out later"
