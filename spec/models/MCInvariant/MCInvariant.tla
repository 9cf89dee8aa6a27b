---------------------------- MODULE MCInvariant ----------------------------
(***************************************************************************)
(* Each conjunct of the invariant, broken on purpose: a mistake of the     *)
(* reducer or of a consumer, in a world that is just large enough.         *)
(***************************************************************************)
EXTENDS MCFaults

\* Consumers at least once that may send one of each kind.
Few ==
    [Base EXCEPT
        !.mode = "ALO",
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 1, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)],
        !.log_max = 4]
FewUnordered == [Few EXCEPT !.reorders = TRUE]
FewStart == [Few EXCEPT !.message_count = 2, !.start_of = [a1 |-> 2]]
FewAsk == [Few EXCEPT !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), b1 |-> Sends(0, 0, 0, 0, 0)]]
FewAdmin ==
    [AmoAdmin EXCEPT
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 3]

\* In the place of an operator of the reducer.
RefreshedAtZero(claim, record) ==
    [claim EXCEPT !.position = 0, !.last_heartbeat_ms = claim.clock_ms]
OwnsAgain(claim, record) ==
    [claim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.last_heartbeat_ms = claim.clock_ms]

\* In the place of an operator of a consumer.
ReadsNothing(me, reader, record) == reader
ForgetsItsRelease(me, c) == c
ResignsAhead(me, c) == [c EXCEPT !.resigned = Known(c).epoch + 1]
BeginsAhead(me, reader) == reader.claim.position + 1
AnybodyProcesses(me, c, message) == IF me.mode = "ALO" THEN PASSES ELSE "NotAtLeastOnce"
AnybodysGrant(me, before, record, owns) ==
    IF Step(before.claim, record, me.rules).verdict = "Granted"
    THEN GrantedRange(before.claim, record) ELSE {}
NobodyWrites(me) == FALSE
NamesTheNextEpoch(me, c, set_position, start) ==
    Headers(me, Known(c).epoch + 1, NONE, NONE, NONE, set_position, start)
AnybodyAsks(me, c, offset) == MayActAsOwner(me, c)
ReleasesBySetting(me, c) ==
    Sent(Message(me, "ReleasingPartition", c.next), OwnerHeaders(me, c, c.next, NONE))
SaysNoStart(me, c) == NONE
CommitsOne(me, c) == 1
=============================================================================
