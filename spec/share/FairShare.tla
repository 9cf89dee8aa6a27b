----------------------------- MODULE FairShare -----------------------------
(***************************************************************************)
(* Members of one group that share its claims.                             *)
(*                                                                         *)
(* The log is here by what it says: who owns each claim, and who asked for *)
(* one that somebody owns.  That nobody owns two claims' worth of one, and *)
(* that a stale owner is replaced, is Claim.tla's and taken for granted.   *)
(* A member looks at the log whenever it likes and decides at once; what   *)
(* it decided lands any time later, when the log says something else: so a *)
(* member is as late as one that reads slowly.  What it asks for lands in  *)
(* its order; what it gives back lands when it has finished its work.      *)
(***************************************************************************)
EXTENDS Share

CONSTANT World            \* who takes part and how much of it there is: see below

Members    == DOMAIN World.keys_of
Keys       == DOMAIN World.topic_of
KeysOf     == World.keys_of               \* member -> the claims that it may own
StaticOf   == World.static_of             \* member -> those that it asked for by name
LimitOf    == World.limit_of              \* member -> how many it takes
TopicOf    == World.topic_of              \* claim -> topic
OwnersAtFirst == World.owners             \* claim -> who owned it when it began, or nobody
UpAtFirst  == World.up                    \* members that are there from the beginning
JoinsMax   == World.joins_max             \* how often a member comes
CrashesMax == World.crashes_max           \* how often one goes
OverdueMax == World.overdue_max           \* how often a free claim is passed on
Patient    == World.patient               \* who may act does so before others lose patience

VARIABLES
    owners,         \* who owns each claim, or nobody
    requests,       \* member -> the claim that it asked for and was refused, since its last win
    up,             \* the members that run
    memories,       \* what each remembers: see Share.tla
    moved,          \* ghost: who gave which claim back since the members last changed
    moves,          \* ghost: and how many that were
    mishaps         \* ghost: how often members came and went, to bound it

vars == <<owners, requests, up, memories, moved, moves, mishaps>>

Me(m) ==
    [id       |-> m,
     keys     |-> KeysOf[m],
     static   |-> StaticOf[m],
     limit    |-> LimitOf[m],
     topic_of |-> TopicOf]

Seen == [owners |-> owners, requests |-> requests]

Init ==
    /\ owners = OwnersAtFirst
    /\ requests = [m \in Members |-> NOBODY]
    /\ up = UpAtFirst
    /\ memories = [m \in Members |-> NewMemory]
    /\ moved = {}
    /\ moves = 0
    /\ mishaps = [joins |-> 0, crashes |-> 0]

Becomes(m, memory) == memories' = [memories EXCEPT ![m] = memory]

(***************************************************************************)
(* What a member does.                                                     *)
(***************************************************************************)

\* The log says that it is there.
Known(m) == requests[m] # NOBODY \/ \E key \in Keys : owners[key] = m

\* It is not there, or takes no more.
IsUnwilling(m) == m \notin up \/ Cardinality({key \in Keys : owners[key] = m}) >= LimitOf[m]

\* Once it is announced it waits until all are; and a free claim is passed on when those that
\* it was offered to cannot take it.
IsTime(m, overdue) ==
    Patient =>
        /\ Known(m) => \A other \in up : Known(other)
        /\ \A earlier \in 0 .. overdue - 1 :
            \A offer \in Offers(Me(m), Seen, earlier) :
                offer[1] \in OfferedToMe(Me(m), Seen, overdue) => IsUnwilling(offer[2])

AskForFree(m, overdue) ==
    /\ m \in up
    /\ \E me \in {Me(m)}, seen \in {Seen} :
       \E offered \in {OfferedToMe(me, seen, overdue)} :
       \E asks \in {ClaimsToAsk(me, seen, memories[m], offered)} :
           /\ asks # <<>>
           /\ IsTime(m, overdue) = TRUE
           /\ Becomes(m, [memories[m] EXCEPT !.asked = WithAll(@, asks)])
    /\ UNCHANGED <<owners, requests, up, moved, moves, mishaps>>

Name(m, passed_over) ==
    Becomes(m, [memories[m] EXCEPT
        !.asked = <<ClaimToName(Me(m), Seen, passed_over)>>,
        !.passed_over = passed_over])

AskForShare(m) ==
    /\ m \in up
    /\ memories[m].asked = <<>>
    /\ \E me \in {Me(m)}, seen \in {Seen} :
       \E offered \in {OfferedToMe(me, seen, 0)} :
           WantsToName(me, seen, memories[m], offered) = TRUE
    /\ Name(m, memories[m].passed_over)
    /\ UNCHANGED <<owners, requests, up, moved, moves, mishaps>>

\* Nobody answered, for long.
NobodyWillGive(key) == owners[key] \notin up \/ key \in StaticOf[owners[key]]

PassedOver(m) ==
    LET tried == memories[m].passed_over \cup {requests[m]}
    IN  IF Gettable(Me(m), Seen) \subseteq tried THEN {requests[m]} ELSE tried

AskAgain(m) ==
    /\ m \in up
    /\ memories[m].asked = <<>>
    /\ \E me \in {Me(m)}, seen \in {Seen} :
           /\ IsHungry(me, seen) /\ IsWaiting(me, seen)
           /\ ClaimsToAsk(me, seen, memories[m], OfferedToMe(me, seen, 0)) = <<>>
    /\ (Patient => NobodyWillGive(requests[m])) = TRUE
    /\ Name(m, PassedOver(m))
    /\ UNCHANGED <<owners, requests, up, moved, moves, mishaps>>

GiveBack(m, key) ==
    /\ m \in up
    /\ owners[key] = m
    /\ key \in ClaimsToGive(Me(m), Seen, memories[m])
    /\ Becomes(m, [memories[m] EXCEPT !.giving = @ \cup {key}])
    /\ moved' = moved \cup {<<m, key>>}
    /\ moves' = moves + 1
    /\ UNCHANGED <<owners, requests, up, mishaps>>

(***************************************************************************)
(* What lands.  Claim.tla decides what it does.                            *)
(***************************************************************************)
\* Somebody of whom the log knew nothing: the members changed.
Forgotten == moved' = {} /\ moves' = 0
Counted(m) == IF Known(m) THEN UNCHANGED <<moved, moves>> ELSE Forgotten

LandAsk(m) ==
    /\ memories[m].asked # <<>>
    /\ LET key == First(memories[m].asked) IN
       IF owners[key] \in {NOBODY, m}
       THEN /\ owners' = [owners EXCEPT ![key] = m]
            /\ requests' = [requests EXCEPT ![m] = NOBODY]
       ELSE /\ requests' = [requests EXCEPT ![m] = key]
            /\ UNCHANGED owners
    /\ Becomes(m, [memories[m] EXCEPT !.asked = Rest(@)])
    /\ Counted(m)
    /\ UNCHANGED <<up, mishaps>>

LandRelease(m, key) ==
    /\ m \in up
    /\ key \in memories[m].giving
    /\ owners' = [owners EXCEPT ![key] = NOBODY]
    /\ requests' = [requests EXCEPT ![m] = NOBODY]
    /\ Becomes(m, [memories[m] EXCEPT !.giving = @ \ {key}])
    /\ UNCHANGED <<up, moved, moves, mishaps>>

(***************************************************************************)
(* Members come and go.  A client that comes back takes over what it owned *)
(* before; if it stays away, its claims go stale and its request is old.   *)
(***************************************************************************)
Join(m) ==
    /\ m \notin up
    /\ memories[m].asked = <<>>
    /\ mishaps.joins < JoinsMax
    /\ up' = up \cup {m}
    /\ mishaps' = [mishaps EXCEPT !.joins = @ + 1]
    /\ UNCHANGED <<owners, requests, memories, moved, moves>>

\* What it produced may land.
Crash(m) ==
    /\ m \in up
    /\ mishaps.crashes < CrashesMax
    /\ up' = up \ {m}
    /\ Becomes(m, [NewMemory EXCEPT !.asked = memories[m].asked])
    /\ Forgotten
    /\ mishaps' = [mishaps EXCEPT !.crashes = @ + 1]
    /\ UNCHANGED <<owners, requests>>

Expire(m) ==
    /\ m \notin up
    /\ Known(m) = TRUE
    /\ owners' = [key \in Keys |-> IF owners[key] = m THEN NOBODY ELSE owners[key]]
    /\ requests' = [requests EXCEPT ![m] = NOBODY]
    /\ Forgotten
    /\ UNCHANGED <<up, memories, mishaps>>

Acts(m) ==
    \/ \E overdue \in 0 .. OverdueMax : AskForFree(m, overdue)
    \/ AskForShare(m)
    \/ \E key \in Keys : GiveBack(m, key)

Lands(m) == LandAsk(m) \/ \E key \in Keys : LandRelease(m, key)

Next ==
    \E m \in Members :
        \/ Acts(m)
        \/ AskAgain(m)
        \/ Lands(m)
        \/ Join(m)
        \/ Crash(m)
        \/ Expire(m)

Spec == Init /\ [][Next]_vars

\* A member that is up acts, what is sent is appended, and a member that is gone is noticed.
Fairness ==
    \A m \in Members :
        WF_vars(Acts(m)) /\ WF_vars(AskAgain(m)) /\ WF_vars(Lands(m)) /\ WF_vars(Expire(m))

FairSpec == Spec /\ Fairness

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
Owned(m) == CountOf(Me(m), Seen, m)

\* A member would have a claim of another, and both would be the better for it.
IsUnfair(poor, rich) ==
    /\ Owned(poor) < LimitOf[poor]
    /\ \E key \in KeysOf[poor] \ StaticOf[rich] : owners[key] = rich
    /\ IsRicher(Me(poor), Seen, rich)
    /\ Owned(rich) >= CountOf(Me(rich), Seen, poor) + 2

\* As even as it can be, and nothing that somebody would take is left.
IsBalanced ==
    /\ \A poor, rich \in up : ~IsUnfair(poor, rich)
    /\ \A key \in Keys : owners[key] \notin up =>
           \A m \in up : key \in KeysOf[m] => Owned(m) >= LimitOf[m]

Balanced == <>[]IsBalanced

\* Where everybody may own every claim, and as many as it likes: to the letter.
IsEven == \A one, other \in up : Owned(one) <= Owned(other) + 1

Even == <>[]IsEven

\* Everybody has something to do, if there is enough.
NobodyStarves == Cardinality(Keys) >= Cardinality(Members) => <>[](\A m \in up : Owned(m) > 0)

\* What a member gives back in this step.
Gives(m) == memories'[m].giving \ memories[m].giving

\* No claim is given back unless that makes the difference smaller, as its owner read it, and
\* as it will be when all that it gives has landed.
GivesStepwise ==
    \A m \in Members : \A key \in Gives(m) : \E asker \in Members \ {m} :
        /\ requests[asker] = key
        /\ Owned(m) - Cardinality(memories[m].giving) >= CountOf(Me(m), Seen, asker) + 2

GivesToThePoorer == [][GivesStepwise]_vars

\* While the members stay the same, nobody gives the same claim back twice.
MovesStepwise == \A m \in Members : \A key \in Gives(m) : <<m, key>> \notin moved

NoPingPong == [][MovesStepwise]_vars

\* Since the members last changed there were no more moves than it takes; or, where members
\* were at odds about what is free, than that and one for each claim that they were at odds about.
FewMoves == moves <= World.moves_max

=============================================================================
