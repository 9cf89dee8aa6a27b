---------------------------- MODULE MCSetPosition ----------------------------
(***************************************************************************)
(* Bounds for the administrators, and the ways to break them on purpose.   *)
(***************************************************************************)
EXTENDS SetPosition, Export

\* How many of each kind, in the order of the names.
Sends(claims_max, heartbeats, releases) ==
    [type \in MessageTypes |->
        CASE type = "ClaimingPartition"  -> claims_max
          [] type = "Heartbeat"          -> heartbeats
          [] type = "ReleasingPartition" -> releases
          [] type = "ReleaseGroup"       -> 1
          [] OTHER                       -> 0]

BothTo1 == [k1 |-> 1, k2 |-> 1]

Base ==
    [keys               |-> {"k1", "k2"},
     client_of          |-> [x1 |-> "x"],
     targets            |-> [x1 |-> BothTo1],
     joins_late         |-> {},
     consumer           |-> [instance_id |-> "c1", client_id |-> "c"],
     offset_max         |-> 2,
     consumer_sends_max |-> Sends(2, 1, 0),
     admin_sends_max    |-> Sends(1, 0, 1),
     in_order           |-> FALSE,
     one_by_one         |-> FALSE,
     gives_up_max       |-> 0,
     calls_off          |-> TRUE,
     crashes_max        |-> 0,
     losses_max         |-> 0]

\* One administrator, a consumer that wants both claims and speaks late, and a crash anywhere.
One == [Base EXCEPT !.crashes_max = 1, !.in_order = TRUE]

\* It heartbeats, and begins to read where the log's head is gone.
Late ==
    [Base EXCEPT
        !.joins_late = {"x1"},
        !.admin_sends_max = Sends(1, 1, 1),
        !.consumer_sends_max = Sends(1, 0, 0),
        !.in_order = TRUE]

\* One claim, whose consumer got on: an administrator that does not know how far must not
\* give it back.
LateOfOne ==
    [Late EXCEPT
        !.keys = {"k1"},
        !.targets = [x1 |-> [k1 |-> 1]],
        !.admin_sends_max = Sends(1, 0, 1),
        !.consumer_sends_max = Sends(1, 1, 0)]

\* It may claim and write again what was taken from it, or got lost.
Lossy ==
    [Base EXCEPT
        !.admin_sends_max = Sends(2, 0, 2),
        !.consumer_sends_max = Sends(1, 0, 0),
        !.in_order = TRUE,
        !.gives_up_max = 1,
        !.losses_max = 1]

LossyOfOne ==
    [Lossy EXCEPT !.targets = [x1 |-> [k1 |-> 1]]]

\* Two at once.
Two ==
    [Base EXCEPT
        !.client_of = [x1 |-> "x", y1 |-> "y"],
        !.targets = [x1 |-> BothTo1, y1 |-> [k1 |-> 0, k2 |-> 0]],
        !.consumer_sends_max = Sends(0, 0, 0),
        !.in_order = TRUE,
        !.calls_off = FALSE]

\* They differ in nothing but their targets.
XPausesFirst == \A n \in PausesOf("y1") : \E m \in PausesOf("x1") : m < n

\* One after the other: one crashes, and the next is warned.
OneAfterOther ==
    [Two EXCEPT
        !.one_by_one = TRUE,
        !.crashes_max = 1]

(***************************************************************************)
(* Ways to break the rules.  A configuration puts one of these in the      *)
(* place of what its name says otherwise; a property must then fail.       *)
(***************************************************************************)

\* In the place of a guard of the reducer.
Waived(claim, record) == FALSE

\* Claim by claim: writes the first position as soon as one claim is its own.
OwnsOne(me, a) == \E key \in Targets(a) : Acts(me, a.consumers[key])

\* It says that a position is set when the write was sent.
SentIsSet(me, a, someWork, key) == a.consumers[key].resigned # NONE

\* It takes what it has not read back for what did not happen.
NothingLandsLate(me, c) == FALSE

\* A later pause is none of its business.
StaysConfident(me, a) == FALSE

\* A release group that leaves the owner in place.
KeepsOwner(claim) == claim

\* The next administrator does not ask what was there.
NeverMind(someWork) == NoWork

(***************************************************************************)
(* Every step of an administrator, and what every guard says in every      *)
(* state that one of them is ever in: exported, and held against the       *)
(* Python.  Which step it was is seen from what changed.                   *)
(***************************************************************************)
HasSent(i) == Length(outbox'[i]) > Length(outbox[i])
LastSent(i) == outbox'[i][Length(outbox'[i])]

\* It began to read in the middle.
Joined(i) ==
    /\ View(i)' # View(i)
    /\ administrators'[i] = NewAdministrator(Keys, View(i)')

SentAs(i) ==
    CASE LastSent(i).message.type = "ReleaseGroup"      -> "Begin"
      [] LastSent(i).message.type = "ClaimingPartition" -> "ClaimTarget"
      [] LastSent(i).message.type = "Heartbeat"         -> "HeartbeatTarget"
      [] OTHER -> IF LastSent(i).headers.set_position # NONE THEN "SetTarget" ELSE "LetGo"

\* Which claim it no longer waits for.
NotAwaited(i) == CHOOSE key \in Keys :
    \/ key \in A(i).awaits /\ key \notin administrators'[i].awaits
    \/ A(i).consumers[key].asked /\ ~administrators'[i].consumers[key].asked

StepOf(i) ==
    IF HasSent(i) THEN <<SentAs(i), LastSent(i).key, LastSent(i)>>
    ELSE IF View(i)' # View(i) THEN <<"Read", GROUP, log[View(i) + 1]>>
    ELSE IF A(i).phase # administrators'[i].phase THEN <<"CallOff", GROUP, NONE>>
    ELSE <<"StopWaiting", NotAwaited(i), NONE>>

IsStep(i) ==
    /\ status'[i] = "up"
    /\ HasSent(i) \/ administrators'[i] # A(i)
    /\ ~Joined(i)

Stranger == "k3"

Answers(me, a) ==
    [begin    |-> MayBegin(me, a, BothTo1),
     nothing  |-> MayBegin(me, a, [key \in {} |-> 0]),
     negative |-> MayBegin(me, a, [k1 |-> -1, k2 |-> 1]),
     consumer |-> MayBegin([me EXCEPT !.admin = FALSE], a, BothTo1),
     claim    |-> [key \in Keys \cup {Stranger} |-> MayClaimTarget(me, a, key)],
     heartbeat |-> [key \in Keys \cup {Stranger} |-> MayHeartbeatTarget(me, a, key)],
     set      |-> [key \in Keys \cup {Stranger} |-> MaySetPosition(me, a, key)],
     let_go   |-> [key \in Keys \cup {Stranger} |-> MayLetGo(me, a, key)],
     stop_waiting |-> [key \in Keys \cup {Stranger} |-> MayStopWaiting(me, a, key)],
     call_off |-> MayCallOff(me, a)]

ExportAdmins ==
    \A i \in Admins :
        /\ IsStep(i) => Export(<<"Step", Me(i), A(i), StepOf(i), administrators'[i]>>)
        /\ status[i] = "up" /\ FirstTime(<<Me(i), A(i)>>) =>
               Export(<<"May", Me(i), A(i), Answers(Me(i), A(i)), 0>>)

=============================================================================
