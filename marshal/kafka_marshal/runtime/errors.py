"""What a user can mend: each message names the cluster, the topic, the file or the option.

A command turns them into one sentence and exit code 2. This room knows no client of Kafka.
"""

from __future__ import annotations


class MarshalError(Exception):
    """Something could not be done, and the message says what to change."""


class InvalidOption(MarshalError):
    """An option's value makes no sense; the message names it."""


class BrokerFailed(MarshalError):
    """The cluster cannot be reached, or refused; the message says which and why."""
