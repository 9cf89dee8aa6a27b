------------------------------- MODULE Claim -------------------------------
(***************************************************************************)
(* The reducer: what one record of the log does to one claim.              *)
(*                                                                         *)
(* A claim is the state of one key (group, topic, partition).  It is a     *)
(* function of the records of that key, in offset order, and of nothing    *)
(* else: no reader's clock, no other partition, no time of arrival.        *)
(*                                                                         *)
(* This module does not know where records come from, who reads them, or   *)
(* how many readers there are: that is Marshal.tla.  It has no variables.  *)
(*                                                                         *)
(* Two sets of rules: "fenced" (what we build) and "original" (what the    *)
(* Go implementation does).  Step chooses; everything above it reads in    *)
(* the order in which the guards are tested.                               *)
(***************************************************************************)
EXTENDS Integers

CONSTANTS
    HeartbeatIntervalMs,  \* an owner is stale after more than twice this
    PauseMaxMs,           \* the longest pause that a ReleaseGroup can ask for
    IsStale(_, _),        \* (claim, record): the owner's last sign of life is too old
    IsPaused(_, _)        \* (claim, record): a pause keeps this record's sender out

(***************************************************************************)
(* Values.  TLC compares integers with integers only, so "nothing" is an   *)
(* integer where a number could stand, and a string where an id could.     *)
(***************************************************************************)
NONE == -1                \* no epoch, no time, no such header
NOT_DECIMAL == -2         \* a header whose value is not a decimal number
NOBODY == "none"          \* no owner, no pauser

MessageTypes ==
    {"Heartbeat", "ClaimingPartition", "ReleasingPartition", "ClaimingMessages",
     "ReleaseGroup"}

\* What an accepted record did.
Accepted ==
    {"Claimed", "Reclaimed", "Restarted", "TookOver", "Refreshed", "FastReclaimed",
     "Granted", "Released", "PositionSet", "GroupReleased", "Overwritten", "Ignored"}

\* The guards that refuse a record, in the order in which they are tested.
Refused ==
    <<"UnknownVersion", "HeaderNotDecimal", "HeaderFromTheFuture", "IsPaused",
      "LiveOwner", "DoesNotSupersede", "LogLostRecords", "Superseded", "NobodyOwns",
      "Forged", "EpochMissing", "NotOwner", "NotAhead", "NegativePosition">>

PASSES == "Passes"        \* no guard refused

\* Before the first record.  Kafka writes -1 where it has no timestamp.
NewClaim ==
    [owner_instance    |-> NOBODY,
     owner_client      |-> NOBODY,
     epoch             |-> NONE,
     position          |-> 0,
     last_heartbeat_ms |-> NONE,
     clock_ms          |-> NONE,
     won_with_headers  |-> FALSE,
     pauser            |-> NOBODY,
     paused_until_ms   |-> NONE,
     last_release_ms   |-> NONE,
     position_set      |-> FALSE]  \* somebody said where to go on: 0 is an answer, too

NoHeaders ==
    [present |-> FALSE, epoch |-> NONE, seen |-> NONE, clock |-> NONE,
     supersedes |-> NONE, set_position |-> NONE, start |-> NONE]

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

\* The claim did or did not change, and why.
Outcome(claim, verdict) == [claim |-> claim, verdict |-> verdict]

(***************************************************************************)
(* The two ways to tell time.  A configuration substitutes one pair for    *)
(* IsStale and IsPaused.                                                   *)
(*                                                                         *)
(* By the clock: the claim's clock is the running maximum of the broker's  *)
(* timestamps.  Exactly twice the interval is not stale: the protocol      *)
(* says "more than twice".                                                 *)
(***************************************************************************)
ClockSaysStale(claim, record) ==
    claim.clock_ms - claim.last_heartbeat_ms > 2 * HeartbeatIntervalMs

ClockSaysPaused(claim, record) ==
    /\ record.message.instance_id # claim.pauser
    /\ claim.paused_until_ms # NONE
    /\ claim.clock_ms < claim.paused_until_ms

(***************************************************************************)
(* Freely: the record itself says what the clock would have said.  What    *)
(* holds for every such choice holds for every clock.                      *)
(***************************************************************************)
RecordSaysStale(claim, record) == record.stale

RecordSaysPaused(claim, record) ==
    /\ record.message.instance_id # claim.pauser
    /\ claim.paused_until_ms # NONE
    /\ ~record.pause_over

(***************************************************************************)
(* Words for a record and its sender.                                      *)
(***************************************************************************)
IsOwned(claim)              == claim.owner_instance # NOBODY
FromOwner(claim, record)    == record.message.instance_id = claim.owner_instance
FromClient(claim, record)   == record.message.client_id = claim.owner_client
FromPauser(claim, record)   == record.message.instance_id = claim.pauser
HasEpoch(record)            == record.headers.epoch # NONE

(***************************************************************************)
(* FENCED: the guards, in order.  Each is true when it refuses.  They see  *)
(* the claim with its clock already advanced to the record.                *)
(***************************************************************************)
UnknownVersion(claim, record) == record.message.version \notin {0, 1}

\* A header that is not decimal never matches, and there is no falling back to the instance
\* id: the sender meant to be fenced.  One that cannot write its headers is not trusted with
\* the rest of the record either, so it does not matter which of them it is.
HeaderNotDecimal(claim, record) ==
    LET headers == record.headers
    IN  NOT_DECIMAL \in
            {headers.epoch, headers.seen, headers.clock, headers.supersedes,
             headers.set_position}

\* Nobody can have read a record at or after the one being appended: the log was
\* truncated or recreated.
HeaderFromTheFuture(claim, record) ==
    \/ record.headers.epoch >= record.offset
    \/ record.headers.seen >= record.offset

\* IsPaused, the parameter, is the guard of rule R8: it already knows that the pauser
\* itself is let in.

\* R1b: a restarted consumer names the tenure that it means to end, so that a dead
\* predecessor's late request cannot take the claim back.
Supersedes(claim, record) == record.headers.supersedes = claim.epoch

\* R1c: the original's restart carries no headers.  It takes over from one of its own
\* kind, never from a claim that was won with headers.
HeaderlessRestart(claim, record) ==
    ~record.headers.present /\ ~claim.won_with_headers

RestartTakeover(claim, record) ==
    /\ FromClient(claim, record)
    /\ Supersedes(claim, record) \/ HeaderlessRestart(claim, record)

LiveOwner(claim, record) ==
    /\ IsOwned(claim)
    /\ ~FromOwner(claim, record)
    /\ ~FromClient(claim, record)
    /\ ~IsStale(claim, record)

DoesNotSupersede(claim, record) ==
    /\ IsOwned(claim)
    /\ ~FromOwner(claim, record)
    /\ FromClient(claim, record)
    /\ ~IsStale(claim, record)
    /\ ~RestartTakeover(claim, record)

\* An epoch is the offset of a record that we have read.  One above ours was won in
\* records that this log no longer has.
LogLostRecords(claim, record) ==
    HasEpoch(record) /\ record.headers.epoch > claim.epoch

Superseded(claim, record) ==
    HasEpoch(record) /\ record.headers.epoch < claim.epoch

NobodyOwns(claim, record) == ~IsOwned(claim)

\* The right epoch from the wrong instance: nobody else can have won at that offset.
Forged(claim, record) == HasEpoch(record) /\ ~FromOwner(claim, record)

EpochMissing(claim, record) == ~HasEpoch(record) /\ claim.won_with_headers

NotOwner(claim, record) == ~HasEpoch(record) /\ ~FromOwner(claim, record)

NotAhead(claim, record) == record.message.offset <= claim.position

\* R8: the pauser's tenure may set any position, and so may a release that says so.
SetsPosition(claim, record) ==
    FromPauser(claim, record) \/ record.headers.set_position # NONE

\* The pauser's release sets the position, unless it writes headers and does not say so: it
\* then releases at the position that it found, and says nothing about it.
SaysItSets(record) == ~record.headers.present \/ record.headers.set_position # NONE

NegativePosition(claim, record) ==
    SetsPosition(claim, record) /\ record.message.offset < 0

(***************************************************************************)
(* FENCED: the guards of each kind of record, first refusal first.         *)
(***************************************************************************)
HeaderGuard(claim, record) ==
    IF HeaderNotDecimal(claim, record)         THEN "HeaderNotDecimal"
    ELSE IF HeaderFromTheFuture(claim, record) THEN "HeaderFromTheFuture"
    ELSE PASSES

ClaimGuard(claim, record) ==
    IF HeaderGuard(claim, record) # PASSES  THEN HeaderGuard(claim, record)
    ELSE IF IsPaused(claim, record)         THEN "IsPaused"
    ELSE IF LiveOwner(claim, record)        THEN "LiveOwner"
    ELSE IF DoesNotSupersede(claim, record) THEN "DoesNotSupersede"
    ELSE PASSES

OwnerGuard(claim, record) ==
    IF HeaderGuard(claim, record) # PASSES THEN HeaderGuard(claim, record)
    ELSE IF LogLostRecords(claim, record)  THEN "LogLostRecords"
    ELSE IF Superseded(claim, record)      THEN "Superseded"
    ELSE IF NobodyOwns(claim, record)      THEN "NobodyOwns"
    ELSE IF Forged(claim, record)          THEN "Forged"
    ELSE IF EpochMissing(claim, record)    THEN "EpochMissing"
    ELSE IF NotOwner(claim, record)        THEN "NotOwner"
    ELSE PASSES

(***************************************************************************)
(* FENCED: one operator for each message.  Guards first, then one value.   *)
(***************************************************************************)

\* R3: a heartbeat built from an old view never moves the position back.
Moved(claim, record) == Max(claim.position, record.message.offset)

\* A position above 0 was said by somebody.  0 may be what nobody ever changed, so a record
\* at 0 sets it only if it also says where its sender began.
SaysPosition(claim, record) ==
    \/ record.message.offset > 0
    \/ record.message.offset = 0 /\ record.headers.start # NONE

IsSetAfter(claim, record) == claim.position_set \/ SaysPosition(claim, record)

\* A win.  The epoch is the log's own offset, so it only grows, and an owner with an
\* older one can be told apart for ever.  The position stays.  R8a: the pauser's own
\* win ends its pause.
Won(claim, record) ==
    [claim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.epoch             = record.offset,
        !.last_heartbeat_ms = claim.clock_ms,
        !.won_with_headers  = record.headers.present,
        !.paused_until_ms   = IF FromPauser(claim, record) THEN NONE ELSE @]

\* How the win came about.  A stale owner's own client that also names the tenure it
\* ends restarted; it did not take over.
WinKind(claim, record) ==
    IF ~IsOwned(claim)                       THEN "Claimed"
    ELSE IF FromOwner(claim, record)         THEN "Reclaimed"
    ELSE IF RestartTakeover(claim, record)   THEN "Restarted"
    ELSE "TookOver"

ClaimingPartition(claim, record) ==
    LET guard == ClaimGuard(claim, record)
    IN  IF guard # PASSES
        THEN Outcome(claim, guard)
        ELSE Outcome(Won(claim, record), WinKind(claim, record))

\* R9: the original's restart sends a bare heartbeat and no ClaimingPartition.  Refusing
\* it would let one of ours win while the original still consumes; accepting it always
\* would let an original displace ours.
IsFastReclaim(claim, record) ==
    /\ ~record.headers.present
    /\ FromClient(claim, record)

FastReclaimed(claim, record) ==
    [Won(claim, record) EXCEPT
        !.position        = Moved(claim, record),
        !.position_set    = IsSetAfter(claim, record),
        !.paused_until_ms = claim.paused_until_ms]

Refreshed(claim, record) ==
    [claim EXCEPT
        !.position          = Moved(claim, record),
        !.position_set      = IsSetAfter(claim, record),
        !.last_heartbeat_ms = claim.clock_ms]

Heartbeat(claim, record) ==
    LET guard == OwnerGuard(claim, record)
    IN  IF guard = "NotOwner" /\ IsFastReclaim(claim, record)
        THEN Outcome(FastReclaimed(claim, record), "FastReclaimed")
        ELSE IF guard # PASSES
        THEN Outcome(claim, guard)
        ELSE Outcome(Refreshed(claim, record), "Refreshed")

\* R4: grants [position, offset) to the owner.  One that is not ahead refreshes nothing.
ClaimingMessages(claim, record) ==
    LET guard == OwnerGuard(claim, record)
    IN  IF guard # PASSES
        THEN Outcome(claim, guard)
        ELSE IF NotAhead(claim, record)
        THEN Outcome(claim, "NotAhead")
        ELSE Outcome(
            [claim EXCEPT
                !.position          = record.message.offset,
                !.position_set      = TRUE,
                !.last_heartbeat_ms = claim.clock_ms],
            "Granted")

\* Epoch and position survive: they belong to the claim and not to an owner.
Freed(claim) ==
    [claim EXCEPT
        !.owner_instance    = NOBODY,
        !.owner_client      = NOBODY,
        !.last_heartbeat_ms = NONE,
        !.won_with_headers  = FALSE]

ReleasingPartition(claim, record) ==
    LET guard == OwnerGuard(claim, record)
    IN  IF guard # PASSES
        THEN Outcome(claim, guard)
        ELSE IF NegativePosition(claim, record)
        THEN Outcome(claim, "NegativePosition")
        ELSE IF SetsPosition(claim, record)
        THEN Outcome([Freed(claim) EXCEPT
                          !.position     = record.message.offset,
                          !.position_set = IsSetAfter(claim, record) \/ SaysItSets(record)],
                     "PositionSet")
        ELSE Outcome([Freed(claim) EXCEPT
                          !.position     = Moved(claim, record),
                          !.position_set = IsSetAfter(claim, record)],
                     "Released")

\* R8: ends ownership and pauses the claim for the sender.  An expiry that has passed
\* ends ownership and pauses nothing; one too far away is cut.
PausedUntil(claim, record) ==
    LET until == Min(record.message.expires_unix_s * 1000, claim.clock_ms + PauseMaxMs)
    IN  IF until > claim.clock_ms THEN until ELSE NONE

ReleaseGroup(claim, record) ==
    Outcome(
        [Freed(claim) EXCEPT
            !.pauser          = record.message.instance_id,
            !.paused_until_ms = PausedUntil(claim, record)],
        "GroupReleased")

\* Every record moves the clock, refused ones too, and is judged by the moved clock.
ClockAdvanced(claim, record) ==
    [claim EXCEPT !.clock_ms = Max(@, record.timestamp_ms)]

FencedStep(before, record) ==
    LET claim == ClockAdvanced(before, record)
        type  == record.message.type
    IN  IF UnknownVersion(claim, record)
        THEN Outcome(claim, "UnknownVersion")
        ELSE CASE type = "ClaimingPartition"  -> ClaimingPartition(claim, record)
               [] type = "Heartbeat"          -> Heartbeat(claim, record)
               [] type = "ClaimingMessages"   -> ClaimingMessages(claim, record)
               [] type = "ReleasingPartition" -> ReleasingPartition(claim, record)
               [] type = "ReleaseGroup"       -> ReleaseGroup(claim, record)

(***************************************************************************)
(* ORIGINAL: what the Go implementation does, observed by running it.      *)
(* Whole seconds; the message's own time; "now" is the record's timestamp  *)
(* here, and each reader's own clock in production, which is fault (c).    *)
(***************************************************************************)
Seconds(ms) == ms \div 1000

\* 0 seconds is the original's "never".
OriginalTime(record) ==
    IF record.message.unix_s = 0 THEN NONE ELSE record.message.unix_s * 1000

\* Exactly twice the interval is unclaimed, and so is a heartbeat from the future.
ClaimedAt(claim, now_s) ==
    LET age_s == now_s - Seconds(claim.last_heartbeat_ms)
    IN  /\ claim.last_heartbeat_ms # NONE
        /\ 0 <= age_s
        /\ age_s * 1000 < 2 * HeartbeatIntervalMs

OriginalLiveOwner(claim, record) == ClaimedAt(claim, Seconds(claim.clock_ms))

OriginalNotOwner(claim, record) ==
    ~FromOwner(claim, record) \/ ~FromClient(claim, record)

OriginalOwner(claim, record) ==
    [claim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.last_heartbeat_ms = OriginalTime(record),
        !.last_release_ms   = NONE]

\* Once a ReleaseGroup was seen, a win resets the position (e79661b); before, it keeps
\* it (80cc6d1).  Recorded logs hold both.
OriginalPositionAtWin(claim) == IF claim.pauser # NOBODY THEN 0 ELSE claim.position

OriginalClaimingPartition(claim, record) ==
    IF OriginalLiveOwner(claim, record)
    THEN Outcome(claim, "LiveOwner")
    ELSE Outcome(
        [OriginalOwner(claim, record) EXCEPT
            !.position = OriginalPositionAtWin(claim)],
        IF claim.last_heartbeat_ms = NONE THEN "Claimed"
        ELSE IF FromOwner(claim, record)  THEN "Reclaimed"
        ELSE "TookOver")

\* No guard at all: each heartbeat makes its sender the owner.
OriginalHeartbeat(claim, record) ==
    Outcome(
        [OriginalOwner(claim, record) EXCEPT !.position = record.message.offset],
        IF OriginalNotOwner(claim, record) THEN "Overwritten" ELSE "Refreshed")

OriginalClaimingMessages(claim, record) == Outcome(claim, "Ignored")

\* The owner's ids are kept after a release, so it can be released twice.
OriginalReleasingPartition(claim, record) ==
    IF OriginalNotOwner(claim, record)
    THEN Outcome(claim, "NotOwner")
    ELSE Outcome(
        [claim EXCEPT
            !.position          = record.message.offset,
            !.last_heartbeat_ms = NONE,
            !.last_release_ms   = record.message.unix_s * 1000],
        "Released")

\* Only remembered.  Consumers promised to look; the reducer does not.
OriginalReleaseGroup(claim, record) ==
    Outcome(
        [claim EXCEPT
            !.pauser          = record.message.instance_id,
            !.paused_until_ms = record.message.expires_unix_s * 1000],
        "GroupReleased")

OriginalStep(before, record) ==
    LET claim == [before EXCEPT !.clock_ms = record.timestamp_ms]
        type  == record.message.type
    IN  CASE type = "ClaimingPartition"  -> OriginalClaimingPartition(claim, record)
          [] type = "Heartbeat"          -> OriginalHeartbeat(claim, record)
          [] type = "ClaimingMessages"   -> OriginalClaimingMessages(claim, record)
          [] type = "ReleasingPartition" -> OriginalReleasingPartition(claim, record)
          [] type = "ReleaseGroup"       -> OriginalReleaseGroup(claim, record)

(***************************************************************************)
(* One step.                                                               *)
(***************************************************************************)
Step(claim, record, rules) ==
    IF rules = "fenced" THEN FencedStep(claim, record) ELSE OriginalStep(claim, record)

=============================================================================
