--------------------------- MODULE MCRangesLiveness --------------------------
(***************************************************************************)
(* At least once, every message is eventually passed: consumers that share *)
(* a claim by ranges process it or die, and one of them does not die.      *)
(*                                                                         *)
(* There is no log here.  Everybody sees the present, and a record has its *)
(* effect when it is built; records that are late are the concern of       *)
(* MCRanges.  Who is dead is silent, and nobody else is.                   *)
(***************************************************************************)
EXTENDS Ranges

CONSTANTS
    Window,
    Participants,
    Immortal,             \* the one that does not die
    End                   \* there are messages below this offset; ranges go beyond it

VARIABLES
    claim,
    ranges,
    up,                   \* who has not died
    processed             \* by whom: which messages

vars == <<claim, ranges, up, processed>>

ANCHOR == "ranges"

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
\* Higher than every id, and no higher than needed: a log would go on for ever.
NextOffset ==
    LET ids == {range.id : range \in ranges.open} \cup {claim.epoch}
    IN  1 + (CHOOSE id \in ids : \A other \in ids : other <= id)

Present == [NoHeaders EXCEPT !.present = TRUE]

Record(offset, headers, more, type, sender, position, count) ==
    [offset |-> offset, timestamp_ms |-> 0, headers |-> headers, range_headers |-> more,
     message |-> [type |-> type, version |-> 1, unix_s |-> 0, instance_id |-> sender,
                  client_id |-> sender, offset |-> position, expires_unix_s |-> 1,
                  count |-> count],
     stale |-> FALSE, pause_over |-> FALSE, silent |-> Participants \ up]

Offsets(from, to) == {x \in 0 .. to : from <= x /\ x < to}
OfRange(range)    == Offsets(range.from, range.to)
Held(i)           == UNION {OfRange(range) : range \in OpenOf(ranges, i)}
Unprocessed(i)    == {x \in Held(i) : x < End} \ processed[i]

Lowest(offsets) == CHOOSE x \in offsets : \A other \in offsets : x <= other

\* Everything below is processed in what it holds.
DoneBy(i) ==
    IF Held(i) = {} THEN NONE
    ELSE IF Held(i) \ processed[i] # {} THEN Lowest(Held(i) \ processed[i])
    ELSE 1 + (CHOOSE x \in Held(i) : \A other \in Held(i) : other <= x)

Ranging(i, count) ==
    Record(NextOffset, [Present EXCEPT !.seen = NextOffset - 1],
           [NoRangeHeaders EXCEPT !.done = DoneBy(i)], "ClaimingRange", i, NONE, count)

Lands(record) ==
    /\ claim' = ClaimOutcome(claim, record).claim
    /\ ranges' = RangesStep(ranges, claim, record).ranges

(***************************************************************************)
(* What participants do.                                                   *)
(***************************************************************************)
CanWork(i) == Unprocessed(i) # {}

Work(i) ==
    /\ i \in up
    /\ CanWork(i)
    /\ processed' = [processed EXCEPT ![i] = @ \cup {Lowest(Unprocessed(i))}]
    /\ UNCHANGED <<claim, ranges, up>>

\* A record that changes nothing but signs of life need not be sent here.
Tells(record) == RangesStep(ranges, claim, record).ranges.open # ranges.open

CanSay(i) == Tells(Ranging(i, 0))

SayDone(i) ==
    /\ i \in up
    /\ CanSay(i)
    /\ Lands(Ranging(i, 0))
    /\ UNCHANGED <<up, processed>>

\* Somebody looks silent, or left something.
SomethingIsFree ==
    ranges.pool # {} \/ \E range \in ranges.open : range.instance \notin up

\* Also with its hands full of ranges that have no messages yet.
Wants(i) ==
    \/ SomethingIsFree
    \/ ranges.frontier < claim.position + Window

CanAsk(i) == Unprocessed(i) = {} /\ Wants(i) /\ Tells(Ranging(i, 1))

Ask(i) ==
    /\ i \in up
    /\ CanAsk(i)
    /\ Lands(Ranging(i, 1))
    /\ UNCHANGED <<up, processed>>

CanBeat(i) == Low(ranges) > claim.position

Beat(i) ==
    /\ i \in up
    /\ CanBeat(i)
    /\ Lands(Record(NextOffset, [Present EXCEPT !.epoch = claim.epoch, !.seen = NextOffset - 1],
                    NoRangeHeaders, "Heartbeat", ANCHOR, Low(ranges), 0))
    /\ UNCHANGED <<up, processed>>

Die(i) ==
    /\ i \in up \ {Immortal}
    /\ up' = up \ {i}
    /\ UNCHANGED <<claim, ranges, processed>>

(***************************************************************************)
(* The claim is shared already, at position 0.                             *)
(***************************************************************************)
Claiming ==
    [offset |-> 0, timestamp_ms |-> 0, headers |-> Present,
     range_headers |-> [NoRangeHeaders EXCEPT !.window = Window],
     message |-> [type |-> "ClaimingPartition", version |-> 1, unix_s |-> 0,
                  instance_id |-> ANCHOR, client_id |-> ANCHOR, offset |-> NONE,
                  expires_unix_s |-> 1, count |-> 0],
     stale |-> FALSE, pause_over |-> FALSE, silent |-> {}]

FirstClaim == [NewClaim EXCEPT !.position_set = TRUE]

Init ==
    /\ claim = ClaimOutcome(FirstClaim, Claiming).claim
    /\ ranges = RangesStep(NewRanges, FirstClaim, Claiming).ranges
    /\ up = Participants
    /\ processed = [i \in Participants |-> {}]

Next == \E i \in Participants : Work(i) \/ SayDone(i) \/ Ask(i) \/ Beat(i) \/ Die(i)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* Fairness, one assumption at a time: again and again there is nothing    *)
(* left to do for somebody who has not died.  Every step leads on and none *)
(* leads back, so this is weak fairness, without ENABLED, which is slow.   *)
(***************************************************************************)
Works == \A i \in Participants : []<>(i \notin up \/ ~CanWork(i))
Says  == \A i \in Participants : []<>(i \notin up \/ ~CanSay(i))
Asks  == \A i \in Participants : []<>(i \notin up \/ ~CanAsk(i))
Beats == \A i \in Participants : []<>(i \notin up \/ ~CanBeat(i))

FairSpec       == Spec /\ Works /\ Says /\ Asks /\ Beats
WithoutWork    == Spec /\ Says /\ Asks /\ Beats
WithoutSaying  == Spec /\ Works /\ Asks /\ Beats
WithoutAsking  == Spec /\ Works /\ Says /\ Beats
WithoutBeating == Spec /\ Works /\ Says /\ Asks

\* The others need not work, and need not die.
StuckHolder == Spec /\ []<>~CanWork(Immortal) /\ Says /\ Asks /\ Beats

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
Passed == claim.position >= End

EverythingProcessed ==
    <>(Passed /\ \A x \in 0 .. End - 1 : \E i \in Participants : x \in processed[i])

(***************************************************************************)
(* Rules left out.                                                         *)
(***************************************************************************)
NobodyReaps(before, of, record) == before

WantsEmptyHanded(i) == Held(i) = {} /\ (SomethingIsFree \/ ranges.frontier < claim.position + Window)

\* Who has as many ranges as it may is granted nothing from the pool either.
CountsForThePool(before, of, record) ==
    IF record.message.count = 0
    THEN RangeOutcome(before, "RangeRefreshed", PASSES)
    ELSE IF TooManyOpen(before, record)
    THEN RangeOutcome(before, "RangeRefreshed", "TooManyOpen")
    ELSE IF before.pool # {}
    THEN RangeOutcome(FromPool(before, record), "RangeGranted", PASSES)
    ELSE IF WindowFull(before, of)
    THEN RangeOutcome(before, "RangeRefreshed", "WindowFull")
    ELSE RangeOutcome(FromFrontier(before, of, record), "RangeGranted", PASSES)

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
NobodyTakesWhatADeadOneHeld ==
    [][\A range \in ranges.open : range.instance \notin up =>
           \A other \in ranges'.open : other.id = range.id \/ other.from # range.from]_vars
NobodyTakesWithFullHands ==
    [][\A i \in Participants :
           Cardinality(OpenOf(ranges, i)) >= OpenRangesMax
           => Cardinality(OpenOf(ranges, i)') <= Cardinality(OpenOf(ranges, i))]_vars

=============================================================================
