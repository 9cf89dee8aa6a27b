------------------------------- MODULE Reader -------------------------------
(***************************************************************************)
(* What a reader knows of a claim if it began to read in the middle of the *)
(* log.                                                                    *)
(*                                                                         *)
(* Retention cuts the head of a log, and a long log is joined near its     *)
(* end.  A reader that missed the winning record must never take a guess   *)
(* for a fact: every field of the claim that it calls certain equals what  *)
(* the full fold says (SuffixExact in Properties.tla).                     *)
(*                                                                         *)
(* Two headers of an owner's record make that possible without knowing     *)
(* anything about time.  They say: "I had folded the log through offset    *)
(* `seen`, where the claim's clock stood at `clock`, and I was the owner   *)
(* under `epoch`."  A reader that knows every record after `seen`, and     *)
(* none of them could have changed the owner, knows the claim.             *)
(*                                                                         *)
(* This module has no variables and does not know who reads or why.        *)
(***************************************************************************)
EXTENDS Claim

\* How far the broker's clock may step back when a partition gets a new leader.  Needed
\* only where no header says what the clock was: see DefiniteWin.
ClockRewindMaxMs == 0

\* What can be certain.  "owner": both ids of the owner, or that nobody owns, and whether
\* it won with headers.  "position": where it is not certain, the claim holds a lower
\* bound once the owner is certain, and a guess before.  "clock": the clock, the owner's last sign of life and whether a
\* pause is in force.  "position_set": whether anybody ever said where to go on.  A
\* reader without the head of the log can know that somebody did, never that nobody did.
Fields == {"owner", "epoch", "position", "clock", "pauser", "position_set"}

(***************************************************************************)
(* A reader.  Where the owner is not certain its claim is the best guess,  *)
(* and the other fields are what speaks for more.                          *)
(***************************************************************************)
NewReader(first) ==
    [claim     |-> NewClaim,
     certain   |-> IF first = 0 THEN Fields ELSE {},
     undecided |-> IF first = 0 THEN NONE ELSE first - 1, \* the last offset that may have changed the owner
     reached   |-> NONE,    \* the furthest offset that was sent under the guessed epoch
     alive_ms  |-> NONE,    \* the clock when an owner that we do not know may have been alive
     head_ms   |-> NONE]    \* the clock before the first record that was read was at most this

IsKnown(reader) == "owner" \in reader.certain

\* "Unknown": no idea.  "Provisional": a guess, named so.  "Known": the owner is certain.
Knowledge(reader) ==
    IF IsKnown(reader) THEN "Known"
    ELSE IF reader.claim.epoch # NONE \/ IsOwned(reader.claim) THEN "Provisional"
    ELSE "Unknown"

CertainIf(condition, field) == IF condition THEN {field} ELSE {}

\* What no later record can make uncertain: of the pauser all ReleaseGroups are read, and a
\* position that was set once stays set.
Lasting == {"pauser", "position_set"}

(***************************************************************************)
(* A certificate: the sender knew what it says, and nothing after it can   *)
(* have changed the owner.                                                 *)
(***************************************************************************)
FromAnOwner(record) ==
    record.message.type \in {"Heartbeat", "ClaimingMessages", "ReleasingPartition"}

\* An honest sender writes `seen` and `clock` only while it knows position and clock.
SaysWhatItSaw(record) == record.headers.seen # NONE /\ record.headers.clock # NONE

Certifies(reader, record) ==
    /\ FromAnOwner(record)
    /\ HasEpoch(record)
    /\ SaysWhatItSaw(record)
    /\ record.headers.seen >= reader.undecided

(***************************************************************************)
(* The owner is certain: the record is judged by Step, where every field   *)
(* that the judgement looks at is certain too.                             *)
(***************************************************************************)
HasBadHeaders(claim, record) ==
    UnknownVersion(claim, record) \/ HeaderGuard(claim, record) # PASSES

\* A pause that was computed from too early a clock can be longer than the true one, so
\* "not paused" is always right and "paused" only under a certain clock.
PauseDecided(reader, claim, record) ==
    \/ claim.paused_until_ms = NONE
    \/ "clock" \in reader.certain
    \/ FromPauser(claim, record)

StalenessDecided(reader, claim, record) ==
    \/ ~IsOwned(claim)
    \/ FromOwner(claim, record)
    \/ RestartTakeover(claim, record)
    \/ "clock" \in reader.certain

\* A release without the header sets the position only in the pauser's tenure.
SettingDecided(reader, record) ==
    "pauser" \in reader.certain \/ record.headers.set_position # NONE

Decided(reader, claim, record) ==
    \/ HasBadHeaders(claim, record)
    \/ CASE record.message.type = "ClaimingPartition" ->
                /\ PauseDecided(reader, claim, record)
                /\ StalenessDecided(reader, claim, record)
         [] record.message.type = "ReleasingPartition" ->
                \/ SettingDecided(reader, record)
                \/ record.message.offset >= 0
                \/ OwnerGuard(claim, record) # PASSES
         [] OTHER -> TRUE

SignsOfLife ==
    {"Claimed", "Reclaimed", "Restarted", "TookOver", "FastReclaimed", "Refreshed", "Granted"}

\* The clock of the suffix is the clock once it passed everything that may be in the head.
PassedHead(reader, clock_ms) == reader.head_ms # NONE /\ clock_ms > reader.head_ms

\* It moved back, or it did not.
PositionLost(reader, record, verdict) ==
    /\ verdict \in {"Released", "PositionSet"}
    /\ ~SettingDecided(reader, record)
    /\ record.message.offset < reader.claim.position

\* What is certain after a record of which it was certain what it did.
CertainAfter(reader, record, verdict, certified) ==
    LET had   == reader.certain
        alive == verdict \in SignsOfLife
        wins  == alive /\ verdict \notin {"Refreshed", "Granted"}
        clock_ms == Max(reader.claim.clock_ms, record.timestamp_ms)
        \* A grant or not: it depends on the position.
        vague == /\ record.message.type = "ClaimingMessages"
                 /\ verdict \in {"Granted", "NotAhead"}
                 /\ "position" \notin had
    IN  IF certified
        THEN had \cup {"epoch", "position", "clock"}
        ELSE {"owner"}
             \cup CertainIf("epoch" \in had \/ wins, "epoch")
             \cup CertainIf(\/ "position" \in had /\ ~PositionLost(reader, record, verdict)
                            \/ verdict = "PositionSet" /\ SettingDecided(reader, record),
                            "position")
             \cup CertainIf(\/ "clock" \in had /\ ~vague
                            \/ alive /\ ~vague /\ PassedHead(reader, clock_ms),
                            "clock")
             \cup CertainIf("pauser" \in had \/ verdict = "GroupReleased", "pauser")
             \cup (had \cap {"position_set"})

\* Where the owner is certain a claim that says that its position was set is right: what it
\* rests on was accepted, or refused as not ahead of a position above 0.
CertainIfSet(claim) == CertainIf(claim.position_set, "position_set")

\* A reader of the whole log is here: everything is certain and stays so.
ReadKnown(reader, record) ==
    LET claim     == ClockAdvanced(reader.claim, record)
        outcome   == FencedStep(reader.claim, record)
        certified == /\ outcome.verdict \in {"Refreshed", "Granted"}
                     /\ SaysWhatItSaw(record)
        told      == IF certified
                     THEN [outcome.claim EXCEPT
                               !.clock_ms = Max(@, record.headers.clock),
                               !.last_heartbeat_ms = Max(@, record.headers.clock)]
                     ELSE IF PositionLost(reader, record, outcome.verdict)
                     THEN [outcome.claim EXCEPT !.position = record.message.offset]
                     ELSE outcome.claim
    IN  IF reader.certain = Fields
        THEN [reader EXCEPT !.claim = outcome.claim]
        ELSE IF Decided(reader, claim, record)
        THEN [reader EXCEPT
                 !.claim   = told,
                 !.certain = CertainAfter(reader, record, outcome.verdict, certified)
                             \cup CertainIfSet(told)]
        ELSE [reader EXCEPT
                 !.claim     = claim,
                 !.certain   = @ \cap Lasting,
                 !.undecided = record.offset,
                 !.alive_ms  = claim.clock_ms]

(***************************************************************************)
(* The owner is not certain.                                               *)
(***************************************************************************)

\* The owner at the cut, or since, has been silent too long, and no pause can still be
\* in force: the request wins whatever the head says.  The end of a pause that was read is
\* exact if the reader's clock was the true one; if not, the true clock was at most head_ms,
\* and that pause is over when one of the head is.
\*
\* It assumes two things of the log, which MCSuffix_Clock* check, and MCSuffix_Broken_* break:
\* ClockBounded, the true clock is at most Max(claim.clock_ms, reader.head_ms), and PausesEnd,
\* no pause of the head lasts longer than PauseMaxMs.
DefiniteWin(reader, claim, record) ==
    /\ claim.paused_until_ms = NONE \/ claim.clock_ms >= claim.paused_until_ms
    /\ reader.head_ms # NONE
    /\ claim.clock_ms > reader.head_ms + PauseMaxMs
    /\ claim.clock_ms - Max(reader.head_ms, reader.alive_ms) > 2 * HeartbeatIntervalMs

ReadUnknownClaimingPartition(reader, claim, record) ==
    IF DefiniteWin(reader, claim, record)
    THEN [reader EXCEPT
             !.claim     = [Won(claim, record) EXCEPT !.position = 0],
             !.certain   = (@ \cap Lasting) \cup {"owner", "epoch", "clock"},
             !.undecided = NONE,
             !.reached   = NONE,
             !.alive_ms  = NONE]
    ELSE [reader EXCEPT
             !.claim     = claim,
             !.undecided = record.offset,
             !.alive_ms  = claim.clock_ms]

\* Always obeyed: whatever the head says, nobody owns now.
ReadUnknownReleaseGroup(reader, claim, record) ==
    [reader EXCEPT
        !.claim     = [ReleaseGroup(claim, record).claim EXCEPT !.position = 0],
        !.certain   = (@ \cap Lasting) \cup {"owner", "pauser"},
        !.undecided = NONE,
        !.reached   = NONE,
        !.alive_ms  = NONE]

\* The claim as the owner saw it, with everything since.
Certified(reader, claim, record) ==
    LET reached  == IF record.headers.epoch = claim.epoch THEN reader.reached ELSE NONE
        offset   == record.message.offset
        clock_ms == Max(claim.clock_ms, record.headers.clock)
        isRelease == record.message.type = "ReleasingPartition"
        isGrant   == record.message.type = "ClaimingMessages"
        owned    == [claim EXCEPT
                        !.owner_instance    = record.message.instance_id,
                        !.owner_client      = record.message.client_id,
                        !.epoch             = record.headers.epoch,
                        !.position          = Max(reached, offset),
                        !.position_set      = \/ @
                                              \/ Max(reached, offset) > 0
                                              \/ ~isGrant /\ SaysPosition(claim, record)
                                              \/ isRelease /\ SaysItSets(record),
                        !.clock_ms          = clock_ms,
                        !.last_heartbeat_ms = clock_ms,
                        !.won_with_headers  = TRUE,
                        !.paused_until_ms   = NONE]
        sets      == SetsPosition(owned, record)
        decided   == offset >= reached \/ SettingDecided(reader, record)
        \* An older request for messages changes nothing, so it is no sign of life.
        granted   == isGrant => offset > reached
    IN  [reader EXCEPT
            !.claim     = IF ~isRelease THEN owned
                          ELSE [Freed(owned) EXCEPT !.position = IF sets \/ ~decided THEN offset ELSE @],
            !.certain   = (@ \cap Lasting) \cup {"owner", "epoch"} \cup CertainIfSet(owned)
                          \cup CertainIf(granted, "clock")
                          \cup CertainIf(~isRelease \/ decided, "position"),
            !.undecided = NONE,
            !.reached   = NONE,
            !.alive_ms  = NONE]

\* An epoch that somebody names was won, so an older one is over.
IsOver(claim, record) == HasEpoch(record) /\ record.headers.epoch < claim.epoch

\* A guess: the newest epoch that anybody claimed to own under.  A release decides nothing
\* against what its own sender saw earlier: it saw no less, and certifies no worse.
Guessed(reader, claim, record) ==
    LET newer == record.headers.epoch > claim.epoch
        guess == [claim EXCEPT
                     !.owner_instance    = record.message.instance_id,
                     !.owner_client      = record.message.client_id,
                     !.epoch             = record.headers.epoch,
                     !.position          = Max(@, record.message.offset),
                     !.last_heartbeat_ms = claim.clock_ms,
                     !.won_with_headers  = TRUE]
        isRelease == record.message.type = "ReleasingPartition"
    IN  [reader EXCEPT
            !.claim     = IF isRelease THEN Freed(guess) ELSE guess,
            !.reached   = IF newer THEN record.message.offset
                          ELSE Max(@, record.message.offset),
            !.alive_ms  = claim.clock_ms]

\* A record without an epoch cannot be certified: the same suffix fits a live owner and
\* one that was displaced long ago.  What an owner with headers saw it cannot undo: it does
\* nothing to a claim that was won with headers, before a ClaimingPartition came.
Vague(reader, claim, record) ==
    [reader EXCEPT
        !.claim     = IF claim.epoch # NONE THEN claim
                      ELSE IF record.message.type = "ReleasingPartition" THEN Freed(claim)
                      ELSE [claim EXCEPT
                               !.owner_instance    = record.message.instance_id,
                               !.owner_client      = record.message.client_id,
                               !.position          = Max(@, record.message.offset),
                               !.last_heartbeat_ms = claim.clock_ms],
        !.alive_ms  = claim.clock_ms]

ReadUnknown(reader, record) ==
    LET claim == ClockAdvanced(reader.claim, record)
        type  == record.message.type
    IN  IF \/ UnknownVersion(claim, record)
           \/ type # "ReleaseGroup" /\ HeaderGuard(claim, record) # PASSES
        THEN [reader EXCEPT !.claim = claim]
        ELSE IF type = "ReleaseGroup" THEN ReadUnknownReleaseGroup(reader, claim, record)
        ELSE IF type = "ClaimingPartition"
        THEN ReadUnknownClaimingPartition(reader, claim, record)
        ELSE IF ~HasEpoch(record) THEN Vague(reader, claim, record)
        ELSE IF IsOver(claim, record) THEN [reader EXCEPT !.claim = claim]
        ELSE IF Certifies(reader, record) THEN Certified(reader, claim, record)
        ELSE Guessed(reader, claim, record)

\* The first record says how far ahead the clock of what is missing can have been.
HeadBounded(reader, record) ==
    IF reader.certain = Fields \/ reader.head_ms # NONE THEN reader
    ELSE [reader EXCEPT !.head_ms = record.timestamp_ms + ClockRewindMaxMs]

(***************************************************************************)
(* One record read.                                                        *)
(***************************************************************************)
ReadRecord(reader, record) ==
    LET bounded == HeadBounded(reader, record)
    IN  IF IsKnown(bounded) THEN ReadKnown(bounded, record) ELSE ReadUnknown(bounded, record)

\* Under the original rules nobody looks at headers.
ReadOriginal(reader, record) ==
    [reader EXCEPT !.claim = Step(@, record, "original").claim]

=============================================================================
