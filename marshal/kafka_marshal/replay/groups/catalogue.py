"""The catalogue of finding codes for groups with a controller: severity, and what to do.

Codes are stable, like those about claims. Findings about the input (gaps, duplicates, malformed
records) have the same codes as there. `docs/reference/findings.md` is printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_marshal.replay.findings.catalogue import CATALOGUE, ERROR, INFO, WARNING, FindingKind

_LOG: Final = "log"

_KINDS: Final = (
    FindingKind(
        "snapshot_differs",
        ERROR,
        None,
        _LOG,
        "A snapshot of a group or of the controllership is not what the events before it come to.",
        "A reader that begins at this snapshot has another state than one that read everything. "
        "Compare the versions of the controllers, and keep the log: this is a mistake of ours.",
    ),
    FindingKind(
        "controller_mistake",
        ERROR,
        None,
        _LOG,
        "The controller of the current epoch wrote an event, in turn, that a guard refused which "
        "the controller must ask itself. Nothing changed.",
        "Find who writes to __marshal_groups beside the controllers, or which version the "
        "controller has. The refused event did no harm; those behind it were refused, too.",
    ),
    FindingKind(
        "log_lost_events",
        ERROR,
        None,
        _LOG,
        "Events name an epoch that never began here: the log lost the ControllerStarted, or was "
        "made anew under a running controller.",
        "Look for unclean leader elections of __marshal_groups; set acks to all and "
        "min.insync.replicas to 2. Restart the controllers.",
    ),
    FindingKind(
        "rebalance_storm",
        WARNING,
        None,
        _LOG,
        "A group was rebalanced at least six times within ten session timeouts. The sentence says "
        "who joined, left and expired.",
        "Look at the members that are named: they crash and restart, or take longer than a session "
        "timeout for one poll. Restart many members one by one, and wait between them.",
    ),
    FindingKind(
        "rebalance_held_up",
        WARNING,
        None,
        _LOG,
        "A member let go of its partitions later than half a session timeout after it first had "
        "to. Until then those that were to get them waited.",
        "Look at what the member does before it lets go: a long message, a slow on_revoked. "
        "Call keep_alive while a message takes long.",
    ),
    FindingKind(
        "false_expiry",
        WARNING,
        None,
        _LOG,
        "A member was expired because it was silent, and later spoke again under its id: it had "
        "lived. Or it was restarted under the same id.",
        "Find what kept it from speaking (garbage collection, a suspended machine, a long "
        "message), or give the group a longer session timeout.",
    ),
    FindingKind(
        "without_owner",
        WARNING,
        None,
        _LOG,
        "A partition that some member wants had no owner for longer than a session timeout.",
        "If a controller was missing, run more than one. If a member held a rebalance up, look at "
        "rebalance_held_up.",
    ),
    FindingKind(
        "controller_absent",
        WARNING,
        None,
        _LOG,
        "A rebalance was due for longer than a session timeout, and in that time nobody wrote "
        "anything to this partition of the log. Silence alone shows nothing: a controller writes "
        "only what it decides.",
        "Run more than one controller, and look why none of them took over.",
    ),
    FindingKind(
        "controllers_alternate",
        WARNING,
        None,
        _LOG,
        "Controllers took a partition of the log from each other, again and again, each within "
        "2 s. A claim is free no sooner, so at least two controllers took it for theirs.",
        "Nothing was harmed, but requests were answered late, and each start gives dead members "
        "another session timeout. Give all controllers the same coordination topic and the same "
        "cluster.",
    ),
    FindingKind(
        "zombie_commit",
        WARNING,
        None,
        _LOG,
        "A member committed a position of a partition that it no longer owned, or under an earlier "
        "tenure. It was refused.",
        "Nothing in the group was harmed. What the member wrote elsewhere for those messages may "
        "be there twice, unless it passes the tenure on as a fencing token.",
    ),
    FindingKind(
        "deposed_controller",
        WARNING,
        None,
        _LOG,
        "A controller wrote events after another one had taken over. They were refused.",
        "Nothing was harmed: a few right after a takeover were on their way. If they go on for "
        "long, find why the process did not notice, and stop it.",
    ),
    FindingKind(
        "out_of_number",
        WARNING,
        None,
        _LOG,
        "Events of the current epoch do not name the next number: one before them was lost or "
        "refused, or they are copies. They were refused.",
        "A controller begins anew after that. If it happens often, look at its broker connection.",
    ),
    FindingKind(
        "event_without_fence",
        WARNING,
        None,
        _LOG,
        "Events without a decimal `marshal-epoch` or `marshal-number`. They were refused.",
        "Find who writes to __marshal_groups beside the controllers.",
    ),
    FindingKind(
        "later_version",
        WARNING,
        None,
        _LOG,
        "An event of a later version counts, and this reader does not know what it does: from "
        "there on nothing is known, up to the next snapshot.",
        "Replay with the version that wrote it.",
    ),
    FindingKind(
        "state_not_known",
        WARNING,
        None,
        _LOG,
        "The log's head is missing. What is reported begins at a snapshot, if there is one. That a "
        "snapshot was accepted the log alone does not prove; the column `certain` says so.",
        "Give the log from its beginning. Or give --certain-from the positions of the controllers' "
        "claims (marshal ls __marshal_controllers); of a live topic the command looks them up.",
    ),
    FindingKind(
        "rewound",
        INFO,
        None,
        _LOG,
        "Somebody set positions. Messages between the two positions are processed again, or are "
        "passed over.",
        "Nothing, if it was meant.",
    ),
    FindingKind(
        "uneven_target",
        INFO,
        None,
        _LOG,
        "A target gave one member more than another, although a more even one was possible.",
        "range balances each topic by itself. Choose sticky or round_robin unless partitions "
        "of several topics belong together.",
    ),
)

OF_THE_INPUT: Final = (
    "create_time",
    "offset_gap",
    "duplicate_record",
    "conflicting_duplicate",
    "malformed_record",
    "wrong_coordinating_partition",
)
"""Codes that logs of claims have, too."""
GROUP_CATALOGUE: Final[Mapping[str, FindingKind]] = {
    **{kind.code: kind for kind in _KINDS},
    **{code: CATALOGUE[code] for code in OF_THE_INPUT},
    "wrong_coordinating_partition": FindingKind(
        "wrong_coordinating_partition",
        WARNING,
        None,
        _LOG,
        "Events of a group lie on another partition than its name says: its members ask the "
        "controller of that one. Only if the log's partition count is given; `watch` knows it.",
        "Find who writes to __marshal_groups beside the controllers, or what copied the log to a "
        "topic with another number of partitions.",
    ),
    "create_time": FindingKind(
        "create_time",
        WARNING,
        None,
        _LOG,
        "Records carry their producer's time instead of the broker's: durations are measured by as "
        "many clocks as there were controllers.",
        "Set message.timestamp.type=LogAppendTime on __marshal_groups.",
    ),
}
"""All codes, the worst first, the input's last."""
