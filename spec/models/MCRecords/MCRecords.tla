----------------------------- MODULE MCRecords -----------------------------
(***************************************************************************)
(* No consumers at all: anybody appends any record of a small hostile set. *)
(*                                                                         *)
(* Consumers that keep the rules send few of the records that a reducer    *)
(* must judge.  Here every record may follow every other, with clocks that *)
(* jump, stand still and go back, so each edge is one more answer to "what *)
(* does this record do to that claim".  These edges are exported and held  *)
(* against the Python.                                                     *)
(***************************************************************************)
EXTENDS ClaimInvariant, Lemmas, Export, FiniteSets

CONSTANTS
    Rules,                \* "fenced" or "original"
    RecordsAt(_),         \* the records that may stand at an offset
    LogMax

VARIABLES
    claim,
    length,               \* of the log, and so the next offset
    last                  \* the last record and its verdict; not part of the VIEW

vars == <<claim, length, last>>

NoRecord == [record |-> NONE, verdict |-> "Nothing"]

Init ==
    /\ claim = NewClaim
    /\ length = 0
    /\ last = NoRecord

Append(record) ==
    LET outcome == Step(claim, record, Rules)
    IN  /\ length < LogMax
        /\ claim' = outcome.claim
        /\ length' = length + 1
        /\ last' = [record |-> record, verdict |-> outcome.verdict]

Next == \E record \in RecordsAt(length) : Append(record)

Spec == Init /\ [][Next]_vars

\* The future does not depend on how the claim came about.
ClaimAndLength == <<claim, length>>

\* The rules and the durations stand in every row, so that a row says all.
ExportStep ==
    Export(<<Rules, HeartbeatIntervalMs, PauseMaxMs, claim, last'.record, claim',
             last'.verdict>>)

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
ClientOf == [a1 |-> "a", a2 |-> "a", b1 |-> "b", admin |-> "admin"]

Consumers == {"a1", "a2", "b1"}

Record(offset, timestamp_ms, headers, message) ==
    [offset       |-> offset,
     timestamp_ms |-> timestamp_ms,
     headers      |-> headers,
     message      |-> message]

Message(type, version, unix_s, sender, offset, expires_unix_s) ==
    [type           |-> type,
     version        |-> version,
     unix_s         |-> unix_s,
     instance_id    |-> sender,
     client_id      |-> ClientOf[sender],
     offset         |-> offset,
     expires_unix_s |-> expires_unix_s]

Plain(type, sender, offset) == Message(type, 1, 1, sender, offset, NONE)

Pause(sender, expires_unix_s) == Message("ReleaseGroup", 0, 1, sender, NONE, expires_unix_s)

Present              == [NoHeaders EXCEPT !.present = TRUE]
WithEpoch(epoch)     == [Present EXCEPT !.epoch = epoch]
WithSeen(seen)       == [Present EXCEPT !.seen = seen]
WithSupersedes(old)  == [Present EXCEPT !.supersedes = old]
WithSetPosition(epoch, position) == [WithEpoch(epoch) EXCEPT !.set_position = position]

\* With an interval of one second, a heartbeat at 1000 is not stale at exactly 3000 and
\* stale at 4000.  Every order of these is appended, also the one that goes back.
Times == {1000, 3000, 4000}

OwnerTypes == {"Heartbeat", "ClaimingMessages", "ReleasingPartition"}

(***************************************************************************)
(* Fenced.                                                                 *)
(***************************************************************************)
ClaimsAt(n, senders, times) ==
    {Record(n, time, headers, Plain("ClaimingPartition", sender, NONE)) :
        time \in times, sender \in senders,
        headers \in {NoHeaders, Present, WithSupersedes(0), WithSupersedes(1)}}

OwnerRecordsAt(n, senders, times, offsets) ==
    {Record(n, time, headers, Plain(type, sender, offset)) :
        type \in OwnerTypes, time \in times, sender \in senders, offset \in offsets,
        headers \in {NoHeaders, Present, WithEpoch(0), WithEpoch(1)}}

PausesAt(n, senders, times, expiries) ==
    {Record(n, time, NoHeaders, Pause(sender, expires)) :
        time \in times, sender \in senders, expires \in expiries}

SetPositionsAt(n, senders, offsets) ==
    {Record(n, 3000, WithSetPosition(epoch, Max(offset, 0)),
            Plain("ReleasingPartition", sender, offset)) :
        epoch \in {NONE, 0, 1}, sender \in senders, offset \in offsets}

\* At 0, by senders that say where they began, and by older ones.
AtZero(n) ==
    {Record(n, 3000, headers, Plain(type, "a1", 0)) :
        type \in OwnerTypes,
        headers \in {NoHeaders} \cup {[WithEpoch(0) EXCEPT !.start = start] : start \in {NONE, 0}}}

OddHeaders(n) ==
    {WithEpoch(NOT_DECIMAL), WithSeen(NOT_DECIMAL), WithSupersedes(NOT_DECIMAL),
     WithSetPosition(0, NOT_DECIMAL), [WithEpoch(0) EXCEPT !.supersedes = NOT_DECIMAL],
     [WithEpoch(0) EXCEPT !.seen = n - 1], [WithEpoch(0) EXCEPT !.seen = n],
     WithEpoch(n), WithEpoch(n + 1), [WithSupersedes(0) EXCEPT !.epoch = n],
     [WithSupersedes(0) EXCEPT !.epoch = NOT_DECIMAL], WithSetPosition(NONE, 1),
     [WithEpoch(0) EXCEPT !.clock = NOT_DECIMAL], [WithEpoch(0) EXCEPT !.clock = 9000]}

OddRecordsAt(n) ==
    {Record(n, time, headers,
            IF type = "ReleaseGroup" THEN Pause("a1", 9) ELSE Plain(type, "a1", 2)) :
        type \in MessageTypes, time \in {1000, 4000}, headers \in OddHeaders(n)}

UnknownVersionsAt(n) ==
    {Record(n, time, NoHeaders, Message(type, version, 1, "a1", 2, 9)) :
        type \in MessageTypes, time \in {1000, 4000}, version \in {0, 2, 7}}

\* Wide: every kind of record, in short logs.
FencedWide(n) ==
    ClaimsAt(n, Consumers, Times)
    \cup OwnerRecordsAt(n, Consumers, Times, {-1, 2})
    \cup PausesAt(n, {"a1", "admin"}, Times, {0, 2, 4, 9})
    \cup SetPositionsAt(n, {"a1", "b1"}, {-1, 0, 1})
    \cup AtZero(n)
    \cup OddRecordsAt(n)
    \cup UnknownVersionsAt(n)

\* Deep: fewer records, longer logs: a pause, the pauser's own tenure, the tenure after.
FencedDeep(n) ==
    ClaimsAt(n, {"a1", "admin"}, {1000, 4000})
    \cup {Record(n, time, headers, Plain(type, sender, offset)) :
            type \in OwnerTypes, time \in {4000}, sender \in {"a1", "admin"},
            offset \in {0, 2}, headers \in {NoHeaders, WithEpoch(n - 1), WithEpoch(Max(n - 2, 0))}}
    \cup PausesAt(n, {"admin"}, {1000, 3000}, {4})

(***************************************************************************)
(* Original: times inside one second, and messages whose own time is far   *)
(* ahead, far back, or 0, which is the original's "never".                 *)
(***************************************************************************)
OriginalTimes == {1000, 2999, 3000}
OriginalStamps == {0, 1, 5}

OriginalWide(n) ==
    {Record(n, time, headers, Message(type, 1, unix_s, sender, offset, NONE)) :
        type \in {"Heartbeat", "ReleasingPartition"}, time \in OriginalTimes,
        unix_s \in OriginalStamps, sender \in {"a1", "b1"}, offset \in {-1, 2},
        headers \in {NoHeaders}}
    \cup
    {Record(n, time, NoHeaders, Message("ClaimingPartition", 1, unix_s, sender, NONE, NONE)) :
        time \in OriginalTimes, unix_s \in OriginalStamps, sender \in {"a1", "b1"}}
    \cup
    {Record(n, 3000, NoHeaders, Plain(type, "a2", 2)) :
        type \in OwnerTypes \cup {"ClaimingPartition"}}
    \cup
    {Record(n, time, headers, Message(type, version, 1, "a1", 2, 9)) :
        type \in MessageTypes, time \in {3000}, version \in {1, 7},
        headers \in {NoHeaders, WithEpoch(n), WithSetPosition(0, NOT_DECIMAL)}}
    \cup
    PausesAt(n, {"a1", "admin"}, {1000, 3000}, {0, 2, 9})

(***************************************************************************)
(* Each verdict must be reachable, so each of these must fail.             *)
(***************************************************************************)
NeverClaimed          == last.verdict # "Claimed"
NeverReclaimed        == last.verdict # "Reclaimed"
NeverRestarted        == last.verdict # "Restarted"
NeverTookOver         == last.verdict # "TookOver"
NeverRefreshed        == last.verdict # "Refreshed"
NeverFastReclaimed    == last.verdict # "FastReclaimed"
NeverGranted          == last.verdict # "Granted"
NeverReleased         == last.verdict # "Released"
NeverPositionSet      == last.verdict # "PositionSet"
NeverGroupReleased    == last.verdict # "GroupReleased"
NeverOverwritten      == last.verdict # "Overwritten"
NeverIgnored          == last.verdict # "Ignored"
NeverUnknownVersion   == last.verdict # "UnknownVersion"
NeverHeaderNotDecimal == last.verdict # "HeaderNotDecimal"
NeverHeaderFromTheFuture == last.verdict # "HeaderFromTheFuture"
NeverIsPaused         == last.verdict # "IsPaused"
NeverLiveOwner        == last.verdict # "LiveOwner"
NeverDoesNotSupersede == last.verdict # "DoesNotSupersede"
NeverLogLostRecords   == last.verdict # "LogLostRecords"
NeverSuperseded       == last.verdict # "Superseded"
NeverNobodyOwns       == last.verdict # "NobodyOwns"
NeverForged           == last.verdict # "Forged"
NeverEpochMissing     == last.verdict # "EpochMissing"
NeverNotOwner         == last.verdict # "NotOwner"
NeverNotAhead         == last.verdict # "NotAhead"
NeverNegativePosition == last.verdict # "NegativePosition"

(***************************************************************************)
(* What holds for every step, for every sender and record.                 *)
(***************************************************************************)
Obeyed == last'.verdict \in Accepted
Sent == last'.record.message
IsWin ==
    last'.verdict \in {"Claimed", "Reclaimed", "Restarted", "TookOver", "FastReclaimed"}

FencedStepwise ==
    Obeyed /\ Sent.type \in OwnerTypes /\ last'.verdict # "FastReclaimed" =>
        /\ Sent.instance_id = claim.owner_instance
        /\ \/ last'.record.headers.epoch = claim.epoch
           \/ last'.record.headers.epoch = NONE /\ ~claim.won_with_headers

\* Judged by sender, pauser and header: a verdict's name is what is under test.
MonotonePositionStepwise ==
    \/ claim'.position >= claim.position
    \/ /\ AdminSets(claim, last'.record)
       /\ claim'.position = Sent.offset
       /\ Sent.offset >= 0

MonotoneEpochStepwise ==
    /\ claim'.epoch >= claim.epoch
    /\ IsWin => claim'.epoch > claim.epoch

PauseHoldsStepwise ==
    /\ claim.paused_until_ms # NONE
    /\ claim'.clock_ms < claim.paused_until_ms
    /\ Sent.instance_id # claim.pauser
    /\ Sent.type # "ReleaseGroup"
    => ~Obeyed

\* A refusal is no secret effect: nothing but the clock moved.
RefusalsChangeNothing ==
    ~Obeyed => claim' = [claim EXCEPT !.clock_ms = claim'.clock_ms]

\* R1, R1b, R1c: an owner that is not stale is displaced by its own client only, which
\* names the tenure that it ends, or where neither has headers.
Stale == claim'.clock_ms - claim.last_heartbeat_ms > 2 * HeartbeatIntervalMs

FreshOwnerKeptStepwise ==
    IsWin /\ claim.owner_instance \notin {NOBODY, Sent.instance_id} /\ ~Stale =>
        /\ Sent.client_id = claim.owner_client
        /\ \/ /\ Sent.type = "ClaimingPartition"
              /\ last'.record.headers.supersedes = claim.epoch
           \/ ~last'.record.headers.present /\ ~claim.won_with_headers

\* R9: nobody else's bare heartbeat.
FastReclaimStepwise ==
    last'.verdict = "FastReclaimed" =>
        /\ Sent.client_id = claim.owner_client
        /\ ~claim.won_with_headers
        /\ ~last'.record.headers.present

\* R8: a ReleaseGroup that has not expired pauses, and not for longer than P.
PauseBeginsStepwise ==
    Sent.type = "ReleaseGroup" /\ Obeyed =>
        /\ claim'.paused_until_ms <= claim'.clock_ms + PauseMaxMs
        /\ Sent.expires_unix_s * 1000 > claim'.clock_ms =>
               claim'.paused_until_ms > claim'.clock_ms

\* R1: "the position stays".  A fast reclaim is a heartbeat, to which R3 applies.
WinKeepsPositionStepwise ==
    IsWin /\ last'.verdict # "FastReclaimed" => claim'.position = claim.position

\* A position that was set stays set, and one above 0 was set.  At 0 a record sets it only if
\* its sender says where it began, or that it sets it.
SetStaysSetStepwise ==
    /\ claim.position_set => claim'.position_set
    /\ claim'.position > 0 => claim'.position_set
    /\ claim'.position_set /\ ~claim.position_set =>
           /\ Sent.type \in OwnerTypes
           /\ \/ claim'.position > 0
              \/ last'.record.headers.start # NONE
              \/ AdminSets(claim, last'.record) /\ ReleaseSaysSo(last'.record)

\* R1b, R1c, R9: a client that restarts is not kept waiting for its predecessor to be stale.
HeadersAreOdd == HasOddHeaders(last'.record)

NeitherHasHeaders == ~last'.record.headers.present /\ ~claim.won_with_headers

RestartTakesOverStepwise ==
    /\ claim.owner_instance \notin {NOBODY, Sent.instance_id}
    /\ Sent.client_id = claim.owner_client
    /\ Sent.version \in {0, 1}
    /\ ~HeadersAreOdd
    /\ \/ /\ Sent.type = "ClaimingPartition"
          /\ last'.record.headers.supersedes = claim.epoch \/ NeitherHasHeaders
       \/ Sent.type = "Heartbeat" /\ NeitherHasHeaders
    => claim'.owner_instance = Sent.instance_id

\* Nobody knows what a later version means, and a sender that cannot write its headers, or
\* names offsets that its log does not have, is not trusted with the rest.  Nobody else is
\* refused for such a reason.
OddRecordsRefusedStepwise ==
    /\ last'.verdict = "UnknownVersion" <=> Sent.version \notin {0, 1}
    /\ Sent.type # "ReleaseGroup" /\ HeadersAreOdd => ~Obeyed
    /\ last'.verdict \in {"HeaderNotDecimal", "HeaderFromTheFuture"} => HeadersAreOdd

\* Every record moves the clock, refused ones too, and none moves it back.
ClockIsMaximumStepwise == claim'.clock_ms = Max(claim.clock_ms, last'.record.timestamp_ms)

\* The original: a request is refused while the owner was heard of less than two intervals
\* ago, in whole seconds, and only then.  A heartbeat from the future is as good as none.
SilentS == last'.record.timestamp_ms \div 1000 - claim.last_heartbeat_ms \div 1000

OriginalLiveOwnerKeptStepwise ==
    Sent.type = "ClaimingPartition" =>
        (~Obeyed <=> /\ claim.last_heartbeat_ms # NONE
                     /\ SilentS >= 0
                     /\ SilentS * 1000 < 2 * HeartbeatIntervalMs)

\* What `make prove` assumes of a claim before a record, and proves after it.
ReducerInvariant ==
    Rules = "fenced" => IsSound(claim, length - 1) /\ InAPauseNobodyOwns(claim, length - 1)

Fenced                == [][FencedStepwise /\ FastReclaimStepwise]_vars
RestartTakesOver      == [][RestartTakesOverStepwise]_vars
OddRecordsRefused     == [][OddRecordsRefusedStepwise]_vars
ClockIsMaximum        == [][ClockIsMaximumStepwise]_vars
OriginalLiveOwnerKept == [][OriginalLiveOwnerKeptStepwise]_vars
FreshOwnerKept        == [][FreshOwnerKeptStepwise]_vars
WinKeepsPosition      == [][WinKeepsPositionStepwise]_vars
SetStaysSet           == [][SetStaysSetStepwise]_vars
MonotonePosition      == [][MonotonePositionStepwise]_vars
MonotoneEpoch         == [][MonotoneEpochStepwise]_vars
PauseHolds            == [][PauseHoldsStepwise /\ PauseBeginsStepwise]_vars
RefusedChangesNothing == [][RefusalsChangeNothing]_vars

\* What must be accepted: see Lemmas.tla.
FreeClaimIsGiven     == [][FreeClaimIsGivenAt(claim, last'.record, claim')]_vars
StaleOwnerIsReplaced == [][StaleOwnerIsReplacedAt(claim, last'.record, claim')]_vars
OwnerMayAskAgain     == [][OwnerMayAskAgainAt(claim, last'.record, claim')]_vars
WinEndsOwnPause      == [][WinEndsOwnPauseAt(claim, last'.record, claim')]_vars
OwnerIsObeyed        == [][OwnerIsObeyedAt(claim, last'.record, claim')]_vars
OwnerIsGranted       == [][OwnerIsGrantedAt(claim, last'.record, claim')]_vars
OwnerMayRelease      == [][OwnerMayReleaseAt(claim, last'.record, claim')]_vars
PauseIsReplaced      == [][PauseIsReplacedAt(claim, last'.record, claim')]_vars
PauseIsKept          == [][PauseIsKeptAt(claim, last'.record, claim')]_vars
HowItWasWonIsKept    == [][HowItWasWonIsKeptAt(claim, last'.record, claim')]_vars
OriginalMayRestart   == [][OriginalMayRestartAt(claim, last'.record, claim')]_vars

\* In the place of a guard, in the configurations that must fail.
Waived(someClaim, record) == FALSE
MovedBlindly(someClaim, record) == record.message.offset
KeepsOwner(someClaim) == someClaim

\* In the place of SaysPosition.
AnyPosition(someClaim, record) == record.message.offset >= 0

\* In the place of Outcome: a request that finds a live owner refreshes it.
RefusalRefreshes(next, verdict) ==
    [claim   |-> IF verdict = "LiveOwner"
                 THEN [next EXCEPT !.last_heartbeat_ms = next.clock_ms] ELSE next,
     verdict |-> verdict]

WonAndMoved(someClaim, record) ==
    [someClaim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.epoch             = record.offset,
        !.position          = @ + 1,
        !.last_heartbeat_ms = someClaim.clock_ms,
        !.won_with_headers  = record.headers.present]
NoPause(someClaim, record) == NONE

ClockOfTheRecord(someClaim, record) == [someClaim EXCEPT !.clock_ms = record.timestamp_ms]

\* In the place of Step: a refused record does not move the clock.
RefusalStopsTheClock(someClaim, record, rules) ==
    LET outcome == FencedStep(someClaim, record)
    IN  IF outcome.verdict \in Accepted THEN outcome ELSE Outcome(someClaim, outcome.verdict)

\* In the place of ClaimedAt: exactly two intervals ago is still claimed.
ClaimedAtTwice(someClaim, now_s) ==
    LET age_s == now_s - Seconds(someClaim.last_heartbeat_ms)
    IN  /\ someClaim.last_heartbeat_ms # NONE
        /\ 0 <= age_s
        /\ age_s * 1000 <= 2 * HeartbeatIntervalMs

\* In the configurations that break the invariant, one for each conjunct.
FreedOfItsInstance(someClaim) == [someClaim EXCEPT !.owner_instance = NOBODY]
FreedAlike(someClaim) ==
    [someClaim EXCEPT
        !.owner_instance    = NOBODY,
        !.owner_client      = NOBODY,
        !.last_heartbeat_ms = NONE]
FreedAt(someClaim) ==
    [FreedAlike(someClaim) EXCEPT
        !.won_with_headers = FALSE, !.last_release_ms = someClaim.clock_ms]
WonAt(someClaim, record, epoch) ==
    [someClaim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.epoch             = epoch,
        !.last_heartbeat_ms = someClaim.clock_ms,
        !.won_with_headers  = record.headers.present]
WonWithoutEpoch(someClaim, record) == WonAt(someClaim, record, NONE)
WonAhead(someClaim, record) == WonAt(someClaim, record, record.offset + 1)
ClockBeforeTime(someClaim, record) == [someClaim EXCEPT !.clock_ms = -2]
RefreshedAhead(someClaim, record) ==
    [someClaim EXCEPT !.last_heartbeat_ms = someClaim.clock_ms + 1]
NobodysPause(someClaim, record) ==
    Outcome(
        [FreedAlike(someClaim) EXCEPT
            !.won_with_headers = FALSE, !.paused_until_ms = PausedUntil(someClaim, record)],
        "GroupReleased")

\* Only these verdicts exist.
KnownVerdicts ==
    [][last'.verdict \in Accepted \cup {Refused[k] : k \in DOMAIN Refused}]_vars

=============================================================================
