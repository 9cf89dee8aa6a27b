----------------------------- MODULE MCDeliveries -----------------------------
(***************************************************************************)
(* Participants at work, and a reader that counts how often each message   *)
(* was delivered to a participant that fell silent with it.  Is the count  *)
(* exact, and no lower than the number of times that the message was begun *)
(* in vain?                                                                *)
(***************************************************************************)
EXTENDS MCParticipant, Deliveries

VARIABLES
    taken,                \* as a reader of the whole log counts it
    late,                 \* as one counts it that began in the middle
    lost,                 \* [id, offset]: what silent holders had, since ranges ended
    ended                 \* the offset of the last record that ended ranges

counts == <<taken, late, lost, ended>>

\* By offset, from what the record says and not from what became of the ranges.
LostNow(record) ==
    IF last'.verdict \notin RangeVerdicts THEN {}
    ELSE UNION {{[id |-> range.id, offset |-> x] :
                    x \in Offsets(Max(range.from, Claim.position), range.to)} :
                   range \in {each \in Ranges.open :
                       each.instance # Sender(record)
                       /\ IsSilent(Ranges, record, each.instance)}}

EndsNow == ~HasBegun(Latest.ranges') \/ Latest.ranges'.window # Ranges.window

\* Whether somebody begins in the middle. Else that one is the first.
Joins     == FALSE
SomeJoins == TRUE

CountsOn ==
    LET record == last'.record
        next(old) == AfterTaken(old, record, Ranges, Latest.ranges')
    IN  /\ taken' = next(taken)
        /\ late' \in IF Joins THEN {next(late), NothingTaken} ELSE {taken'}
        /\ lost' = IF EndsNow THEN {} ELSE lost \cup LostNow(record)
        /\ ended' = IF EndsNow THEN record.offset ELSE ended

\* What participants of these worlds do beside asking, reading, beginning and finishing.
JustAsks == {}
AsksAndGivesBack == {"GiveBack"}

\* A world that begins when one of them has been granted two messages.
FirstGrant ==
    [FirstWin EXCEPT !.offset = 1, !.range_headers = NoRangeHeaders,
                     !.headers = [Present EXCEPT !.seen = 0],
                     !.message = Message("ClaimingRange", One, One, NONE, 2)]

HoldsTwoInit ==
    BeginsWith(<<FirstWin, FirstGrant>>, {[id |-> 1, instance |-> One, from |-> 0, to |-> 2]})

DeliveriesInit ==
    /\ ParticipantInit
    /\ taken = NothingTaken
    /\ late = NothingTaken
    /\ lost = {}
    /\ ended = -1

DeliveriesNext ==
    /\ ParticipantNext
    /\ IF log' = log THEN UNCHANGED counts ELSE CountsOn

DeliveriesSpec == DeliveriesInit /\ [][DeliveriesNext]_<<vars, mine, counts>>

WithoutTheLastRecord == <<WithoutTheLastOne, counts>>

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
Outstanding == UNION {OfLease(each) : each \in Ranges.open \cup Ranges.pool}

\* It counts whom it was taken from: a holder that gave it back does not count.
CountsTheSilent ==
    \A x \in Outstanding :
        TimesTaken(taken, x) = Cardinality({each.id : each \in {l \in lost : l.offset = x}})

\* In the pool it was begun no more often than it was taken, and by its holder once more.
BegunUnder(x) == {each.id : each \in {b \in begun : b.offset = x /\ b.id > ended}}

BegunIsCounted ==
    /\ \A each \in Ranges.pool : \A x \in OfLease(each) :
           Cardinality(BegunUnder(x)) <= TimesTaken(taken, x)
    /\ \A range \in Ranges.open : \A x \in OfLease(range) :
           Cardinality(BegunUnder(x)) <= DeliveriesOf(taken, x)

\* A number for each open range and each interval of the pool, at most.
CountsAreBounded ==
    \A each \in taken :
        /\ each.times > 0
        /\ \E other \in Ranges.open \cup Ranges.pool :
               other.from = each.from /\ other.to = each.to

\* What is still to be done never counts less than it did.
CountsNeverFall ==
    [][\A x \in Outstanding \cap Outstanding' :
           ended' = ended => TimesTaken(taken, x) <= TimesTaken(taken', x)]_<<vars, mine, counts>>

\* Who began in the middle counts what was taken since.
LateCountsNoMore == \A x \in Outstanding : TimesTaken(late, x) <= TimesTaken(taken, x)

\* At most once nothing is given twice, so nothing counts.
AtMostOnceCountsNothing == AtMost => taken = NothingTaken

(***************************************************************************)
(* Rules left out.                                                         *)
(***************************************************************************)
\* What is given back counts, too.
CountsWhatIsGivenBack(record, before, after) ==
    {range \in before.open :
        \E each \in after.pool : range.from <= each.from /\ each.from < range.to}

\* The count begins anew with each grant.
ForgetsAtTheGrant(old, record, before, after) ==
    LET gone == TakenBy(record, before, after)
    IN  {[from |-> each.from, to |-> each.to, times |-> 1] :
            each \in {i \in after.pool : \E range \in gone :
                         range.from <= i.from /\ i.from < range.to}}

\* What is done is remembered.
ForgetsNothing(old, record, before, after) ==
    LET gone == TakenBy(record, before, after)
    IN  old \cup {[from |-> each.from, to |-> each.to, times |-> 1] : each \in gone}

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
NothingTakenTwice == \A each \in taken : each.times < 2
NoneBegunTwice ==
    \A one, other \in {b \in begun : b.id > ended} : one.offset = other.offset => one.id = other.id
NoneGivenBackAfterwards ==
    \A each \in Ranges.pool : TimesTaken(taken, each.from) = 0 \/ Ranges.open = {}

=============================================================================
