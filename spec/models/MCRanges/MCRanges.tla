------------------------------- MODULE MCRanges ------------------------------
(***************************************************************************)
(* Consumers that share one claim by ranges, beside one that does not know *)
(* ranges, an original and an administrator.                               *)
(*                                                                         *)
(* There are no consumers here, as in MCLate.  Every record that anybody   *)
(* could have built from any view of any beginning of the log may land at  *)
(* any time, again, or never: so records are late, in any order, and       *)
(* doubled, and everybody stalls and crashes.  Staleness and silence are   *)
(* free choices.  A message is processed at any time after it was granted: *)
(* what says that it is, or that it never will be, is in what was sent.    *)
(***************************************************************************)
EXTENDS Participant, Lists

CONSTANTS
    Window,               \* what participants write in marshal-ranges
    Participants,         \* those that share the claim
    Others,               \* consumers that do not know ranges
    Admins,               \* who pauses the group and sets the position back
    Counts,               \* how many messages a request may be for
    Steps,                \* by how much the broker's clock moves from a record to the next
    SilentSets(_),        \* of an instance: which others may be silent, if that is a free choice
    LogMax

VARIABLES
    history,              \* history[v + 1]: claim, ranges, and the claim of an older reader
    leases,               \* [id, instance, from, to]: what was ever granted to whom, since a set
    said,                 \* [instance, seen, done, keep]: what participants have said of theirs
    passed,               \* every offset that may be passed over: processed since a set, or, at
                          \* most once, granted, or reserved when an exclusive tenure began
    repeatable,           \* how many messages may have been processed again, since a set: what
                          \* was taken from the silent, and a window for each end of ranges
    set_at,               \* the position that was set, until a later tenure moves it
    heard,                \* [instance, ms]: when each participant last spoke, by the clock
    last                  \* the last record and its verdict; not part of the VIEW

vars == <<history, leases, said, passed, repeatable, set_at, heard, last>>

Appended == Length(history) - 1
Latest   == history[Length(history)]
Ranges   == Latest.ranges
Claim    == Latest.claim
AtMost   == Window = 0    \* at most once

(***************************************************************************)
(* What most worlds have one of; a cfg substitutes others.                 *)
(***************************************************************************)
Windows   == {Window}     \* what participants may write in marshal-ranges
Originals == {}           \* instances of the original: no headers at all

\* Somebody said where to go on, and that is the beginning of the data.
FirstClaim == [NewClaim EXCEPT !.position_set = TRUE]
Start      == 0

\* Nobody ever did, and the data begins behind 0.
NeverSet   == NewClaim
BehindZero == 1

OneOrTwo   == {1, 2}
NoneOrOne  == {0, 1}
OneOrBad   == {1, NOT_DECIMAL}
JustOne    == {"x"}

Init ==
    /\ history = <<[claim |-> FirstClaim, ranges |-> NewRanges, older |-> FirstClaim]>>
    /\ leases = {}
    /\ said = {}
    /\ passed = 0 .. Start - 1
    /\ repeatable = 0
    /\ set_at = NONE
    /\ heard = {}
    /\ last = [record |-> NONE, verdict |-> "Nothing", void |-> FALSE]

(***************************************************************************)
(* What a record did, for the properties.                                  *)
(***************************************************************************)
Offsets(from, to) == {x \in 0 .. to : from <= x /\ x < to}

\* A request of one that does not know ranges grants to it; one of the anchor only reserves.
\* At least once its heartbeat says what it processed.  A range that was granted under a window
\* of the other semantics is judged by that, so not here.
NewLeases(before, record, outcome, verdict) ==
    IF verdict = "RangeGranted"
    THEN {range \in outcome.ranges.open :
              range.id = record.offset /\ (outcome.ranges.window > 0) = ~AtMost}
    ELSE IF verdict = (IF AtMost THEN "Granted" ELSE "Refreshed") /\ Sender(record) # ANCHOR
    THEN {[id |-> record.offset, instance |-> Sender(record),
           from |-> before.claim.position, to |-> outcome.claim.position]}
    ELSE {}

\* A record speaks of what was granted to its sender up to its view.
Speaks(note, lease, x) == note.instance = lease.instance /\ lease.id <= note.seen

\* Its holder has said that it processed this one.
SaysDone(notes, lease, x) ==
    \E note \in notes : note.done # NONE /\ x < note.done /\ Speaks(note, lease, x)

\* Its holder has said that it never will process this one under this lease.
SaysNever(notes, lease, x) ==
    \E note \in notes : note.keep # NONE /\ x >= note.keep /\ Speaks(note, lease, x)

OfLease(lease) == Offsets(lease.from, lease.to)

Covered(notes, all) ==
    UNION {{x \in OfLease(lease) : SaysDone(notes, lease, x)} : lease \in all}

\* A win without the header, or with another window, ends the ranges.
EndsRanges(before, upper) ==
    /\ upper.verdict \in RangeWins
    /\ \/ ~HasBegun(upper.ranges)
       \/ HasBegun(before.ranges) /\ upper.ranges.window # before.ranges.window

\* Who ends them goes on behind everything that was reserved.
Given(before, granted, upper) ==
    UNION {OfLease(lease) : lease \in granted}
    \cup (IF EndsRanges(before, upper) THEN Offsets(0, before.claim.position) ELSE {})

\* What silent holders had at or above the position is processed again by somebody else, and
\* after the end of the ranges everything from the position to the frontier.
TakenFrom(before, record, upper) ==
    IF upper.verdict \notin RangeVerdicts THEN {}
    ELSE LET moved == RangesClockAdvanced(before.ranges, before.claim, record)
         IN  {x \in UNION {OfLease(range) :
                  range \in {r \in moved.open :
                      r.instance # Sender(record) /\ IsSilent(moved, record, r.instance)}} :
                 x >= before.claim.position}

MoreRepeatable(before, record, upper) ==
    Cardinality(TakenFrom(before, record, upper))
    + (IF EndsRanges(before, upper) /\ HasBegun(before.ranges) THEN before.ranges.window ELSE 0)

\* By any record of a later tenure that has an effect on where it goes on.
MovesOn(ground, upper) ==
    \/ ground.verdict \in {"Refreshed", "Granted", "Released", "FastReclaimed"}
    \/ upper.verdict = "RangeGranted"

ByAnother(record, verdict) ==
    IF verdict = "Refreshed" /\ Sender(record) # ANCHOR
    THEN Offsets(0, record.message.offset) ELSE {}

TimeIsFree == Steps = {0}

Land(built) ==
    LET record  == built.record
        before  == Latest
        ground  == ClaimOutcome(before.claim, record)
        upper   == RangesStep(before.ranges, before.claim, record)
        after   == [claim |-> ground.claim, ranges |-> upper.ranges,
                    older |-> IF IsRangeMessage(record) THEN before.older
                              ELSE FencedStep(before.older, record).claim]
        isSet   == ground.verdict = "PositionSet"
        granted == NewLeases(before, record, after, upper.verdict)
        notes   == said \cup built.notes
    IN  /\ history' = With(history, after)
        /\ leases' = IF isSet THEN {} ELSE leases \cup granted
        /\ said' = notes
        /\ passed' =
               IF isSet THEN Offsets(0, ground.claim.position)
               ELSE passed \cup ByAnother(record, ground.verdict)
                           \cup (IF AtMost THEN Given(before, granted, upper)
                                 ELSE Covered(notes, leases \cup granted))
        /\ repeatable' = IF isSet THEN 0 ELSE repeatable + MoreRepeatable(before, record, upper)
        /\ set_at' = IF isSet THEN ground.claim.position
                     ELSE IF MovesOn(ground, upper) THEN NONE ELSE set_at
        /\ heard' = IF TimeIsFree \/ ~IsRangeMessage(record) THEN heard
                    ELSE {each \in heard : each.instance # Sender(record)}
                         \cup {[instance |-> Sender(record), ms |-> upper.ranges.clock_ms]}
        /\ last' = [record |-> record, verdict |-> upper.verdict,
                    void |-> HasBegun(before.ranges) /\ ~HasBegun(upper.ranges)]

(***************************************************************************)
(* Time: a free choice of each record, or the broker's clock, which may    *)
(* step back.                                                              *)
(***************************************************************************)
NoSteps   == {0}
ClockSteps == {-1000, 2000, 4000}
FewSteps   == {-1000, 4000}
AnySilent(i) == SUBSET (Participants \ {i})
NoChoice(i)  == {{}}

At(step) == IF Ranges.clock_ms = NONE THEN 2000 ELSE Ranges.clock_ms + step

(***************************************************************************)
(* Records, from a view: the log before history[v].                        *)
(***************************************************************************)
Views == DOMAIN history
Seen(v) == v - 2

\* Of one that does not know ranges.
Says(type, sender, offset) == Message(type, sender, sender, offset, 0)

Record(headers, more, message) ==
    [offset |-> Appended, timestamp_ms |-> 0, headers |-> headers, range_headers |-> more,
     message |-> message, stale |-> FALSE, pause_over |-> FALSE, silent |-> {}]

Built(record) == [record |-> record, notes |-> {}]

\* A participant that had read up to a view and remembers nothing; and what it sends.
Who(i, window) == [instance_id |-> i, client_id |-> i, window |-> window, start |-> Start]
Knowing(v) ==
    [NewParticipant EXCEPT !.claim = history[v].claim, !.ranges = history[v].ranges,
                           !.view = Seen(v) + 1]
Anybody     == Who(ANCHOR, Window)
Landing(sent) == Record(sent.headers, sent.range_headers, sent.message)

Of(v)   == [Present EXCEPT !.epoch = history[v].claim.epoch, !.seen = Seen(v)]

\* Whether an owner counts as stale, and a pause as over, is not the sender's to decide.
Freely(records) ==
    {[record EXCEPT !.stale = stale, !.pause_over = over] :
        record \in records, stale \in BOOLEAN,
        over \in IF Latest.claim.paused_until_ms = NONE THEN {FALSE} ELSE BOOLEAN}

Claims(sender, more) ==
    {Built(record) :
        record \in Freely({Record(Present, more, Says("ClaimingPartition", sender, NONE))})}

\* The lowest offset that nothing was cut from yet, and one more to reserve.
ReserveAt(state) == state.ranges.frontier + 1

AnchorViews ==
    {v \in Views : history[v].claim.owner_instance = ANCHOR /\ HasBegun(history[v].ranges)}

ReserveViews == {v \in AnchorViews : history[v].ranges.window = 0}

\* A participant shares the claim only if a position was ever set.
MayShare == IsSet(Latest)

ClaimsFrom(sent) == {Built(record) : record \in Freely({Landing(sent)})}

\* Where none was, a participant first claims alone, and says where to begin.
AloneViews(me) == {v \in Views : IsAlone(me, Knowing(v))}

AloneOf(me) ==
    ClaimsFrom(ClaimAloneSent(me, NewParticipant))
    \cup {Built(Landing(ReleaseAloneSent(me, Knowing(v)))) : v \in AloneViews(me)}

Alone ==
    IF IsSet(history[1]) THEN {} ELSE UNION {AloneOf(Who(i, Window)) : i \in Participants}

\* No participant of ours releases the anchor; somebody may.
ReleaseOfAnchor(p) ==
    Sent(Says("ReleasingPartition", ANCHOR, AnchorAt(p)), OwnerHeaders(p, NONE), NoRangeHeaders)

Anchors ==
    (IF MayShare
     THEN UNION {ClaimsFrom(ClaimAnchorSent(Who(ANCHOR, window), NewParticipant)) :
                     window \in Windows}
     ELSE {})
    \cup {Built(Landing(BeatAnchorSent(Anybody, Knowing(v)))) : v \in AnchorViews}
    \cup {Built(Landing(ReleaseOfAnchor(Knowing(v)))) : v \in AnchorViews}
    \cup {Built(Landing(ReserveSent(Anybody, Knowing(v), ReserveAt(history[v])))) :
              v \in ReserveViews}

Note(i, v, done, keep) == [instance |-> i, seen |-> Seen(v), done |-> done, keep |-> keep]

\* What is said is true: nothing was processed that never will be, and the other way round.
Honest(note) ==
    \A lease \in leases : \A x \in OfLease(lease) :
        /\ SaysDone({note}, lease, x) => ~SaysNever(said, lease, x)
        /\ SaysNever({note}, lease, x) => ~SaysDone(said, lease, x)

Ranging(i, v, count, done, keep) ==
    LET note == Note(i, v, done, keep)
        sent == RangingSent(Who(i, Window), Knowing(v), count, done, keep)
    IN  {[record |-> [Landing(sent) EXCEPT !.silent = silent],
          notes |-> IF done = NONE /\ keep = NONE THEN {} ELSE {note}] :
            silent \in SilentSets(i)}

\* A request, which says what is done; or one that gives back.
RangingFrom(i, v) ==
    LET own   == OpenOf(history[v].ranges, i)
        dones == {x + 1 : x \in UNION {OfLease(range) : range \in own}}
        keeps == UNION {OfLease(range) : range \in own}
    IN  UNION {Ranging(i, v, count, NONE, NONE) : count \in Counts}
        \cup UNION {Ranging(i, v, count, done, NONE) : count \in Counts,
                    done \in {d \in dones : Honest(Note(i, v, d, NONE))}}
        \cup UNION {Ranging(i, v, 0, NONE, keep) :
                    keep \in {k \in keeps : Honest(Note(i, v, NONE, k))}}

\* A world in which nobody says anything but that it is alive, and asks.
OnlyAsks(i, v) == UNION {Ranging(i, v, count, NONE, NONE) : count \in Counts}

RangeViews == {v \in Views : HasBegun(history[v].ranges)}
Requests == UNION {RangingFrom(i, v) : i \in Participants, v \in RangeViews}

OfOwner(sender, type, offset, v) ==
    Built(Record(Of(v), NoRangeHeaders, Says(type, sender, offset)))

OwnViews(sender) == {v \in Views : history[v].claim.owner_instance = sender}

\* One that does not know ranges works from the position on, a message at a time.
OtherOnes ==
    UNION {Claims(o, NoRangeHeaders)
           \cup {OfOwner(o, IF AtMost THEN "ClaimingMessages" ELSE "Heartbeat",
                         history[v].claim.position + 1, v) : v \in OwnViews(o)} : o \in Others}

\* The original claims, and says what it processed; it asks for no messages.
OfOriginals ==
    UNION {{Built(record) :
                record \in Freely({Record(NoHeaders, NoRangeHeaders,
                                         Says("ClaimingPartition", x, NONE))})}
           \cup {Built(Record(NoHeaders, NoRangeHeaders,
                              Says("Heartbeat", x, history[v].claim.position + 1))) :
                     v \in OwnViews(x)} : x \in Originals}

\* An administrator pauses, claims, and sets the position to 0.
OfAdmins ==
    UNION {{Built(Record(Present, NoRangeHeaders, Says("ReleaseGroup", a, NONE)))}
           \cup Claims(a, NoRangeHeaders)
           \cup {Built(Record([Of(v) EXCEPT !.set_position = 0], NoRangeHeaders,
                              Says("ReleasingPartition", a, 0))) : v \in OwnViews(a)} :
           a \in Admins}

Buildable == Anchors \cup Alone \cup Requests \cup OtherOnes \cup OfOriginals \cup OfAdmins

Next ==
    /\ Appended < LogMax
    /\ \E built \in Buildable, step \in Steps :
           Land([built EXCEPT !.record.timestamp_ms = At(step)])

Spec == Init /\ [][Next]_vars

\* The future does not depend on how the last record was judged.
WithoutTheLast == <<history, leases, said, passed, repeatable, set_at, heard>>

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
\* Older and newer readers compute the same claim.
VersionsAgree ==
    /\ Claim.owner_instance = Latest.older.owner_instance
    /\ Claim.epoch = Latest.older.epoch
    /\ Claim.position = Latest.older.position
    /\ Claim.clock_ms = Latest.older.clock_ms
    /\ Claim.last_heartbeat_ms = Latest.older.last_heartbeat_ms

RangesDisjoint ==
    LET all == {Interval(r.from, r.to) : r \in Ranges.open} \cup Ranges.pool
    IN  /\ \A a, b \in Ranges.open : a # b => OfLease(a) \cap OfLease(b) = {}
        /\ \A a \in Ranges.open, b \in Ranges.pool : OfLease(a) \cap Offsets(b.from, b.to) = {}
        /\ \A a, b \in Ranges.pool :
               a # b => Offsets(a.from, a.to) \cap Offsets(b.from, b.to) = {}
        /\ \A each \in all : each.from < each.to /\ each.to <= Ranges.frontier

Bounded == Intervals(Ranges) <= IntervalsMax

\* No two leases let the same message be processed.
AtMostOnce ==
    AtMost =>
        \A a, b \in leases :
            a # b => \A x \in OfLease(a) \cap OfLease(b) :
                SaysNever(said, a, x) \/ SaysNever(said, b, x)

\* At least once: what is passed, by the position or within ranges, was processed.
NoneSkipped ==
    ~AtMost =>
        /\ Offsets(0, Claim.position) \subseteq passed
        /\ HasBegun(Ranges) =>
               \A x \in Offsets(0, Ranges.frontier) :
                   \/ x \in passed
                   \/ \E range \in Ranges.open : x \in OfLease(range)
                   \/ \E each \in Ranges.pool : x \in Offsets(each.from, each.to)

\* At most once: as long as all share, nothing that was reserved is passed over.
ReserveKept ==
    AtMost /\ Ranges.window = 0 => Offsets(0, Ranges.frontier) \subseteq passed

PositionIsLow ==
    HasBegun(Ranges) /\ ~AtMost => Claim.position <= Low(Ranges)

WindowHolds == HasBegun(Ranges) => Ranges.frontier <= Claim.position + Ranges.window

\* At least once: what is processed again is what was taken from silent holders, and at most a
\* window whenever ranges end.
MayBeProcessed ==
    UNION {{<<x, lease.id>> : x \in {y \in OfLease(lease) : ~SaysNever(said, lease, y)}} :
               lease \in leases}

ReprocessingBound ==
    ~AtMost =>
        Cardinality(MayBeProcessed) - Cardinality({pair[1] : pair \in MayBeProcessed})
        <= repeatable

\* What an administrator set stays until a later tenure moves it, and ranges begin there.
SetPositionSticks ==
    set_at # NONE =>
        /\ Claim.position = set_at
        /\ HasBegun(Ranges) =>
               Ranges.frontier = set_at /\ Ranges.open = {} /\ Ranges.pool = {}

\* Nobody works before the beginning of the data.
BeginsAtTheStart == \A lease \in leases : lease.from >= Start

\* A claim ends ranges only where nobody owns, or the anchor is silent.
LiveAnchorKept ==
    [][last'.void /\ last'.record.message.type = "ClaimingPartition" =>
          \/ ~IsOwned(Latest.claim)
          \/ IsStale(ClockAdvanced(Latest.claim, last'.record), last'.record)]_vars

\* Who is remembered holds something, or was heard: after a request that counts.
SilentForgotten ==
    [][last'.verdict \in RangeVerdicts =>
          \A each \in Latest.ranges.alive' :
              \/ OpenOf(Latest.ranges, each.instance)' # {}
              \/ each.instance = Sender(last'.record)
              \/ ~IsSilent(Latest.ranges, last.record, each.instance)']_vars

\* By the clock: what another takes was a holder's that had not spoken for two intervals, refused
\* records and those that came while ranges slept included.
LiveHolderKept ==
    [][last'.verdict \in RangeVerdicts /\ ~TimeIsFree =>
          \A range \in Latest.ranges.open : \A each \in heard :
              \/ range.instance = Sender(last'.record)
              \/ each.instance # range.instance
              \/ \E other \in Latest.ranges.open' : other.id = range.id
              \/ Latest.ranges.clock_ms' - each.ms > 2 * HeartbeatIntervalMs]_vars

\* Ranges went on from one record to the next.
GoOn == HasBegun(Latest.ranges) /\ Latest.ranges.window' = Latest.ranges.window

FrontierMonotone ==
    [][GoOn => Latest.ranges.frontier <= Latest.ranges.frontier']_vars

\* In a pause nobody owns, and nothing is granted.
PauseHolds ==
    [][last'.verdict = "RangeGranted" => IsOwned(Latest.claim)]_vars

\* Each offset is a lease: free, held, done.  What is done is held no more, and what is held
\* gets free only if its holder gave it back or, at least once, was silent.
DoneIn(state, x) ==
    /\ HasBegun(state.ranges)
    /\ x < state.ranges.frontier
    /\ \A range \in state.ranges.open : x \notin OfLease(range)
    /\ \A each \in state.ranges.pool : x \notin Offsets(each.from, each.to)

\* In the pool, or granted to somebody by the record at `id`.
FreeIn(state, x, id) ==
    \/ \E each \in state.ranges.pool : x \in Offsets(each.from, each.to)
    \/ \E range \in state.ranges.open : range.id = id /\ x \in OfLease(range)

MayBeFreed(range, x, state, record) ==
    \/ Sender(record) = range.instance /\ record.range_headers.keep \in 0 .. x
    \/ state.ranges.window > 0 /\ IsSilent(state.ranges, record, range.instance)

RefinesLeases ==
    [][GoOn =>
          /\ \A x \in Offsets(0, Latest.ranges.frontier) : DoneIn(Latest, x) => DoneIn(Latest, x)'
          /\ \A range \in Latest.ranges.open : \A x \in OfLease(range) :
                 FreeIn(Latest', x, Appended) => MayBeFreed(range, x, Latest', last'.record)]_vars

(***************************************************************************)
(* Rules left out, each of which some property notices.                    *)
(***************************************************************************)

\* Ranges without an anchor, behind what ClaimingMessages has granted to anybody.
NeedsNoAnchor(ranges, claim) == FALSE
NoViewIsTooEarly == Views
FullNever(ranges, claim) == FALSE
Unbounded(ranges, claim, record) ==
    Interval(ranges.frontier, ranges.frontier + Min(record.message.count, RangeMessagesMax))

\* A participant's record is a sign of life of the anchor.
RefreshesTheAnchor(claim, record) ==
    IF ~IsRangeMessage(record) THEN FencedStep(claim, record)
    ELSE LET moved == ClockAdvanced(claim, record)
         IN  Outcome(IF IsOwned(moved) THEN [moved EXCEPT !.last_heartbeat_ms = moved.clock_ms]
                     ELSE moved, "Skipped")

\* Ranges live through an exclusive tenure, or a set position.
KeepsThem(ranges) == ranges

\* What a silent holder had is granted again, also where it is below the position.
HasGone(i, ranges, record) == i # Sender(record) /\ IsSilent(ranges, record, i)
ReapsAll(ranges, claim, record) ==
    LET gone == {range \in ranges.open : HasGone(range.instance, ranges, record)}
    IN  [ranges EXCEPT !.open = @ \ gone,
                       !.pool = @ \cup {Interval(range.from, range.to) : range \in gone}]

\* A holder processes what it has given back.
ForgetsWhatItGaveBack(notes, lease, x) == FALSE

\* A holder takes what it has asked for as granted.
TakesWhatItAsksFor(before, record, outcome, verdict) ==
    IF IsRangeMessage(record) /\ record.message.count > 0
    THEN LET from == history[record.headers.seen + 2].ranges.frontier
         IN  {[id |-> record.offset, instance |-> Sender(record),
               from |-> from, to |-> from + record.message.count]}
    ELSE {}

\* What a record says of ranges, it says also of those that came after its view, or of everybody's.
OfLaterOnes(range, record)  == range.instance = Sender(record)
OfEverybodys(range, record) == range.id <= record.headers.seen

\* Another instance need not be silent.
RobsTheLiving(ranges, claim, record) ==
    LET gone == {range \in ranges.open : range.instance # Sender(record)}
    IN  [ranges EXCEPT !.open = @ \ gone,
                       !.pool = @ \cup NotEmpty({Interval(Max(range.from, claim.position), range.to) :
                                                    range \in gone})]

\* Nobody is forgotten.
ForgetsNobody(ranges, claim, record) ==
    LET gone == {range \in ranges.open : HasGone(range.instance, ranges, record)}
    IN  [ranges EXCEPT !.open = @ \ gone,
                       !.pool = @ \cup NotEmpty({Interval(Max(range.from, claim.position), range.to) :
                                                    range \in gone})]

\* Ranges go on under another window.
GoesOnAnyhow(ranges, claim, record) ==
    IF HasBegun(ranges)
    THEN [ranges EXCEPT !.window = record.range_headers.window]
    ELSE [ranges EXCEPT !.window   = record.range_headers.window,
                        !.frontier = claim.position]

\* Nobody is heard while ranges sleep.
HeardByNobody(ranges, record) == FALSE

\* A participant shares a claim of which nobody knows where to begin.
SharesAtOnce == TRUE

\* Who says where to begin claims as the anchor, without a window.
ClaimsAsTheAnchor(me, p) == AsAnchor("ClaimingPartition", NONE, Present, NoRangeHeaders)

\* A new header on an old message that is not decimal has it refused.
RefusesABadHeader(claim, record) ==
    IF IsRangeMessage(record) THEN Outcome(claim, "Skipped")
    ELSE IF record.range_headers.window = NOT_DECIMAL
    THEN Outcome(ClockAdvanced(claim, record), "HeaderNotDecimal")
    ELSE FencedStep(claim, record)

\* The anchor says how far ranges were cut.
AtFrontier(state) == state.ranges.frontier

\* What was granted from the pool stays there.
LeavesItInThePool(ranges, record) == Holding(ranges, InPool(ranges), record)

\* Each tenure begins at the position.
BeginsAtThePosition(ranges, claim, record) ==
    [ranges EXCEPT !.window = record.range_headers.window, !.frontier = claim.position]

\* A release ends the ranges.
ReleaseEndsThem(ranges, claim, record, verdict) ==
    IF verdict = "Released" THEN Void(ranges)
    ELSE IF verdict \in RangeWins /\ record.range_headers.window >= 0
    THEN Begun(ranges, claim, record)
    ELSE IF verdict \in RangeWins \cup {"PositionSet"} THEN Void(ranges)
    ELSE ranges

\* Ranges do not sleep while nobody owns.
NeverSleeps(ranges, claim) == ~HasBegun(ranges)

\* There is no most that a claim may have, or that is cut in two.
AnyNumber(ranges, record) == FALSE
OnlyTheWindow(ranges, claim) == ranges.frontier >= claim.position + ranges.window
CutsAtTheMost(ranges, range, record) ==
    /\ record.range_headers.keep # NONE
    /\ ItsOwn(range, record)
    /\ record.range_headers.keep < range.to

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
NothingInThePool == Ranges.pool = {}
NoneGrantedAgain ==
    \A a, b \in leases : a.id < b.id => OfLease(a) \cap OfLease(b) = {}
NotTwoHold == Cardinality({range.instance : range \in Ranges.open}) < 2
NotAllDone == Ranges.frontier = 0 \/ Ranges.open \cup Ranges.pool # {}
NoRangeGoesOn ==
    [][HasBegun(Latest.ranges) /\ ~IsOwned(Latest.claim) => ~IsOwned(Latest.claim)']_vars
NobodyAfterRanges ==
    [][last'.void => ~IsOwned(Latest.claim)']_vars
NoneAfterAnAdministrator ==
    Ranges.open = {} \/ \A n \in DOMAIN history : history[n].claim.owner_instance \notin Admins
NotThreeHold == Cardinality({range.instance : range \in Ranges.open}) < 3
NotFull == Intervals(Ranges) < IntervalsMax
NothingGranted == leases = {}
NoneTaken ==
    [][last'.verdict \in RangeVerdicts =>
          \A range \in Latest.ranges.open :
              \/ range.instance = Sender(last'.record)
              \/ \E other \in Latest.ranges.open' : other.id = range.id]_vars
NoOriginalAfterRanges ==
    [][last'.void => Latest.claim.owner_instance' \notin Originals]_vars
NoOtherWindow ==
    [][HasBegun(Latest.ranges) /\ HasBegun(Latest.ranges)' => GoOn]_vars
NoBadHeaderWins ==
    [][last'.record.range_headers.window = NOT_DECIMAL => last'.verdict \notin RangeWins]_vars
NothingSetAfterRanges ==
    [][last'.verdict = "PositionSet" =>
          \A n \in DOMAIN history : ~HasBegun(history[n].ranges)]_vars
NoRangesAfterBoth ==
    LET owners == {history[n].claim.owner_instance : n \in DOMAIN history}
    IN  ~HasBegun(Ranges) \/ owners \cap Others = {} \/ owners \cap Admins = {}

=============================================================================
