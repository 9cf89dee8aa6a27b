----------------------------- MODULE MCEndPause -----------------------------
(***************************************************************************)
(* How an administrator that has set positions ends its pause.  x1 sets    *)
(* k1; k2 lies beside it, paused with it, and c1 wants both.               *)
(*                                                                         *)
(* It goes claim by claim, as in MCResume: each is claimed by the pauser,  *)
(* whose win ends the pause of this claim (R8a), and given back where it   *)
(* was found.  A second ReleaseGroup would free k1, if it was won since    *)
(* its position was set.  Where all that is set is shared by ranges, which *)
(* sleep then, it is ended so (MCParticipant_AmoPausedTwice).              *)
(*                                                                         *)
(* A claim that was won and not set, while others were, is one that was    *)
(* left undone (Admin.tla).  So a release of a claim that was not to be    *)
(* set says that it sets the position, to where it is.  Where nobody ever  *)
(* said a position it must not say one: such a claim stays paused.         *)
(***************************************************************************)
EXTENDS MCSetPosition

Beside ==
    [Base EXCEPT
        !.targets = [x1 |-> [k1 |-> 1]],
        !.consumer_sends_max = Sends(2, 1, 0),
        !.calls_off = FALSE]

\* It is called off at any moment, also with its write on the way: then all claims are ended.
CalledOff ==
    [Beside EXCEPT
        !.admin_sends_max = Sends(2, 0, 2),
        !.consumer_sends_max = Sends(1, 0, 0),
        !.calls_off = TRUE]

C(i, key) == A(i).consumers[key]

\* Nobody has paused the group since, as far as it has read.
MayEnd(i, key) ==
    /\ status[i] = "up"
    /\ Ended(A(i))
    /\ A(i).work.by = i
    /\ ~C(i, key).asked
    /\ IsKnown(C(i, key).reader)
    /\ "position" \in C(i, key).reader.certain

\* Somebody said where to go on with it.
HasPosition(i, key) == Known(C(i, key)).position_set

SaysASet(i, key) == A(i).work.set # {} /\ HasPosition(i, key)

EndClaim(i, key) ==
    /\ MaySend(i, key, "ClaimingPartition")
    /\ MayEnd(i, key)
    /\ \/ Known(C(i, key)).paused_until_ms # NONE
       \/ Believes(Me(i), Known(C(i, key))) /\ key \in Targets(A(i))
    /\ A(i).work.set = {} \/ key \in Targets(A(i)) \/ HasPosition(i, key)
    /\ Produce(i, key, TargetClaimed(Me(i), A(i), key))
    /\ Becomes(i, AfterClaimingTarget(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

\* A target is given back by LetGo.
GiveBack(i, key) ==
    /\ MaySend(i, key, "ReleasingPartition")
    /\ MayEnd(i, key)
    /\ key \notin Targets(A(i))
    /\ MayRelease(Me(i), C(i, key)) = PASSES
    /\ Produce(i, key,
               IF SaysASet(i, key)
               THEN PositionSent(Me(i), C(i, key), Known(C(i, key)).position)
               ELSE TargetLetGo(Me(i), A(i), key))
    /\ Becomes(i, AfterLettingGo(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

\* As it was before: a ReleaseGroup that has expired.
EndForAll(i) ==
    /\ status[i] = "up"
    /\ Ended(A(i))
    /\ A(i).work.by = i
    /\ SentBy(i, GROUP, "ReleaseGroup") < 2
    /\ Produce(i, GROUP, PauseSent(Me(i), A(i), 0))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, administrators, mishaps>>

ByClaim == Next \/ \E i \in Admins, key \in Keys : EndClaim(i, key) \/ GiveBack(i, key)
ForAll  == Next \/ \E i \in Admins : EndForAll(i)

SpecByClaim == Init /\ [][ByClaim]_vars
SpecForAll  == Init /\ [][ForAll]_vars

\* In the place of SaysASet: it gives back without a word.
SaysNothing(i, key) == FALSE

\* In the place of HasPosition: where nobody said a position, it is 0.
SaysZero(i, key) == TRUE

\* Once it has paused the group, an administrator takes a claim from nobody who was heard of in
\* time.
FreesNobodyStepwise ==
    Length(log') > Length(log) =>
        LET record == log'[Length(log')]
            i      == record.message.instance_id
        IN  i \in Admins /\ PausesOf(i) # {} =>
                \A key \in Keys :
                    claims[key].owner_instance \notin {NOBODY, i} /\ ~record.stale =>
                        claims'[key].owner_instance = claims[key].owner_instance

EndingFreesNobody == [][FreesNobodyStepwise]_vars

\* It was silent for so long, between its win and its release, that somebody took it over.
WasTaken(i, key) ==
    \E n \in Records : /\ log[n].key = key
                       /\ log[n].message.instance_id # i
                       /\ verdicts[n] = "TookOver"

\* A reader of a finished work's log finds nothing left undone, except what its
\* administrator still holds, or held until it counted as stale.
NothingLeftWhenDone ==
    \A i \in Admins :
        A(i).phase = "Done" /\ work.by = i =>
            \A key \in LeftUndone(work) : claims[key].owner_instance = i \/ WasTaken(i, key)

\* To end the pause of a claim moves no position and says none.
PositionsStayStepwise ==
    Length(log') > Length(log) =>
        \A i \in Admins : \A key \in Keys \ DOMAIN TargetsOf[i] :
            log'[Length(log')].message.instance_id = i =>
                /\ claims'[key].position = claims[key].position
                /\ claims'[key].position_set = claims[key].position_set

PositionsStay == [][PositionsStayStepwise]_vars

\* It ends the pause of a claim that was not to be set.  Must fail.
NeverEndedBeside ==
    \A i \in Admins, n \in Records :
        A(i).phase = "Done" =>
            ~(verdicts[n] = "PositionSet" /\ log[n].key \notin DOMAIN TargetsOf[i])

=============================================================================
