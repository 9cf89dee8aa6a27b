----------------------------- MODULE MCRangesKeys ----------------------------
(***************************************************************************)
(* Consumers that share two claims of one group by ranges, in one log.     *)
(* Each claim and its ranges are a function of the records of their own    *)
(* key, and of the ReleaseGroups of the group.  A pause reaches both.  The *)
(* ids of ranges are offsets of the one log, so no two ranges have one id. *)
(*                                                                         *)
(* Everybody sees the present: records that are late are the concern of    *)
(* MCRanges.                                                               *)
(***************************************************************************)
EXTENDS Ranges, Lists

CONSTANTS
    Window,
    Participants,         \* they share both claims
    LogMax

VARIABLES
    appended,             \* [key, record]; the key of a ReleaseGroup is ANY
    folds,                \* of each key, after the whole log
    last                  \* the last record, and what it did to each key

vars == <<appended, folds, last>>

Keys   == {"k1", "k2"}
ANY    == "any"
ANCHOR == "ranges"
ADMIN  == "admin"

FirstClaim == [NewClaim EXCEPT !.position_set = TRUE]

\* Whom a record concerns: the keys that it is folded into.
Concerns(addressed, key) ==
    addressed.record.message.type = "ReleaseGroup" \/ addressed.key = key

Nothing == [claim |-> FirstClaim, ranges |-> NewRanges, older |-> FirstClaim]

After(fold, record) ==
    [claim  |-> ClaimOutcome(fold.claim, record).claim,
     ranges |-> RangesStep(fold.ranges, fold.claim, record).ranges,
     older  |-> IF IsRangeMessage(record) THEN fold.older ELSE FencedStep(fold.older, record).claim]

VerdictOn(fold, record) == RangesStep(fold.ranges, fold.claim, record).verdict

Init ==
    /\ appended = <<>>
    /\ folds = [key \in Keys |-> Nothing]
    /\ last = [record |-> NONE, verdicts |-> [key \in Keys |-> "Skipped"]]

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
Message(type, sender, offset) ==
    [type |-> type, version |-> IF type = "ReleaseGroup" THEN 0 ELSE 1, unix_s |-> 0,
     instance_id |-> sender, client_id |-> sender, offset |-> offset,
     expires_unix_s |-> 1, count |-> 0]

Record(headers, more, message) ==
    [offset |-> Length(appended), timestamp_ms |-> 2000, headers |-> headers,
     range_headers |-> more, message |-> message, stale |-> FALSE, pause_over |-> FALSE,
     silent |-> {}]

Present == [NoHeaders EXCEPT !.present = TRUE]
Seen    == [Present EXCEPT !.seen = Length(appended) - 1]
Of(key) == [Seen EXCEPT !.epoch = folds[key].claim.epoch]

Claims(key, sender, more) ==
    {[Record(Present, more, Message("ClaimingPartition", sender, NONE)) EXCEPT !.pause_over = over] :
        over \in IF folds[key].claim.paused_until_ms = NONE THEN {FALSE} ELSE BOOLEAN}

OwnedBy(key, sender) == folds[key].claim.owner_instance = sender

\* At most once the anchor reserves; at least once it says what is done.
OfAnchor(key) ==
    IF ~OwnedBy(key, ANCHOR) \/ ~HasBegun(folds[key].ranges) THEN {}
    ELSE {Record(Of(key), NoRangeHeaders,
                 IF Window = 0
                 THEN Message("ClaimingMessages", ANCHOR, folds[key].ranges.frontier + 1)
                 ELSE Message("Heartbeat", ANCHOR, Low(folds[key].ranges)))}

\* Who asks has done what it had.
DoneBy(key, i) ==
    LET own == OpenOf(folds[key].ranges, i)
    IN  IF own = {} THEN NONE
        ELSE (CHOOSE range \in own : \A other \in own : other.to <= range.to).to

Requests(key) ==
    IF ~HasBegun(folds[key].ranges) THEN {}
    ELSE {Record(Seen, [NoRangeHeaders EXCEPT !.done = DoneBy(key, i)],
                 [Message("ClaimingRange", i, NONE) EXCEPT !.count = 1]) : i \in Participants}

\* An administrator pauses the group, and sets the position of one of its claims.
OfAdmin(key) ==
    IF OwnedBy(key, ADMIN)
    THEN {Record([Of(key) EXCEPT !.set_position = 0], NoRangeHeaders,
                 Message("ReleasingPartition", ADMIN, 0))}
    ELSE IF folds[key].claim.pauser = ADMIN THEN Claims(key, ADMIN, NoRangeHeaders)
    ELSE {}

Addressed(key, records) == {[key |-> key, record |-> record] : record \in records}

Sendable ==
    UNION {Addressed(key, Claims(key, ANCHOR, [NoRangeHeaders EXCEPT !.window = Window])
                          \cup OfAnchor(key) \cup Requests(key) \cup OfAdmin(key)) : key \in Keys}
    \cup Addressed(ANY, {Record(Present, NoRangeHeaders, Message("ReleaseGroup", ADMIN, NONE))})

Next ==
    /\ Length(appended) < LogMax
    /\ \E addressed \in Sendable :
           /\ appended' = With(appended, addressed)
           /\ folds' = [key \in Keys |-> IF Concerns(addressed, key)
                                         THEN After(folds[key], addressed.record) ELSE folds[key]]
           /\ last' = [record   |-> addressed.record,
                       verdicts |-> [key \in Keys |-> IF Concerns(addressed, key)
                                                      THEN VerdictOn(folds[key], addressed.record)
                                                      ELSE "Skipped"]]

Spec == Init /\ [][Next]_vars

\* A log leads to one state of everything else.
TheLog == appended

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
\* The fold of a key is that of its own records, and of nothing else.
OwnOf(key) ==
    SelectFrom(appended, LAMBDA each : each.record.message.type = "ReleaseGroup" \/ each.key = key)

RECURSIVE FoldOf(_, _)
FoldOf(own, n) == IF n = 0 THEN Nothing ELSE After(FoldOf(own, n - 1), own[n].record)

ClaimsAreApart ==
    \A key \in Keys : LET own == OwnOf(key) IN folds[key] = FoldOf(own, Length(own))

VersionsAgree == \A key \in Keys : folds[key].claim = folds[key].older

Offsets(each) == {x \in 0 .. each.to : each.from <= x /\ x < each.to}

RangesDisjoint ==
    \A key \in Keys :
        LET ranges == folds[key].ranges
            all    == {Interval(range.from, range.to) : range \in ranges.open} \cup ranges.pool
        IN  /\ \A a, b \in ranges.open : a # b => Offsets(a) \cap Offsets(b) = {}
            /\ \A a, b \in all : a # b => Offsets(a) \cap Offsets(b) = {}
            /\ \A each \in all : each.from < each.to /\ each.to <= ranges.frontier

\* A range's id is the offset of a record of its key: a fencing token for both claims together.
IdsAreApart ==
    \A key \in Keys : \A range \in folds[key].ranges.open :
        appended[range.id + 1].key = key

\* After a pause nobody owns either claim, and where nobody owns nothing is granted.
PauseHolds ==
    [][\A key \in Keys :
          /\ last'.record.message.type = "ReleaseGroup" => ~IsOwned(folds[key].claim)'
          /\ last'.verdicts[key] = "RangeGranted" => IsOwned(folds[key].claim)]_vars

(***************************************************************************)
(* Rules left out.                                                         *)
(***************************************************************************)
\* A ClaimingRange is folded into every claim that its sender shares.
RangesOfTheGroup(addressed, key) ==
    \/ addressed.record.message.type \in {"ReleaseGroup", "ClaimingRange"}
    \/ addressed.key = key

\* A pause is of one key.
OnlyOfTheFirst(addressed, key) == addressed.key = key \/ (addressed.key = ANY /\ key = "k1")

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
NotBothHeld == \E key \in Keys : folds[key].ranges.open = {}
NotBothSleep ==
    \E key \in Keys : ~HasBegun(folds[key].ranges) \/ IsOwned(folds[key].claim)
NothingSetBesideRanges ==
    \A key, other \in Keys :
        folds[key].claim.pauser = ADMIN /\ folds[key].claim.epoch # NONE
        /\ ~HasBegun(folds[key].ranges) /\ ~IsOwned(folds[key].claim)
        => ~HasBegun(folds[other].ranges)

=============================================================================
