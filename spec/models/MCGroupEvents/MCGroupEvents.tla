---------------------------- MODULE MCGroupEvents ----------------------------
(***************************************************************************)
(* No controllers and no members: anybody appends any event of a small     *)
(* hostile set.                                                            *)
(*                                                                         *)
(* A controller that keeps the rules sends few of the events that the      *)
(* reducer must judge.  Here every event may follow every other, under     *)
(* right and wrong headers, so each edge is one more answer to "what does  *)
(* this event do to that group".  These edges are exported and held        *)
(* against the Python.                                                     *)
(*                                                                         *)
(* A log begins with Beginning, which only brings the group to where it is *)
(* interesting: in the middle of a rebalance, or with half a topic gone.   *)
(***************************************************************************)
EXTENDS GroupEvents, Export

CONSTANTS
    Beginning,            \* the first records, all accepted
    EventsOf(_),          \* (group): the events that may come, under right headers
    More                  \* as many records come after Beginning

VARIABLES
    controllership,
    length,               \* of the log, and so the next offset
    last                  \* the last record and its outcome; not part of the VIEW

vars == <<controllership, length, last>>

\* TLC orders records by the fields that it reads of first.  This one must come before any other
\* field of an event: events of two types hold values that TLC cannot compare.
TypeOf(event) == event.type

T0 == Tp("t", 0)
T1 == Tp("t", 1)
U0 == Tp("u", 0)

OneTopic(count)  == [x \in {"t"} |-> Topic(count, "first")]
TwoTopics == [x \in {"t", "u"} |-> IF x = "t" THEN Topic(2, "first") ELSE Topic(1, "first")]

(***************************************************************************)
(* Beginnings.                                                             *)
(***************************************************************************)
Empty == <<>>

Of(topics, rebalance) == <<Start(NONE, 1), Create(topics, rebalance)>>

Wants(m) == Register(m, {"t"}, {}, TRUE)

OneMember(rebalance) ==
    WithAll(Of(OneTopic(2), rebalance),
            <<Wants("m1"), Rebalance(Two(T0, "m1", T1, "m1"))>>)

\* m1 must let go: of one partition, or of both.
InRebalance(rebalance) ==
    WithAll(OneMember(rebalance), <<Wants("m2"), Rebalance(Two(T0, "m1", T1, "m2"))>>)

Created        == Of(TwoTopics, "incremental")
OneIncremental == OneMember("incremental")
TakenOver      == WithAll(Created, <<Start(0, 2)>>)
Incremental    == InRebalance("incremental")
Eager          == InRebalance("eager")
EagerAtRest    ==
    WithAll(Eager, <<Reconcile("m1", 6, {}, NoFunction)>>)

\* One position, and the topic counted 0 while m1 still owns both.
HalfGone ==
    WithAll(OneMember("incremental"),
            <<Commit("m1", 4, One(T0, [tenure |-> 4, offset |-> 1])), Count("t", 0, "none")>>)

\* Both ask for the same partition by its number, m2 first.
Static ==
    WithAll(Of(TwoTopics, "incremental"),
            <<Register("m2", {}, {T0}, TRUE), Register("m1", {"t", "u"}, {T0}, TRUE)>>)

(***************************************************************************)
(* What may come.  `group` is NoGroup where there is none.                 *)
(***************************************************************************)
NoGroup == [generation |-> 0, rebalanced_at |-> 0, partitions |-> NoFunction]
Current == IF G \in DOMAIN controllership.groups THEN controllership.groups[G] ELSE NoGroup

Ms == {"m1", "m2"}
Around(generation) == {generation - 1, generation, generation + 1}
TenureOf(group, tp) == IF tp \in DOMAIN group.partitions THEN group.partitions[tp].tenure ELSE 0
Targets ==
    {NoFunction, One(T0, "m1"), One(T0, "m3")}
    \cup {Two(T0, a, T1, b) : a \in Ms, b \in Ms}

Positions(group) ==
    {NoFunction, Two(T0, [tenure |-> TenureOf(group, T0), offset |-> 2],
                     Tp("t", 7), [tenure |-> 1, offset |-> 1])}
    \cup {One(T0, [tenure |-> tenure, offset |-> 1]) :
              tenure \in {TenureOf(group, T0) - 1, TenureOf(group, T0)}}

\* Of anything a little, from the beginning.
Anything(group) ==
    {Create(topics, "incremental") : topics \in {OneTopic(1), TwoTopics}}
    \cup {Create(OneTopic(2), "eager"), Delete, ControllershipSnapshotOf(1),
          ControllershipSnapshotOf(2), Leave("m1"), Expire("m2")}
    \cup {Register(m, {"t"}, static, TRUE) : m \in Ms, static \in {{}, {T0}}}
    \cup {Rebalance(target) : target \in {NoFunction, One(T0, "m1"), Two(T0, "m1", T1, "m1")}}
    \cup {Count("t", 0, "none"), Count("t", 1, "first"), Count("t", 2, "second"),
          Count("v", 1, "first"), Count("t", 3, "first")}
    \cup {Rewind(positions) : positions \in {One(T0, 1), One(Tp("t", 7), 0)}}
    \cup {Commit("m1", 1, One(T0, [tenure |-> 0, offset |-> 0]))}
    \cup {GroupSnapshotOf(NewGroup(Create(OneTopic(1), "eager"), 1))}

\* Two members in the middle of a rebalance.
InTheMiddle(group) ==
    {Leave("m1"), Expire("m2"), Expire("m3"), Delete, GroupSnapshotOf(group)}
    \cup {Register(m, {"t"}, {}, fresh) : m \in Ms, fresh \in BOOLEAN}
    \cup {Register("m3", {"t"}, {}, TRUE), Register("m1", {}, {T1}, FALSE)}
    \cup {Rebalance(target) : target \in Targets}
    \cup {Count("t", count, "first") : count \in {1, 2, 3}}
    \cup {Count("t", 0, "none"), Count("t", 2, "second")}
    \cup {Reconcile("m1", as_of, held, NoFunction) :
              as_of \in Around(group.generation) \cup {group.rebalanced_at},
              held \in {{}, {T0}, {T1}}}
    \cup {Reconcile("m2", group.generation, {}, positions) : positions \in Positions(group)}
    \cup {Commit("m1", group.generation, positions) : positions \in Positions(group)}
    \cup {Rewind(positions) : positions \in {One(T0, 0), Two(T0, 3, T1, 0)}}

\* Partitions that somebody asks for by their number, and two topics.
ByNumber(group) ==
    {Leave("m2"), Leave("m1"), Count("u", 0, "none"), Count("u", 1, "second")}
    \cup {Register("m1", topics, static, FALSE) :
              topics \in {{}, {"t"}, {"t", "u"}}, static \in {{}, {T0}}}
    \cup {Register("m2", {}, static, FALSE) : static \in {{}, {T0}, {T0, Tp("t", 7)}}}
    \cup {Rebalance(target) :
              target \in {Two(T0, m, T1, "m1") : m \in Ms}
                  \cup {[x \in {T0, T1, U0} |-> IF x = T0 THEN m ELSE "m1"] : m \in Ms}
                  \cup {[x \in {T0, T1, U0, Tp("t", 7)} |-> IF x = T0 THEN "m2" ELSE "m1"]}}
    \cup {Reconcile(m, group.generation, {}, NoFunction) : m \in Ms}

\* Headers that are wrong: of an old epoch, of one that never began, a copy, a gap, no number.
Wrongly(before, offset) ==
    {Record(offset, epoch, number, G, event) :
        epoch \in {NOT_DECIMAL} \cup
                      {e \in {before.epoch - 1, before.epoch, before.epoch + 1} : e >= 0},
        number \in {before.number, before.number + 1, before.number + 2, NOT_DECIMAL},
        event \in {Delete, [Delete EXCEPT !.version = 2],
                   [type |-> "MemberDanced", version |-> 1]}}

Starts(before, offset) ==
    {Rightly(before, offset, Start(supersedes, 2)) :
        supersedes \in {before.epoch - 1, before.epoch, before.epoch + 1}}

RecordsAt(before, offset) ==
    {Rightly(before, offset, event) : event \in EventsOf(Current)}
    \cup Wrongly(before, offset) \cup Starts(before, offset)

(***************************************************************************)
(* The log.                                                                *)
(***************************************************************************)
NoRecord == [record |-> NONE, outcome |-> NONE]

Init ==
    /\ controllership =
           Folded(NewControllership, RightlyAll(NewControllership, 0, Beginning))
    /\ length = Length(Beginning)
    /\ last = NoRecord

Append(record) ==
    LET outcome == Step(controllership, record)
    IN  /\ length < Length(Beginning) + More
        /\ controllership' = outcome.controllership
        /\ length' = length + 1
        /\ last' = [record |-> record, outcome |-> outcome]

Next == \E record \in RecordsAt(controllership, length) : Append(record)

Spec == Init /\ [][Next]_vars

\* The future does not depend on how the controllership came about.
ControllershipAndLength == <<controllership, length>>

ExportGroupStep == Export(<<controllership, last'.record, last'.outcome>>)

(***************************************************************************)
(* What is always true of a group.                                         *)
(***************************************************************************)
Groups == {controllership.groups[id] : id \in DOMAIN controllership.groups}
PartitionsIn(group) == {group.partitions[tp] : tp \in DOMAIN group.partitions}

EpochIsInLog ==
    /\ controllership.epoch < length
    /\ controllership.epoch = NONE => controllership.groups = NoFunction

OwnerIsMember ==
    \A group \in Groups : \A p \in PartitionsIn(group) : IsOwned(p) => IsMember(group, p.owner)

\* By the event that names them, or by an earlier one.
GenerationIsTheLatest ==
    \A group \in Groups :
        /\ group.generation \in 1 .. controllership.number
        /\ group.rebalanced_at <= group.generation
        /\ \A p \in PartitionsIn(group) :
               p.tenure <= group.generation /\ p.revoking <= group.generation

\* Nobody owns what was never granted.
OwnedWasGranted ==
    \A group \in Groups : \A p \in PartitionsIn(group) : IsOwned(p) => p.tenure > 0

RevokingIsOwned ==
    \A group \in Groups : \A p \in PartitionsIn(group) : IsRevoking(p) => IsOwned(p)

\* What exists and nothing else, but for what somebody still owns of a topic that is gone.
PartitionsAreTheTopics ==
    \A group \in Groups :
        /\ PartitionsOf(group.topics) \subseteq DOMAIN group.partitions
        /\ \A tp \in DOMAIN group.partitions :
               ~Exists(group, tp) => IsRevoking(group.partitions[tp])

\* Eager: of what is owned and exists, everything must be let go, or nothing.
AllOrNone ==
    \A group \in Groups :
        group.rebalance = "eager" =>
            LET owned == {tp \in PartitionsOf(group.topics) : ~IsFree(group, tp)}
            IN  \/ \A tp \in owned : IsRevoking(group.partitions[tp])
                \/ \A tp \in owned : ~IsRevoking(group.partitions[tp])

\* Nothing waits for a member that is there to take it, unless for the barrier.
IsSettled ==
    \A group \in Groups :
        \/ BarrierHolds(group)
        \/ \A tp \in DOMAIN group.partitions :
               IsFree(group, tp) => ~IsMember(group, group.partitions[tp].target)

(***************************************************************************)
(* What holds of every step, for every record.                             *)
(***************************************************************************)
Sent    == last'.record
Event   == last'.record.event
Verdict == last'.outcome.verdict
Obeyed  == Verdict \in Accepted

Both == DOMAIN controllership.groups \cap DOMAIN controllership'.groups
Was(id) == controllership.groups[id]
Is(id)  == controllership'.groups[id]
Kept(id) == DOMAIN Was(id).partitions \cap DOMAIN Is(id).partitions
WasAt(id, tp) == Was(id).partitions[tp]
IsAt(id, tp)  == Is(id).partitions[tp]

RefusedChangesNothingStepwise == ~Obeyed => controllership' = controllership

NumbersUnbrokenStepwise ==
    Obeyed => /\ controllership'.number = controllership.number + 1
              /\ TypeOf(Event) # "ControllerStarted" => Sent.number = controllership'.number

ControllerFencedStepwise ==
    Obeyed => IF TypeOf(Event) = "ControllerStarted"
              THEN Event.supersedes = controllership.epoch /\ controllership'.epoch = Sent.offset
              ELSE Sent.epoch = controllership.epoch /\ controllership'.epoch = Sent.epoch

FailoverKeepsGenerationStepwise ==
    TypeOf(Event) = "ControllerStarted" => controllership'.groups = controllership.groups

GenerationGrowsStepwise ==
    /\ \A id \in Both : Is(id).generation >= Was(id).generation
    /\ \A id \in Both : DOMAIN Is(id).members # DOMAIN Was(id).members
                            => Is(id).generation > Was(id).generation
    /\ \A id \in DOMAIN controllership'.groups \ DOMAIN controllership.groups :
           TypeOf(Event) = "GroupCreated" => Is(id).generation = controllership'.number

\* G6: what somebody owns, it owns until it leaves, expires, begins anew, or lets it go.
RevokeBeforeAssignStepwise ==
    \A id \in Both : \A tp \in DOMAIN Was(id).partitions :
        LET before == WasAt(id, tp)
        IN  IsOwned(before) /\ (tp \notin Kept(id) \/ IsAt(id, tp).owner # before.owner) =>
                /\ TypeOf(Event) \in {"MemberLeft", "MemberExpired", "MemberRegistered", "Reconciled"}
                /\ Event.member = before.owner
                /\ TypeOf(Event) \in {"MemberRegistered", "Reconciled"} => IsRevoking(before)
                /\ TypeOf(Event) = "Reconciled" =>
                       /\ ~Event.commits_only /\ tp \notin Event.held
                       /\ Event.as_of \in before.revoking .. Was(id).generation

\* A grant has a tenure of its own, and nobody else's tenure moves but by a rewind.
TenureIsOfOneOwnerStepwise ==
    \A id \in Both : \A tp \in Kept(id) :
        /\ IsOwned(IsAt(id, tp)) /\ IsAt(id, tp).owner # WasAt(id, tp).owner
               => IsAt(id, tp).tenure = controllership'.number
        /\ IsAt(id, tp).tenure \in {WasAt(id, tp).tenure, controllership'.number}

\* G7.
CommitFencedStepwise ==
    \A id \in Both : \A tp \in Kept(id) :
        IsAt(id, tp).position # WasAt(id, tp).position /\ TypeOf(Event) # "PartitionsRewound" =>
            /\ TypeOf(Event) = "Reconciled"
            /\ Event.member = WasAt(id, tp).owner
            /\ Event.positions[tp].tenure = WasAt(id, tp).tenure

\* G8.  A partition goes only with its topic.
OffsetsMonotoneStepwise ==
    \A id \in Both :
        /\ \A tp \in Kept(id) :
               \/ IsAt(id, tp).position >= WasAt(id, tp).position
               \/ TypeOf(Event) = "PartitionsRewound"
        /\ \A tp \in DOMAIN Was(id).partitions \ Kept(id) :
               tp.topic \notin DOMAIN Is(id).topics

\* Who commits afterwards does so under another tenure.
RewindSticksStepwise ==
    Verdict = "Rewound" =>
        \A tp \in DOMAIN Event.positions :
            /\ IsAt(G, tp).position = Event.positions[tp]
            /\ IsAt(G, tp).tenure = controllership'.number

\* A partition that begins to exist is free, from its beginning.  One of a topic that was made
\* anew did not exist before.
NewTopicBeginsAnewStepwise ==
    \A id \in Both :
        /\ \A tp \in PartitionsOf(Is(id).topics) \ PartitionsOf(Was(id).topics) :
               ~IsOwned(IsAt(id, tp)) /\ IsAt(id, tp).position = 0
        /\ \A topic \in DOMAIN Is(id).topics \cap DOMAIN Was(id).topics :
               Is(id).topics[topic].topic_id = Was(id).topics[topic].topic_id

\* G10.
RebalanceIsRightStepwise ==
    Verdict = "Rebalanced" =>
        /\ IsDue(Was(G))
        /\ ~IsDue(Is(G))
        /\ \A tp \in DOMAIN Event.target :
               IsMember(Is(G), Event.target[tp]) /\ MayHave(Is(G), Event.target[tp], tp)

NotEmptyIsKeptStepwise ==
    \A id \in DOMAIN controllership.groups \ DOMAIN controllership'.groups :
        Was(id).members = NoFunction

RefusedChangesNothing   == [][RefusedChangesNothingStepwise]_vars
NumbersUnbroken         == [][NumbersUnbrokenStepwise]_vars
ControllerFenced        == [][ControllerFencedStepwise]_vars
FailoverKeepsGeneration == [][FailoverKeepsGenerationStepwise]_vars
GenerationGrows         == [][GenerationGrowsStepwise]_vars
RevokeBeforeAssign      == [][RevokeBeforeAssignStepwise]_vars
TenureIsOfOneOwner      == [][TenureIsOfOneOwnerStepwise]_vars
CommitFenced            == [][CommitFencedStepwise]_vars
OffsetsMonotone         == [][OffsetsMonotoneStepwise]_vars
RewindSticks            == [][RewindSticksStepwise]_vars
NewTopicBeginsAnew      == [][NewTopicBeginsAnewStepwise]_vars
RebalanceIsRight        == [][RebalanceIsRightStepwise]_vars
NotEmptyIsKept          == [][NotEmptyIsKeptStepwise]_vars

\* Only these verdicts exist.
KnownVerdicts ==
    [][/\ Verdict \in Accepted \cup {Refused[k] : k \in DOMAIN Refused}
       /\ \A tp \in DOMAIN last'.outcome.positions :
              last'.outcome.positions[tp] \in {OfAPosition[k] : k \in DOMAIN OfAPosition}
       /\ \A tp \in DOMAIN last'.outcome.releases :
              last'.outcome.releases[tp] \in {OfARelease[k] : k \in DOMAIN OfARelease}]_vars

(***************************************************************************)
(* In the place of a rule, in the configurations that must fail.           *)
(***************************************************************************)
Waived(one, other)           == FALSE
WaivedOfThree(one, two, three) == FALSE
WaivedOfOne(group)           == FALSE
GrantedAtOnce(group, tp)     ==
    /\ group.partitions[tp].owner # group.partitions[tp].target
    /\ IsMember(group, group.partitions[tp].target)
GrantedInPlace(partition, number) ==
    [partition EXCEPT !.owner = partition.target, !.revoking = 0]
LetsGoRevoking(partition) == [partition EXCEPT !.owner = NOBODY]
OnlyExisting(group) == {tp \in DOMAIN group.partitions : Exists(group, tp)}
NothingDiffers(before, after) == FALSE
RewoundInPlace(group, event, number) ==
    [group EXCEPT
        !.partitions =
            [tp \in DOMAIN @ |->
                IF tp \in DOMAIN event.positions
                THEN [@[tp] EXCEPT !.position = event.positions[tp]] ELSE @[tp]],
        !.generation = number]
LeftAsItIs(group, m, number) ==
    [group EXCEPT
        !.members    = [other \in DOMAIN @ \ {m} |-> @[other]],
        !.partitions = [tp \in DOMAIN @ |-> IF @[tp].owner = m THEN LetGo(@[tp]) ELSE @[tp]]]

=============================================================================
