-------------------------------- MODULE Admin --------------------------------
(***************************************************************************)
(* An administrator that sets the positions of several claims: all of      *)
(* them, or none, or it reports which.                                     *)
(*                                                                         *)
(* A log has no transactions, so it goes through phases.  It pauses the    *)
(* group, claims every partition, and writes no position before it has     *)
(* read in the log that all of them are its own.  Whatever happens before  *)
(* the first write, none is set.  After it the administrator goes on until *)
(* all are, and if it cannot it tells its operator which are set, which    *)
(* are not, and of which its write may still land.  If it dies the log     *)
(* says so: see HalfSetInLog.                                              *)
(*                                                                         *)
(* For each claim it is an instance as in Consumer.tla, with me.admin.  Its *)
(* instance id is of this operation alone.  This module does not know when *)
(* somebody loses patience, how records travel, or who else there is: that *)
(* is SetPosition.tla.  It has no variables.                               *)
(***************************************************************************)
EXTENDS Consumer

Phases == <<"Idle", "Pausing", "Claiming", "Setting", "Done", "PartlySet", "NoneSet">>

\* Why an administrator may not do what it is asked to, in the order in which it is tested,
\* beside the reasons of Consumer.tla.
AdminForbidden ==
    <<"AlreadyBegun", "NothingToSet", "NegativeTarget", "NotUnderWay", "StillUnderWay",
      "NotATarget", "AlreadySet", "NotAllOwned">>

\* Why it ended otherwise than with all positions set.
Reasons == <<"PausedByAnother", "ClaimTaken", "PauseExpired", "CalledOff">>

(***************************************************************************)
(* What the log says of an administrator's work, to every reader: the      *)
(* claims that the sender of the latest ReleaseGroup won since, set since, *)
(* and gave back without setting them.  `before` and `after` are the claim *)
(* of the key.                                                             *)
(***************************************************************************)
NoWork == [by |-> NOBODY, claimed |-> {}, set |-> {}, let_go |-> {}]

\* Claims that were left: not set, though others were, or never given back.
LeftUndone(work) ==
    {key \in work.claimed \ work.set : key \notin work.let_go \/ work.set # {}}

\* Every claim is won before the first is set, so this is all that a crash can leave behind
\* half set, and nothing else looks like it.
HalfSetInLog(work) == LeftUndone(work) # {}

\* Another pause of the same instance goes on with what it left.
WorkPaused(work, by) ==
    IF work.by = by /\ HalfSetInLog(work) THEN work ELSE [NoWork EXCEPT !.by = by]

WorkAfter(work, key, before, record, after) ==
    LET sender == record.message.instance_id
    IN  IF sender # work.by THEN work
        ELSE IF after.owner_instance = sender /\ after.epoch = record.offset
        THEN [work EXCEPT !.claimed = @ \cup {key}, !.let_go = @ \ {key}]
        ELSE IF /\ record.message.type = "ReleasingPartition"
                /\ before.owner_instance = sender
                /\ ~IsOwned(after)
        THEN IF SaysItSets(record)
             THEN [work EXCEPT !.set = @ \cup {key}]
             ELSE [work EXCEPT !.let_go = @ \cup {key}]
        ELSE work

(***************************************************************************)
(* The administrator.                                                      *)
(***************************************************************************)
NoResult == [reason |-> "None", set |-> {}, not_set |-> {}, in_doubt |-> {}]

NewAdministrator(keys, first) ==
    [phase     |-> "Idle",
     targets   |-> [key \in {} |-> 0],   \* the position that each claim is to have
     consumers |-> [key \in keys |-> NewConsumer(first)],
     awaits    |-> {},          \* its write was sent and not read back
     work      |-> NoWork,      \* what the log says of the pause that holds now
     warned    |-> NoWork,      \* the operator was told that this was left undone before
     result    |-> NoResult]    \* the operator was told this in the end

Targets(a) == DOMAIN a.targets

UnderWay(a) == a.phase \in {"Pausing", "Claiming", "Setting"}

Ended(a) == a.phase \in {"Done", "PartlySet", "NoneSet"}

\* Every win was read back, and none was lost again.
AllOwned(me, a) == \A key \in Targets(a) : Acts(me, a.consumers[key])

\* Read back, not only sent.
IsSet(me, a, work, key) == work.by = me.instance_id /\ key \in work.set

\* A write was sent, and nothing that was read rules out that it takes effect.
WriteMayLand(me, c) ==
    /\ c.resigned # NONE
    /\ IsKnown(c.reader) => Believes(me, Known(c)) /\ Known(c).epoch = c.resigned

(***************************************************************************)
(* The guards.  Each gives the first reason against, or Passes.            *)
(***************************************************************************)
MayBegin(me, a, targets) ==
    IF ~me.admin THEN "NotAdmin"
    ELSE IF a.phase # "Idle" THEN "AlreadyBegun"
    ELSE IF DOMAIN targets = {} THEN "NothingToSet"
    ELSE IF \E key \in DOMAIN targets : targets[key] < 0 THEN "NegativeTarget"
    ELSE PASSES

MayGoOn(me, a, key) ==
    IF a.phase \notin {"Claiming", "Setting"} THEN "NotUnderWay"
    ELSE IF key \notin Targets(a) THEN "NotATarget"
    ELSE IF IsSet(me, a, a.work, key) THEN "AlreadySet"
    ELSE PASSES

MayClaimTarget(me, a, key) ==
    IF MayGoOn(me, a, key) # PASSES THEN MayGoOn(me, a, key)
    ELSE IF key \in a.awaits THEN "AwaitsReadBack"
    ELSE MayClaim(me, a.consumers[key])

MayHeartbeatTarget(me, a, key) ==
    IF MayGoOn(me, a, key) # PASSES THEN MayGoOn(me, a, key)
    ELSE MayHeartbeat(me, a.consumers[key])

\* All or none: the first write is for when all are owned.
MaySetPosition(me, a, key) ==
    IF MayGoOn(me, a, key) # PASSES THEN MayGoOn(me, a, key)
    ELSE IF a.phase = "Claiming" /\ ~AllOwned(me, a) THEN "NotAllOwned"
    ELSE MayRelease(me, a.consumers[key])

\* Whatever it owns when it has ended.  The pauser's release sets the position, so it must
\* know where it is.
MayLetGo(me, a, key) ==
    IF ~Ended(a) THEN "StillUnderWay"
    ELSE IF key \notin Targets(a) THEN "NotATarget"
    ELSE IF MayRelease(me, a.consumers[key]) # PASSES
    THEN MayRelease(me, a.consumers[key])
    ELSE IF "position" \notin a.consumers[key].reader.certain THEN "PositionUnknown"
    ELSE PASSES

\* It no longer waits for what it sent of this claim, which may still land.
MayStopWaiting(me, a, key) ==
    IF key \notin Targets(a) THEN "NotATarget"
    ELSE IF key \in a.awaits THEN PASSES
    ELSE MayGiveUp(me, a.consumers[key])

\* The pause ran out, or the operator has no more patience.
MayCallOff(me, a) == IF ~UnderWay(a) THEN "NotUnderWay" ELSE PASSES

(***************************************************************************)
(* What it sends: as in Consumer.tla, for one claim; a pause is for all.   *)
(***************************************************************************)
PauseSent(me, a, expires_unix_s) == ReleaseGroupSent(me, NewConsumer(0), expires_unix_s)

TargetClaimed(me, a, key) == ClaimingPartitionSent(me, a.consumers[key])

TargetHeartbeat(me, a, key) == HeartbeatSent(me, a.consumers[key])

TargetSet(me, a, key) == PositionSent(me, a.consumers[key], a.targets[key])

TargetLetGo(me, a, key) == ReleasingPartitionSent(me, a.consumers[key])

(***************************************************************************)
(* What it remembers afterwards.                                           *)
(***************************************************************************)
AfterBeginning(me, a, targets) == [a EXCEPT !.phase = "Pausing", !.targets = targets]

AfterClaimingTarget(me, a, key) ==
    [a EXCEPT !.consumers[key] = AfterClaimingPartition(me, @)]

AfterSettingPosition(me, a, key) ==
    [a EXCEPT !.phase = "Setting", !.consumers[key] = AfterRelease(me, @), !.awaits = @ \cup {key}]

AfterLettingGo(me, a, key) == [a EXCEPT !.consumers[key] = AfterRelease(me, @)]

AfterStoppingToWait(me, a, key) ==
    [a EXCEPT !.consumers[key] = AfterGivingUp(me, @), !.awaits = @ \ {key}]

(***************************************************************************)
(* The end, and what the operator is told.                                 *)
(***************************************************************************)
ResultOf(me, a, work, reason) ==
    LET set      == {key \in Targets(a) : IsSet(me, a, work, key)}
        in_doubt == {key \in Targets(a) \ set : WriteMayLand(me, a.consumers[key])}
    IN  [reason   |-> IF set = Targets(a) THEN "None" ELSE reason,
         set      |-> set,
         not_set  |-> Targets(a) \ (set \cup in_doubt),
         in_doubt |-> in_doubt]

PhaseToldBy(a, result) ==
    IF result.set = Targets(a) THEN "Done"
    ELSE IF result.not_set = Targets(a) THEN "NoneSet"
    ELSE "PartlySet"

AfterEnding(me, a, work, reason) ==
    LET result == ResultOf(me, a, work, reason)
    IN  [a EXCEPT !.phase = PhaseToldBy(a, result), !.result = result]

AfterCallingOff(me, a, reason) == AfterEnding(me, a, a.work, reason)

(***************************************************************************)
(* Reading one more record, of whichever claim.                            *)
(***************************************************************************)
IsPause(record) ==
    record.message.type = "ReleaseGroup" /\ ~UnknownVersion(NewClaim, record)

IsOwnPause(me, record) == IsPause(record) /\ record.message.instance_id = me.instance_id

\* Of the group as a whole, or of this very claim.
Concerns(record, key) == record.message.type = "ReleaseGroup" \/ record.key = key

\* A record of another claim says nothing about this one, except that there was none of it.
PassedOver(c, record) == [c EXCEPT !.view = record.offset + 1]

ConsumersAfter(me, a, record) ==
    [key \in DOMAIN a.consumers |->
        IF Concerns(record, key)
        THEN AfterRead(me, a.consumers[key], record)
        ELSE PassedOver(a.consumers[key], record)]

\* Only where it is certain what the record did.
WorkRead(me, a, consumers, record) ==
    IF IsPause(record) THEN WorkPaused(a.work, record.message.instance_id)
    ELSE IF \/ record.message.type = "ReleaseGroup"
            \/ ~IsKnown(a.consumers[record.key].reader)
            \/ ~IsKnown(consumers[record.key].reader)
    THEN a.work
    ELSE WorkAfter(a.work, record.key, Known(a.consumers[record.key]), record,
                   Known(consumers[record.key]))

\* Its write was read back, whatever became of it.
AwaitsAfter(me, a, record) ==
    IF record.message.instance_id = me.instance_id /\ record.message.type = "ReleasingPartition"
    THEN a.awaits \ {record.key} ELSE a.awaits

\* The last pauser has the group: its records decide, not those of an older pause.
PausedByAnother(me, a) == a.work.by # me.instance_id

\* Somebody else owns it, or may.
IsTaken(me, c) == IsKnown(c.reader) => IsOwned(Known(c)) /\ ~Believes(me, Known(c))

\* What somebody else had left undone when this pause began.
Warning(work) == IF HalfSetInLog(work) THEN work ELSE NoWork

WarnedAfter(me, a, record) ==
    IF IsOwnPause(me, record) /\ PausedByAnother(me, a) THEN Warning(a.work) ELSE a.warned

AfterReading(me, a, record) ==
    LET consumers == ConsumersAfter(me, a, record)
        read      == [a EXCEPT !.consumers = consumers,
                               !.awaits = AwaitsAfter(me, a, record),
                               !.work = WorkRead(me, a, consumers, record),
                               !.warned = WarnedAfter(me, a, record)]
    IN  IF a.phase = "Pausing" /\ IsOwnPause(me, record)
        THEN [read EXCEPT !.phase = "Claiming"]
        ELSE IF a.phase \notin {"Claiming", "Setting"}
        THEN read
        ELSE IF a.phase = "Setting" /\ \A key \in Targets(a) : IsSet(me, read, read.work, key)
        THEN AfterEnding(me, read, read.work, "None")
        ELSE IF PausedByAnother(me, read)
        THEN AfterEnding(me, read, a.work, "PausedByAnother")
        ELSE IF a.phase = "Claiming" /\ \E key \in Targets(a) : IsTaken(me, consumers[key])
        THEN AfterEnding(me, read, read.work, "ClaimTaken")
        ELSE read

=============================================================================
