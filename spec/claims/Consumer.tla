------------------------------ MODULE Consumer ------------------------------
(***************************************************************************)
(* One instance and one claim: what it knows, what it remembers, what it   *)
(* may do and what it then sends.                                          *)
(*                                                                         *)
(* A consumer decides from what it has read, which may be long ago.  It    *)
(* does not know how its records travel, whether they arrive, or who else  *)
(* there is: that is Marshal.tla.  This module has no variables.           *)
(*                                                                         *)
(* Every operator takes `me`, who the instance is:                         *)
(*   instance_id, client_id                                                *)
(*   admin         it pauses the group and sets positions                  *)
(*   headerless    it is one of the original's, which writes no headers    *)
(*   certifies     its records say what it saw: `seen` and `clock`         *)
(*   mode          "AMO" (at most once) or "ALO" (at least once)           *)
(*   window        R5: how far ALO runs ahead of the log                   *)
(*   batch         the most that one ClaimingMessages asks for             *)
(*   start         where its start policy begins                           *)
(*   rules         "fenced" or "original"                                  *)
(*   now_ms        its own clock; only the original looks at it            *)
(*   log_ms        what the log's clock shows, as far as it can tell       *)
(***************************************************************************)
EXTENDS Reader, Lists

\* Why a consumer may not do what it is asked to, in the order in which it is tested.
Forbidden ==
    <<"Stopped", "NotAdmin", "NothingPaused", "NotAtMostOnce", "NotAtLeastOnce",
      "AlreadyOwner", "AwaitsReadBack", "ClaimUnknown", "PositionUnknown", "NotOwner",
      "Resigned", "NothingAhead", "BeyondBatch", "NotNext", "BeyondWindow", "NotGranted",
      "NothingAsked">>

NewConsumer(first) ==
    [reader   |-> NewReader(first), \* the claim as it folded it
     view     |-> first,   \* the next offset to read
     resigned |-> NONE,    \* R7: the epoch for which it last sent a ReleasingPartition
     asked    |-> FALSE,   \* R6: it has a ClaimingPartition that it has not read back
     stopped  |-> FALSE,   \* it lost its claim to another instance of its own client
     next     |-> 0,       \* ALO: the next message to process
     granted  |-> {}]      \* AMO: messages granted to it and not yet processed

(***************************************************************************)
(* What it believes.                                                       *)
(***************************************************************************)
Known(c) == c.reader.claim

\* The fenced rules ask for the instance.  The document knows client ids only, and the
\* original's consumers go by it: "if heartbeats are found for the current client_id".
Believes(me, claim) ==
    IF me.rules = "fenced"
    THEN claim.owner_instance = me.instance_id
    ELSE /\ ClaimedAt(claim, Seconds(me.now_ms))
         /\ claim.owner_client = me.client_id

Owns(me, reader) == IsKnown(reader) /\ Believes(me, reader.claim)

\* R7: after its release was sent, an instance never acts under that epoch again, even
\* when what it has read still shows the claim as its own.
HasResigned(me, c, claim) == me.rules = "fenced" /\ c.resigned = claim.epoch

ActsOn(me, c, reader) == Owns(me, reader) /\ ~HasResigned(me, c, reader.claim)

Acts(me, c) == ~c.stopped /\ ActsOn(me, c, c.reader)

\* The end of what it may process and has not processed yet (AMO).
GrantedEnd(c) == IF c.granted = {} THEN 0
                 ELSE 1 + CHOOSE m \in c.granted : \A n \in c.granted : n <= m

\* Nobody ever said where to go on, for certain: only then the start policy decides.
NeverSet(reader) == "position_set" \in reader.certain /\ ~reader.claim.position_set

\* How far the owner has got: what it processed (ALO), or what was granted (AMO).
OffsetToSend(me, c) ==
    IF me.mode = "ALO" THEN c.next
    ELSE Max(IF NeverSet(c.reader) THEN me.start ELSE Known(c).position, GrantedEnd(c))

(***************************************************************************)
(* The guards.  Each gives the first reason against, or Passes.            *)
(***************************************************************************)

\* R6: at most one request that was not read back.
AwaitsReadBack(c) == c.asked

\* AMO: where the position is not certain a grant is worth nothing, and waiting does not
\* help, so a claim is not even asked for.
MayClaim(me, c) ==
    IF c.stopped THEN "Stopped"
    ELSE IF me.admin /\ Known(c).pauser # me.instance_id THEN "NothingPaused"
    ELSE IF Acts(me, c) THEN "AlreadyOwner"
    ELSE IF AwaitsReadBack(c) THEN "AwaitsReadBack"
    ELSE IF me.mode = "AMO" /\ ~me.admin /\ ~IsKnown(c.reader) THEN "ClaimUnknown"
    ELSE IF me.mode = "AMO" /\ ~me.admin /\ "position" \notin c.reader.certain
    THEN "PositionUnknown"
    ELSE PASSES

MayActAsOwner(me, c) ==
    IF c.stopped THEN "Stopped"
    ELSE IF ~Owns(me, c.reader) THEN "NotOwner"
    ELSE IF HasResigned(me, c, Known(c)) THEN "Resigned"
    ELSE PASSES

MayHeartbeat(me, c) == MayActAsOwner(me, c)

MayRelease(me, c) == MayActAsOwner(me, c)

\* Asks for everything below `offset`.
MayClaimMessages(me, c, offset) ==
    IF me.mode # "AMO" \/ me.admin THEN "NotAtMostOnce"
    ELSE IF MayActAsOwner(me, c) # PASSES THEN MayActAsOwner(me, c)
    ELSE IF "position" \notin c.reader.certain THEN "PositionUnknown"
    ELSE IF offset <= Known(c).position THEN "NothingAhead"
    ELSE IF offset > Known(c).position + me.batch THEN "BeyondBatch"
    ELSE PASSES

MayReleaseGroup(me, c) == IF ~me.admin THEN "NotAdmin" ELSE PASSES

\* ALO: where the log says, also at 0.  The start policy counts where nobody ever said it, and
\* where the position is not certain: that one nobody can know any more.
Floor(me, reader) ==
    IF NeverSet(reader) \/ "position" \notin reader.certain
    THEN Max(reader.claim.position, me.start)
    ELSE reader.claim.position

\* R5: not beyond the window after its last accepted position.
InWindow(me, c) == c.next < Floor(me, c.reader) + me.window

MayProcess(me, c, message) ==
    IF me.mode # "ALO" \/ me.admin THEN "NotAtLeastOnce"
    ELSE IF MayActAsOwner(me, c) # PASSES THEN MayActAsOwner(me, c)
    ELSE IF message # c.next THEN "NotNext"
    ELSE IF ~InWindow(me, c) THEN "BeyondWindow"
    ELSE PASSES

\* A range is granted to one instance only since the position was last set, so that one may
\* process it even after it lost the claim.
MayProcessGrant(me, c) == IF c.granted = {} THEN "NotGranted" ELSE PASSES

\* The outcome of its request is not known, and it no longer waits for it.  The request
\* may still land.
MayGiveUp(me, c) == IF ~c.asked THEN "NothingAsked" ELSE PASSES

(***************************************************************************)
(* What it sends.                                                          *)
(***************************************************************************)

\* The fenced rules never look at a sender's time.
UnixS(me) == IF me.rules = "original" THEN Seconds(me.now_ms) ELSE 0

Message(me, type, offset) ==
    [type           |-> type,
     version        |-> IF type = "ReleaseGroup" THEN 0 ELSE 1,
     unix_s         |-> UnixS(me),
     instance_id    |-> me.instance_id,
     client_id      |-> me.client_id,
     offset         |-> offset,
     expires_unix_s |-> NONE]

WritesHeaders(me) == me.rules = "fenced" /\ ~me.headerless

Headers(me, epoch, seen, clock, supersedes, set_position, start) ==
    IF ~WritesHeaders(me)
    THEN NoHeaders
    ELSE [present |-> TRUE, epoch |-> epoch, seen |-> seen, clock |-> clock,
          supersedes |-> supersedes, set_position |-> set_position, start |-> start]

\* What it saw, if all of it is certain: an owner without the position must not make
\* others certain of it.
CanCertify(me, c) == me.certifies /\ {"position", "clock"} \subseteq c.reader.certain

SeenToSend(me, c) == IF CanCertify(me, c) THEN c.view - 1 ELSE NONE

ClockToSend(me, c) == IF CanCertify(me, c) THEN Known(c).clock_ms ELSE NONE

OwnerHeaders(me, c, set_position, start) ==
    Headers(me, Known(c).epoch, SeenToSend(me, c), ClockToSend(me, c), NONE, set_position, start)

\* Where it began, if it is there or beyond: an offset below its start says nothing about where
\* to begin.  An administrator begins nowhere.
StartToSend(me, c) ==
    IF me.admin \/ OffsetToSend(me, c) < me.start THEN NONE ELSE me.start

\* R1b: the tenure that a restarted consumer means to end.
SupersedesOf(me, c) ==
    IF Known(c).owner_client = me.client_id THEN Known(c).epoch ELSE NONE

Sent(message, headers) == [message |-> message, headers |-> headers]

ClaimingPartitionSent(me, c) ==
    Sent(Message(me, "ClaimingPartition", NONE),
         Headers(me, NONE, NONE, NONE, SupersedesOf(me, c), NONE, NONE))

HeartbeatSent(me, c) ==
    Sent(Message(me, "Heartbeat", OffsetToSend(me, c)),
         OwnerHeaders(me, c, NONE, StartToSend(me, c)))

ReleasingPartitionSent(me, c) ==
    Sent(Message(me, "ReleasingPartition", OffsetToSend(me, c)),
         OwnerHeaders(me, c, NONE, StartToSend(me, c)))

\* An administrator's release says that it sets the position.
PositionSent(me, c, target) ==
    Sent(Message(me, "ReleasingPartition", target), OwnerHeaders(me, c, target, NONE))

ClaimingMessagesSent(me, c, offset) ==
    Sent(Message(me, "ClaimingMessages", offset), OwnerHeaders(me, c, NONE, NONE))

ReleaseGroupSent(me, c, expires_unix_s) ==
    Sent([Message(me, "ReleaseGroup", NONE) EXCEPT !.expires_unix_s = expires_unix_s],
         NoHeaders)

(***************************************************************************)
(* What it remembers afterwards.                                           *)
(***************************************************************************)
AfterClaimingPartition(me, c) == [c EXCEPT !.asked = TRUE]

AfterRelease(me, c) == [c EXCEPT !.resigned = Known(c).epoch]

\* R4: an instance processes what it read as granted, and nothing when it asks.
GrantedWhenAsked(me, c, offset) == {}

AfterClaimingMessages(me, c, offset) ==
    [c EXCEPT !.granted = @ \cup GrantedWhenAsked(me, c, offset)]

AfterProcess(me, c) == [c EXCEPT !.next = @ + 1]

AfterProcessGrant(me, c) == [c EXCEPT !.granted = {}]

AfterGivingUp(me, c) == [c EXCEPT !.asked = FALSE]

\* The records from its view up to `first` are gone.  What it knew may not be so any more, so it
\* begins anew, as one that joins late.  What it waits to read back may be among them.
AfterGap(me, c, first) ==
    [c EXCEPT !.reader = NewReader(first), !.view = first, !.asked = FALSE]

(***************************************************************************)
(* Reading one more record.                                                *)
(***************************************************************************)
ReadBy(me, reader, record) ==
    IF me.rules = "fenced" THEN ReadRecord(reader, record) ELSE ReadOriginal(reader, record)

\* The messages that a ClaimingMessages granted to its sender: [old, new).
GrantedRange(before, record) == before.position .. record.message.offset - 1

\* R4: only what this record granted to this very instance, while the position was certain.
\* The document's validation, under the original rules: its ClaimingMessages is in the log,
\* and it still owns.
GrantRead(me, before, record, ownsAfter) ==
    LET verdict == Step(before.claim, record, me.rules).verdict
    IN  IF /\ record.message.instance_id = me.instance_id
           /\ IsKnown(before)
           /\ "position" \in before.certain
           /\ \/ verdict = "Granted"
              \/ verdict = "Ignored" /\ ownsAfter
        THEN GrantedRange(before.claim, record)
        ELSE {}

\* A living process under the same client id: two would take turns for ever.
LostToOwnClient(me, actedBefore, after) ==
    /\ WritesHeaders(me)
    /\ actedBefore
    /\ IsKnown(after)
    /\ after.claim.owner_client = me.client_id
    /\ after.claim.owner_instance # me.instance_id

\* A tenure that has just begun starts at the position of the log.
AfterRead(me, c, record) ==
    LET before     == c.reader
        after      == ReadBy(me, before, record)
        actsBefore == ActsOn(me, c, before)
        actsAfter  == ActsOn(me, c, after)
        own        == record.message.instance_id = me.instance_id
    IN  [c EXCEPT
            !.reader  = after,
            !.view    = record.offset + 1,
            !.asked   = @ /\ ~(own /\ record.message.type = "ClaimingPartition"),
            !.stopped = @ \/ LostToOwnClient(me, actsBefore, after),
            !.next    = IF actsAfter /\ (~actsBefore \/ before.claim.epoch # after.claim.epoch)
                        THEN Floor(me, after) ELSE @,
            !.granted = @ \cup GrantRead(me, before, record, actsAfter)]

(***************************************************************************)
(* Only a hint, for when time is measured: the log decides.                *)
(***************************************************************************)
LooksClaimable(me, c) ==
    IF me.rules = "original" THEN ~ClaimedAt(Known(c), Seconds(me.now_ms))
    ELSE \/ ~IsOwned(Known(c))
         \/ Known(c).owner_client = me.client_id
         \/ me.log_ms - Known(c).last_heartbeat_ms > 2 * HeartbeatIntervalMs

\* R9: the original's restart finds a claim of its client id and heartbeats it at once.
FastReclaims(me, c) ==
    /\ me.rules = "fenced"
    /\ me.headerless
    /\ Known(c).owner_client = me.client_id
    /\ Known(c).owner_instance # me.instance_id

FastReclaimSent(me, c) ==
    Sent(Message(me, "Heartbeat", Known(c).position), NoHeaders)

=============================================================================
