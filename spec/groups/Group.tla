-------------------------------- MODULE Group --------------------------------
(***************************************************************************)
(* The reducer of groups: what one event of `__marshal_groups` does to the *)
(* controllership of its partition, and to the group that it names.        *)
(*                                                                         *)
(* A controller decides and writes each decision down; what follows from   *)
(* a decision is worked out here, by everybody alike.  So a group is a     *)
(* function of the events of one partition, in offset order, and of        *)
(* nothing else: no clock, no session, no connection.                      *)
(*                                                                         *)
(* This module does not know who sends events, who reads them, or what a   *)
(* member does: that is Controller.tla, GroupMember.tla and                *)
(* GroupWorld.tla.  It has no variables.                                   *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

(***************************************************************************)
(* Values.  TLC compares integers with integers only, so "nothing" is an   *)
(* integer where a number could stand, and a string where an id could.     *)
(***************************************************************************)
NONE == -1                \* no epoch, no position, no controller
NOT_DECIMAL == -2         \* a header that is not decimal, or is not there
NOBODY == "none"          \* no owner, no target, no host

EventTypes ==
    {"ControllerStarted", "ControllershipSnapshot", "GroupCreated", "GroupDeleted",
     "GroupSnapshot", "MemberRegistered", "MemberLeft", "MemberExpired",
     "PartitionsCounted", "Rebalanced", "Reconciled", "PartitionsRewound"}

\* What an accepted event did.
Accepted ==
    {"Started", "Created", "Deleted", "Joined", "Renewed", "WishesChanged", "Left",
     "Expired", "Counted", "Rebalanced", "Reconciled", "Rewound",
     "SnapshotTaken", "SnapshotAgrees", "SnapshotDiffers"}

\* The guards that refuse an event, in the order in which they are tested.
Refused ==
    <<"UnknownVersion", "Malformed", "NotTheEpoch", "Deposed", "NeverStarted",
      "OutOfNumber", "NoSuchGroup", "GroupExists", "NotEmpty", "UnknownMember",
      "NothingNew", "StillOwned", "Remade", "Shrunk", "NotAMember", "NotWanted",
      "NotAllAssigned", "NothingChanged", "UnknownPartition">>

\* What a Reconciled that is accepted does to each position, and to each partition that its
\* member must let go and says that it does not hold.
OfAPosition == <<"UnknownPartition", "NotOwner", "OtherTenure", "NotAhead", "Committed">>
OfARelease  == <<"NotTold", "Released">>

PASSES == "Passes"        \* no guard refused

\* Before the first event.
NewControllership ==
    [epoch         |-> NONE,  \* the offset of the ControllerStarted that won
     number        |-> 0,     \* events accepted so far
     controller_id |-> NONE,
     host          |-> NOBODY,
     port          |-> 0,
     groups        |-> [id \in {} |-> NONE]]

\* A partition of a topic that the group consumes.
NewPartition(position) ==
    [owner    |-> NOBODY,
     tenure   |-> 0,          \* number of the event that granted or rewound it
     target   |-> NOBODY,     \* whose it is to be
     revoking |-> 0,          \* number of the event since which its owner must let it go
     position |-> position]   \* NONE: nobody committed yet, so the consumer's policy says

\* The controllership did or did not change, and why.  `positions` and `releases` are what a
\* Reconciled did to each partition.
NO_PARTITIONS == [tp \in {} |-> PASSES]

Outcome(controllership, verdict) ==
    [controllership |-> controllership, verdict |-> verdict,
     positions |-> NO_PARTITIONS, releases |-> NO_PARTITIONS]

(***************************************************************************)
(* Words for a group.                                                      *)
(***************************************************************************)
Max(a, b) == IF a > b THEN a ELSE b

Members(group)     == DOMAIN group.members
IsMember(group, m) == m \in Members(group)
IsKnown(controllership, record) == record.group \in DOMAIN controllership.groups
GroupOf(controllership, record) == controllership.groups[record.group]

\* Of a topic that is gone, a partition is left as long as it has an owner.
Exists(group, tp) ==
    tp.topic \in DOMAIN group.topics /\ tp.partition < group.topics[tp.topic].count

PartitionsOf(topics) ==
    UNION {{[topic |-> topic, partition |-> k] : k \in 0 .. topics[topic].count - 1} :
               topic \in DOMAIN topics}

Owns(group, m, tp)  == tp \in DOMAIN group.partitions /\ group.partitions[tp].owner = m
OwnedBy(group, m)   == {tp \in DOMAIN group.partitions : group.partitions[tp].owner = m}
IsOwned(partition)  == partition.owner # NOBODY
IsRevoking(partition) == partition.revoking # 0

\* Who asked for this partition by its number, and who of them came first in the log.
Askers(group, tp) == {m \in Members(group) : tp \in DOMAIN group.members[m].static}

AskedFirst(group, tp, m) ==
    /\ m \in Askers(group, tp)
    /\ \A other \in Askers(group, tp) :
           group.members[m].static[tp] <= group.members[other].static[tp]

\* A partition that somebody asked for by its number is nobody else's.
MayHave(group, m, tp) ==
    IF Askers(group, tp) # {} THEN AskedFirst(group, tp, m)
    ELSE tp.topic \in group.members[m].topics

IsWanted(group, tp) == \E m \in Members(group) : MayHave(group, m, tp)

Wanted(group) == {tp \in PartitionsOf(group.topics) : IsWanted(group, tp)}

\* What a target is made of: who is a member, what each of them wants, and what there is.
Wishes(group) ==
    [m \in Members(group) |->
        [topics |-> group.members[m].topics, static |-> group.members[m].static]]

\* G10.  The second half: a topic that went and came back between two rebalances is what it
\* was, and its partitions are new.
IsDue(group) ==
    \/ group.target_of # [members |-> Wishes(group), topics |-> group.topics]
    \/ \E tp \in Wanted(group) : group.partitions[tp].target = NOBODY

(***************************************************************************)
(* What a controller answers from.                                         *)
(***************************************************************************)

\* The partitions in an answer: those that the member owns and may keep.
ToOwn(group, m) == {tp \in OwnedBy(group, m) : ~IsRevoking(group.partitions[tp])}

\* A member that knows the group as of this generation has something to learn.
MustRegister(group, m, generation) ==
    \/ group.rebalanced_at > generation
    \/ \E tp \in OwnedBy(group, m) :
           \/ group.partitions[tp].tenure > generation
           \/ group.partitions[tp].revoking > generation

(***************************************************************************)
(* Settle: what follows from every event.  Whatever is free goes to its    *)
(* target.  All that one event grants has its number as tenure.            *)
(***************************************************************************)
IsFree(group, tp) == ~IsOwned(group.partitions[tp])

\* Nothing of a topic that is gone is left but what somebody still owns.
Remaining(group) == {tp \in DOMAIN group.partitions : Exists(group, tp) \/ ~IsFree(group, tp)}

\* Eager: nothing is granted before everything was let go.  So one rebalance granted all that
\* members own.
BarrierHolds(group) ==
    /\ group.rebalance = "eager"
    /\ \E tp \in DOMAIN group.partitions :
           IsOwned(group.partitions[tp]) /\ IsRevoking(group.partitions[tp])

\* G6: a partition is granted when nobody owns it.
IsGranted(group, tp) ==
    /\ IsFree(group, tp)
    /\ IsMember(group, group.partitions[tp].target)
    /\ ~BarrierHolds(group)

Granted(partition, number) ==
    [partition EXCEPT !.owner = partition.target, !.tenure = number, !.revoking = 0]

Settle(group, number) ==
    LET left == [group EXCEPT !.partitions = [tp \in Remaining(group) |-> group.partitions[tp]]]
    IN  [left EXCEPT
            !.partitions =
                [tp \in DOMAIN @ |->
                    IF IsGranted(left, tp) THEN Granted(@[tp], number) ELSE @[tp]]]

\* The generation is the number of the last event that changed who is a member, what must be
\* let go, or the owner or tenure of a partition.
OwnersDiffer(before, after) ==
    \E tp \in DOMAIN before.partitions :
        \/ tp \notin DOMAIN after.partitions
        \/ before.partitions[tp].owner # after.partitions[tp].owner
        \/ before.partitions[tp].tenure # after.partitions[tp].tenure

\* The group after an event: settled, and of a new generation where that is due.
Settled(before, after, number) ==
    LET settled == Settle(after, number)
    IN  IF OwnersDiffer(before, settled)
        THEN [settled EXCEPT !.generation = number] ELSE settled

(***************************************************************************)
(* The guards of every event.  Each is true when it refuses.               *)
(***************************************************************************)
UnknownVersion(controllership, record) ==
    record.event.version # 1 \/ record.event.type \notin EventTypes

\* A start names the epoch that it ends: of two that compete, the first in the log wins.
NotTheEpoch(controllership, record) == record.event.supersedes # controllership.epoch

Malformed(controllership, record) == NOT_DECIMAL \in {record.epoch, record.number}

\* G1: its sender was controller once.
Deposed(controllership, record) == record.epoch < controllership.epoch

\* An epoch is the offset of a ControllerStarted in this log, and that is not in it.
NeverStarted(controllership, record) == record.epoch > controllership.epoch

\* An event before it was lost, or it is a copy.
OutOfNumber(controllership, record) == record.number # controllership.number + 1

NoSuchGroup(controllership, record) == ~IsKnown(controllership, record)

EpochGuard(controllership, record) ==
    IF Malformed(controllership, record)         THEN "Malformed"
    ELSE IF Deposed(controllership, record)      THEN "Deposed"
    ELSE IF NeverStarted(controllership, record) THEN "NeverStarted"
    ELSE IF OutOfNumber(controllership, record)  THEN "OutOfNumber"
    ELSE PASSES

\* An event of a later version that counts.  A reader that does not know it loses the count, so
\* it stops: it neither answers nor competes.  A ControllerStarted is never of a later version:
\* it gets fields, and older readers pass over them.
StopsReader(controllership, record) ==
    /\ UnknownVersion(controllership, record)
    /\ record.epoch = controllership.epoch
    /\ record.number = controllership.number + 1

(***************************************************************************)
(* The guards of one event each.                                           *)
(***************************************************************************)
GroupExists(controllership, record) == IsKnown(controllership, record)

NotEmpty(group, event) == Members(group) # {}

UnknownMember(group, event) == ~IsMember(group, event.member)

HasTopic(group, event) == event.topic \in DOMAIN group.topics

NothingNew(group, event) ==
    IF HasTopic(group, event)
    THEN group.topics[event.topic] = [count |-> event.count, topic_id |-> event.topic_id]
    ELSE event.count = 0

\* A topic that was made anew has no partitions while one of the old topic has an owner.
StillOwned(group, event) ==
    /\ ~HasTopic(group, event)
    /\ \E tp \in DOMAIN group.partitions : tp.topic = event.topic

\* Another topic of that name, or fewer partitions: the old one is counted 0 first, so that
\* its positions are gone.
Remade(group, event) ==
    /\ HasTopic(group, event) /\ event.count > 0
    /\ group.topics[event.topic].topic_id # event.topic_id

Shrunk(group, event) ==
    /\ HasTopic(group, event) /\ event.count > 0
    /\ event.count < group.topics[event.topic].count

Named(event) == {event.target[tp] : tp \in DOMAIN event.target}

NotAMember(group, event) == \E m \in Named(event) : ~IsMember(group, m)

NotWanted(group, event) ==
    \E tp \in DOMAIN event.target :
        ~Exists(group, tp) \/ ~MayHave(group, event.target[tp], tp)

NotAllAssigned(group, event) == \E tp \in Wanted(group) : tp \notin DOMAIN event.target

NothingChanged(group, event) == ~IsDue(group)

UnknownPartition(group, event) ==
    \E tp \in DOMAIN event.positions : tp \notin DOMAIN group.partitions

\* G7, G8: of each position that a member commits.
IsUnknown(group, tp)       == tp \notin DOMAIN group.partitions
NotOwner(group, m, tp)     == group.partitions[tp].owner # m
OtherTenure(group, tp, at) == group.partitions[tp].tenure # at.tenure
NotAhead(group, tp, at)    == at.offset <= group.partitions[tp].position

\* G6: of each partition that a member does not hold.  What it says as of an earlier
\* generation, it says of what it was not yet granted, or not yet told to let go.
NotTold(group, tp, event) ==
    event.as_of < group.partitions[tp].revoking \/ event.as_of > group.generation

(***************************************************************************)
(* What each event does to its group.  Guards first, then one value.       *)
(***************************************************************************)

\* Which number has the wish for this partition: an unchanged one keeps its own.
StaticOf(group, event, number) ==
    [tp \in event.static |->
        IF IsMember(group, event.member) /\ tp \in DOMAIN group.members[event.member].static
        THEN group.members[event.member].static[tp] ELSE number]

RegisteredVerdict(group, event) ==
    IF ~IsMember(group, event.member) THEN "Joined"
    ELSE IF event.fresh THEN "Renewed"
    ELSE "WishesChanged"

MemberOf(group, event, number) ==
    [client_id |-> event.client_id,
     topics    |-> event.topics,
     static    |-> StaticOf(group, event, number),
     joined_at |-> IF IsMember(group, event.member)
                   THEN group.members[event.member].joined_at ELSE number]

WithMember(group, event, number) ==
    [group EXCEPT
        !.members = [m \in DOMAIN @ \cup {event.member} |->
                        IF m = event.member THEN MemberOf(group, event, number) ELSE @[m]]]

LetGo(partition) == [partition EXCEPT !.owner = NOBODY, !.revoking = 0]

\* Without memory it holds nothing: what it must let go is free, and the rest begins anew.
Renewed(partition, number) ==
    IF IsRevoking(partition) THEN LetGo(partition) ELSE [partition EXCEPT !.tenure = number]

Fresh(group, m, number) ==
    [group EXCEPT
        !.partitions = [tp \in DOMAIN @ |->
                            IF @[tp].owner = m THEN Renewed(@[tp], number) ELSE @[tp]]]

MemberRegistered(group, event, number) ==
    LET joined == WithMember(group, event, number)
    IN  IF ~IsMember(group, event.member) THEN [joined EXCEPT !.generation = number]
        ELSE IF event.fresh THEN Fresh(joined, event.member, number)
        ELSE joined

WithoutMember(group, m, number) ==
    [group EXCEPT
        !.members    = [other \in DOMAIN @ \ {m} |-> @[other]],
        !.partitions = [tp \in DOMAIN @ |-> IF @[tp].owner = m THEN LetGo(@[tp]) ELSE @[tp]],
        !.generation = number]

\* A partition that must be let go since an earlier event keeps that event's number: its owner
\* may know of it already.
Revoked(partition, number) ==
    [partition EXCEPT !.revoking = IF @ = 0 THEN number ELSE @]

\* The topic is gone.  What somebody owns of it must be let go, and is left until then.
Gone(group, event, number) ==
    [group EXCEPT
        !.topics     = [topic \in DOMAIN @ \ {event.topic} |-> @[topic]],
        !.partitions = [tp \in DOMAIN @ |->
                            IF tp.topic # event.topic THEN @[tp]
                            ELSE IF IsOwned(@[tp])
                            THEN Revoked([@[tp] EXCEPT !.target = NOBODY], number)
                            ELSE [@[tp] EXCEPT !.target = NOBODY]],
        !.generation = number]

\* Partitions that come later are consumed from their beginning.
Grown(group, event) ==
    LET topics == [topic \in DOMAIN group.topics \cup {event.topic} |->
                      IF topic = event.topic
                      THEN [count |-> event.count, topic_id |-> event.topic_id]
                      ELSE group.topics[topic]]
        added  == PartitionsOf(topics) \ DOMAIN group.partitions
    IN  [group EXCEPT
            !.topics     = topics,
            !.partitions = [tp \in DOMAIN @ \cup added |->
                                IF tp \in added THEN NewPartition(0) ELSE @[tp]]]

PartitionsCounted(group, event, number) ==
    IF event.count = 0 THEN Gone(group, event, number) ELSE Grown(group, event)

\* Incremental, an owner lets go of what is to be another's; eager, of everything.
MustLetGo(group, partition) ==
    /\ IsOwned(partition)
    /\ group.rebalance = "eager" \/ partition.owner # partition.target

Retargeted(group, event, tp, number) ==
    LET partition == [group.partitions[tp] EXCEPT
                         !.target = IF tp \in DOMAIN event.target
                                    THEN event.target[tp] ELSE NOBODY]
    IN  IF MustLetGo(group, partition) THEN Revoked(partition, number)
        ELSE [partition EXCEPT !.revoking = 0]

Rebalanced(group, event, number) ==
    [group EXCEPT
        !.partitions    = [tp \in DOMAIN @ |-> Retargeted(group, event, tp, number)],
        !.target_of     = [members |-> Wishes(group), topics |-> group.topics],
        !.rebalanced_at = number,
        !.generation    = number]

\* A position only rises, and only by its owner, who knows the tenure.
PositionVerdict(group, event, tp) ==
    LET at == event.positions[tp]
    IN  IF IsUnknown(group, tp)                   THEN "UnknownPartition"
        ELSE IF NotOwner(group, event.member, tp) THEN "NotOwner"
        ELSE IF OtherTenure(group, tp, at)        THEN "OtherTenure"
        ELSE IF NotAhead(group, tp, at)           THEN "NotAhead"
        ELSE "Committed"

Committed(group, event) ==
    [group EXCEPT
        !.partitions =
            [tp \in DOMAIN @ |->
                IF tp \in DOMAIN event.positions
                   /\ PositionVerdict(group, event, tp) = "Committed"
                THEN [@[tp] EXCEPT !.position = event.positions[tp].offset] ELSE @[tp]]]

\* What the member owns, must let go, and says that it does not hold.
NotHeld(group, event) ==
    IF event.commits_only THEN {}
    ELSE {tp \in OwnedBy(group, event.member) \ event.held : IsRevoking(group.partitions[tp])}

ReleaseVerdict(group, event, tp) ==
    IF NotTold(group, tp, event) THEN "NotTold" ELSE "Released"

Released(group, event) ==
    [group EXCEPT
        !.partitions =
            [tp \in DOMAIN @ |->
                IF tp \in NotHeld(group, event) /\ ReleaseVerdict(group, event, tp) = "Released"
                THEN LetGo(@[tp]) ELSE @[tp]]]

Reconciled(group, event) == Released(Committed(group, event), event)

\* All or nothing.  The tenure changes, so commits of what was processed before are refused.
PartitionsRewound(group, event, number) ==
    [group EXCEPT
        !.partitions =
            [tp \in DOMAIN @ |->
                IF tp \in DOMAIN event.positions
                THEN [@[tp] EXCEPT !.position = event.positions[tp], !.tenure = number]
                ELSE @[tp]],
        !.generation = number]

\* Nobody is a member, and an empty target is right for that.
NewGroup(event, number) ==
    [session_timeout_ms |-> event.session_timeout_ms,
     rebalance          |-> event.rebalance,
     strategy           |-> event.strategy,
     ephemeral          |-> event.ephemeral,
     topics             |-> event.topics,
     members            |-> [m \in {} |-> NONE],
     generation         |-> number,
     rebalanced_at      |-> 0,
     target_of          |-> [members |-> [m \in {} |-> NONE], topics |-> event.topics],
     partitions         |-> [tp \in PartitionsOf(event.topics) |-> NewPartition(NONE)]]

(***************************************************************************)
(* The guards of an event of a known group, and what it does.              *)
(***************************************************************************)
CountGuard(group, event) ==
    IF NothingNew(group, event)      THEN "NothingNew"
    ELSE IF StillOwned(group, event) THEN "StillOwned"
    ELSE IF Remade(group, event)     THEN "Remade"
    ELSE IF Shrunk(group, event)     THEN "Shrunk"
    ELSE PASSES

TargetGuard(group, event) ==
    IF NotAMember(group, event)          THEN "NotAMember"
    ELSE IF NotWanted(group, event)      THEN "NotWanted"
    ELSE IF NotAllAssigned(group, event) THEN "NotAllAssigned"
    ELSE IF NothingChanged(group, event) THEN "NothingChanged"
    ELSE PASSES

MemberGuard(group, event) ==
    IF UnknownMember(group, event) THEN "UnknownMember" ELSE PASSES

EventGuard(group, event) ==
    CASE event.type \in {"MemberLeft", "MemberExpired", "Reconciled"} -> MemberGuard(group, event)
      [] event.type = "PartitionsCounted" -> CountGuard(group, event)
      [] event.type = "Rebalanced"        -> TargetGuard(group, event)
      [] event.type = "PartitionsRewound" ->
             IF UnknownPartition(group, event) THEN "UnknownPartition" ELSE PASSES
      [] event.type = "MemberRegistered"  -> PASSES

After(group, event, number) ==
    CASE event.type = "MemberRegistered"  -> MemberRegistered(group, event, number)
      [] event.type \in {"MemberLeft", "MemberExpired"} -> WithoutMember(group, event.member, number)
      [] event.type = "PartitionsCounted" -> PartitionsCounted(group, event, number)
      [] event.type = "Rebalanced"        -> Rebalanced(group, event, number)
      [] event.type = "Reconciled"        -> Reconciled(group, event)
      [] event.type = "PartitionsRewound" -> PartitionsRewound(group, event, number)

EventVerdict(group, event) ==
    CASE event.type = "MemberRegistered"  -> RegisteredVerdict(group, event)
      [] event.type = "MemberLeft"        -> "Left"
      [] event.type = "MemberExpired"     -> "Expired"
      [] event.type = "PartitionsCounted" -> "Counted"
      [] event.type = "Rebalanced"        -> "Rebalanced"
      [] event.type = "Reconciled"        -> "Reconciled"
      [] event.type = "PartitionsRewound" -> "Rewound"

(***************************************************************************)
(* One step of the controllership.  Every event that is accepted counts.   *)
(***************************************************************************)
Counted(controllership) == [controllership EXCEPT !.number = @ + 1]

WithGroup(controllership, id, group) ==
    [Counted(controllership) EXCEPT
        !.groups = [other \in DOMAIN @ \cup {id} |-> IF other = id THEN group ELSE @[other]]]

WithoutGroup(controllership, id) ==
    [Counted(controllership) EXCEPT !.groups = [other \in DOMAIN @ \ {id} |-> @[other]]]

ControllerStarted(controllership, record) ==
    IF NotTheEpoch(controllership, record)
    THEN Outcome(controllership, "NotTheEpoch")
    ELSE Outcome(
        [Counted(controllership) EXCEPT
            !.epoch         = record.offset,
            !.controller_id = record.event.controller_id,
            !.host          = record.event.host,
            !.port          = record.event.port],
        "Started")

\* For a reader that begins here.  Any other knows who is controller, and checks.
ControllershipSnapshot(controllership, record) ==
    LET agrees == /\ record.event.controller_id = controllership.controller_id
                  /\ record.event.host = controllership.host
                  /\ record.event.port = controllership.port
    IN  Outcome(Counted(controllership),
                IF agrees THEN "SnapshotAgrees" ELSE "SnapshotDiffers")

\* A reader that begins here begins with this group.  Any other knows it, and checks.
GroupSnapshot(controllership, record) ==
    IF ~IsKnown(controllership, record)
    THEN Outcome(WithGroup(controllership, record.group, record.event.state), "SnapshotTaken")
    ELSE Outcome(Counted(controllership),
                 IF record.event.state = GroupOf(controllership, record)
                 THEN "SnapshotAgrees" ELSE "SnapshotDiffers")

GroupCreated(controllership, record) ==
    IF GroupExists(controllership, record)
    THEN Outcome(controllership, "GroupExists")
    ELSE Outcome(WithGroup(controllership, record.group,
                           NewGroup(record.event, controllership.number + 1)),
                 "Created")

GroupDeleted(controllership, record) ==
    IF NoSuchGroup(controllership, record)
    THEN Outcome(controllership, "NoSuchGroup")
    ELSE IF NotEmpty(GroupOf(controllership, record), record.event)
    THEN Outcome(controllership, "NotEmpty")
    ELSE Outcome(WithoutGroup(controllership, record.group), "Deleted")

\* What a Reconciled did to each partition.  Positions are judged first; a partition can be
\* committed and let go by one event.
InEach(group, event, outcome) ==
    IF event.type # "Reconciled" THEN outcome
    ELSE [outcome EXCEPT
             !.positions = [tp \in DOMAIN event.positions |-> PositionVerdict(group, event, tp)],
             !.releases  = [tp \in NotHeld(group, event) |-> ReleaseVerdict(group, event, tp)]]

GroupEvent(controllership, record) ==
    LET group  == GroupOf(controllership, record)
        event  == record.event
        number == controllership.number + 1
        after  == Settled(group, After(group, event, number), number)
    IN  IF NoSuchGroup(controllership, record)
        THEN Outcome(controllership, "NoSuchGroup")
        ELSE IF EventGuard(group, event) # PASSES
        THEN Outcome(controllership, EventGuard(group, event))
        ELSE InEach(group, event,
                    Outcome(WithGroup(controllership, record.group, after),
                            EventVerdict(group, event)))

Step(controllership, record) ==
    LET type == record.event.type
    IN  IF UnknownVersion(controllership, record)
        THEN Outcome(controllership, "UnknownVersion")
        ELSE IF type = "ControllerStarted"
        THEN ControllerStarted(controllership, record)
        ELSE IF EpochGuard(controllership, record) # PASSES
        THEN Outcome(controllership, EpochGuard(controllership, record))
        ELSE CASE type = "ControllershipSnapshot" ->
                      ControllershipSnapshot(controllership, record)
               [] type = "GroupCreated"           -> GroupCreated(controllership, record)
               [] type = "GroupDeleted"           -> GroupDeleted(controllership, record)
               [] type = "GroupSnapshot"          -> GroupSnapshot(controllership, record)
               [] OTHER                           -> GroupEvent(controllership, record)

=============================================================================
