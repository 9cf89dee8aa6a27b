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


class NotLetIn(BrokerFailed):
    """The cluster refused our password, token or certificate, or we its own; it says what to set.

    Only whoever was never let in gets it: for a consumer that runs such a refusal passes, as
    everything does that a broker says while it restarts.
    """


class IntervalMismatch(MarshalError):
    """Two heartbeat intervals in one group: both would process everything. The message says which.

    A consumer raises it that comes to a group whose owners live under another interval; a command
    does whose option contradicts what the log says.
    """
