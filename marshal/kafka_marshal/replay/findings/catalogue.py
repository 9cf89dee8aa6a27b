"""The catalogue of finding codes: severity, the property affected, when each is reported.

Codes are stable: scripts look for them. Properties have their names in the specification.
`docs/reference/findings.md` is printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"


@frozen
class FindingKind:
    """One code of the catalogue."""

    code: str
    severity: str
    property: str | None
    rules: str
    """`fenced`, `original`, `each` (both may report it), or `log` (a fact of the input)."""
    meaning: str
    what_to_do: str
    """What somebody who runs the consumers does about it."""


_KINDS: Final = (
    FindingKind(
        "late_heartbeat_stole",
        ERROR,
        "Fenced",
        "original",
        "A heartbeat made its sender the owner of a claim that a live consumer of another client "
        "owned. If the two then go on overwriting each other, that is the same finding.",
        "Move the group to the fenced rules, which refuse such a heartbeat. Until then look "
        "for what delayed the thief (a pause of its process, a slow produce), and re-check "
        "what both processed since.",
    ),
    FindingKind(
        "heartbeat_without_claim",
        WARNING,
        "Fenced",
        "original",
        "A heartbeat made its sender the owner of a claim that nobody owned, or whose owner was "
        "stale, without a ClaimingPartition. A new instance of the last owner's client is the "
        "original's fast reclaim and no finding.",
        "Find out why the sender believes that it owns: an old process that was never "
        "stopped, or a client that skips ClaimingPartition.",
    ),
    FindingKind(
        "late_heartbeat_refused",
        WARNING,
        "Fenced",
        "fenced",
        "An instance that had owned the claim and lost it sent heartbeats or asked for messages. "
        "They were refused: this is where the original's rules let it steal. One finding per "
        "instance and epoch.",
        "Nothing was harmed. If it happens often, find what stalls the sender: long garbage "
        "collections, blocked producers, suspended machines.",
    ),
    FindingKind(
        "acts_without_owning",
        WARNING,
        "Fenced",
        "fenced",
        "An instance that never owned the claim, as far as the log goes, sent heartbeats or asked "
        "for messages, and was refused. A consumer of the original does so when its own rules gave "
        "it the claim.",
        "Under both rule sets at once this is where they part: see the table `divergences`. A "
        "client of ours never does it; look at the sender's version.",
    ),
    FindingKind(
        "unowned_release",
        WARNING,
        "Fenced",
        "each",
        "A release from somebody who does not own the claim: refused, or under `original` obeyed "
        "although nobody owned. A consumer that lost the claim to a ReleaseGroup is expected to "
        "release it, which is no finding.",
        "Usually the last word of a consumer that had lost its claim. Look at how it lost it.",
    ),
    FindingKind(
        "forged",
        ERROR,
        "Fenced",
        "fenced",
        "A record carries the claim's epoch but comes from another instance.",
        "Find who writes to the coordination topic under another's epoch: a client that "
        "copies headers, or a record that was replayed. Restrict who may produce to the "
        "topic.",
    ),
    FindingKind(
        "range_lost",
        WARNING,
        None,
        "fenced",
        "At most once, a consumer that shares a claim held a range and was silent for more than "
        "two heartbeat intervals. Another one's request let the range be forgotten. One finding "
        "for each range.",
        "Find why the holder fell silent. Messages of the range that it had not begun are not "
        "processed: process them by hand, if they matter.",
    ),
    FindingKind(
        "ranges_passed_over",
        WARNING,
        None,
        "fenced",
        "At most once, a consumer that does not share took a shared claim over. It went on at the "
        "position, behind everything that was reserved. One finding for each takeover; an "
        "administrator's claim is none.",
        "Messages that were reserved and given to nobody are not processed: process them by hand, "
        "if they matter. Keep a consumer that shares alive, or set the position before others "
        "take over.",
    ),
    FindingKind(
        "window_changed",
        WARNING,
        None,
        "fenced",
        "A shared claim was won under another window than its ranges had, so they ended.",
        "Give all consumers that share the claim the same window. To change it, stop all of them "
        "first.",
    ),
    FindingKind(
        "position_above_low",
        ERROR,
        "PositionIsLow",
        "fenced",
        "At least once, a shared claim's position was above the lowest offset that is not done. It "
        "is looked for at each accepted ClaimingRange. One finding for each tenure.",
        "Find who sends the heartbeats of the anchor: they must say the lowest offset that is not "
        "done. Messages between the two may have been skipped.",
    ),
    FindingKind(
        "checkpoint_differs",
        ERROR,
        None,
        "fenced",
        "A heartbeat's checkpoint of a shared claim differs from what the log says as of its "
        "`marshal-seen`. One finding for each tenure. It is a warning where that lies more than "
        "1,024 records of the claim back, so that nobody compared. Nothing is compared where the "
        "log's head is missing, or with `--force-interval`.",
        "A consumer that begins to read in the middle may believe it. Find the sender. It may be "
        "no consumer at all, or one with another heartbeat interval. Or it had read records that "
        "the log has lost since. Restart the consumers that began to read at such a time.",
    ),
    FindingKind(
        "stuck_holder",
        WARNING,
        None,
        "fenced",
        "At least once, the holder of the lowest range of a shared claim lives and has reported "
        "nothing of it for five heartbeat intervals, in five requests. Higher offsets were "
        "reported as done before that, and the window is full. One finding for each standstill.",
        "Look at the holder: its handler hangs, or needs longer for a message than the window "
        "allows. Stop it, and others get its range; if it is only slow, widen the window.",
    ),
    FindingKind(
        "starved_range",
        WARNING,
        None,
        "fenced",
        "At least once, the lowest range of a shared claim lay in the pool for five heartbeat "
        "intervals, and in at least five requests nobody asked for offsets. Higher offsets were "
        "reported as done before that. One finding for each standstill.",
        "Find why none of the consumers asks for more: they may all be stopping, or all their "
        "handlers hang. The position cannot pass this range.",
    ),
    FindingKind(
        "log_lost_records",
        ERROR,
        "MonotoneEpoch",
        "fenced",
        "A record carries an epoch above the claim's: the log lost the record that won it.",
        "The coordination topic lost acknowledged records: look for unclean leader elections, "
        "and set min.insync.replicas to 2 and acks to all.",
    ),
    FindingKind(
        "header_from_the_future",
        ERROR,
        "MonotoneEpoch",
        "fenced",
        "A record refers to an offset at or after its own: the log was cut or made anew.",
        "The topic was truncated, restored or made anew under running consumers: restart "
        "them, so that they fold it from its beginning.",
    ),
    FindingKind(
        "header_not_decimal",
        WARNING,
        None,
        "fenced",
        "A header that the rules read is no number.",
        "Mend or update the client that writes the header; until then its records are refused.",
    ),
    FindingKind(
        "unknown_version",
        WARNING,
        None,
        "fenced",
        "A message of a version other than 0 and 1.",
        "Some consumers run a newer protocol than this reader knows: update the others first.",
    ),
    FindingKind(
        "position_moved_back",
        ERROR,
        "MonotonePosition",
        "each",
        "The position fell, and it was not the admin who set it: messages are processed again.",
        "Expect duplicates between the two positions. Move the group to the fenced rules, "
        "under which positions never fall unless an administrator says so.",
    ),
    FindingKind(
        "pause_broken",
        ERROR,
        "PauseHolds",
        "original",
        "During a pause somebody other than the pauser won a claim before the admin was done with "
        "it, or took one by a heartbeat. Or somebody went on with its own claim for longer than a "
        "heartbeat interval.",
        "Do not trust the positions that were set in this pause: check them, and pause again. "
        "The fenced rules keep a pause.",
    ),
    FindingKind(
        "pause_held",
        INFO,
        "PauseHolds",
        "fenced",
        "During a pause somebody other than the pauser tried to win or keep a claim, in vain.",
        "Nothing: the pause did what it is for.",
    ),
    FindingKind(
        "set_position_half_done",
        WARNING,
        "NeverHalfSetSilently",
        "each",
        "An admin won a claim in its pause and never set its position: its tenure ended otherwise, "
        "or it fell silent. An error if it had set other positions: they are half set. Reported "
        "when somebody else pauses the group, or at the end of the log.",
        "Set the positions again, all of them. The sentence names what was set and what was not.",
    ),
    FindingKind(
        "two_instances_of_one_client",
        ERROR,
        "Mutex",
        "log",
        "An instance spoke again after a newer one of the same client id and group had begun to. "
        "A warning if they never spoke for the same claim.",
        "Give every process a client id of its own; look for an old deployment that still runs.",
    ),
    FindingKind(
        "missed_heartbeat",
        WARNING,
        None,
        "each",
        "An owner was silent for more than one and a half heartbeat intervals and then went on. "
        "Only info if it was never silent for more than two: nobody could have taken the claim.",
        "Find what kept the owner from sending (a long poll, a full producer buffer, a "
        "stopped process), or run with a longer interval.",
    ),
    FindingKind(
        "unowned_too_long",
        WARNING,
        None,
        "each",
        "A claim had no live owner for more than twice the heartbeat interval, counted from its "
        "release or from when its owner became stale; a pause does not count.",
        "Run more consumers, or look why those that run do not ask for the claim.",
    ),
    FindingKind(
        "group_gone",
        INFO,
        None,
        "each",
        "At the end of the log no claim of the group has had a live owner for more than twice the "
        "heartbeat interval: the whole group was stopped.",
        "Nothing, if it was stopped on purpose.",
    ),
    FindingKind(
        "interval_mismatch",
        WARNING,
        None,
        "each",
        "A group is judged by another interval than the one that its consumers ran with. Their "
        "records say another one, or act under a claim that these rules refused, or most "
        "heartbeats come further apart. Silences of groups that say none are then not reported one "
        "by one. An error where a group says two intervals at once: it processes everything twice.",
        "If the log says no interval, replay with the one that the consumers run with "
        "(--heartbeat-interval). If a group says two, stop the consumers that differ.",
    ),
    FindingKind(
        "granted_twice",
        ERROR,
        "AtMostOnce",
        "each",
        "Two grants of messages at most once overlap: the same messages are processed by "
        "both. Under `original` a ClaimingMessages of the owner counts as a grant, as its "
        "document has it. Only info if an administrator had set the position back in between.",
        "Treat the messages named as processed twice. Move the group to the fenced rules, "
        "under which this takes an administrator.",
    ),
    FindingKind(
        "pause_ran_out",
        WARNING,
        "PauseHolds",
        "each",
        "The administrator that had paused the group still acted when its pause was over.",
        "Check every position it set afterwards, and ask for a longer pause next time.",
    ),
    FindingKind(
        "slow_failover",
        WARNING,
        None,
        "each",
        "A stale owner's claim was taken over later than three and a half heartbeat intervals "
        "after its last word. Two pass until it is stale, one is for a consumer to look, and half "
        "of one for records that land late. Not reported where the interval does not fit; neither "
        "are `starvation` and `wedged_heartbeat`.",
        "See that consumers look at least once in an interval, and that one of them has room "
        "for another claim.",
    ),
    FindingKind(
        "failover_times",
        INFO,
        None,
        "each",
        "How long takeovers from stale owners took, from the owner's last word to the next "
        "win (less a pause): median, nine of ten, longest. One finding for a group in each "
        "coordinating partition.",
        "Nothing; a shorter heartbeat interval makes failovers faster.",
    ),
    FindingKind(
        "lost_races",
        INFO,
        None,
        "each",
        "How many requests for claims found a live owner, and how many of those came within a "
        "heartbeat interval of its win. One finding for a group in each coordinating "
        "partition.",
        "Nothing, while it is a small part: consumers that share ask a richer one for a claim, "
        "and that is meant to be refused. Else let consumers wait a random moment before they "
        "ask.",
    ),
    FindingKind(
        "starvation",
        WARNING,
        None,
        "each",
        "A client asked for claims three times or more, over more than twice the heartbeat "
        "interval, and has won none when the log ends, while another owned two or more.",
        "Limit how many claims one consumer takes, or release some so that the others get theirs.",
    ),
    FindingKind(
        "imbalance",
        WARNING,
        None,
        "each",
        "While at least two clients owned claims of the group, the largest share was at least "
        "twice the smallest on average over time. One claim more than another counts as even; "
        "ten heartbeat intervals are needed to judge.",
        "Limit how many claims one consumer takes, or restart the one that has most.",
    ),
    FindingKind(
        "churn",
        WARNING,
        None,
        "each",
        "Ten tenures of a claim began within sixty heartbeat intervals. An owner's own second win "
        "does not count.",
        "Look for consumers that crash and restart, or that steal from each other.",
    ),
    FindingKind(
        "wedged_heartbeat",
        WARNING,
        None,
        "each",
        "An owner's heartbeats went on while the position stood still for ten heartbeat "
        "intervals or more. For at least half of that, another claim of the group moved without "
        "a rest (five intervals). A claim that is still at position 0 is not judged. The longest "
        "such stretch of each claim is reported when the log ends.",
        "Look at the message at that position and at the owner's log: it may be stuck on it. "
        "If nothing is written to that partition, all is well.",
    ),
    FindingKind(
        "lag_movement",
        INFO,
        None,
        "each",
        "Claims whose position moved, while owned, at less than a tenth of the group's median "
        "rate. Judged for claims that were owned for ten heartbeat intervals, in groups that "
        "have three such claims in the coordinating partition.",
        "Compare with the end offsets of the data topic: if those grow as fast as elsewhere, "
        "the claim falls behind.",
    ),
    FindingKind(
        "sender_clock_off",
        WARNING,
        None,
        "log",
        "The median of a sender's clock against the broker's is off by more than half a heartbeat "
        "interval, and more than 2 s. Only for records that the broker stamped.",
        "Let NTP set the clock of that machine. Under the original's rules a wrong clock "
        "loses and steals claims.",
    ),
    FindingKind(
        "create_time",
        WARNING,
        None,
        "log",
        "Records carry their producer's time instead of the broker's: staleness is then judged by "
        "as many clocks as there are producers.",
        "Set message.timestamp.type=LogAppendTime on the coordination topic.",
    ),
    FindingKind(
        "head_missing",
        WARNING,
        None,
        "log",
        "A coordinating partition does not begin at offset 0, so claims won before are not known. "
        "Under `fenced` nothing is reported of a claim before it is certain, nor of ranges of "
        "shared claims. Under `original` the log is judged as if it began there.",
        "Give the log from its beginning. If claims never become certain, their consumers do not "
        "say what they saw (marshal-seen and marshal-clock): consumers of the original never do.",
    ),
    FindingKind(
        "offset_gap",
        INFO,
        None,
        "log",
        "Offsets are missing inside. Transactions and control records leave such gaps; lost "
        "records do, too.",
        "Check that the dump is whole, and that nobody writes transactions to the topic: "
        "consumers take a gap for lost records.",
    ),
    FindingKind(
        "duplicate_record",
        INFO,
        None,
        "log",
        "The input holds the same record more than once; it was folded once.",
        "Nothing; the dump was made with overlapping ranges.",
    ),
    FindingKind(
        "conflicting_duplicate",
        ERROR,
        None,
        "log",
        "The input holds different records at one offset: a forked log, or two logs taken for "
        "one. The first was folded.",
        "Do not mix the dumps of two clusters, or of a topic before and after it was made anew.",
    ),
    FindingKind(
        "malformed_record",
        WARNING,
        None,
        "log",
        "Values that are no message; see the table `malformed`.",
        "Find who else writes to the coordination topic.",
    ),
    FindingKind(
        "malformed_header",
        WARNING,
        None,
        "log",
        "A header that came later than the first version (marshal-interval, marshal-start, "
        "marshal-done, and marshal-ranges of a claim) is no decimal number, or one that cannot be. "
        "It counts as absent, since older versions do not look at it. One finding for each sender "
        "and header.",
        "Mend or update the client that writes the header.",
    ),
    FindingKind(
        "record_not_signed",
        WARNING,
        None,
        "log",
        "Records carry no MAC, and by the keys that were given they must. One finding for each "
        "sender. Only with keys.",
        "Give the sender the keys, or stop it: a client that requires authentic records stops at "
        "the first one. Where the log is older than its keys, give the time: signed-since.",
    ),
    FindingKind(
        "record_not_authentic",
        ERROR,
        None,
        "log",
        "Records carry a MAC that is not their own, one of an unknown key, or one that cannot be "
        "read. One finding for each sender, key and reason. Only with keys.",
        "Find who may WRITE the coordination topic, and who wrote this: the names in the record "
        "prove nothing. Check the positions of the group. If a member has another key, mend that.",
    ),
    FindingKind(
        "wrong_coordinating_partition",
        WARNING,
        None,
        "log",
        "A topic's records lie on another partition than its name says: other consumers do not "
        "see them. Only if the coordination topic's partition count is given.",
        "Find the client whose partitioner differs, or that was started before the "
        "coordination topic got more partitions.",
    ),
)

OF_ONE_RECORD: Final = frozenset({"record_not_signed", "record_not_authentic"})
"""Codes of findings beside the fold: one record shows each, with keys."""
OF_RANGES: Final = (
    "range_lost",
    "ranges_passed_over",
    "window_changed",
    "position_above_low",
    "checkpoint_differs",
    "stuck_holder",
    "starved_range",
)
"""The codes about ranges of shared claims."""
CATALOGUE: Final[Mapping[str, FindingKind]] = {kind.code: kind for kind in _KINDS}
"""All codes, the rules' own first, the input's last."""
