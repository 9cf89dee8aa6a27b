----------------------------- MODULE GroupEvents -----------------------------
(***************************************************************************)
(* The events of groups as values, the records that carry them, and the    *)
(* state to which a list of them leads.                                    *)
(*                                                                         *)
(* What an event does is Group.tla's.                                      *)
(***************************************************************************)
EXTENDS Group, Lists

Tp(topic, k) == [topic |-> topic, partition |-> k]

NoFunction == [x \in {} |-> NONE]
One(tp, value) == [x \in {tp} |-> value]
Two(one, a, other, b) == [x \in {one, other} |-> IF x = one THEN a ELSE b]
Topic(count, id) == [count |-> count, topic_id |-> id]

(***************************************************************************)
(* Events.  What no guard looks at is always the same.                     *)
(***************************************************************************)
Start(supersedes, id) ==
    [type |-> "ControllerStarted", version |-> 1, supersedes |-> supersedes,
     controller_id |-> id, host |-> "h", port |-> 9]

ControllershipSnapshotOf(id) ==
    [type |-> "ControllershipSnapshot", version |-> 1, controller_id |-> id, host |-> "h",
     port |-> 9]

Create(topics, rebalance) ==
    [type |-> "GroupCreated", version |-> 1, session_timeout_ms |-> 10000,
     topics |-> topics, rebalance |-> rebalance, strategy |-> "sticky", ephemeral |-> FALSE]

Delete == [type |-> "GroupDeleted", version |-> 1]

GroupSnapshotOf(group) == [type |-> "GroupSnapshot", version |-> 1, state |-> group]

Register(m, topics, static, fresh) ==
    [type |-> "MemberRegistered", version |-> 1, member |-> m, client_id |-> "c",
     topics |-> topics, static |-> static, fresh |-> fresh]

Leave(m) == [type |-> "MemberLeft", version |-> 1, member |-> m, reason |-> "closed"]

Expire(m) ==
    [type |-> "MemberExpired", version |-> 1, member |-> m, reason |-> "silent",
     silent_ms |-> 10001]

Count(topic, count, id) ==
    [type |-> "PartitionsCounted", version |-> 1, topic |-> topic, count |-> count,
     topic_id |-> id]

Rebalance(target) == [type |-> "Rebalanced", version |-> 1, target |-> target]

Reconcile(m, as_of, held, positions) ==
    [type |-> "Reconciled", version |-> 1, member |-> m, as_of |-> as_of,
     commits_only |-> FALSE, held |-> held, positions |-> positions]

Commit(m, as_of, positions) ==
    [type |-> "Reconciled", version |-> 1, member |-> m, as_of |-> as_of,
     commits_only |-> TRUE, held |-> {}, positions |-> positions]

Rewind(positions) ==
    [type |-> "PartitionsRewound", version |-> 1, positions |-> positions, by |-> "op"]

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
G == "g"                  \* the group

\* Events that are not about a group have no key.
KeyOf(event) ==
    IF event.type \in {"ControllerStarted", "ControllershipSnapshot"} THEN "" ELSE G

Record(offset, epoch, number, group, event) ==
    [offset |-> offset, epoch |-> epoch, number |-> number, group |-> group, event |-> event]

\* As a controller writes it that knows all that is before it.  A header is 0 or more, so before
\* the first start there is no right epoch.
Rightly(before, offset, event) ==
    IF event.type = "ControllerStarted"
    THEN Record(offset, NOT_DECIMAL, NOT_DECIMAL, KeyOf(event), event)
    ELSE Record(offset, Max(before.epoch, 0), before.number + 1, KeyOf(event), event)

RECURSIVE Folded(_, _)
Folded(before, records) ==
    IF Length(records) = 0 THEN before
    ELSE Folded(Step(before, First(records)).controllership, Rest(records))

\* The records that write these events rightly.
RECURSIVE RightlyAll(_, _, _)
RightlyAll(before, offset, events) ==
    IF Length(events) = 0 THEN <<>>
    ELSE LET record == Rightly(before, offset, First(events))
         IN  WithAll(<<record>>,
                     RightlyAll(Step(before, record).controllership, offset + 1, Rest(events)))

=============================================================================
