"""The topics a consumer wants: by name, or by a pattern that also matches new topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TypeAlias

from attrs import frozen

from kafka_marshal.client.connect.settings import is_name
from kafka_marshal.errors import InvalidOption

Wanted: TypeAlias = str | re.Pattern[str]
"""A topic's name; a text that begins with ``^``, which is a pattern; or a compiled pattern."""


@frozen
class Subscription:
    """Names and patterns of topics.

    >>> wanted = Subscription.of(["bills", "^orders-"])
    >>> sorted(wanted.among(["bills", "orders-eu", "old-orders-eu", "__orders"]))
    ['bills', 'orders-eu']
    """

    names: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, topics: Wanted | Iterable[Wanted]) -> Subscription:
        """Parse names and patterns.

        Raises:
            InvalidOption: a text is neither a topic's name nor a pattern.
        """
        given = [topics] if isinstance(topics, str | re.Pattern) else list(topics)
        patterns = [each for each in given if not isinstance(each, str)]
        names = set()
        for text in given:
            if not isinstance(text, str):
                continue
            if not text.startswith("^"):
                names.add(checked(text))
                continue
            try:
                patterns.append(re.compile(text))
            except re.error as error:
                raise InvalidOption(f"topics: {text!r} is no pattern: {error}") from None
        return cls(frozenset(names), tuple(patterns))

    def among(self, topics: Collection[str]) -> set[str]:
        """The topics that match, and those that are wanted by name even if they do not exist.

        A pattern has to match a name's beginning. Topics that begin with ``__`` belong to Kafka and
        to us, so no pattern matches them.
        """
        matching = {
            topic
            for topic in topics
            if not topic.startswith("__") and any(each.match(topic) for each in self.patterns)
        }
        return matching | self.names


def checked(topic: str) -> str:
    """Return a topic's name unchanged.

    Raises:
        InvalidOption: it cannot be the name of a topic.
    """
    if not is_name(topic) or not topic or "/" in topic:
        raise InvalidOption(f"a topic must be a name without '/', not {topic!r}")
    return topic
