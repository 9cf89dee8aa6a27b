------------------------------ MODULE Marshal ------------------------------
(***************************************************************************)
(* The world around one claim: a log, the consumers and administrators     *)
(* that read and write it, and what can go wrong.                          *)
(*                                                                         *)
(* An instance decides from what it has read so far, which may be long     *)
(* ago.  What it produces waits in its outbox for as long as the network   *)
(* likes, and is appended even after its sender crashed.  So every late    *)
(* record of a real system is here: nothing in this module is in a hurry   *)
(* except in the fairness of the liveness models.                          *)
(*                                                                         *)
(* The reducer is Claim.tla and what an instance does is Consumer.tla; this *)
(* module never asks how a record is judged or why an instance may act.    *)
(* What is promised is in Properties.tla, bounds are in MC*.tla.           *)
(***************************************************************************)
EXTENDS Consumer, FiniteSets

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
Strangers  == World.strangers             \* of these, who sends any record at any time
HeadersCertify == World.certifies            \* records say what their sender saw
JoinsLate  == World.joins_late            \* may start late and read from the middle
Misses     == World.misses                \* may find that records it has not read are gone
SkewS      == World.skew_s                \* how far its clock is ahead, in seconds
SendsMax   == World.sends_max             \* instance, type: how many it ever sends

Window       == World.window              \* R5: how far ALO runs ahead of the log
Batch        == World.batch               \* the most that one ClaimingMessages asks for
MessageCount == World.message_count       \* messages 0 .. MessageCount - 1 are consumed
StartOf      == World.start_of            \* by instance: where its start policy begins, or at 0
SetTargets   == World.set_targets         \* positions that an administrator may set
PauseS       == World.pause_s             \* how long a pause is asked for, in seconds
TickS        == World.tick_s              \* how far time moves at once

LogMax     == World.log_max               \* how many records are ever sent
CrashesMax == World.crashes_max
StallsMax  == World.stalls_max
LossesMax  == World.losses_max            \* records that never arrive
CopiesMax  == World.copies_max            \* records that are appended once more
CutsMax    == World.cuts_max              \* how often the log loses its end
RewindsMax == World.rewinds_max           \* how often the broker's clock steps back
Reorders   == World.reorders              \* records of one sender overtake each other
GivesUp    == World.gives_up              \* a sender may be left without an answer

VARIABLES
    log,        \* the records of this claim, in offset order
    history,    \* history[k + 1] is the claim after the first k records
    verdicts,   \* verdicts[k] is what record k did, or the guard that refused it
    status,     \* "unborn", "up", "stalled" or "crashed", of every instance
    consumers,  \* what every instance knows and remembers: see Consumer.tla
    outbox,     \* produced and not yet appended, oldest first
    unaware,    \* who has read what the log has lost since
    processed,  \* ghost: how often each message was processed
    mishaps,    \* ghost: how much went wrong, to bound it
    now         \* milliseconds; stands still when time is free

vars ==
    <<log, history, verdicts, status, consumers, outbox, unaware, processed, mishaps, now>>

Messages == 0 .. MessageCount - 1

Start == 1000             \* 0 seconds means "never" to the original

NoMishaps == [stalls |-> 0, losses |-> 0, copies |-> 0, cuts |-> 0, rewinds |-> 0]

Init ==
    /\ log = <<>>
    /\ history = <<NewClaim>>
    /\ verdicts = <<>>
    /\ status = [i \in Instances |-> IF i \in StartsUp THEN "up" ELSE "unborn"]
    /\ consumers = [i \in Instances |-> NewConsumer(0)]
    /\ outbox = [i \in Instances |-> <<>>]
    /\ unaware = {}
    /\ processed = [m \in Messages |-> 0]
    /\ mishaps = NoMishaps
    /\ now = IF TimeIsFree THEN 0 ELSE Start

(***************************************************************************)
(* Who an instance is, for Consumer.tla.                                   *)
(***************************************************************************)
Latest == history[Length(log) + 1]

OwnClock(i) == now + SkewS[i] * 1000

\* What an instance takes the log's clock for.  It knows the time of the last record that it
\* read, and how long ago that was by its own clock: MCLogClock has an instance that knows no
\* more, here it is right.
LogClock(i) == now

StartAt(i) == IF i \in DOMAIN StartOf THEN StartOf[i] ELSE 0

Me(i) ==
    [instance_id |-> i,
     client_id   |-> ClientOf[i],
     admin       |-> i \in Admins,
     headerless  |-> i \in Headerless,
     certifies   |-> HeadersCertify,
     mode        |-> Mode,
     window      |-> Window,
     batch       |-> Batch,
     start       |-> StartAt(i),
     rules       |-> Rules,
     now_ms      |-> OwnClock(i),
     log_ms      |-> LogClock(i)]

View(i)      == consumers[i].view
KnownBy(i)   == Known(consumers[i])
ActsNow(i)   == Acts(Me(i), consumers[i])

(***************************************************************************)
(* Sending.                                                                *)
(***************************************************************************)
RECURSIVE SumOver(_, _)
SumOver(f(_), set) ==
    IF set = {} THEN 0
    ELSE LET x == CHOOSE y \in set : TRUE IN f(x) + SumOver(f, set \ {x})

\* How many different records of a kind an instance has sent so far.
SentBy(i, type) ==
    Cardinality({k \in DOMAIN log :
        log[k].message.instance_id = i /\ log[k].message.type = type})
    + Cardinality({k \in DOMAIN outbox[i] : outbox[i][k].message.type = type})

InFlight == SumOver(LAMBDA i : Length(outbox[i]), Instances)

MaySend(i, type) ==
    /\ status[i] = "up"
    /\ SentBy(i, type) < SendsMax[i][type]
    /\ Length(log) + InFlight < LogMax

Produce(i, sent) == outbox' = [outbox EXCEPT ![i] = With(@, sent)]

Becomes(i, consumer) == consumers' = [consumers EXCEPT ![i] = consumer]

\* Free models ask whenever they like.  (A question, compared with TRUE: TLC would take a
\* disjunction here for two ways to take the step.)
WouldAsk(i) == TimeIsFree \/ LooksClaimable(Me(i), consumers[i])

SendClaimingPartition(i) ==
    /\ MaySend(i, "ClaimingPartition")
    /\ MayClaim(Me(i), consumers[i]) = PASSES
    /\ WouldAsk(i) = TRUE
    /\ Produce(i, ClaimingPartitionSent(Me(i), consumers[i]))
    /\ Becomes(i, AfterClaimingPartition(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, unaware, processed, mishaps, now>>

SendHeartbeat(i) ==
    /\ MaySend(i, "Heartbeat")
    /\ \/ /\ MayHeartbeat(Me(i), consumers[i]) = PASSES
          /\ Produce(i, HeartbeatSent(Me(i), consumers[i]))
       \/ /\ FastReclaims(Me(i), consumers[i])
          /\ Produce(i, FastReclaimSent(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, mishaps, now>>

SendReleasingPartition(i) ==
    /\ MaySend(i, "ReleasingPartition")
    /\ MayRelease(Me(i), consumers[i]) = PASSES
    /\ IF i \in Admins
       THEN \E target \in SetTargets : Produce(i, PositionSent(Me(i), consumers[i], target))
       ELSE Produce(i, ReleasingPartitionSent(Me(i), consumers[i]))
    /\ Becomes(i, AfterRelease(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, unaware, processed, mishaps, now>>

SendClaimingMessages(i) ==
    /\ MaySend(i, "ClaimingMessages")
    /\ \E offset \in 1 .. MessageCount :
           /\ MayClaimMessages(Me(i), consumers[i], offset) = PASSES
           /\ Produce(i, ClaimingMessagesSent(Me(i), consumers[i], offset))
           /\ Becomes(i, AfterClaimingMessages(Me(i), consumers[i], offset))
    /\ UNCHANGED <<log, history, verdicts, status, unaware, processed, mishaps, now>>

SendReleaseGroup(i) ==
    /\ MaySend(i, "ReleaseGroup")
    /\ MayReleaseGroup(Me(i), consumers[i]) = PASSES
    /\ Produce(i, ReleaseGroupSent(Me(i), consumers[i], Seconds(now) + PauseS))
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, mishaps, now>>

\* The original, whatever made it do so: any record at any time.
SendAnything(i) ==
    /\ i \in Strangers
    /\ \E type \in MessageTypes :
           /\ MaySend(i, type)
           /\ \E offset \in IF type \in {"ClaimingPartition", "ReleaseGroup"} THEN {NONE}
                            ELSE 0 .. MessageCount :
                  Produce(i, Sent([Message(Me(i), type, offset) EXCEPT
                                       !.expires_unix_s = IF type = "ReleaseGroup"
                                                          THEN Seconds(now) + PauseS
                                                          ELSE NONE],
                                  NoHeaders))
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, mishaps, now>>

\* Whether its request arrived is not known, and it no longer waits to read it back.
GiveUp(i) ==
    /\ GivesUp
    /\ status[i] = "up"
    /\ MayGiveUp(Me(i), consumers[i]) = PASSES
    /\ Becomes(i, AfterGivingUp(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, outbox, unaware, processed, mishaps, now>>

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

AppendSent(sent) ==
    \E stale \in StaleChoices(sent), pause_over \in PauseOverChoices(sent) :
        FoldRecord(Stored(sent, stale, pause_over))

\* With an idempotent producer the oldest; else any.
MayArrive(i) == IF Reorders THEN DOMAIN outbox[i] ELSE {k \in DOMAIN outbox[i] : k = 1}

Append(i) ==
    /\ \E k \in MayArrive(i) :
           /\ AppendSent(outbox[i][k])
           /\ outbox' = [outbox EXCEPT ![i] = Without(@, k)]
    /\ UNCHANGED <<status, consumers, unaware, processed, mishaps, now>>

\* The broker stored it, the sender was not told, and sends it once more.
AppendCopy(i) ==
    /\ mishaps.copies < CopiesMax
    /\ Length(log) + InFlight < LogMax
    /\ \E k \in MayArrive(i) : AppendSent(outbox[i][k])
    /\ mishaps' = [mishaps EXCEPT !.copies = @ + 1]
    /\ UNCHANGED <<status, consumers, outbox, unaware, processed, now>>

\* It never arrives, and nobody says so.
Lose(i) ==
    /\ mishaps.losses < LossesMax
    /\ \E k \in MayArrive(i) : outbox' = [outbox EXCEPT ![i] = Without(@, k)]
    /\ mishaps' = [mishaps EXCEPT !.losses = @ + 1]
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, now>>

(***************************************************************************)
(* Reading: an instance folds one more record.                             *)
(***************************************************************************)
Wins == {"Claimed", "Reclaimed", "Restarted", "TookOver", "FastReclaimed"}

\* Under the original rules a reader judges by its own clock, at the time of reading.
AsReadBy(i, record) ==
    IF ReadersOwnClock THEN [record EXCEPT !.timestamp_ms = OwnClock(i)] ELSE record

Read(i) ==
    /\ status[i] = "up"
    /\ i \notin unaware
    /\ View(i) < Length(log)
    /\ Becomes(i, AfterRead(Me(i), consumers[i], AsReadBy(i, log[View(i) + 1])))
    /\ UNCHANGED <<log, history, verdicts, status, outbox, unaware, processed, mishaps, now>>

\* Compaction, or a hole of any other kind: records that it has not read are gone, and the low
\* watermark does not show it.  Others may have read them in time.
PassGap(i) ==
    /\ i \in Misses
    /\ status[i] = "up"
    /\ i \notin unaware
    /\ \E first \in View(i) + 1 .. Length(log) :
           Becomes(i, AfterGap(Me(i), consumers[i], first))
    /\ UNCHANGED <<log, history, verdicts, status, outbox, unaware, processed, mishaps, now>>

(***************************************************************************)
(* Processing.                                                             *)
(***************************************************************************)
Process(i) ==
    /\ status[i] = "up"
    /\ LET message == consumers[i].next
       IN  /\ message \in Messages
           /\ MayProcess(Me(i), consumers[i], message) = PASSES
           /\ processed' = [processed EXCEPT ![message] = @ + 1]
    /\ Becomes(i, AfterProcess(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, outbox, unaware, mishaps, now>>

IsCommit(i, message) ==
    /\ message.instance_id = i
    /\ message.type = "Heartbeat"
    /\ message.offset >= GrantedEnd(consumers[i])

\* The document commits by a heartbeat at the end of the range, and processes after it
\* was sent.
CommitSent(i) ==
    \/ \E k \in DOMAIN log : IsCommit(i, log[k].message)
    \/ \E k \in DOMAIN outbox[i] : IsCommit(i, outbox[i][k].message)

ProcessGrant(i) ==
    /\ status[i] = "up"
    /\ MayProcessGrant(Me(i), consumers[i]) = PASSES
    /\ Rules = "original" => CommitSent(i)
    /\ processed' = [m \in Messages |->
           processed[m] + IF m \in consumers[i].granted THEN 1 ELSE 0]
    /\ Becomes(i, AfterProcessGrant(Me(i), consumers[i]))
    /\ UNCHANGED <<log, history, verdicts, status, outbox, unaware, mishaps, now>>

(***************************************************************************)
(* What goes wrong.                                                        *)
(***************************************************************************)

\* Its memory is gone; what it produced is not.
Crash(i) ==
    /\ status[i] \in {"up", "stalled"}
    /\ Cardinality({j \in Instances : status[j] = "crashed"}) < CrashesMax
    /\ status' = [status EXCEPT ![i] = "crashed"]
    /\ Becomes(i, NewConsumer(0))
    /\ unaware' = unaware \ {i}
    /\ UNCHANGED <<log, history, verdicts, outbox, processed, mishaps, now>>

\* Where it may begin to read: everything, or, if the head of the log is gone, the rest.
Beginnings(i) == IF i \in JoinsLate THEN 0 .. Length(log) ELSE {0}

StartReading(i) ==
    /\ status' = [status EXCEPT ![i] = "up"]
    /\ \E first \in Beginnings(i) : Becomes(i, NewConsumer(first))
    /\ UNCHANGED <<log, history, verdicts, outbox, unaware, processed, mishaps, now>>

\* A new instance of a client whose last one crashed.
Restart(i) ==
    /\ status[i] = "unborn"
    /\ \E j \in Instances : status[j] = "crashed" /\ ClientOf[j] = ClientOf[i]
    /\ StartReading(i)

\* A client that was not there before.
Join(i) ==
    /\ status[i] = "unborn"
    /\ i \in JoinsLate
    /\ \A j \in Instances : ClientOf[j] = ClientOf[i] => status[j] = "unborn"
    /\ StartReading(i)

\* A stall of any length is already any order of everybody else's actions; said aloud
\* here for liveness, where an instance that is up must get on.
Stall(i) ==
    /\ status[i] = "up"
    /\ mishaps.stalls < StallsMax
    /\ mishaps' = [mishaps EXCEPT !.stalls = @ + 1]
    /\ status' = [status EXCEPT ![i] = "stalled"]
    /\ UNCHANGED <<log, history, verdicts, consumers, outbox, unaware, processed, now>>

Resume(i) ==
    /\ status[i] = "stalled"
    /\ status' = [status EXCEPT ![i] = "up"]
    /\ UNCHANGED <<log, history, verdicts, consumers, outbox, unaware, processed, mishaps, now>>

\* An unclean election: the log's end moves back, and its offsets are given anew.
Truncate ==
    /\ mishaps.cuts < CutsMax
    /\ \E length \in 0 .. Length(log) - 1 :
           /\ log' = FirstOf(log, length)
           /\ history' = FirstOf(history, length + 1)
           /\ verdicts' = FirstOf(verdicts, length)
           /\ unaware' = unaware \cup {i \in Instances : View(i) > length}
    /\ mishaps' = [mishaps EXCEPT !.cuts = @ + 1]
    /\ UNCHANGED <<status, consumers, outbox, processed, now>>

\* It folds anew under a new instance id.  Under the old one it would take the grants that
\* are still in the log, which it has processed, for its own.
Successors(i) == {j \in Instances : status[j] = "unborn" /\ ClientOf[j] = ClientOf[i]}

\* The next fetch returns an error; the instance drops its state and folds anew.
Refold(i) ==
    /\ i \in unaware
    /\ status[i] = "up"
    /\ \E j \in Successors(i) :
           /\ status' = [status EXCEPT ![i] = "crashed", ![j] = "up"]
           /\ consumers' = [consumers EXCEPT ![i] = NewConsumer(0), ![j] = NewConsumer(0)]
    /\ unaware' = unaware \ {i}
    /\ UNCHANGED <<log, history, verdicts, outbox, processed, mishaps, now>>

\* Once everything that can expire has expired, more time changes nothing.
LastTimestamp == IF log = <<>> THEN Start ELSE log[Length(log)].timestamp_ms

TimeMatters == now < LastTimestamp + Max(2 * HeartbeatIntervalMs, PauseS * 1000) + 1000

Tick ==
    /\ ~TimeIsFree
    /\ TimeMatters
    /\ now' = now + TickS * 1000
    /\ UNCHANGED <<log, history, verdicts, status, consumers, outbox, unaware, processed, mishaps>>

\* The partition gets a new leader, whose clock is behind.
StepBack ==
    /\ ~TimeIsFree
    /\ mishaps.rewinds < RewindsMax
    /\ now > Start
    /\ now' = now - TickS * 1000
    /\ mishaps' = [mishaps EXCEPT !.rewinds = @ + 1]
    /\ UNCHANGED <<log, history, verdicts, status, consumers, outbox, unaware, processed>>

Next ==
    \/ \E i \in Instances :
        \/ SendClaimingPartition(i)
        \/ SendHeartbeat(i)
        \/ SendReleasingPartition(i)
        \/ SendClaimingMessages(i)
        \/ SendReleaseGroup(i)
        \/ SendAnything(i)
        \/ GiveUp(i)
        \/ Append(i)
        \/ AppendCopy(i)
        \/ Lose(i)
        \/ Read(i)
        \/ PassGap(i)
        \/ Process(i)
        \/ ProcessGrant(i)
        \/ Crash(i)
        \/ Restart(i)
        \/ Join(i)
        \/ Stall(i)
        \/ Resume(i)
        \/ Refold(i)
    \/ Truncate
    \/ Tick
    \/ StepBack

Spec == Init /\ [][Next]_vars

=============================================================================
