----------------------------- MODULE MCGroupWorld ----------------------------
(***************************************************************************)
(* Bounds for groups with controllers, and the ways to break them on       *)
(* purpose.                                                                *)
(***************************************************************************)
EXTENDS GroupProperties

Topics(count) == [x \in {"t"} |-> Topic(count, "first")]
AllTo(m, count) == [tp \in PartitionsOf(Topics(count)) |-> m]

\* m1 owns everything; m2 wants to join.
Alone(count, rebalance) ==
    <<Start(NONE, 1), Create(Topics(count), rebalance), Register("m1", {"t"}, {}, TRUE),
      Rebalance(AllTo("m1", count))>>

Joins(m) == Register(m, {"t"}, {}, TRUE)

\* m2 has joined, and a rebalance is due.
Joined(count, rebalance) == WithAll(Alone(count, rebalance), <<Joins("m2")>>)

JoinedOne == Joined(1, "incremental")
AloneOne  == Alone(1, "incremental")

\* The partition is to be m2's, and m1 must let go of it.
MovingOne == WithAll(JoinedOne, <<Rebalance(AllTo("m2", 1))>>)

\* m1 has let go of it, and it is m2's.
MovedOne == WithAll(MovingOne, <<Reconcile("m1", 6, {}, NoFunction)>>)

\* The same, and a rebalance is due.
MovedGrown == WithAll(MovedOne, <<Count("t", 2, "first")>>)

\* Eager: each owns one of two, and must let go of it, because there is a third.
EachOne == [tp \in PartitionsOf(Topics(2)) |-> IF tp.partition = 0 THEN "m1" ELSE "m2"]
EagerAtRest ==
    WithAll(Joined(2, "eager"),
            <<Rebalance(EachOne), Reconcile("m1", 6, {}, NoFunction)>>)
EagerMoving ==
    WithAll(EagerAtRest,
            <<Count("t", 3, "first"),
              Rebalance([tp \in PartitionsOf(Topics(3)) |->
                            IF tp.partition = 0 THEN "m1" ELSE "m2"])>>)

(***************************************************************************)
(* What m1 sent and was answered when it joined.                           *)
(***************************************************************************)
Nothing == {}

Request(m, to, connection, as_of) ==
    [member |-> m, to |-> to, connection |-> connection, as_of |-> as_of, held |-> {},
     positions |-> NoFunction, sent |-> 0]

\* It held nothing as of 3, before the partition was its own.
OldRequests == {Request("m1", NONE, 0, 3)}

\* It remembered nothing, and asked both controllers; then it connected again.
OldConnections == {Request("m1", c, 0, NONE) : c \in Controllers}

OldOfBoth == OldRequests \cup OldConnections

\* It was told that it owns the partition, and hears it again.
OldAnswers == {AnswerTo(GroupAt(4), "m1", 0, 0)}

\* As many requests each sends.
TwoAndOne(m) == IF m = "m1" THEN 2 ELSE 1
OneEach(m)   == 1
TwoOfM2(m)   == IF m = "m2" THEN 2 ELSE 0
OnlyM2(m)    == IF m = "m2" THEN 1 ELSE 0
NoRequest(m) == 0

\* In worlds in which nothing is processed.
SaysNothing(self) == NoFunction

(***************************************************************************)
(* Sessions.                                                               *)
(***************************************************************************)

\* m1 owns the partition, m2 is a member and owns nothing, and no rebalance is due.
RestedOne == WithAll(JoinedOne, <<Rebalance(AllTo("m1", 1))>>)

\* No request arrives twice.
EveryOne(request) == TRUE

\* Members ask once a tick, and are heard within it by who serves and is awake.
InTime == TRUE
OneATick(m) == 5

OneTick    == 1
TwoTicks   == 2
ThreeTicks == 3
FourTicks  == 4

(***************************************************************************)
(* In the place of a rule, in the configurations that must fail.           *)
(***************************************************************************)
Waived(one, other)             == FALSE
WaivedOfThree(one, two, three) == FALSE
WaivedOfOne(group)             == FALSE
Always(c, view, wait)          == TRUE
FromTheSpeculative(c, view)    == Speculative(c, view)

\* A failover begins with a group that has no members.
Emptied(group) ==
    [group EXCEPT
        !.members    = NoFunction,
        !.partitions = [tp \in DOMAIN @ |-> LetGo(@[tp])]]

ForgetsTheGroup(controllership, record) ==
    IF NotTheEpoch(controllership, record)
    THEN Outcome(controllership, "NotTheEpoch")
    ELSE Outcome(
        [Counted(controllership) EXCEPT
            !.epoch  = record.offset,
            !.groups = [id \in DOMAIN @ |-> Emptied(@[id])]],
        "Started")

GrantedAtOnce(group, tp) ==
    /\ group.partitions[tp].owner # group.partitions[tp].target
    /\ IsMember(group, group.partitions[tp].target)

NoConnections(c) == {}

\* G3, G4 and G5 left out, or half done.
AlwaysConfirmed(c, wait) == TRUE
FromTheAnswer(until, answer, lease, now) == Max(until, now + lease)
ListensNoLater(c, now) == clock.heard
NeverStopped(m) == FALSE

HearsClosed(self, answer) == FALSE

NeverVoid(c, request) == FALSE

RewoundInPlace(group, event, number) ==
    [group EXCEPT
        !.partitions =
            [tp \in DOMAIN @ |->
                IF tp \in DOMAIN event.positions
                THEN [@[tp] EXCEPT !.position = event.positions[tp]] ELSE @[tp]],
        !.generation = number]

=============================================================================
