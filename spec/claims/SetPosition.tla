----------------------------- MODULE SetPosition -----------------------------
(***************************************************************************)
(* Administrators that set the positions of several claims of one group,   *)
(* and what may happen in between.                                         *)
(*                                                                         *)
(* All claims are in one log: the records of every claim carry its key,    *)
(* and a ReleaseGroup reaches all of them.  Time is free: a record says    *)
(* for itself whether the owner is stale by now and whether the pause is   *)
(* over.  What an administrator does is Admin.tla; here is when: any time. *)
(*                                                                         *)
(* The group's consumers have no memory.  A consumer asks for any claim at *)
(* any time, and heartbeats or releases under any epoch that it ever won:  *)
(* so everything that a delayed or stalled one could send is here.         *)
(***************************************************************************)
EXTENDS Admin, FiniteSets

CONSTANT World            \* who takes part and how much of it there is: see below

Keys       == World.keys
Admins     == DOMAIN World.client_of      \* instances; each sets positions once
ClientOf   == World.client_of             \* its client id
TargetsOf  == World.targets               \* what each sets: key -> position
JoinsLate  == World.joins_late            \* may begin to read in the middle
TheConsumer == World.consumer             \* instance and client id of the one that consumes
OffsetMax  == World.offset_max            \* how far it gets
ConsumerSendsMax == World.consumer_sends_max \* type: how many it ever sends
AdminSendsMax    == World.admin_sends_max    \* type: how many of each claim
InOrder    == World.in_order              \* keys by turns: which is first makes no difference
OneByOne   == World.one_by_one            \* nobody begins while another is at it
GivesUpMax == World.gives_up_max          \* how often an administrator is left without an answer
CallsOff   == World.calls_off             \* and may end before it is done
CrashesMax == World.crashes_max
LossesMax  == World.losses_max            \* records that never arrive

VARIABLES
    log,            \* the records of the group, in offset order
    verdicts,       \* verdicts[n] is what record n did to its claim, or the guard
    claims,         \* every claim after the whole log
    work,           \* what the log says of the pause that holds now
    left,           \* and of each pause before
    status,         \* "up" or "crashed", of every administrator
    administrators, \* what every administrator knows and remembers: see Admin.tla
    outbox,         \* produced and not yet appended, oldest first
    mishaps         \* ghost: how much went wrong, to bound it

vars == <<log, verdicts, claims, work, left, status, administrators, outbox, mishaps>>

Records == DOMAIN log

(***************************************************************************)
(* Who an administrator is, for Admin.tla.  It consumes nothing.           *)
(***************************************************************************)
Me(i) ==
    [instance_id |-> i,
     client_id   |-> ClientOf[i],
     admin       |-> TRUE,
     headerless  |-> FALSE,
     certifies   |-> TRUE,
     mode        |-> "AMO",
     window      |-> 1,
     batch       |-> 1,
     start       |-> 0,
     rules       |-> "fenced",
     now_ms      |-> 0]

A(i) == administrators[i]

\* It reads all claims at once, so any of them knows how far.
View(i) == A(i).consumers[CHOOSE key \in Keys : TRUE].view

\* Where it may begin to read: everything, or, if the head of the log is gone, the rest.
NeverBegun(i) == A(i).phase = "Idle" /\ View(i) = 0

Init ==
    /\ log = <<>>
    /\ verdicts = <<>>
    /\ claims = [key \in Keys |-> NewClaim]
    /\ work = NoWork
    /\ left = <<>>
    /\ status = [i \in Admins |-> "up"]
    /\ administrators = [i \in Admins |-> NewAdministrator(Keys, 0)]
    /\ outbox = [i \in Admins |-> <<>>]
    /\ mishaps = [losses |-> 0, given_up |-> 0]

(***************************************************************************)
(* What an administrator does.                                             *)
(***************************************************************************)
GROUP == "group"          \* the key of a ReleaseGroup

Addressed(key, sent) == [key |-> key, message |-> sent.message, headers |-> sent.headers]

Produce(i, key, sent) == outbox' = [outbox EXCEPT ![i] = With(@, Addressed(key, sent))]

Becomes(i, a) == administrators' = [administrators EXCEPT ![i] = a]

SentBy(i, key, type) ==
    Cardinality({n \in Records : /\ log[n].message.instance_id = i
                                 /\ log[n].message.type = type
                                 /\ log[n].key = key})
    + Cardinality({n \in DOMAIN outbox[i] : /\ outbox[i][n].message.type = type
                                            /\ outbox[i][n].key = key})

MaySend(i, key, type) == status[i] = "up" /\ SentBy(i, key, type) < AdminSendsMax[type]

PauseS == 2

Begin(i) ==
    /\ OneByOne => \A other \in Admins \ {i} : status[other] = "up" => ~UnderWay(A(other))
    /\ MaySend(i, GROUP, "ReleaseGroup")
    /\ MayBegin(Me(i), A(i), TargetsOf[i]) = PASSES
    /\ Produce(i, GROUP, PauseSent(Me(i), A(i), PauseS))
    /\ Becomes(i, AfterBeginning(Me(i), A(i), TargetsOf[i]))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

FirstKey == CHOOSE key \in Keys : TRUE

\* Where all claims are alike, it makes little difference which is first.
InTurn(i, key, type) == InOrder => key = FirstKey \/ SentBy(i, FirstKey, type) > 0

ClaimTarget(i, key) ==
    /\ MaySend(i, key, "ClaimingPartition")
    /\ InTurn(i, key, "ClaimingPartition") = TRUE
    /\ MayClaimTarget(Me(i), A(i), key) = PASSES
    /\ Produce(i, key, TargetClaimed(Me(i), A(i), key))
    /\ Becomes(i, AfterClaimingTarget(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

HeartbeatTarget(i, key) ==
    /\ MaySend(i, key, "Heartbeat")
    /\ MayHeartbeatTarget(Me(i), A(i), key) = PASSES
    /\ Produce(i, key, TargetHeartbeat(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, administrators, mishaps>>

SetTarget(i, key) ==
    /\ MaySend(i, key, "ReleasingPartition")
    /\ InTurn(i, key, "ReleasingPartition") = TRUE
    /\ MaySetPosition(Me(i), A(i), key) = PASSES
    /\ Produce(i, key, TargetSet(Me(i), A(i), key))
    /\ Becomes(i, AfterSettingPosition(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

LetGo(i, key) ==
    /\ MaySend(i, key, "ReleasingPartition")
    /\ MayLetGo(Me(i), A(i), key) = PASSES
    /\ Produce(i, key, TargetLetGo(Me(i), A(i), key))
    /\ Becomes(i, AfterLettingGo(Me(i), A(i), key))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, mishaps>>

StopWaiting(i, key) ==
    /\ mishaps.given_up < GivesUpMax
    /\ status[i] = "up"
    /\ MayStopWaiting(Me(i), A(i), key) = PASSES
    /\ Becomes(i, AfterStoppingToWait(Me(i), A(i), key))
    /\ mishaps' = [mishaps EXCEPT !.given_up = @ + 1]
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, outbox>>

CallOff(i) ==
    /\ CallsOff
    /\ status[i] = "up"
    /\ MayCallOff(Me(i), A(i)) = PASSES
    /\ Becomes(i, AfterCallingOff(Me(i), A(i), "PauseExpired"))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, outbox, mishaps>>

Read(i) ==
    /\ status[i] = "up"
    /\ View(i) < Length(log)
    /\ Becomes(i, AfterReading(Me(i), A(i), log[View(i) + 1]))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, outbox, mishaps>>

\* The head of the log is gone, so it begins in the middle.
JoinLate(i) ==
    /\ i \in JoinsLate
    /\ NeverBegun(i)
    /\ \E first \in 1 .. Length(log) : Becomes(i, NewAdministrator(Keys, first))
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, outbox, mishaps>>

(***************************************************************************)
(* The broker appends the oldest record of one sender.                     *)
(***************************************************************************)
Asks(sent) == sent.message.type = "ClaimingPartition"

\* A choice is offered only where a guard looks at it.
StaleChoices(key, sent) ==
    IF Asks(sent) /\ claims[key].owner_instance \notin {NOBODY, sent.message.instance_id}
    THEN BOOLEAN ELSE {FALSE}

\* A pause that was over stays over: clocks are monotone.
PauseWasOver(key) == \E n \in Records :
    /\ log[n].key = key
    /\ log[n].pause_over
    /\ \A later \in n .. Length(log) : log[later].key # GROUP

PauseOverChoices(key, sent) ==
    IF \/ ~Asks(sent)
       \/ claims[key].paused_until_ms = NONE
       \/ claims[key].pauser = sent.message.instance_id
    THEN {FALSE}
    ELSE IF PauseWasOver(key) THEN {TRUE}
    ELSE BOOLEAN

Stored(addressed, stale, pause_over) ==
    [key          |-> addressed.key,
     offset       |-> Length(log),
     timestamp_ms |-> 0,
     headers      |-> addressed.headers,
     message      |-> addressed.message,
     stale        |-> stale,
     pause_over   |-> pause_over]

FoldPause(record) ==
    /\ claims' = [key \in Keys |-> FencedStep(claims[key], record).claim]
    /\ verdicts' = With(verdicts, "GroupReleased")
    /\ work' = WorkPaused(work, record.message.instance_id)
    /\ left' = With(left, work)

FoldOne(record) ==
    LET key     == record.key
        outcome == FencedStep(claims[key], record)
    IN  /\ claims' = [claims EXCEPT ![key] = outcome.claim]
        /\ verdicts' = With(verdicts, outcome.verdict)
        /\ work' = WorkAfter(work, key, claims[key], record, outcome.claim)
        /\ UNCHANGED left

AppendSent(addressed) ==
    \E stale \in StaleChoices(addressed.key, addressed),
       pause_over \in PauseOverChoices(addressed.key, addressed) :
        LET record == Stored(addressed, stale, pause_over)
        IN  /\ log' = With(log, record)
            /\ IF record.key = GROUP THEN FoldPause(record) ELSE FoldOne(record)

Append(i) ==
    /\ outbox[i] # <<>>
    /\ AppendSent(First(outbox[i]))
    /\ outbox' = [outbox EXCEPT ![i] = Rest(@)]
    /\ UNCHANGED <<status, administrators, mishaps>>

(***************************************************************************)
(* The group's consumer.                                                   *)
(***************************************************************************)
ConsumerSent(type, offset, epoch) ==
    [message |->
        [type           |-> type,
         version        |-> 1,
         unix_s         |-> 0,
         instance_id    |-> TheConsumer.instance_id,
         client_id      |-> TheConsumer.client_id,
         offset         |-> offset,
         expires_unix_s |-> NONE],
     headers |-> [NoHeaders EXCEPT !.present = TRUE, !.epoch = epoch]]

ConsumerMaySend(type) ==
    Cardinality({n \in Records : /\ log[n].message.instance_id = TheConsumer.instance_id
                                 /\ log[n].message.type = type})
    < ConsumerSendsMax[type]

Wins == {"Claimed", "Reclaimed", "Restarted", "TookOver"}

WonBy(instance, key) ==
    {n \in Records : /\ log[n].key = key
                     /\ log[n].message.instance_id = instance
                     /\ verdicts[n] \in Wins}

EpochsOf(key) == {log[n].offset : n \in WonBy(TheConsumer.instance_id, key)}

ConsumerClaims(key) ==
    /\ ConsumerMaySend("ClaimingPartition")
    /\ AppendSent(Addressed(key, ConsumerSent("ClaimingPartition", NONE, NONE)))
    /\ UNCHANGED <<status, administrators, outbox, mishaps>>

ConsumerSpeaks(key) ==
    /\ \E type \in {"Heartbeat", "ReleasingPartition"}, epoch \in EpochsOf(key) :
           /\ ConsumerMaySend(type)
           /\ AppendSent(Addressed(key, ConsumerSent(type, OffsetMax, epoch)))
    /\ UNCHANGED <<status, administrators, outbox, mishaps>>

(***************************************************************************)
(* What goes wrong.                                                        *)
(***************************************************************************)

\* Its memory is gone; what it produced is not.
Crash(i) ==
    /\ status[i] = "up"
    /\ UnderWay(A(i))
    /\ Cardinality({j \in Admins : status[j] = "crashed"}) < CrashesMax
    /\ status' = [status EXCEPT ![i] = "crashed"]
    /\ Becomes(i, NewAdministrator(Keys, 0))
    /\ UNCHANGED <<log, verdicts, claims, work, left, outbox, mishaps>>

\* It never arrives, and nobody says so.
Lose(i) ==
    /\ mishaps.losses < LossesMax
    /\ outbox[i] # <<>>
    /\ outbox' = [outbox EXCEPT ![i] = Rest(@)]
    /\ mishaps' = [mishaps EXCEPT !.losses = @ + 1]
    /\ UNCHANGED <<log, verdicts, claims, work, left, status, administrators>>

Next ==
    \/ \E i \in Admins :
        \/ Begin(i)
        \/ CallOff(i)
        \/ Read(i)
        \/ JoinLate(i)
        \/ Append(i)
        \/ Lose(i)
        \/ Crash(i)
        \/ \E key \in Keys :
            \/ ClaimTarget(i, key)
            \/ HeartbeatTarget(i, key)
            \/ SetTarget(i, key)
            \/ LetGo(i, key)
            \/ StopWaiting(i, key)
    \/ \E key \in Keys :
        \/ ConsumerClaims(key)
        \/ ConsumerSpeaks(key)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* Words for the properties, from the log alone.                           *)
(***************************************************************************)
SetsPositionBy(i, key, sent) ==
    /\ sent.key = key
    /\ sent.message.instance_id = i
    /\ sent.message.type = "ReleasingPartition"
    /\ sent.headers.set_position # NONE

\* Where its position took effect.
SetAt(i, key) ==
    {n \in Records : SetsPositionBy(i, key, log[n]) /\ verdicts[n] \in Accepted}

HasSet(i) == {key \in DOMAIN TargetsOf[i] : SetAt(i, key) # {}}

PausesOf(i) == {n \in Records : log[n].key = GROUP /\ log[n].message.instance_id = i}

PausesOfOthers(i) == {n \in Records : log[n].key = GROUP /\ log[n].message.instance_id # i}

\* What the log says of the pause of this administrator.
WorkOf(i) ==
    IF work.by = i THEN work
    ELSE IF \E n \in DOMAIN left : left[n].by = i
    THEN left[CHOOSE n \in DOMAIN left : left[n].by = i /\ \A m \in DOMAIN left : left[m].by = i => m <= n]
    ELSE NoWork

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)

\* What the operator was told is so, and stays so whatever lands later.  If nobody is left
\* to tell him, the log does: it names the claims that were set and those that were not.
NeverHalfSetSilently ==
    \A i \in Admins :
        LET a == A(i) IN
        /\ a.phase = "Done" => HasSet(i) = DOMAIN TargetsOf[i]
        /\ a.phase = "NoneSet" => HasSet(i) = {}
        /\ a.phase = "PartlySet" =>
               /\ a.result.set \subseteq HasSet(i)
               /\ a.result.not_set \cap HasSet(i) = {}
               /\ a.result.set \cup a.result.not_set \cup a.result.in_doubt = DOMAIN TargetsOf[i]
        /\ status[i] = "crashed" /\ HasSet(i) \notin {{}, DOMAIN TargetsOf[i]} =>
               /\ HalfSetInLog(WorkOf(i))
               /\ WorkOf(i).set = HasSet(i)
               /\ LeftUndone(WorkOf(i)) = DOMAIN TargetsOf[i] \ HasSet(i)

\* No position is written before every win was read back.
HasWritten(i) ==
    \/ \E n \in DOMAIN outbox[i], key \in Keys : SetsPositionBy(i, key, outbox[i][n])
    \/ \E n \in Records, key \in Keys : SetsPositionBy(i, key, log[n])

WritesAllOrNone ==
    \A i \in Admins :
        HasWritten(i) =>
            \A key \in DOMAIN TargetsOf[i] :
                \E n \in WonBy(i, key) :
                    /\ \E pause \in PausesOf(i) : pause < n
                    /\ status[i] = "up" => n <= View(i)

\* What an administrator set stays until the owner of a later tenure moves it.
SetsOf(key) == UNION {SetAt(i, key) : i \in Admins}

SticksStepwise ==
    \A key \in Keys :
        SetsOf(key) # {} /\ claims'[key].position # claims[key].position =>
            /\ log'[Length(log')].message.instance_id = claims[key].owner_instance
            /\ \A n \in SetsOf(key) : log[n].offset < claims[key].epoch

SetPositionSticks == [][SticksStepwise]_vars

\* The position moves back only by a release that says so.  A release of the pauser that does
\* not say so gives the claim back where it was found.
MonotonePositionStepwise ==
    \A key \in Keys :
        claims'[key].position < claims[key].position =>
            LET record == log'[Length(log')]
            IN  /\ record.key = key
                /\ record.message.type = "ReleasingPartition"
                /\ record.headers.set_position = claims'[key].position

MonotonePosition == [][MonotonePositionStepwise]_vars

\* R8, of each claim: from a ReleaseGroup until a record says that the pause is over, or the
\* pauser wins, nobody but the pauser is obeyed.
PausedAt(pause, n) ==
    /\ log[pause].key = GROUP
    /\ \A later \in pause + 1 .. n :
           /\ log[later].key # GROUP
           /\ log[later].key = log[n].key =>
                  /\ ~log[later].pause_over
                  /\ ~(/\ verdicts[later] \in Wins
                       /\ log[later].message.instance_id = log[pause].message.instance_id)

PauseHolds ==
    log # <<>> /\ log[Length(log)].key # GROUP =>
        LET n == Length(log) IN
        (\E pause \in 1 .. n - 1 :
            /\ PausedAt(pause, n)
            /\ log[n].message.instance_id # log[pause].message.instance_id)
        => verdicts[n] \notin Accepted /\ ~IsOwned(claims[log[n].key])

\* Of two pauses the later counts: nothing of the earlier one's administrator is set after
\* it, unless it paused anew.
LaterPauseWins ==
    \A i \in Admins, other \in Records :
        other \in PausesOfOthers(i) =>
            \A key \in Keys : \A n \in SetAt(i, key) :
                n > other => \E own \in PausesOf(i) : other < own /\ own < n

\* Once it has read that somebody else paused the group, its operator has been told.
LoserIsTold ==
    \A i \in Admins :
        A(i).phase \in {"Claiming", "Setting"} =>
            \E own \in PausesOf(i) :
                own <= View(i) /\ \A other \in PausesOfOthers(i) : other > View(i) \/ other < own

\* The next pauser reports what was left undone before, as the log shows it: of the claims that
\* the last pauser won since its pause, those that it neither set nor gave back, and those that
\* it gave back although it set others.  (Each pauses once in these worlds.)
LastPauseBefore(own) ==
    LET earlier == {n \in 1 .. own - 1 : log[n].key = GROUP}
    IN  IF earlier = {} THEN 0 ELSE CHOOSE n \in earlier : \A m \in earlier : m <= n

Takes(by, key, n) ==
    /\ log[n].key = key
    /\ log[n].message.instance_id = by
    /\ log[n].message.type = "ClaimingPartition"
    /\ verdicts[n] \in Accepted

GivesBack(by, key, n) ==
    /\ log[n].key = key
    /\ log[n].message.instance_id = by
    /\ log[n].message.type = "ReleasingPartition"
    /\ verdicts[n] \in Accepted

SetBetween(by, key, from, to) ==
    \E n \in from + 1 .. to - 1 : GivesBack(by, key, n) /\ log[n].headers.set_position # NONE

UndoneBefore(own) ==
    LET from == LastPauseBefore(own)
        by   == log[from].message.instance_id
    IN  IF from = 0 THEN {}
        ELSE {key \in Keys :
                /\ \E n \in from + 1 .. own - 1 :
                       /\ Takes(by, key, n)
                       /\ \/ ~\E m \in n + 1 .. own - 1 : GivesBack(by, key, m)
                          \/ \E other \in Keys : SetBetween(by, other, from, own)
                /\ ~SetBetween(by, key, from, own)}

NextIsWarned ==
    \A i \in Admins :
        /\ status[i] = "up"
        /\ A(i).consumers[CHOOSE key \in Keys : TRUE].reader.certain = Fields
        /\ \E own \in PausesOf(i) : own <= View(i)
        => LET own    == CHOOSE n \in PausesOf(i) : TRUE
               undone == UndoneBefore(own)
               warned == A(i).warned
           IN  IF undone = {}
               THEN warned = NoWork
               ELSE /\ warned.by = log[LastPauseBefore(own)].message.instance_id
                    /\ warned.claimed \ warned.set = undone \cup (warned.let_go \ undone)
                    /\ warned.set = {key \in Keys :
                           SetBetween(warned.by, key, LastPauseBefore(own), own)}

\* Who has read everything says of the work what the log says.
ReadersAgree ==
    \A i \in Admins :
        /\ status[i] = "up"
        /\ View(i) = Length(log)
        /\ \A key \in Keys : A(i).consumers[key].reader.certain = Fields
        => A(i).work = work /\ \A key \in Keys : Known(A(i).consumers[key]) = claims[key]

(***************************************************************************)
(* What must be reachable.  Each of these must fail.                       *)
(***************************************************************************)
NeverDone      == \A i \in Admins : A(i).phase # "Done"
NeverPartlySet == \A i \in Admins : A(i).phase # "PartlySet"
NeverNoneSet   == \A i \in Admins : A(i).phase # "NoneSet"
NeverInDoubt   == \A i \in Admins : A(i).result.in_doubt = {}
NeverWarned    == \A i \in Admins : A(i).warned = NoWork
NeverHalfSetByACrash == \A i \in Admins : status[i] = "crashed" => HasSet(i) \in {{}, DOMAIN TargetsOf[i]}

=============================================================================
