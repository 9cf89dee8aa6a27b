----------------------------- MODULE MCLiveness ----------------------------
(***************************************************************************)
(* What happens eventually, and on which assumptions: for each assumption, *)
(* a model without it must fail.                                           *)
(*                                                                         *)
(* Time is measured.  Each can send only a few records, so a world gives an*)
(* instance that stays up enough of them to be refused as often as others  *)
(* can get in between.                                                     *)
(***************************************************************************)
EXTENDS MCFenced

(***************************************************************************)
(* Fairness, one assumption at a time.                                     *)
(***************************************************************************)
FairTick   == WF_vars(Tick)
FairAppend == \A i \in Instances : WF_vars(Append(i))
FairRead   == \A i \in Instances : WF_vars(Read(i))
FairAsk    == \A i \in Instances : WF_vars(SendClaimingPartition(i))

WithoutTick   == Spec /\ FairAppend /\ FairRead /\ FairAsk
WithoutAppend == Spec /\ FairTick /\ FairRead /\ FairAsk
WithoutRead   == Spec /\ FairTick /\ FairAppend /\ FairAsk
WithoutAsk    == Spec /\ FairTick /\ FairAppend /\ FairRead

\* The work is done by b1, which stays up; nothing is asked of a1.
B1Reads == WF_vars(Read("b1"))
B1Asks  == WF_vars(SendClaimingPartition("b1"))
B1Works == WF_vars(Process("b1")) /\ WF_vars(ProcessGrant("b1"))
B1Says  == WF_vars(SendHeartbeat("b1")) /\ WF_vars(SendClaimingMessages("b1"))

WorkingSpec        == Spec /\ FairTick /\ FairAppend /\ B1Reads /\ B1Asks /\ B1Works /\ B1Says
WorkWithoutTick    == Spec /\ FairAppend /\ B1Reads /\ B1Asks /\ B1Works /\ B1Says
WorkWithoutAppend  == Spec /\ FairTick /\ B1Reads /\ B1Asks /\ B1Works /\ B1Says
WorkWithoutReading == Spec /\ FairTick /\ FairAppend /\ B1Asks /\ B1Works /\ B1Says
WorkWithoutAsking  == Spec /\ FairTick /\ FairAppend /\ B1Reads /\ B1Works /\ B1Says
WithoutWork        == Spec /\ FairTick /\ FairAppend /\ B1Reads /\ B1Asks /\ B1Says
WithoutSaying      == Spec /\ FairTick /\ FairAppend /\ B1Reads /\ B1Asks /\ B1Works

\* Nor is anything asked of a1 where a request may be lost.
WithoutGivingUp == Spec /\ FairTick /\ FairAppend /\ B1Reads /\ B1Asks
GivingUpSpec    == WithoutGivingUp /\ WF_vars(GiveUp("b1"))

A1StaysUp == <>[](status["a1"] = "up")
Always    == TRUE

(***************************************************************************)
(* An owner says what it did once, and then reads whether it counted;      *)
(* it could else use up what it may send before it has done anything.      *)
(***************************************************************************)
MaySendWhatMatters(i, type) ==
    /\ status[i] = "up"
    /\ SentBy(i, type) < SendsMax[i][type]
    /\ Length(log) + InFlight < LogMax
    /\ type \in {"Heartbeat", "ClaimingMessages"} =>
           outbox[i] = <<>> /\ View(i) = Length(log)

MayHeartbeatWhatItDid(me, c) ==
    IF MayActAsOwner(me, c) # PASSES THEN MayActAsOwner(me, c)
    ELSE IF OffsetToSend(me, c) <= Known(c).position THEN "NothingAhead"
    ELSE PASSES

\* At least once: a1 may crash wherever it likes, b1 stays up.
AloWork ==
    [ClockTwo EXCEPT
        !.tick_s = 3,
        !.message_count = 2,
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(2, 2, 0, 0, 0)],
        !.log_max = 5]

\* At most once: a message that was granted to an instance which then crashed is gone, so
\* nobody crashes.
AmoWork ==
    [AloWork EXCEPT
        !.mode = "AMO",
        !.crashes_max = 0,
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(2, 0, 0, 2, 0)],
        !.log_max = 5]
AmoWorkCrash ==
    [AmoWork EXCEPT
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), b1 |-> Sends(2, 0, 0, 2, 0)]]

(***************************************************************************)
(* R1a: a1 resigned and its release was lost, while nobody else is there.  *)
(***************************************************************************)
LostRelease ==
    [ClockTwo EXCEPT
        !.starts_up = {"a1"},
        !.tick_s = 3,
        !.losses_max = 1,
        !.sends_max = [a1 |-> Sends(2, 2, 1, 0, 0), b1 |-> Sends(0, 0, 0, 0, 0)],
        !.log_max = 5]

\* Without R1a: an owner is in its own way.
LiveOwnerEvenItself(claim, record) == IsOwned(claim) /\ ~IsStale(claim, record)

\* A request may be lost; its sender gives it up in the end and asks again.
LostRequest ==
    [ClockTwo EXCEPT
        !.tick_s = 3,
        !.losses_max = 1,
        !.gives_up = TRUE,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(3, 0, 0, 0, 0)],
        !.log_max = 4]

(***************************************************************************)
(* Behind a pause: the administrator pauses, and may crash or never come   *)
(* back; a1 wants the claim, and knows a pause when it has read of one.    *)
(***************************************************************************)
Paused ==
    [ClockTwo EXCEPT
        !.client_of = OneAndAdmin,
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.tick_s = 2,
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(2, 0, 0, 0, 0), admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 3]

LooksClaimableAndOpen(me, c) ==
    /\ \/ Known(c).paused_until_ms = NONE
       \/ me.log_ms >= Known(c).paused_until_ms
       \/ Known(c).pauser = me.instance_id
    /\ \/ ~IsOwned(Known(c))
       \/ Known(c).owner_client = me.client_id
       \/ me.log_ms - Known(c).last_heartbeat_ms > 2 * HeartbeatIntervalMs

(***************************************************************************)
(* A survivor whose own clock is set wrong; nobody else writes.            *)
(***************************************************************************)

\* a1 claims and may die; b1 stays up and may be refused once.
Skewed(seconds) ==
    [Liveness EXCEPT
        !.skew_s = [a1 |-> 0, b1 |-> seconds],
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(2, 0, 0, 0, 0)],
        !.stalls_max = 0,
        !.log_max = 3]
Behind == Skewed(-5)
Ahead  == Skewed(5)

\* The same behind a pause: one request may cross with it, the other must not be made in it.
PausedSkewed(seconds) ==
    [Paused EXCEPT
        !.skew_s = [a1 |-> seconds, admin |-> 0],
        !.crashes_max = 0]
PausedBehind == PausedSkewed(-5)
PausedAhead  == PausedSkewed(5)

=============================================================================
