---------------------------- MODULE Properties -----------------------------
(***************************************************************************)
(* What the protocol promises, in terms of Marshal.tla: safety, the        *)
(* refinement of a lease, liveness, and what must be reachable.            *)
(*                                                                         *)
(* Which of these hold under which rules, and which must fail, is in       *)
(* models.toml.                                                            *)
(***************************************************************************)
EXTENDS Marshal

(***************************************************************************)
(* Words for the properties.  A property of every record is checked for    *)
(* the last one: every prefix of the log was the whole log once.           *)
(***************************************************************************)
Records == DOMAIN log

SenderOf(k) == log[k].message.instance_id
TypeOf(k)   == log[k].message.type
Before(k)   == history[k]
After(k)    == history[k + 1]

Obeyed(k) == verdicts[k] \in Accepted \ {"Ignored"}

\* Under the original rules "FastReclaimed" has no name of its own.
IsWin(k) == verdicts[k] \in Wins

Last == Length(log)

ForLast(Holds(_)) == log # <<>> => Holds(Last)

Epochs == Cardinality({k \in Records : IsWin(k)})

\* A release that set the position, judged by its sender, the pauser and the header: a
\* verdict's name comes from the reducer, which is what is judged.
SetByAdmin(k) ==
    /\ TypeOf(k) = "ReleasingPartition"
    /\ Obeyed(k)
    /\ SenderOf(k) = Before(k).pauser \/ log[k].headers.set_position # NONE

\* The tenure under which an instance acts: the offset of the last record that changed
\* the owner, in what it has read.  Under the fenced rules that is the epoch.
TenureOf(i) ==
    LET begun == {k \in 1 .. Min(View(i), Last) : IsWin(k) \/ verdicts[k] = "Overwritten"}
    IN  IF begun = {} THEN NONE ELSE CHOOSE k \in begun : \A l \in begun : l <= k

\* Who reads a log that is no longer there has not been told yet.
IsAware(i) == status[i] = "up" /\ i \notin unaware

WouldAct(i) == IsAware(i) /\ ActsNow(i)

(***************************************************************************)
(* Safety.                                                                 *)
(***************************************************************************)

\* No two instances act under one epoch, and an epoch has one owner for ever.
Mutex ==
    /\ \A i, j \in Instances :
           i # j /\ WouldAct(i) /\ WouldAct(j) => TenureOf(i) # TenureOf(j)
    /\ Rules = "fenced" =>
           \A k, l \in DOMAIN history :
               /\ history[k].epoch = history[l].epoch
               /\ IsOwned(history[k])
               /\ IsOwned(history[l])
               => history[k].owner_instance = history[l].owner_instance

\* A heartbeat, a grant or a release has an effect only from the owner, under its
\* epoch.  The one exception is R9: a bare heartbeat of the owner's own client.
FencedAt(k) ==
    TypeOf(k) \in {"Heartbeat", "ClaimingMessages", "ReleasingPartition"} /\ Obeyed(k) =>
        \/ /\ SenderOf(k) = Before(k).owner_instance
           /\ \/ log[k].headers.epoch = Before(k).epoch
              \/ log[k].headers.epoch = NONE /\ ~Before(k).won_with_headers
        \/ /\ TypeOf(k) = "Heartbeat"
           /\ ~log[k].headers.present
           /\ ~Before(k).won_with_headers
           /\ log[k].message.client_id = Before(k).owner_client

Fenced == ForLast(FencedAt)

\* The position moves back only where an administrator set it.
MonotonePositionAt(k) == After(k).position >= Before(k).position \/ SetByAdmin(k)

MonotonePosition == ForLast(MonotonePositionAt)

MonotoneEpochAt(k) ==
    /\ After(k).epoch >= Before(k).epoch
    /\ IsWin(k) => After(k).epoch > Before(k).epoch

MonotoneEpoch == ForLast(MonotoneEpochAt)

\* AMO.  An administrator that sets the position back over a message asks for it again.
SetBackOver(m) ==
    Cardinality({k \in Records : SetByAdmin(k) /\ After(k).position <= m /\ m < Before(k).position})

AtMostOnce == Mode = "AMO" => \A m \in Messages : processed[m] <= 1 + SetBackOver(m)

\* Where nobody ever said where to go on, an owner passes by what its start policy leaves out.
LeftOut(k, m) == ~Before(k).position_set /\ m < log[k].headers.start

\* ALO: whenever the position passed a message, the message was processed, or an
\* administrator jumped it.  Asked for again by a position that was set back, it is
\* processed again before it is passed again.
TimesPassed(m) ==
    Cardinality({k \in Records :
        /\ Before(k).position <= m
        /\ m < After(k).position
        /\ ~SetByAdmin(k)
        /\ ~LeftOut(k, m)})

NoneSkipped == Mode = "ALO" => \A m \in Messages : processed[m] >= TimesPassed(m)

\* ALO: every epoch after the first repeats at most one window.
Repeats == SumOver(LAMBDA m : Max(processed[m] - 1, 0), Messages)

\* What an administrator set back is processed again because it was asked for.
SetBack(k) == IF SetByAdmin(k) THEN Max(Before(k).position - After(k).position, 0) ELSE 0

AskedAgain == SumOver(SetBack, Records)

ReprocessingBound ==
    Mode = "ALO" => Repeats <= Window * Max(Epochs - 1, 0) + AskedAgain

\* ALO: a tenure that ended in a release repeats nothing but what was asked for again,
\* no matter who is next: sharper than the bound, and what R7 is for.
EndedInRelease(win) ==
    LET ends == {k \in 1 .. win - 1 : IsOwned(Before(k)) /\ ~IsOwned(After(k))}
    IN  /\ verdicts[win] = "Claimed"
        /\ \/ ends = {}
           \/ verdicts[CHOOSE k \in ends : \A l \in ends : l <= k] # "GroupReleased"

ReleaseRepeatsNothing ==
    Mode = "ALO" =>
        Repeats <= Window * Cardinality({k \in Records : IsWin(k) /\ ~EndedInRelease(k)})
                   + AskedAgain

\* What an administrator set stays until the owner of a later tenure moves it.  A record
\* with an epoch was sent in that tenure; of one without nobody can say more than that
\* its sender has won since.
SentSince(set, k) ==
    \E win \in set + 1 .. k - 1 :
        /\ IsWin(win)
        /\ SenderOf(win) = SenderOf(k)
        /\ HasEpoch(log[k]) => log[k].headers.epoch = log[win].offset

SetPositionSticksAt(k) ==
    \A l \in 1 .. k :
        /\ SetByAdmin(l)
        /\ \A between \in l + 1 .. k :
               \/ ~Obeyed(between)
               \/ TypeOf(between) \in {"ClaimingPartition", "ReleaseGroup"}
               \/ ~SentSince(l, between)
        => After(k).position = log[l].message.offset

SetPositionSticks == ForLast(SetPositionSticksAt)

\* R8.  Judged from the log alone: since the last ReleaseGroup, the pauser has not won
\* (R8a) and no record has reached the expiry.
ClockAfter(k) ==
    LET times == {log[l].timestamp_ms : l \in 1 .. k} \cup {0}
    IN  CHOOSE t \in times : \A u \in times : u <= t

PauseEnd(k) ==
    Min(log[k].message.expires_unix_s * 1000, ClockAfter(k) + PauseMaxMs)

PausedAt(pause, k) ==
    /\ TypeOf(pause) = "ReleaseGroup"
    /\ \A l \in pause + 1 .. k :
           /\ TypeOf(l) # "ReleaseGroup"
           /\ ~log[l].pause_over
           /\ ~(IsWin(l) /\ SenderOf(l) = SenderOf(pause))
    /\ TimeIsFree \/ ClockAfter(k) < PauseEnd(pause)

\* ALO: a tenure begins where the log says, also at 0, whatever the start policy of its owner;
\* only where nobody ever said where to go on does that policy decide.  Seen until it reads on:
\* so far it has processed no more than a window.
BeginsAt(i) ==
    LET claim == history[View(i) + 1]
    IN  IF claim.position_set THEN claim.position ELSE StartAt(i)

BeginsWhereTheLogSays ==
    Mode = "ALO" /\ Rules = "fenced" =>
        \A i \in Instances \ Admins :
            /\ WouldAct(i)
            /\ View(i) = TenureOf(i)
            /\ "position" \in consumers[i].reader.certain
            /\ history[View(i) + 1].position_set \/ "position_set" \in consumers[i].reader.certain
            => consumers[i].next \in BeginsAt(i) .. BeginsAt(i) + Window

\* In a pause nobody but the pauser is obeyed.
PauseHoldsAt(k) ==
    (\E pause \in 1 .. k - 1 : PausedAt(pause, k) /\ SenderOf(k) # SenderOf(pause))
        => ~Obeyed(k) /\ (Rules = "fenced" => ~IsOwned(After(k)))

PauseHolds == ForLast(PauseHoldsAt)

\* Two readers of the same records agree about the owner: of the same number of records,
\* and of this log.
OwnerSeenBy(i) ==
    IF Rules = "fenced" \/ ClaimedAt(KnownBy(i), Seconds(OwnClock(i)))
    THEN KnownBy(i).owner_instance ELSE NOBODY

ReadersAgree ==
    \A i, j \in Instances :
        /\ View(i) = View(j)
        /\ IsAware(i) /\ IsAware(j)
        /\ IsKnown(consumers[i].reader) /\ IsKnown(consumers[j].reader)
        => OwnerSeenBy(i) = OwnerSeenBy(j)

\* Under any time that is measured: an owner that another client displaces had been
\* silent in the log for more than two intervals.
LastSignOfLife(k) ==
    LET signs == {l \in 1 .. k - 1 : Obeyed(l) /\ SenderOf(l) = Before(k).owner_instance}
    IN  CHOOSE l \in signs : \A other \in signs : other <= l

LiveOwnerKeptAt(k) ==
    /\ IsWin(k)
    /\ verdicts[k] # "Claimed"
    /\ log[k].message.client_id # Before(k).owner_client
    => log[k].timestamp_ms - log[LastSignOfLife(k)].timestamp_ms > 2 * HeartbeatIntervalMs

LiveOwnerKept == ForLast(LiveOwnerKeptAt)

Displaces(k) == IsWin(k) /\ IsOwned(Before(k)) /\ SenderOf(k) # Before(k).owner_instance

\* R9, under any time that is measured: while heartbeats of an original's client keep
\* coming, from whichever of its instances, no other client displaces it.
OriginalKeptAt(k) ==
    /\ Displaces(k)
    /\ log[k].message.client_id # Before(k).owner_client
    /\ ~Before(k).won_with_headers
    => \A l \in 1 .. k - 1 :
           /\ TypeOf(l) = "Heartbeat"
           /\ ~log[l].headers.present
           /\ log[l].message.client_id = Before(k).owner_client
           /\ \A other \in l + 1 .. k - 1 : After(other).owner_client = Before(k).owner_client
           /\ Before(l).owner_client = Before(k).owner_client
           => log[k].timestamp_ms - log[l].timestamp_ms > 2 * HeartbeatIntervalMs

OriginalKept == ForLast(OriginalKeptAt)

\* A release frees only the tenure of the instance that last won a claim.
ReleasedByWinnerAt(k) ==
    TypeOf(k) = "ReleasingPartition" /\ Obeyed(k) =>
        \E win \in 1 .. k :
            /\ IsWin(win)
            /\ SenderOf(win) = SenderOf(k)
            /\ \A later \in win + 1 .. k : ~IsWin(later)

ReleasedByWinner == ForLast(ReleasedByWinnerAt)

\* Judged by what a record did and not by what its verdict is called.
SaysStale(k) ==
    IF TimeIsFree
    THEN log[k].stale
    ELSE After(k).clock_ms - Before(k).last_heartbeat_ms > 2 * HeartbeatIntervalMs

\* R1, for every clock: another client displaces only an owner that is stale.
FreshOwnerKeptAt(k) ==
    Displaces(k) /\ log[k].message.client_id # Before(k).owner_client => SaysStale(k)

FreshOwnerKept == ForLast(FreshOwnerKeptAt)

\* R1b: where a client's instances never overlap, what a dead one still had in flight
\* does not take the claim back from its living successor.
PredecessorStaysOutAt(k) ==
    Displaces(k) /\ ~SaysStale(k) /\ log[k].message.client_id = Before(k).owner_client =>
        ~(status[SenderOf(k)] = "crashed" /\ status[Before(k).owner_instance] = "up")

PredecessorStaysOut == ForLast(PredecessorStaysOutAt)

\* R1c, R9: without headers nobody displaces an owner that won with them, unless stale.
HeadersOutrankAt(k) ==
    Displaces(k) /\ ~SaysStale(k) /\ ~log[k].headers.present => ~Before(k).won_with_headers

HeadersOutrank == ForLast(HeadersOutrankAt)

(***************************************************************************)
(* Refinement: a reader that looks only at the end of the log sees a lease.*)
(***************************************************************************)
TheLease == INSTANCE Lease WITH
    owner    <- Latest.owner_instance,
    epoch    <- Latest.epoch,
    position <- Latest.position,
    Nobody   <- NOBODY

RefinesLease == TheLease!Spec

(***************************************************************************)
(* Liveness.  Fair: what was produced is appended, an instance that is up  *)
(* reads on and asks for a claim that looks claimable, time passes; no one *)
(* to heartbeat, release, resume or restart.                               *)
(***************************************************************************)
Fairness ==
    /\ WF_vars(Tick)
    /\ \A i \in Instances :
           /\ WF_vars(Append(i))
           /\ WF_vars(Read(i))
           /\ WF_vars(SendClaimingPartition(i))

FairSpec == Spec /\ Fairness

SomebodyStaysUp == \E i \in Instances \ Admins : <>[](status[i] = "up")

\* Dead is crashed, or stalled for good.
DeadOwnerReplaced ==
    SomebodyStaysUp =>
        \A i \in Instances : ~<>[](Latest.owner_instance = i /\ status[i] # "up")

FreeClaimTaken == SomebodyStaysUp => []<>IsOwned(Latest)

\* R1a.  An owner that is up and sent its release acts no longer under that epoch.  If the
\* release was lost, the claim does not stay like that.
ResignedOwnerReplaced ==
    SomebodyStaysUp =>
        \A i \in Instances :
            ~<>[](/\ Latest.owner_instance = i
                  /\ status[i] = "up"
                  /\ HasResigned(Me(i), consumers[i], Latest))

EverythingProcessed == SomebodyStaysUp => <>(\A m \in Messages : processed[m] > 0)

(***************************************************************************)
(* What must be reachable.  Each of these must fail: an action or a verdict*)
(* that never happens in our models would prove nothing.                   *)
(***************************************************************************)
NeverProduced(type) ==
    \A i \in Instances : \A k \in DOMAIN outbox[i] : outbox[i][k].message.type # type

NeverSendClaimingPartition  == NeverProduced("ClaimingPartition")
NeverSendHeartbeat          == NeverProduced("Heartbeat")
NeverSendReleasingPartition == NeverProduced("ReleasingPartition")
NeverSendClaimingMessages   == NeverProduced("ClaimingMessages")
NeverSendReleaseGroup       == NeverProduced("ReleaseGroup")
NeverAppend       == log = <<>>
NeverRead         == \A i \in Instances : View(i) = 0
NeverPassGap      == [][~\E i \in Instances : PassGap(i)]_vars
NeverProcess      == Mode = "ALO" => \A m \in Messages : processed[m] = 0
NeverProcessGrant == Mode = "AMO" => \A m \in Messages : processed[m] = 0
NeverCrash        == \A i \in Instances : status[i] # "crashed"
NeverRestart      == \A i \in Instances \ StartsUp : status[i] = "unborn"
NeverStall        == \A i \in Instances : status[i] # "stalled"
NeverResume       == mishaps.stalls > 0 => \E i \in Instances : status[i] \in {"stalled", "crashed"}
NeverSendAnything == [][~\E i \in Instances : SendAnything(i)]_vars
NeverGiveUp       == [][~\E i \in Instances : GiveUp(i)]_vars
NeverAppendCopy   == mishaps.copies = 0
NeverLose         == mishaps.losses = 0
NeverJoin         == \A i \in JoinsLate : status[i] = "unborn"
NeverTruncate     == mishaps.cuts = 0
NeverRefold       == [][~\E i \in Instances : Refold(i)]_vars
NeverStepBack     == mishaps.rewinds = 0
NeverTick         == now = IF TimeIsFree THEN 0 ELSE Start

=============================================================================
