---------------------------- MODULE MCParticipant -----------------------------
(***************************************************************************)
(* Participants at work: each reads the log record by record, remembers,   *)
(* and sends what Participant.tla allows.  What was sent lands at any      *)
(* time, again, or never.  Beside them consumers that do not know ranges   *)
(* and an administrator, as in MCRanges.                                   *)
(*                                                                         *)
(* MCRanges has no consumers: there anybody may send what follows from any *)
(* view.  Here every record that lands is one of those (SendsNoMore), so   *)
(* what MCRanges promises holds here.  What it cannot ask is asked here:   *)
(* what was begun, and what was finished.                                  *)
(***************************************************************************)
EXTENDS MCRanges

CONSTANTS
    SentMax,              \* how many records participants send
    Does                  \* which actions they take, so that a world is small

VARIABLES
    log,                  \* the records of history
    participants,         \* what each participant knows and remembers
    sent,                 \* [record, notes]: what participants sent; it may land at any time
    begun,                \* [instance, id, offset]: every message that was begun
    finished              \* every offset that was finished, since a set

mine == <<log, participants, sent, begun, finished>>

Me(i) == Who(i, Window)
P(i)  == participants[i]

InitParticipant ==
    [NewParticipant EXCEPT !.claim = FirstClaim]

ParticipantInit ==
    /\ Init
    /\ log = <<>>
    /\ participants = [i \in Participants |-> InitParticipant]
    /\ sent = {}
    /\ begun = {}
    /\ finished = {}

\* A world that begins when the claim is shared, and everybody has read that it is.
FirstWin ==
    [offset |-> 0, timestamp_ms |-> 2000, headers |-> Present,
     range_headers |-> [NoRangeHeaders EXCEPT !.window = Window],
     message |-> Message("ClaimingPartition", ANCHOR, ANCHOR, NONE, 0),
     stale |-> FALSE, pause_over |-> FALSE, silent |-> {}]

RECURSIVE HistoryOf(_)
HistoryOf(records) ==
    IF records = <<>> THEN <<[claim |-> FirstClaim, ranges |-> NewRanges, older |-> FirstClaim]>>
    ELSE LET before == HistoryOf(FirstOf(records, Length(records) - 1))
             state  == before[Length(before)]
             record == records[Length(records)]
             claim  == ClaimOutcome(state.claim, record).claim
         IN  With(before, [claim |-> claim, older |-> claim,
                           ranges |-> RangesStep(state.ranges, state.claim, record).ranges])

RECURSIVE HavingRead(_, _)
HavingRead(i, records) ==
    IF records = <<>> THEN InitParticipant
    ELSE AfterRead(Me(i), HavingRead(i, FirstOf(records, Length(records) - 1)),
                   records[Length(records)])

BeginsHavingRead(known, records, granted) ==
    /\ history = HistoryOf(records)
    /\ log = records
    /\ participants = [i \in Participants |-> HavingRead(i, known)]
    /\ leases = granted
    /\ passed = UNION {OfLease(lease) : lease \in granted}
    /\ said = {} /\ repeatable = 0 /\ set_at = NONE /\ heard = {}
    /\ last = [record |-> NONE, verdict |-> "Nothing", void |-> FALSE]
    /\ sent = {} /\ begun = {} /\ finished = {}

BeginsWith(records, granted) == BeginsHavingRead(records, records, granted)

SharedInit == BeginsWith(<<FirstWin>>, {})

\* At most once: one of them has been granted two messages, too.
FirstReserve ==
    [FirstWin EXCEPT !.offset = 1, !.range_headers = NoRangeHeaders,
                     !.headers = [Present EXCEPT !.epoch = 0, !.seen = 0],
                     !.message = Message("ClaimingMessages", ANCHOR, ANCHOR, 2, 0)]

One == CHOOSE i \in Participants : TRUE
FirstAsk ==
    [FirstWin EXCEPT !.offset = 2, !.range_headers = NoRangeHeaders,
                     !.headers = [Present EXCEPT !.seen = 1],
                     !.message = Message("ClaimingRange", One, One, NONE, 2)]

FirstRecords == <<FirstWin, FirstReserve, FirstAsk>>
FirstLease   == [id |-> 2, instance |-> One, from |-> 0, to |-> 2]
GrantedInit  == BeginsWith(FirstRecords, {FirstLease})

\* And then the group was paused, which nobody has read yet.
FirstPause ==
    [FirstWin EXCEPT !.offset = 3, !.range_headers = NoRangeHeaders,
                     !.message = Says("ReleaseGroup", "a", NONE)]

\* And a second time, which ended it for all: as an administrator does that sets shared claims.
PausedTwiceInit ==
    LET second  == [FirstPause EXCEPT !.offset = 4]
        records == With(With(FirstRecords, FirstPause), second)
    IN  BeginsHavingRead(FirstRecords, records, {FirstLease})

PausedInit == BeginsHavingRead(FirstRecords, With(FirstRecords, FirstPause), {FirstLease})

\* A reserve for two messages.
TwoAhead(state) == state.ranges.frontier + 2

Becomes(i, p) == participants' = [participants EXCEPT ![i] = p]
StaysAsItIs   == UNCHANGED <<history, leases, said, passed, repeatable, set_at, heard, last>>

(***************************************************************************)
(* What lands.                                                             *)
(***************************************************************************)
LandsNow(built) ==
    /\ Land(built)
    /\ log' = With(log, built.record)
    /\ LET isSet == ClaimOutcome(Claim, built.record).verdict = "PositionSet"
       IN  /\ begun' = begun
           /\ finished' = IF isSet THEN Offsets(0, built.record.message.offset)
                          ELSE finished \cup ByAnother(built.record, last'.verdict)

Judged(built) ==
    {[record |-> [built.record EXCEPT !.offset = Appended, !.silent = silent, !.stale = stale,
                                      !.pause_over = over],
      notes |-> built.notes] :
        silent \in IF IsRangeMessage(built.record) THEN SilentSets(Sender(built.record)) ELSE {{}},
        stale \in IF built.record.message.type = "ClaimingPartition" THEN BOOLEAN ELSE {FALSE},
        over \in IF built.record.message.type # "ClaimingPartition"
                    \/ Claim.paused_until_ms = NONE THEN {FALSE} ELSE BOOLEAN}

Arrive ==
    /\ Appended < LogMax
    /\ \E built \in UNION {Judged(each) : each \in sent}, step \in Steps :
           LandsNow([built EXCEPT !.record.timestamp_ms = At(step)])
    /\ UNCHANGED <<participants, sent>>

\* Somebody who does not know ranges, or an administrator, from any view.
ArriveOfOthers ==
    /\ Appended < LogMax
    /\ \E built \in OtherOnes \cup OfAdmins, step \in Steps :
           LandsNow([built EXCEPT !.record.timestamp_ms = At(step)])
    /\ UNCHANGED <<participants, sent>>

(***************************************************************************)
(* What participants say.                                                  *)
(***************************************************************************)
\* MCRanges has a record speak of everything that was granted to its sender up to its view, also
\* of what that has given back or finished since.  A participant may say more: what it says is of
\* what it had read as its own, and of what was left of it then.  A cfg puts these in their place.
SpeaksOfWhatIsLeft(note, lease, x) ==
    \E range \in note.of :
        range.instance = lease.instance /\ range.id = lease.id /\ x \in Offsets(range.from, range.to)

NoteOfWhatIsLeft(i, v, done, keep) ==
    [instance |-> i, of |-> OpenOf(history[v].ranges, i), done |-> done, keep |-> keep]

NoteOf(i, what) ==
    IF what.range_headers.done = NONE /\ what.range_headers.keep = NONE THEN {}
    ELSE {[instance |-> i, of |-> OwnOpen(Me(i), P(i)),
           done |-> what.range_headers.done, keep |-> what.range_headers.keep]}

(***************************************************************************)
(* What participants do.                                                   *)
(***************************************************************************)
\* A record without its place in the log.
Unlanded(what) == [Record(what.headers, what.range_headers, what.message) EXCEPT !.offset = NONE]

Sends(i, may, what, after) ==
    /\ may = PASSES
    /\ sent' = sent \cup {[record |-> Unlanded(what), notes |-> NoteOf(i, what)]}
    /\ sent' # sent
    /\ Cardinality(sent') <= SentMax
    /\ Becomes(i, after)
    /\ StaysAsItIs
    /\ UNCHANGED <<log, begun, finished>>

ClaimAnchor(i) ==
    Sends(i, MayClaimAnchor(Me(i), P(i)), ClaimAnchorSent(Me(i), P(i)),
          AfterClaiming(Me(i), P(i)))
ClaimAlone(i) ==
    Sends(i, MayClaimAlone(Me(i), P(i)), ClaimAloneSent(Me(i), P(i)),
          AfterClaiming(Me(i), P(i)))
ReleaseAlone(i) == Sends(i, MayReleaseAlone(Me(i), P(i)), ReleaseAloneSent(Me(i), P(i)), P(i))
BeatAnchor(i) == Sends(i, MayBeatAnchor(Me(i), P(i)), BeatAnchorSent(Me(i), P(i)), P(i))
Reserve(i) ==
    LET offset == ReserveAt(P(i))
    IN  Sends(i, MayReserve(Me(i), P(i), offset), ReserveSent(Me(i), P(i), offset), P(i))
AskRange(i, count) ==
    Sends(i, MayAskRange(Me(i), P(i), count), AskRangeSent(Me(i), P(i), count),
          AfterAskRange(Me(i), P(i)))
Speak(i) == Sends(i, MaySpeak(Me(i), P(i)), SpeakSent(Me(i), P(i)), P(i))
GiveBack(i) ==
    /\ MayGiveBack(Me(i), P(i)) = PASSES
    /\ Sends(i, PASSES, GiveBackSent(Me(i), P(i)), AfterGiveBack(Me(i), P(i)))

Remembers(i, after) ==
    /\ Becomes(i, after)
    /\ StaysAsItIs
    /\ UNCHANGED <<log, sent>>

Read(i) ==
    /\ P(i).view < Appended
    /\ Remembers(i, AfterRead(Me(i), P(i), log[P(i).view + 1]))
    /\ UNCHANGED <<begun, finished>>

Begin(i, id, offset) ==
    /\ MayBegin(Me(i), P(i), id, offset) = PASSES
    /\ Remembers(i, AfterBegin(Me(i), P(i), id, offset))
    /\ begun' = begun \cup {[instance |-> i, id |-> id, offset |-> offset]}
    /\ UNCHANGED finished

Finish(i, id, offset) ==
    /\ MayFinish(Me(i), P(i), id, offset) = PASSES
    /\ Remembers(i, AfterFinish(Me(i), P(i), id, offset))
    /\ finished' = finished \cup {offset}
    /\ UNCHANGED begun

\* A program may report a whole range as begun, so that it need not ask before each message.  It
\* begins what it has reported without asking, and takes back what it has not begun.
Report(i, held) ==
    /\ MayBegin(Me(i), P(i), held.id, held.to - 1) = PASSES
    /\ Remembers(i, AfterBegin(Me(i), P(i), held.id, held.to - 1))
    /\ UNCHANGED <<begun, finished>>

BegunOf(i, id) == {each.offset : each \in {one \in begun : one.instance = i /\ one.id = id}}

BeginReported(i, held) ==
    /\ \E offset \in Offsets(held.done, held.begun) :
           /\ \A other \in BegunOf(i, held.id) : other < offset
           /\ begun' = begun \cup {[instance |-> i, id |-> held.id, offset |-> offset]}
    /\ StaysAsItIs
    /\ UNCHANGED <<log, participants, sent, finished>>

MayTakeBack(i, held, offset) == \A other \in BegunOf(i, held.id) : other < offset

TakeBack(i, held) ==
    \E offset \in Offsets(held.done, held.begun) :
        /\ MayTakeBack(i, held, offset)
        /\ Remembers(i, AfterTakeBack(Me(i), P(i), held.id, offset))
        /\ UNCHANGED <<begun, finished>>

Leave(i) ==
    /\ ~P(i).leaving
    /\ Remembers(i, AfterLeaving(Me(i), P(i)))
    /\ UNCHANGED <<begun, finished>>

GiveUp(i) ==
    /\ MayGiveUp(Me(i), P(i)) = PASSES
    /\ Remembers(i, AfterGivingUp(Me(i), P(i)))
    /\ UNCHANGED <<begun, finished>>

Acts(i) ==
    \/ "ClaimAnchor" \in Does /\ ClaimAnchor(i)
    \/ "ClaimAlone" \in Does /\ ClaimAlone(i)
    \/ "ReleaseAlone" \in Does /\ ReleaseAlone(i)
    \/ "BeatAnchor" \in Does /\ BeatAnchor(i)
    \/ "Reserve" \in Does /\ Reserve(i)
    \/ \E count \in Counts \ {0} : AskRange(i, count)
    \/ "Speak" \in Does /\ Speak(i)
    \/ "GiveBack" \in Does /\ GiveBack(i)
    \/ "Leave" \in Does /\ Leave(i)
    \/ "GiveUp" \in Does /\ GiveUp(i)
    \/ Read(i)
    \/ \E held \in P(i).held :
           IF "Report" \in Does
           THEN \/ Report(i, held)
                \/ BeginReported(i, held)
                \/ TakeBack(i, held)
                \/ held.done \in BegunOf(i, held.id) /\ Finish(i, held.id, held.done)
           ELSE \/ Begin(i, held.id, held.begun)
                \/ held.done < held.begun /\ Finish(i, held.id, held.done)

Everything == {"ClaimAnchor", "ClaimAlone", "ReleaseAlone", "BeatAnchor", "Reserve", "Speak",
               "GiveBack", "Leave", "GiveUp"}
ReservesAndGivesBack == {"Reserve", "GiveBack"}
SaysAndBeats == {"Speak", "BeatAnchor"}
Shared      == {"Reserve", "Speak", "BeatAnchor", "GiveBack"}
Starts      == {"ClaimAnchor", "ClaimAlone", "ReleaseAlone", "Reserve"}
JustLeaves  == {"Leave"}
WithLeaving == {"Reserve", "Speak", "GiveBack", "Leave", "GiveUp"}
ReportsFirst == {"Report", "Reserve", "GiveBack", "Leave"}
LeavesAndClaims == {"ClaimAnchor", "GiveBack", "Leave"}
ClaimsAndReserves == {"ClaimAnchor", "Reserve"}

\* A small world: one of them leaves, and the anchor is never stale.
OneLeaves(i) ==
    /\ i = One
    /\ ~P(i).leaving
    /\ Remembers(i, AfterLeaving(Me(i), P(i)))
    /\ UNCHANGED <<begun, finished>>

NobodyIsStale(built) ==
    {[record |-> [built.record EXCEPT !.offset = Appended, !.pause_over = over],
      notes |-> built.notes] :
        over \in IF built.record.message.type # "ClaimingPartition"
                    \/ Claim.paused_until_ms = NONE THEN {FALSE} ELSE BOOLEAN}

ParticipantNext == (\E i \in Participants : Acts(i)) \/ Arrive \/ ArriveOfOthers

ParticipantSpec == ParticipantInit /\ [][ParticipantNext]_<<vars, mine>>

\* The future does not depend on how the last record was judged.
WithoutTheLastOne == <<WithoutTheLast, mine>>

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
\* Every record that a participant sends is one of MCRanges, from its view.
ViewOf(i) == P(i).view + 1
IsModelled(i, each) ==
    LET v == ViewOf(i)
        free == [each.record EXCEPT !.offset = Appended]
    IN  \/ ~IsRangeMessage(each.record)
           /\ \E built \in Anchors \cup Alone : built.record = [free EXCEPT !.stale = built.record.stale,
                                                          !.pause_over = built.record.pause_over]
        \/ /\ HasBegun(history[v].ranges)
           /\ \E built \in RangingFrom(i, v) :
                  /\ built.record = [free EXCEPT !.silent = built.record.silent]
                  /\ built.notes = each.notes

SendsNoMore ==
    [][\A each \in sent' \ sent : \E i \in Participants : IsModelled(i, each)]_<<vars, mine>>

\* No message is begun twice; by nobody, under no range.
\* Who sets the position asks for what was granted before.
SetAfter(id) == \E n \in DOMAIN log : log[n].headers.set_position # NONE /\ log[n].offset > id

BegunAtMostOnce ==
    AtMost => \A one, other \in {each \in begun : ~SetAfter(each.id)} :
                  one.offset = other.offset => one = other

\* At least once: what is passed was finished.
FinishedBelow ==
    ~AtMost =>
        /\ Offsets(0, Claim.position) \subseteq finished
        /\ HasBegun(Ranges) =>
               \A x \in Offsets(0, Ranges.frontier) :
                   \/ x \in finished
                   \/ \E range \in Ranges.open : x \in OfLease(range)
                   \/ \E each \in Ranges.pool : x \in Offsets(each.from, each.to)

\* In a range everything is in order, and no more is held than the log gave.
HoldsInOrder ==
    \A i \in Participants : \A held \in P(i).held :
        /\ held.from <= held.done /\ held.done <= held.begun /\ held.begun <= held.to
        /\ ~AtMost => \E range \in OwnOpen(Me(i), P(i)) :
               range.id = held.id /\ held.to <= range.to /\ range.from <= held.done

\* What it gave back can be given back again.
OwesWhatItCanGiveBack ==
    \A i \in Participants : Owed(Me(i), P(i)) # {} =>
        /\ KeepToSend(Me(i), P(i)) # NONE
        /\ KeepToSend(Me(i), P(i)) <= LowestOf(Owed(Me(i), P(i)))

\* At most once: who leaves can give back what nobody else gets otherwise.  In a pause, and while
\* nobody owns, it first claims.
CanGiveBack ==
    AtMost =>
        \A i \in Participants :
            P(i).leaving /\ KeepToSend(Me(i), P(i)) # NONE =>
                \/ P(i).asked
                \/ IsOwned(P(i).claim) /\ MayGiveBack(Me(i), P(i)) = PASSES
                \/ MayClaimAnchor(Me(i), P(i)) = PASSES

\* Who leaves asks for nothing, also where it claims to give back.
LeavesForGood ==
    [][\A i \in Participants : P(i).leaving =>
          \A each \in sent' \ sent : Sender(each.record) = i => each.record.message.count = 0]_<<
              vars, mine>>

(***************************************************************************)
(* Rules left out.                                                         *)
(***************************************************************************)
\* It processes what it has given back.
ForgetsItsPromise(me, p) == p

\* It takes what it asked for as granted.
TakesItAtOnce(me, p) ==
    [p EXCEPT !.requested = TRUE,
              !.held = @ \cup {HeldRange([id |-> 90, from |-> p.ranges.frontier,
                                          to |-> p.ranges.frontier + 1])}]

\* What it began counts as done.
BegunIsDone(p, range) == IF Holds(p, range.id) THEN HeldOf(p, range.id).begun ELSE range.from

\* It gives back what it has begun.
KeepsNothing(me, p) == {}

\* It takes back what its application has begun meanwhile.
LooksAtNothing(i, held, offset) == TRUE

\* Who leaves claims nothing, whatever it has.
OwesNobody(me, p) == FALSE

\* Who leaves may ask, since it may claim.
AsksOnLeaving(me, p, count) ==
    IF ~Shares(me, p) THEN "NotShared"
    ELSE IF p.requested THEN "RequestUnderWay"
    ELSE IF Owed(me, p) # {} THEN "OwesGivingBack"
    ELSE IF p.ranges.pool = {} /\ ~HasRoomFor(me, p, count) THEN "NoRoom"
    ELSE PASSES

\* It goes on at least once with what others have.
HoldsForEver(me, held, ranges, verdict) == TRUE

\* It goes on with what an administrator asked for anew.
OutlivesASet(me, held, ranges, verdict) == ~IsFinished(held)

\* It begins behind what it gave back.
OwesNothing(me, p) == {}

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
NobodyGivesBack == \A i \in Participants : Owed(Me(i), P(i)) = {}
NobodyFinishes  == finished \subseteq Offsets(0, Start)
NobodyGoesOnAfterPauses ==
    [][\A each \in begun' \ begun :
          each.id = FirstLease.id => P(each.instance).view <= FirstPause.offset]_<<vars, mine>>
NobodyGetsItAfterAPause == \A range \in Ranges.open : range.id <= FirstPause.offset
NobodyLosesOne  ==
    [][\A i \in Participants : \A held \in P(i).held :
           IsFinished(held) \/ \E other \in P(i).held' : other.id = held.id]_<<vars, mine>>

=============================================================================
