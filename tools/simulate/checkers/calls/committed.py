"""A commit that has returned is in the log: the position of its claim is beyond the message."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for commit in judged.history.committed:
        if not any(
            change.after.claim.position > commit.offset
            for appended, _, changes in judged.changes
            if appended.at_s <= commit.at_s and appended.offset >= commit.epoch
            for change in changes
            if (change.key.topic, change.key.topic_partition) == commit.where
        ):
            yield (
                f"{commit.process}: {commit.where} {commit.offset}, epoch {commit.epoch}: its "
                f"commit has returned, and the log did not have it"
            )
