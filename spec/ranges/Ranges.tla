------------------------------- MODULE Ranges -------------------------------
(***************************************************************************)
(* What one record of the log does to the ranges of one claim.  Several    *)
(* consumers share a partition, and each holds ranges of offsets, which it *)
(* claims before the messages exist.                                       *)
(*                                                                         *)
(* Ranges lie on top of the claim and never change it.  The five messages  *)
(* of Claim.tla do to the claim what they always did; one new message,     *)
(* ClaimingRange, changes the ranges only.  A reader that does not know it *)
(* computes the same owner, epoch and position.                            *)
(*                                                                         *)
(* The participants of a claim own it together: they write its old         *)
(* messages under one instance id, and ClaimingRange under their own.  A   *)
(* range's id is the offset of the record that asked for it.  Everything   *)
(* below the frontier that is neither open nor in the pool is done, or, at *)
(* most once, was forgotten.                                               *)
(*                                                                         *)
(* frontier <= position + window.  With window 0 ranges are cut only from  *)
(* what ClaimingMessages has reserved: at most once.  With more the        *)
(* position stays at the lowest offset that is not done: at least once.    *)
(***************************************************************************)
EXTENDS Claim, FiniteSets

CONSTANTS
    IntervalsMax,         \* M: as many open ranges and pool intervals may a claim have
    OpenRangesMax,        \* m: as many open ranges may an instance have
    RangeMessagesMax,     \* n_max: a request for more is cut to this
    IsSilent(_, _, _)     \* (ranges, record, instance): its last sign of life is too old

NewRanges ==
    [window   |-> NONE,   \* NONE: no range tenure, or an exclusive one came after it
     frontier |-> 0,      \* every range was cut below this
     open     |-> {},     \* [id, from, to, instance]: [from, to) is the instance's
     pool     |-> {},     \* [from, to): given back, or taken from a silent instance
     alive    |-> {},     \* [instance, ms]: the last sign of life of each
     clock_ms |-> NONE]   \* of its own, since ClaimingRange does not move the claim's

\* Headers that are read here only.  On the five old messages one that is not decimal counts as
\* absent: a reader that does not know it refuses nothing.
NoRangeHeaders == [window |-> NONE, done |-> NONE, keep |-> NONE]

RangeVerdicts == {"RangeGranted", "RangeRefreshed"}

RangeRefused ==
    <<"UnknownVersion", "HeaderNotDecimal", "HeaderFromTheFuture", "NoRangeTenure",
      "SeenMissing", "NegativeCount">>

(***************************************************************************)
(* Words.                                                                  *)
(***************************************************************************)
HasBegun(ranges)  == ranges.window # NONE
Sender(record)    == record.message.instance_id
Intervals(ranges) == Cardinality(ranges.open) + Cardinality(ranges.pool)
OpenOf(ranges, i) == {range \in ranges.open : range.instance = i}
Interval(from, to) == [from |-> from, to |-> to]
NotEmpty(intervals) == {each \in intervals : each.from < each.to}

\* The lowest offset that is not done.
Low(ranges) ==
    LET starts == {each.from : each \in ranges.open} \cup {each.from : each \in ranges.pool}
    IN  CHOOSE low \in starts \cup {ranges.frontier} :
            \A other \in starts \cup {ranges.frontier} : low <= other

\* What a record says of its sender's ranges, it says of those that it had read of.
ItsOwn(range, record) ==
    range.instance = Sender(record) /\ range.id <= record.headers.seen

(***************************************************************************)
(* What the five old messages do: nothing but begin, go on and end.        *)
(***************************************************************************)
RangeWins == {"Claimed", "Reclaimed", "Restarted", "TookOver", "FastReclaimed"}

\* Who wins without the header does not know of ranges, and who sets the position asks for what
\* was done: nothing of them holds any more.
Void(ranges) == [NewRanges EXCEPT !.clock_ms = ranges.clock_ms]

\* The ranges of the tenure before go on under the same window.  Under another they end: what was
\* cut beyond the position at least once must not be granted twice at most once.
Begun(ranges, claim, record) ==
    IF ranges.window = record.range_headers.window
    THEN ranges
    ELSE [Void(ranges) EXCEPT !.window   = record.range_headers.window,
                              !.frontier = claim.position]

\* While nobody owns, ranges sleep: they stay as they are, and nothing is granted.
AfterClaim(ranges, claim, record, verdict) ==
    IF verdict \in RangeWins
    THEN IF record.message.type = "ClaimingPartition" /\ record.range_headers.window >= 0
         THEN Begun(ranges, claim, record)
         ELSE Void(ranges)
    ELSE IF verdict = "PositionSet" THEN Void(ranges)
    ELSE ranges

(***************************************************************************)
(* ClaimingRange: the guards, in order.                                    *)
(***************************************************************************)
\* No older version reads this message, so every header that it may carry is checked.
RangeHeaderNotDecimal(record) ==
    NOT_DECIMAL \in {record.range_headers.window, record.range_headers.done,
                     record.range_headers.keep, record.headers.start}

NoRangeTenure(ranges, claim) == ~IsOwned(claim) \/ ~HasBegun(ranges)

SeenMissing(record) ==
    /\ record.range_headers.done # NONE \/ record.range_headers.keep # NONE
    /\ record.headers.seen = NONE

RangeGuard(ranges, claim, record) ==
    IF UnknownVersion(claim, record)           THEN "UnknownVersion"
    ELSE IF HeaderNotDecimal(claim, record) \/ RangeHeaderNotDecimal(record)
                                               THEN "HeaderNotDecimal"
    ELSE IF HeaderFromTheFuture(claim, record) THEN "HeaderFromTheFuture"
    ELSE IF NoRangeTenure(ranges, claim)       THEN "NoRangeTenure"
    ELSE IF SeenMissing(record)                THEN "SeenMissing"
    ELSE IF record.message.count < 0           THEN "NegativeCount"
    ELSE PASSES

(***************************************************************************)
(* ClaimingRange: the effects, in order.                                   *)
(***************************************************************************)

\* 1. A holder that was silent and speaks before anybody else asks still holds.
Alive(ranges, record) ==
    [ranges EXCEPT
        !.alive = {each \in @ : each.instance # Sender(record)}
                      \cup {[instance |-> Sender(record), ms |-> ranges.clock_ms]}]

\* 2. Everything below `done` in its ranges is processed.
Progressed(ranges, record) ==
    [ranges EXCEPT
        !.open = NotEmpty({IF ItsOwn(range, record)
                           THEN [range EXCEPT !.from = Max(@, record.range_headers.done)]
                           ELSE range : range \in @})]

\* 3. Everything at or above `keep` goes to the pool.  That may cut one range in two, which
\* needs room for one more interval.
Cut(range, record) ==
    range.from < record.range_headers.keep /\ record.range_headers.keep < range.to

GivesBack(ranges, range, record) ==
    /\ record.range_headers.keep # NONE
    /\ ItsOwn(range, record)
    /\ record.range_headers.keep < range.to
    /\ Cut(range, record) => Intervals(ranges) < IntervalsMax

GivenBack(ranges, record) ==
    LET keep == record.range_headers.keep
        back == {range \in ranges.open : GivesBack(ranges, range, record)}
    IN  [ranges EXCEPT
            !.open = NotEmpty((@ \ back) \cup {[range EXCEPT !.to = Max(range.from, keep)] :
                                                   range \in back}),
            !.pool = @ \cup {Interval(Max(range.from, keep), range.to) : range \in back}]

\* 4. What another instance that is silent held goes to the pool, if it lies at or above the
\* position.  What lies below was reserved at most once, and is forgotten: its holder may
\* process it yet.  An instance that holds nothing and is silent is forgotten, too.
Reaped(ranges, claim, record) ==
    LET IsGone(i) == i # Sender(record) /\ IsSilent(ranges, record, i)
        gone == {range \in ranges.open : IsGone(range.instance)}
    IN  [ranges EXCEPT
            !.open  = @ \ gone,
            !.pool  = @ \cup NotEmpty({Interval(Max(range.from, claim.position), range.to) :
                                          range \in gone}),
            !.alive = {each \in @ : ~IsGone(each.instance)}]

\* 5. The lowest interval of the pool, whole; else the next messages behind the frontier.
InPool(ranges) ==
    CHOOSE low \in ranges.pool : \A other \in ranges.pool : low.from <= other.from

AtTheFrontier(ranges, claim, record) ==
    Interval(ranges.frontier,
             Min(ranges.frontier + Min(record.message.count, RangeMessagesMax),
                 claim.position + ranges.window))

TooManyOpen(ranges, record) ==
    Cardinality(OpenOf(ranges, Sender(record))) >= OpenRangesMax

WindowFull(ranges, claim) ==
    \/ ranges.frontier >= claim.position + ranges.window
    \/ Intervals(ranges) >= IntervalsMax

Holding(ranges, interval, record) ==
    [ranges EXCEPT
        !.open = @ \cup {[id |-> record.offset, from |-> interval.from, to |-> interval.to,
                          instance |-> Sender(record)]}]

FromPool(ranges, record) ==
    Holding([ranges EXCEPT !.pool = @ \ {InPool(ranges)}], InPool(ranges), record)

FromFrontier(ranges, claim, record) ==
    LET interval == AtTheFrontier(ranges, claim, record)
    IN  Holding([ranges EXCEPT !.frontier = interval.to], interval, record)

\* What became of the ranges, the verdict, and why nothing was granted, if something was asked.
RangeOutcome(ranges, verdict, guard) ==
    [ranges |-> ranges, verdict |-> verdict, guard |-> guard]

Asked(ranges, claim, record) ==
    IF record.message.count = 0
    THEN RangeOutcome(ranges, "RangeRefreshed", PASSES)
    ELSE IF ranges.pool # {}
    THEN RangeOutcome(FromPool(ranges, record), "RangeGranted", PASSES)
    ELSE IF TooManyOpen(ranges, record)
    THEN RangeOutcome(ranges, "RangeRefreshed", "TooManyOpen")
    ELSE IF WindowFull(ranges, claim)
    THEN RangeOutcome(ranges, "RangeRefreshed", "WindowFull")
    ELSE RangeOutcome(FromFrontier(ranges, claim, record), "RangeGranted", PASSES)

\* A holder that speaks while ranges sleep stays alive.  Whoever holds nothing has nothing to
\* lose, and would be remembered as long as they sleep.
SleepsAlive(ranges, record) == HasBegun(ranges) /\ OpenOf(ranges, Sender(record)) # {}

ClaimingRange(ranges, claim, record) ==
    LET guard == RangeGuard(ranges, claim, record)
        alive == Alive(ranges, record)
        told  == GivenBack(Progressed(alive, record), record)
    IN  IF guard = "NoRangeTenure" /\ SleepsAlive(ranges, record)
        THEN RangeOutcome(alive, guard, PASSES)
        ELSE IF guard # PASSES
        THEN RangeOutcome(ranges, guard, PASSES)
        ELSE Asked(Reaped(told, claim, record), claim, record)

(***************************************************************************)
(* One step: of the claim, and of its ranges.                              *)
(***************************************************************************)

IsRangeMessage(record) == record.message.type = "ClaimingRange"

\* Every record moves the clock of the ranges, refused ones too.  But ClaimingRange makes no
\* claim: before the first old record of the key it leaves nothing.
RangesClockAdvanced(ranges, claim, record) ==
    IF IsRangeMessage(record) /\ claim = NewClaim THEN ranges
    ELSE [ranges EXCEPT !.clock_ms = Max(@, record.timestamp_ms)]

\* A reader that does not know ClaimingRange skips it.
ClaimOutcome(claim, record) ==
    IF IsRangeMessage(record) THEN Outcome(claim, "Skipped") ELSE FencedStep(claim, record)

RangesStep(ranges, claim, record) ==
    LET moved   == RangesClockAdvanced(ranges, claim, record)
        outcome == ClaimOutcome(claim, record)
    IN  IF IsRangeMessage(record)
        THEN ClaimingRange(moved, claim, record)
        ELSE RangeOutcome(AfterClaim(moved, outcome.claim, record, outcome.verdict),
                          outcome.verdict, PASSES)

(***************************************************************************)
(* The two ways to tell silence: by the clock of the ranges, or freely.    *)
(***************************************************************************)
ClockSaysSilent(ranges, record, i) ==
    LET last == {each \in ranges.alive : each.instance = i}
    IN  \A each \in last : ranges.clock_ms - each.ms > 2 * HeartbeatIntervalMs

RecordSaysSilent(ranges, record, i) == i \in record.silent

=============================================================================
