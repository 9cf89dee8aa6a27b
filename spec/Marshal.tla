------------------------------ MODULE Marshal ------------------------------
(***************************************************************************)
(* The world around one claim: a log, the instances that read and write    *)
(* it, an administrator, and what can go wrong.                            *)
(*                                                                         *)
(* An instance decides from what it has read so far, which may be long     *)
(* ago.  What it produces waits in its outbox for as long as the network   *)
(* likes, and is appended even after its sender crashed.  So every late    *)
(* record of a real system is here: nothing in this module is in a hurry   *)
(* except in the fairness of the liveness models.                          *)
(*                                                                         *)
(* The reducer is Claim.tla; this module never asks how a record is judged.*)
(* What it promises is in Properties.tla, bounds are in MC*.tla.           *)
(***************************************************************************)
EXTENDS Claim, Lists, FiniteSets

CONSTANT World            \* who takes part and how much of it there is: see below

(***************************************************************************)
(* The world of one model, as a record; MC*.tla hold the values.           *)
(***************************************************************************)
Rules           == World.rules            \* "fenced" or "original"
Mode            == World.mode             \* "AMO" (at most once) or "ALO" (at least once)
TimeIsFree      == World.time_is_free     \* records say what is stale; there is no clock
ReadersOwnClock == World.readers_own_clock \* the original judges when it reads

Instances  == DOMAIN World.client_of      \* every process that will ever run
ClientOf   == World.client_of             \* its client id; a restart keeps it
StartsUp   == World.starts_up             \* who runs from the start; others Restart later
Admins     == World.admins                \* who pauses the group and sets positions
Headerless == World.headerless            \* instances of the original: no headers
SkewS      == World.skew_s                \* how far its clock is ahead, in seconds
SendsMax   == World.sends_max             \* instance, type: how many it ever sends

Window       == World.window              \* R5: how far ALO runs ahead of the log
Batch        == World.batch               \* the most that one ClaimingMessages asks for
MessageCount == World.message_count       \* messages 0 .. MessageCount - 1 are consumed
SetTargets   == World.set_targets         \* positions that an administrator may set
PauseS       == World.pause_s             \* how long a pause is asked for, in seconds
TickS        == World.tick_s              \* how far time moves at once

LogMax     == World.log_max               \* how many records are ever sent
CrashesMax == World.crashes_max
StallsMax  == World.stalls_max
ReleaseMayBeLost == World.release_may_be_lost \* producing a release may fail for good

VARIABLES
    log,        \* the records of this claim, in offset order
    history,    \* history[k + 1] is the claim after the first k records
    verdicts,   \* verdicts[k] is what record k did, or the guard that refused it
    status,     \* "unborn", "up", "stalled" or "crashed", of every instance
    view,       \* how many records an instance has read
    known,      \* the claim as the instance folded it from what it has read
    outbox,     \* produced and not yet appended, oldest first
    kept,       \* what an instance remembers besides: see Kept
    processed,  \* ghost: how often each message was processed
    stalls,     \* ghost: how many stalls there were
    now         \* milliseconds; stands still when time is free

vars ==
    <<log, history, verdicts, status, view, known, outbox, kept, processed, stalls, now>>

\* What an instance remembers besides the claim it folded.
Kept ==
    [resigned |-> NONE,    \* R7: the epoch for which it last sent a ReleasingPartition
     asked    |-> FALSE,   \* R6: it has a ClaimingPartition that it has not read back
     next     |-> 0,       \* ALO: the next message to process
     granted  |-> {}]      \* AMO: messages granted to it and not yet processed

Messages == 0 .. MessageCount - 1

Start == 1000             \* 0 seconds means "never" to the original

Init ==
    /\ log = <<>>
    /\ history = <<NewClaim>>
    /\ verdicts = <<>>
    /\ status = [i \in Instances |-> IF i \in StartsUp THEN "up" ELSE "unborn"]
    /\ view = [i \in Instances |-> 0]
    /\ known = [i \in Instances |-> NewClaim]
    /\ outbox = [i \in Instances |-> <<>>]
    /\ kept = [i \in Instances |-> Kept]
    /\ processed = [m \in Messages |-> 0]
    /\ stalls = 0
    /\ now = IF TimeIsFree THEN 0 ELSE Start

(***************************************************************************)
(* What an instance believes.                                              *)
(***************************************************************************)
Latest == history[Length(log) + 1]

OwnClock(i) == now + SkewS[i] * 1000

\* The fenced rules ask for the instance.  The document knows client ids only, and the
\* original's consumers go by it: "if heartbeats are found for the current client_id".
Believes(i, claim) ==
    IF Rules = "fenced"
    THEN claim.owner_instance = i
    ELSE /\ ClaimedAt(claim, Seconds(OwnClock(i)))
         /\ claim.owner_client = ClientOf[i]

\* R7: after its release was sent, an instance never acts under that epoch again, even
\* when what it has read still shows the claim as its own.
Resigned(i, claim) == Rules = "fenced" /\ kept[i].resigned = claim.epoch

ActsOn(i, claim) == Believes(i, claim) /\ ~Resigned(i, claim)

Acts(i) == ActsOn(i, known[i])

\* Only a hint: the log decides.  Free models ask whenever they like.
LooksClaimable(i) ==
    IF TimeIsFree THEN TRUE
    ELSE IF Rules = "original" THEN ~ClaimedAt(known[i], Seconds(OwnClock(i)))
    ELSE \/ ~IsOwned(known[i])
         \/ known[i].owner_client = ClientOf[i]
         \/ OwnClock(i) - known[i].last_heartbeat_ms > 2 * HeartbeatIntervalMs

\* An administrator claims after it paused the group, not to consume.
WantsClaim(i) == i \in Admins => known[i].pauser = i

(***************************************************************************)
(* Sending.                                                                *)
(***************************************************************************)
RECURSIVE SumOver(_, _)
SumOver(f(_), set) ==
    IF set = {} THEN 0
    ELSE LET x == CHOOSE y \in set : TRUE IN f(x) + SumOver(f, set \ {x})

SentBy(i, type) ==
    Cardinality({k \in DOMAIN log :
        log[k].message.instance_id = i /\ log[k].message.type = type})
    + Cardinality({k \in DOMAIN outbox[i] : outbox[i][k].message.type = type})

InFlight == SumOver(LAMBDA i : Length(outbox[i]), Instances)

MaySend(i, type) ==
    /\ status[i] = "up"
    /\ SentBy(i, type) < SendsMax[i][type]
    /\ Length(log) + InFlight < LogMax

\* The fenced rules never look at a sender's time.
UnixS(i) == IF Rules = "original" THEN Seconds(OwnClock(i)) ELSE 0

Message(i, type, offset) ==
    [type           |-> type,
     version        |-> IF type = "ReleaseGroup" THEN 0 ELSE 1,
     unix_s         |-> UnixS(i),
     instance_id    |-> i,
     client_id      |-> ClientOf[i],
     offset         |-> offset,
     expires_unix_s |-> IF type = "ReleaseGroup" THEN Seconds(now) + PauseS ELSE NONE]

HeadersOf(i, epoch, supersedes, set_position) ==
    IF Rules = "original" \/ i \in Headerless
    THEN NoHeaders
    ELSE [present |-> TRUE, epoch |-> epoch, seen |-> NONE, supersedes |-> supersedes,
          set_position |-> set_position]

OwnerHeaders(i) == HeadersOf(i, known[i].epoch, NONE, NONE)

Produce(i, message, headers) ==
    outbox' = [outbox EXCEPT ![i] = With(@, [message |-> message, headers |-> headers])]

\* The end of what it may process and has not processed yet (AMO).
GrantedEnd(i) == IF kept[i].granted = {} THEN 0
                 ELSE 1 + CHOOSE m \in kept[i].granted : \A n \in kept[i].granted : n <= m

\* How far the owner has got: what it processed (ALO), or what was granted (AMO).
OffsetToSend(i) ==
    IF Mode = "ALO" THEN kept[i].next ELSE Max(known[i].position, GrantedEnd(i))

\* R1b: the tenure that a restarted consumer means to end.
SupersedesOf(i) ==
    IF known[i].owner_client = ClientOf[i] THEN known[i].epoch ELSE NONE

\* R6: at most one request that was not read back.
RequestOutstanding(i) == kept[i].asked

SendClaimingPartition(i) ==
    /\ MaySend(i, "ClaimingPartition")
    /\ WantsClaim(i)
    /\ ~Acts(i)
    /\ LooksClaimable(i)
    /\ ~RequestOutstanding(i)
    /\ Produce(i, Message(i, "ClaimingPartition", NONE),
               HeadersOf(i, NONE, SupersedesOf(i), NONE))
    /\ kept' = [kept EXCEPT ![i].asked = TRUE]
    /\ UNCHANGED <<log, history, verdicts, status, view, known, processed, stalls, now>>

\* R9: the original's restart finds a claim of its client id and heartbeats it at once.
FastReclaims(i) ==
    /\ Rules = "fenced"
    /\ i \in Headerless
    /\ known[i].owner_client = ClientOf[i]
    /\ known[i].owner_instance # i

SendHeartbeat(i) ==
    /\ MaySend(i, "Heartbeat")
    /\ \/ /\ Acts(i)
          /\ Produce(i, Message(i, "Heartbeat", OffsetToSend(i)), OwnerHeaders(i))
       \/ /\ FastReclaims(i)
          /\ Produce(i, Message(i, "Heartbeat", known[i].position), NoHeaders)
    /\ UNCHANGED <<log, history, verdicts, status, view, known, kept, processed, stalls, now>>

\* An administrator's release says that it sets the position.
SendReleasingPartition(i) ==
    /\ MaySend(i, "ReleasingPartition")
    /\ Acts(i)
    /\ IF i \in Admins
       THEN \E target \in SetTargets :
                Produce(i, Message(i, "ReleasingPartition", target),
                        HeadersOf(i, known[i].epoch, NONE, target))
       ELSE \/ Produce(i, Message(i, "ReleasingPartition", OffsetToSend(i)),
                       OwnerHeaders(i))
            \/ ReleaseMayBeLost /\ UNCHANGED outbox
    /\ kept' = [kept EXCEPT ![i].resigned = known[i].epoch]
    /\ UNCHANGED <<log, history, verdicts, status, view, known, processed, stalls, now>>

\* R4: an instance processes what it read as granted, and nothing when it asks.
GrantedWhenAsked(i, offset) == {}

SendClaimingMessages(i) ==
    /\ Mode = "AMO"
    /\ i \notin Admins
    /\ MaySend(i, "ClaimingMessages")
    /\ Acts(i)
    /\ \E offset \in known[i].position + 1 .. Min(known[i].position + Batch, MessageCount) :
           /\ Produce(i, Message(i, "ClaimingMessages", offset), OwnerHeaders(i))
           /\ kept' = [kept EXCEPT ![i].granted = @ \cup GrantedWhenAsked(i, offset)]
    /\ UNCHANGED <<log, history, verdicts, status, view, known, processed, stalls, now>>

SendReleaseGroup(i) ==
    /\ i \in Admins
    /\ MaySend(i, "ReleaseGroup")
    /\ Produce(i, Message(i, "ReleaseGroup", NONE), NoHeaders)
    /\ UNCHANGED <<log, history, verdicts, status, view, known, kept, processed, stalls, now>>

(***************************************************************************)
(* The broker appends the oldest record of one sender.                     *)
(***************************************************************************)

\* Free time: a choice is offered only where a guard could look at it, since records
\* that differ in nothing else would only multiply states.  A pause that was over stays
\* over: clocks are monotone.
PauseWasOver == \E k \in DOMAIN log :
    /\ log[k].pause_over
    /\ \A l \in k .. Length(log) : log[l].message.type # "ReleaseGroup"

StaleChoices(sent) ==
    IF /\ TimeIsFree
       /\ sent.message.type = "ClaimingPartition"
       /\ Latest.owner_instance \notin {NOBODY, sent.message.instance_id}
    THEN BOOLEAN ELSE {FALSE}

PauseOverChoices(sent) ==
    IF ~TimeIsFree \/ Latest.paused_until_ms = NONE \/ sent.message.type = "ReleaseGroup"
    THEN {FALSE}
    ELSE IF PauseWasOver THEN {TRUE} ELSE BOOLEAN

Stored(sent, stale, pause_over) ==
    [offset       |-> Length(log),
     timestamp_ms |-> now,
     headers      |-> sent.headers,
     message      |-> sent.message,
     stale        |-> stale,
     pause_over   |-> pause_over]

FoldRecord(record) ==
    LET outcome == Step(Latest, record, Rules)
    IN  /\ log' = With(log, record)
        /\ history' = With(history, outcome.claim)
        /\ verdicts' = With(verdicts, outcome.verdict)

Append(i) ==
    /\ outbox[i] # <<>>
    /\ LET sent == First(outbox[i])
       IN  \E stale \in StaleChoices(sent), pause_over \in PauseOverChoices(sent) :
               FoldRecord(Stored(sent, stale, pause_over))
    /\ outbox' = [outbox EXCEPT ![i] = Rest(@)]
    /\ UNCHANGED <<status, view, known, kept, processed, stalls, now>>

(***************************************************************************)
(* Reading: an instance folds one more record.                             *)
(***************************************************************************)
Wins == {"Claimed", "Reclaimed", "Restarted", "TookOver", "FastReclaimed"}

\* Under the original rules a reader judges by its own clock, at the time of reading.
AsReadBy(i, record) ==
    IF ReadersOwnClock THEN [record EXCEPT !.timestamp_ms = OwnClock(i)] ELSE record

\* The messages that a ClaimingMessages granted to its sender: [old, new).
GrantedRange(before, record) == before.position .. record.message.offset - 1

\* R4: only what this record granted to this very instance.  The document's validation,
\* under the original rules: its ClaimingMessages is in the log, and it still owns.
GrantRead(i, before, record, verdict, owns) ==
    IF /\ record.message.instance_id = i
       /\ \/ verdict = "Granted"
          \/ verdict = "Ignored" /\ owns
    THEN GrantedRange(before, record)
    ELSE {}

\* A tenure that has just begun starts at the position of the log.
KeptAfter(i, before, after, record, verdict, actsBefore, actsAfter) ==
    LET own == record.message.instance_id = i
    IN  [kept[i] EXCEPT
            !.asked   = @ /\ ~(own /\ record.message.type = "ClaimingPartition"),
            !.next    = IF actsAfter /\ (~actsBefore \/ before.epoch # after.epoch)
                        THEN after.position ELSE @,
            !.granted = @ \cup GrantRead(i, before, record, verdict, actsAfter)]

Read(i) ==
    /\ status[i] = "up"
    /\ view[i] < Length(log)
    /\ LET record == AsReadBy(i, log[view[i] + 1])
           outcome == Step(known[i], record, Rules)
       IN  /\ view' = [view EXCEPT ![i] = @ + 1]
           /\ known' = [known EXCEPT ![i] = outcome.claim]
           /\ kept' = [kept EXCEPT ![i] =
                  KeptAfter(i, known[i], outcome.claim, record, outcome.verdict,
                        ActsOn(i, known[i]), ActsOn(i, outcome.claim))]
    /\ UNCHANGED <<log, history, verdicts, status, outbox, processed, stalls, now>>

(***************************************************************************)
(* Processing.                                                             *)
(***************************************************************************)

\* R5: not beyond the window after its last accepted position.
InWindow(i) == kept[i].next < known[i].position + Window

Process(i) ==
    /\ Mode = "ALO"
    /\ i \notin Admins
    /\ status[i] = "up"
    /\ Acts(i)
    /\ InWindow(i)
    /\ kept[i].next \in Messages
    /\ processed' = [processed EXCEPT ![kept[i].next] = @ + 1]
    /\ kept' = [kept EXCEPT ![i].next = @ + 1]
    /\ UNCHANGED <<log, history, verdicts, status, view, known, outbox, stalls, now>>

IsCommit(i, message) ==
    /\ message.instance_id = i
    /\ message.type = "Heartbeat"
    /\ message.offset >= GrantedEnd(i)

\* The document commits by a heartbeat at the end of the range, and processes after it
\* was sent.
CommitSent(i) ==
    \/ \E k \in DOMAIN log : IsCommit(i, log[k].message)
    \/ \E k \in DOMAIN outbox[i] : IsCommit(i, outbox[i][k].message)

\* Whoever was granted a range is the only one that was since the position was last set, so
\* it may process it even after it lost the claim.
ProcessGrant(i) ==
    /\ status[i] = "up"
    /\ kept[i].granted # {}
    /\ Rules = "original" => CommitSent(i)
    /\ processed' = [m \in Messages |->
           processed[m] + IF m \in kept[i].granted THEN 1 ELSE 0]
    /\ kept' = [kept EXCEPT ![i].granted = {}]
    /\ UNCHANGED <<log, history, verdicts, status, view, known, outbox, stalls, now>>

(***************************************************************************)
(* What goes wrong.                                                        *)
(***************************************************************************)

\* Its memory is gone; what it produced is not.
Crash(i) ==
    /\ status[i] \in {"up", "stalled"}
    /\ Cardinality({j \in Instances : status[j] = "crashed"}) < CrashesMax
    /\ status' = [status EXCEPT ![i] = "crashed"]
    /\ view' = [view EXCEPT ![i] = 0]
    /\ known' = [known EXCEPT ![i] = NewClaim]
    /\ kept' = [kept EXCEPT ![i] = Kept]
    /\ UNCHANGED <<log, history, verdicts, outbox, processed, stalls, now>>

\* A new instance of a client whose last one crashed.
Restart(i) ==
    /\ status[i] = "unborn"
    /\ \E j \in Instances : status[j] = "crashed" /\ ClientOf[j] = ClientOf[i]
    /\ status' = [status EXCEPT ![i] = "up"]
    /\ UNCHANGED <<log, history, verdicts, view, known, outbox, kept, processed, stalls, now>>

\* A stall of any length is already any order of everybody else's actions; said aloud
\* here for liveness, where an instance that is up must get on.
Stall(i) ==
    /\ status[i] = "up"
    /\ stalls < StallsMax
    /\ stalls' = stalls + 1
    /\ status' = [status EXCEPT ![i] = "stalled"]
    /\ UNCHANGED <<log, history, verdicts, view, known, outbox, kept, processed, now>>

Resume(i) ==
    /\ status[i] = "stalled"
    /\ status' = [status EXCEPT ![i] = "up"]
    /\ UNCHANGED <<log, history, verdicts, view, known, outbox, kept, processed, stalls, now>>

\* Once everything that can expire has expired, more time changes nothing.
LastTimestamp == IF log = <<>> THEN Start ELSE log[Length(log)].timestamp_ms

TimeMatters == now < LastTimestamp + Max(2 * HeartbeatIntervalMs, PauseS * 1000) + 1000

Tick ==
    /\ ~TimeIsFree
    /\ TimeMatters
    /\ now' = now + TickS * 1000
    /\ UNCHANGED <<log, history, verdicts, status, view, known, outbox, kept, processed, stalls>>

Next ==
    \/ \E i \in Instances :
        \/ SendClaimingPartition(i)
        \/ SendHeartbeat(i)
        \/ SendReleasingPartition(i)
        \/ SendClaimingMessages(i)
        \/ SendReleaseGroup(i)
        \/ Append(i)
        \/ Read(i)
        \/ Process(i)
        \/ ProcessGrant(i)
        \/ Crash(i)
        \/ Restart(i)
        \/ Stall(i)
        \/ Resume(i)
    \/ Tick

Spec == Init /\ [][Next]_vars

=============================================================================
