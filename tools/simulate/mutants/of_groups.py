"""Mutants of groups that somebody thought of: one edit of one function each.

Each leaves a rule out, or half of it (docs/concepts/groups.md): of a controller, of a member, or of
what `GroupConsumer` makes of a member's effects.
"""

from __future__ import annotations

from typing import Final

from tools.simulate.mutants.edits import Edit

_MEMBERSHIP, _MEMBER = "machines/groups/membership.py", "machines/groups/group_member.py"
_CONTROLLER = "machines/groups/controller.py"
_LOG = "machines/groups/control/controlled_log.py"
_PARTITION = "machines/groups/control/partition.py"
_ANSWERING = "machines/groups/control/answering.py"
_SESSIONS = "machines/groups/control/sessions.py"
_HOUSEKEEPING = "machines/groups/control/housekeeping.py"
_PORT = "client/groups/port.py"

OF_GROUPS: Final = (
    # --- a controller
    Edit(_ANSWERING, "Answering.is_ready", "return is_landed and ", "return "),
    Edit(
        _ANSWERING,
        "Answering.is_ready",
        "is_landed and is_confirmed(self.log.confirmed, wait.token)",
        "is_landed",
    ),
    Edit(_ANSWERING, "Answering._answer_heartbeat", " or member in holdings.owed", ""),
    Edit(_ANSWERING, "Answering.is_muted", "group is not None", "False"),
    Edit(_SESSIONS, "Sessions.restart", "self.clock.listened_ms", "-(10**9)"),
    Edit(_SESSIONS, "ListeningClock.passed", "min(now_ms - self.now_ms, LATE_MS)", "now_ms"),
    Edit(_HOUSEKEEPING, "Housekeeping.give_up", "self.sessions.overdue(name, group)", "()"),
    Edit(_HOUSEKEEPING, "Housekeeping._look_at", "is_due(group)", "group.rebalanced_at == 0"),
    Edit(_HOUSEKEEPING, "Housekeeping._look_at", "list(self.counts.due(group))", "()"),
    Edit(_LOG, "ControlledLog.append_failed", "self._stop()", "pass"),
    Edit(_LOG, "ControlledLog._confirm", "self._position >= self._ends[0][1]", "True"),
    Edit(_CONTROLLER, "is_void", "connection < newest_of(c, key)", "False"),
    Edit(_PARTITION, "PartitionController._register", "holds_nothing and", "False and"),
    Edit(_PARTITION, "PartitionController._rewound", "offset >= least", "True"),
    Edit(_ANSWERING, "Answering._answer_heartbeat", " and wait.connection.is_of_member", ""),
    # --- its port, and limits
    Edit(_LOG, "ControlledLog.decide", "isinstance(event, GROWS) and ", "False and "),
    Edit(
        _PORT,
        "Peer.answer",
        "code in _OF_MEMBERS.get(answer.api.name, ())",
        'answer.api.name == "RegisterConsumer" and code is ErrorCode.NONE',
    ),
    Edit(_PORT, "Peer._gone", "port.open -= 1", "pass"),
    # --- a member
    Edit(_MEMBER, "is_old", "answer.generation < member.generation", "False"),
    Edit(_MEMBER, "goes_on", " and member.at[tp].tenure == answer.own[tp].tenure", ""),
    Edit(_MEMBER, "goes_on_until", "sent_ms + lease_ms", "sent_ms + 3 * lease_ms"),
    Edit(_MEMBERSHIP, "Membership.may_hand_out", " and now_ms < self._lease_until_ms", ""),
    Edit(_MEMBERSHIP, "Membership._due", "self.member.fresh and self._registered_here", "False"),
    Edit(_MEMBERSHIP, "Membership._registered", "before.holds <= self.member.holds", "True"),
    Edit(_MEMBERSHIP, "Membership._register", "= None, True", "= self._told_wishes, True"),
    Edit(_MEMBERSHIP, "Membership._look_elsewhere", "self.controller = None", "pass"),
)
