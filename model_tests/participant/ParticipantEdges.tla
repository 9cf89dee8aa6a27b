-------------------------- MODULE ParticipantEdges ---------------------------
(***************************************************************************)
(* What participants of MCParticipant may do, exported and held against    *)
(* the Python.  Any configuration of MCParticipant is one of this module,  *)
(* with ExportParticipants as its INVARIANT.  Each row is one of           *)
(*   <<bounds, me, before, "May", answers>>                                *)
(*   <<bounds, me, before, "Read", <<the record, after>>>>                 *)
(* The answers say of every action whether it is allowed, and if it is,    *)
(* what is sent and what is remembered.  So a row stands for every step    *)
(* that can begin there.                                                   *)
(***************************************************************************)
EXTENDS MCParticipant, Export

\* As in RangesEdges.
Bounds == <<HeartbeatIntervalMs, PauseMaxMs, IntervalsMax, OpenRangesMax, RangeMessagesMax>>

\* What is sent and remembered is worked out only where it is allowed.
Sending(may, what, after) == IF may = PASSES THEN <<may, what, after>> ELSE <<may>>
Remembering(may, after)   == IF may = PASSES THEN <<may, after>> ELSE <<may>>

\* Of each range that was ever granted to anybody, and of one that never was.
Ids     == {-1} \cup {lease.id : lease \in leases}
Ends    == 0 .. 3
Numbers == {1, 2, 5}

\* Only what is within its bounds is asked for; lazily, since the rest has no value.
Answers(me, p) ==
    [claim_anchor |-> Sending(MayClaimAnchor(me, p), ClaimAnchorSent(me, p),
                              AfterClaiming(me, p)),
     claim_alone  |-> Sending(MayClaimAlone(me, p), ClaimAloneSent(me, p),
                              AfterClaiming(me, p)),
     release_alone |-> Sending(MayReleaseAlone(me, p), ReleaseAloneSent(me, p), p),
     beat_anchor  |-> Sending(MayBeatAnchor(me, p), BeatAnchorSent(me, p), p),
     reserve      |-> [offset \in Ends |->
                          Sending(MayReserve(me, p, offset), ReserveSent(me, p, offset), p)],
     ask_range    |-> [count \in Numbers |->
                          Sending(MayAskRange(me, p, count), AskRangeSent(me, p, count),
                                  AfterAskRange(me, p))],
     speak        |-> Sending(MaySpeak(me, p), SpeakSent(me, p), p),
     give_back    |-> Sending(MayGiveBack(me, p), GiveBackSent(me, p), AfterGiveBack(me, p)),
     begin        |-> {<<id, x, Remembering(MayBegin(me, p, id, x), AfterBegin(me, p, id, x))>> :
                          id \in Ids, x \in Ends},
     finish       |-> {<<id, x, Remembering(MayFinish(me, p, id, x), AfterFinish(me, p, id, x))>> :
                          id \in Ids, x \in Ends},
     leaving      |-> AfterLeaving(me, p),
     give_up      |-> Remembering(MayGiveUp(me, p), AfterGivingUp(me, p))]

ExportParticipants ==
    \A i \in Participants :
        /\ FirstTime(<<i, P(i), Ids>>) =>
               Export(<<Bounds, Me(i), P(i), "May", Answers(Me(i), P(i))>>)
        /\ P(i).view < Appended =>
               LET record == log[P(i).view + 1]
               IN  FirstTime(<<i, P(i), record>>) =>
                       Export(<<Bounds, Me(i), P(i), "Read",
                                <<record, AfterRead(Me(i), P(i), record)>>>>)

=============================================================================
