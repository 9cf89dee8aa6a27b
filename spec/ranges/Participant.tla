----------------------------- MODULE Participant -----------------------------
(***************************************************************************)
(* One participant of a shared claim: what it knows, what it remembers,    *)
(* what it may do and what it then sends.                                  *)
(*                                                                         *)
(* A participant decides from what it has read, which may be long ago.  It *)
(* does not know how its records travel, whether they arrive, or who else  *)
(* there is.  This module has no variables.                                *)
(*                                                                         *)
(* It speaks under two names.  The five old messages it writes as the      *)
(* anchor, as all participants do: so an older version sees one owner that *)
(* is alive.  ClaimingRange it writes under its own.  Nobody releases the  *)
(* anchor: who leaves gives its ranges back and falls silent.              *)
(*                                                                         *)
(* Where nobody ever set a position, one participant says where to begin.  *)
(* It claims alone, under its own instance, and releases at the start.     *)
(* Such a claim may land late.  As the anchor lives, it is then refused,   *)
(* as every other's would be, so it ends no ranges.                        *)
(*                                                                         *)
(* Every operator takes `me`, who the participant is:                      *)
(*   instance_id, client_id                                                *)
(*   window        how far ranges run ahead; 0 is at most once             *)
(*   start         where its start policy begins                           *)
(***************************************************************************)
EXTENDS Ranges

\* The instance and the client that participants write the old messages under.
ANCHOR == "ranges"

\* Why a participant may not do what it is asked to, in the order in which it is tested.
ParticipantForbidden ==
    <<"Leaving", "AwaitsReadBack", "AlreadyShared", "AlreadyAlone", "NeverSet", "AlreadySet",
      "WindowDiffers", "NotAlone", "NotAtMostOnce", "NotShared", "NothingAhead",
      "RequestUnderWay", "OwesGivingBack", "NoRoom", "NoRanges", "NothingToGiveBack",
      "NotGranted", "Asleep", "NotNext", "NothingAsked">>

NewParticipant ==
    [claim     |-> NewClaim,  \* the claim as it folded it
     ranges    |-> NewRanges, \* the ranges as it folded them
     view      |-> 0,         \* the next offset to read
     held      |-> {},        \* [id, from, to, begun, done]: what it may process
     asked     |-> FALSE,     \* R6: it has a ClaimingPartition that it has not read back
     requested |-> FALSE,     \* it has a request for a range that it has not read back
     leaving   |-> FALSE]

\* Everything below `begun` was begun, and below `done` it is finished.
HeldRange(range) ==
    [id |-> range.id, from |-> range.from, to |-> range.to,
     begun |-> range.from, done |-> range.from]

(***************************************************************************)
(* What it believes.                                                       *)
(***************************************************************************)
IsAnchored(p)  == p.claim.owner_instance = ANCHOR
Shares(me, p)  == IsAnchored(p) /\ p.ranges.window = me.window
IsAlone(me, p) == p.claim.owner_instance = me.instance_id
OwnOpen(me, p) == OpenOf(p.ranges, me.instance_id)

HeldOf(p, id)     == CHOOSE held \in p.held : held.id = id
Holds(p, id)      == \E held \in p.held : held.id = id
IsFinished(held)  == held.done >= held.to
HighestOf(offsets) == CHOOSE x \in offsets : \A other \in offsets : other <= x
LowestOf(offsets)  == CHOOSE x \in offsets : \A other \in offsets : x <= other

\* Up to where it may process a range that is its own in the log.
MayStillProcessTo(p, range) ==
    IF Holds(p, range.id) THEN HeldOf(p, range.id).to ELSE range.from

\* What it gave back, and the log still gives it.  The promise stands from sending, also if the
\* record is lost, so it is given back again.
Owed(me, p) ==
    {MayStillProcessTo(p, range) :
        range \in {each \in OwnOpen(me, p) : MayStillProcessTo(p, each) < each.to}}

\* Below this everything is finished in its open ranges with ids up to seen.  One header speaks of
\* all of them, so the lowest that is not finished counts.
Reached(p, range) == IF Holds(p, range.id) THEN HeldOf(p, range.id).done ELSE range.from
Through(me, p, seen) == {range \in OwnOpen(me, p) : range.id <= seen}
Unfinished(me, p, seen) ==
    {range \in Through(me, p, seen) : Reached(p, range) < range.to}

DoneUpTo(me, p, range, seen) ==
    IF Unfinished(me, p, seen) = {} THEN range.to
    ELSE Min(range.to, LowestOf({Reached(p, each) : each \in Unfinished(me, p, seen)}))

DoneThrough(me, p, seen) ==
    LET new == {DoneUpTo(me, p, range, seen) :
                   range \in {each \in Through(me, p, seen) :
                                  each.from < DoneUpTo(me, p, each, seen)}}
    IN  IF new = {} THEN NONE ELSE HighestOf(new)

\* A newer range of the pool may lie below older ones that are finished.  Then it speaks of the
\* older ones alone, as if it had not read of the newer one.
SeenToSend(me, p) ==
    LET all == {p.view - 1} \cup {range.id - 1 : range \in OwnOpen(me, p)}
        new == {seen \in all : DoneThrough(me, p, seen) # NONE}
    IN  IF new = {} THEN p.view - 1 ELSE HighestOf(new)

DoneToSend(me, p) == DoneThrough(me, p, SeenToSend(me, p))

\* From here on nothing was begun in its open ranges.
BegunIn(me, p) ==
    {held.begun : held \in {each \in p.held :
        /\ each.begun > each.from
        /\ \E range \in OwnOpen(me, p) : range.id = each.id}}

KeepToSend(me, p) ==
    LET begun == IF BegunIn(me, p) = {} THEN 0 ELSE HighestOf(BegunIn(me, p))
        free  == {Max(range.from, begun) : range \in {each \in OwnOpen(me, p) : begun < each.to}}
    IN  IF free = {} THEN NONE ELSE LowestOf(free)

\* Where the anchor's heartbeat says that it is: at least once the lowest offset that is not
\* done.  An old view says less, and does no harm (R3).
AnchorAt(state) == IF state.ranges.window = 0 THEN state.claim.position ELSE Low(state.ranges)

\* Room for that many, or for half a window: else ranges would be slivers.
Room(p) == p.claim.position + p.ranges.window - p.ranges.frontier

HasRoomFor(me, p, count) ==
    /\ Room(p) >= IF me.window = 0 THEN count ELSE Min(count, Max(1, me.window \div 2))
    /\ Intervals(p.ranges) < IntervalsMax
    /\ Cardinality(OwnOpen(me, p)) < OpenRangesMax

(***************************************************************************)
(* The guards.  Each gives the first reason against, or Passes.            *)
(***************************************************************************)
\* A participant shares the claim only if a position was ever set.
IsSet(p) == p.claim.position_set

\* Nobody else gets at most once what a participant that leaves has not given back, and a claim
\* that nobody owns takes nothing back.
StillOwes(me, p) == me.window = 0 /\ OwnOpen(me, p) # {}

MayClaimAnchor(me, p) ==
    IF p.leaving /\ ~StillOwes(me, p) THEN "Leaving"
    ELSE IF p.asked THEN "AwaitsReadBack"
    ELSE IF Shares(me, p) THEN "AlreadyShared"
    ELSE IF ~IsSet(p) THEN "NeverSet"
    ELSE IF p.ranges.window \notin {NONE, me.window} THEN "WindowDiffers"
    ELSE PASSES

\* Where none was, it first claims alone, to say where to begin.
MayClaimAlone(me, p) ==
    IF p.leaving THEN "Leaving"
    ELSE IF p.asked THEN "AwaitsReadBack"
    ELSE IF IsAlone(me, p) THEN "AlreadyAlone"
    ELSE IF IsSet(p) THEN "AlreadySet"
    ELSE PASSES

\* Also if the claim was won late, when the position is set already.
MayReleaseAlone(me, p) == IF IsAlone(me, p) THEN PASSES ELSE "NotAlone"

MayBeatAnchor(me, p) == IF Shares(me, p) THEN PASSES ELSE "NotShared"

\* Everything below `offset`.
MayReserve(me, p, offset) ==
    IF p.leaving THEN "Leaving"
    ELSE IF me.window # 0 THEN "NotAtMostOnce"
    ELSE IF ~Shares(me, p) THEN "NotShared"
    ELSE IF offset <= p.claim.position THEN "NothingAhead"
    ELSE PASSES

MayAskRange(me, p, count) ==
    IF p.leaving THEN "Leaving"
    ELSE IF ~Shares(me, p) THEN "NotShared"
    ELSE IF p.requested THEN "RequestUnderWay"
    ELSE IF Owed(me, p) # {} THEN "OwesGivingBack"
    ELSE IF p.ranges.pool = {} /\ ~HasRoomFor(me, p, count) THEN "NoRoom"
    ELSE PASSES

\* That it lives, and what is done: also while ranges sleep.
MaySpeak(me, p) == IF HasBegun(p.ranges) THEN PASSES ELSE "NoRanges"

MayGiveBack(me, p) ==
    IF ~HasBegun(p.ranges) THEN "NoRanges"
    ELSE IF KeepToSend(me, p) = NONE THEN "NothingToGiveBack"
    ELSE PASSES

IsWithin(held, offset) == held.from <= offset /\ offset < held.to

\* Nothing is begun behind what it gave back, as long as the log does not say so: it must be able
\* to give it back again.  While ranges sleep, or a pause holds, nothing new is begun.
MayBegin(me, p, id, offset) ==
    IF ~Holds(p, id) THEN "NotGranted"
    ELSE IF ~IsWithin(HeldOf(p, id), offset) THEN "NotGranted"
    ELSE IF \E owed \in Owed(me, p) : offset >= owed THEN "OwesGivingBack"
    ELSE IF ~IsOwned(p.claim) THEN "Asleep"
    ELSE IF offset < HeldOf(p, id).begun THEN "NotNext"
    ELSE PASSES

\* Everything of the range below `offset`, and it.
MayFinish(me, p, id, offset) ==
    IF ~Holds(p, id) THEN "NotGranted"
    ELSE IF ~IsWithin(HeldOf(p, id), offset) THEN "NotGranted"
    ELSE IF offset < HeldOf(p, id).done \/ offset >= HeldOf(p, id).begun THEN "NotNext"
    ELSE PASSES

MayGiveUp(me, p) == IF p.asked \/ p.requested THEN PASSES ELSE "NothingAsked"

(***************************************************************************)
(* What it sends.                                                          *)
(***************************************************************************)
Message(type, instance, client, offset, count) ==
    [type |-> type, version |-> IF type = "ReleaseGroup" THEN 0 ELSE 1, unix_s |-> 0,
     instance_id |-> instance, client_id |-> client, offset |-> offset,
     expires_unix_s |-> 1, count |-> count]

Sent(message, headers, range_headers) ==
    [message |-> message, headers |-> headers, range_headers |-> range_headers]

Present == [NoHeaders EXCEPT !.present = TRUE]

\* And the clock, of which only readers know that begin in the middle (Reader.tla).
OwnerHeaders(p, start) ==
    [Present EXCEPT !.epoch = p.claim.epoch, !.seen = p.view - 1, !.start = start]

AsAnchor(type, offset, headers, range_headers) ==
    Sent(Message(type, ANCHOR, ANCHOR, offset, 0), headers, range_headers)

ClaimAnchorSent(me, p) ==
    AsAnchor("ClaimingPartition", NONE, Present, [NoRangeHeaders EXCEPT !.window = me.window])

ClaimAloneSent(me, p) ==
    Sent(Message("ClaimingPartition", me.instance_id, me.client_id, NONE, 0), Present,
         NoRangeHeaders)

\* A release moves the position forward only, so it does no harm where one was set.
ReleaseAloneSent(me, p) ==
    Sent(Message("ReleasingPartition", me.instance_id, me.client_id,
                 IF IsSet(p) THEN p.claim.position ELSE me.start, 0),
         OwnerHeaders(p, IF IsSet(p) THEN NONE ELSE me.start), NoRangeHeaders)

BeatAnchorSent(me, p) ==
    AsAnchor("Heartbeat", AnchorAt(p), OwnerHeaders(p, NONE), NoRangeHeaders)

\* The offset is absolute, so a double is refused as NotAhead.
ReserveSent(me, p, offset) ==
    AsAnchor("ClaimingMessages", offset, OwnerHeaders(p, NONE), NoRangeHeaders)

RangingOf(me, count, seen, done, keep) ==
    Sent(Message("ClaimingRange", me.instance_id, me.client_id, NONE, count),
         [Present EXCEPT !.seen = seen],
         [NoRangeHeaders EXCEPT !.done = done, !.keep = keep])

RangingSent(me, p, count, done, keep) == RangingOf(me, count, p.view - 1, done, keep)

\* A request is a sign of life, too, and says what is done.
AskRangeSent(me, p, count) ==
    RangingOf(me, count, SeenToSend(me, p), DoneToSend(me, p), NONE)
SpeakSent(me, p)           == AskRangeSent(me, p, 0)
GiveBackSent(me, p)        == RangingSent(me, p, 0, NONE, KeepToSend(me, p))

(***************************************************************************)
(* What it remembers afterwards.                                           *)
(***************************************************************************)
AfterClaiming(me, p) == [p EXCEPT !.asked = TRUE]

\* Asking grants nothing; what was granted is read in the log.
AfterAskRange(me, p) == [p EXCEPT !.requested = TRUE]

\* What it gives back it never begins, whatever becomes of the record.
IsOwn(me, p, held) == \E range \in OwnOpen(me, p) : range.id = held.id

AfterGiveBack(me, p) ==
    [p EXCEPT !.held = {IF IsOwn(me, p, held)
                        THEN [held EXCEPT !.to = Max(held.from, Min(@, KeepToSend(me, p)))]
                        ELSE held : held \in @}]

Replaced(p, id, held) == [p EXCEPT !.held = (@ \ {HeldOf(p, id)}) \cup {held}]

\* A program may report a message as begun before it begins it, a whole range at once, and take
\* that back.  It then begins without asking, so it takes back only what it cannot begin any more.
AfterTakeBack(me, p, id, offset) ==
    Replaced(p, id, [HeldOf(p, id) EXCEPT !.begun = Max(HeldOf(p, id).done, Min(@, offset))])

AfterBegin(me, p, id, offset) ==
    Replaced(p, id, [HeldOf(p, id) EXCEPT !.begun = offset + 1])

AfterFinish(me, p, id, offset) ==
    Replaced(p, id, [HeldOf(p, id) EXCEPT !.done = offset + 1])

\* It takes nothing more.  What the log no longer gives it, it does not begin; what it does give
\* it has to be given back by a record.
AfterLeaving(me, p) ==
    [p EXCEPT
        !.leaving = TRUE,
        !.held = {held \in {IF IsOwn(me, p, each) THEN each ELSE [each EXCEPT !.to = each.begun] :
                               each \in @} : IsOwn(me, p, held) \/ ~IsFinished(held)}]

\* It no longer waits for what it asked.  That may still land.
AfterGivingUp(me, p) == [p EXCEPT !.asked = FALSE, !.requested = FALSE]

(***************************************************************************)
(* Reading one more record.                                                *)
(***************************************************************************)
\* At least once it goes on only with what is its own in the log.  At most once nobody else is
\* ever granted it, so it may finish it whatever became of it; but not what an administrator
\* asked for anew.
StillHolds(me, held, ranges, verdict) ==
    \/ \E range \in OpenOf(ranges, me.instance_id) : range.id = held.id
    \/ me.window = 0 /\ verdict # "PositionSet" /\ ~IsFinished(held)

\* What this record granted to this very instance, under its own window.
GrantRead(me, record, ranges, verdict) ==
    IF /\ verdict = "RangeGranted"
       /\ Sender(record) = me.instance_id
       /\ ranges.window = me.window
    THEN {HeldRange(range) :
             range \in {each \in OpenOf(ranges, me.instance_id) : each.id = record.offset}}
    ELSE {}

AfterRead(me, p, record) ==
    LET upper == RangesStep(p.ranges, p.claim, record)
    IN  [p EXCEPT
            !.claim  = ClaimOutcome(@, record).claim,
            !.ranges = upper.ranges,
            !.view   = record.offset + 1,
            !.held   = {held \in @ : StillHolds(me, held, upper.ranges, upper.verdict)}
                           \cup GrantRead(me, record, upper.ranges, upper.verdict),
            !.asked  = @ /\ ~(/\ record.message.type = "ClaimingPartition"
                             /\ Sender(record) \in {ANCHOR, me.instance_id}),
            !.requested = @ /\ ~(/\ IsRangeMessage(record)
                                 /\ record.message.count > 0
                                 /\ Sender(record) = me.instance_id)]

=============================================================================
