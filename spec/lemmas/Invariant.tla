----------------------------- MODULE Invariant -----------------------------
(***************************************************************************)
(* What always holds: of a claim, of a tenure, of its owner, and of the    *)
(* records in flight.                                                      *)
(*                                                                         *)
(* These are the conjuncts by which `make prove` shows Mutex, AtMostOnce,  *)
(* NoneSkipped, ReprocessingBound and ReleaseRepeatsNothing for any number *)
(* of clients and any length of log; names are equal there.  Here TLC      *)
(* checks them in small worlds, where a message that was processed in a    *)
(* tenure is one that was processed at all.                                *)
(*                                                                         *)
(* They speak of instances that write headers, read from the beginning and *)
(* keep their log.                                                         *)
(***************************************************************************)
EXTENDS Properties, ClaimInvariant

ReducerInvariant ==
    /\ IsSound(Latest, Last - 1)
    /\ ~TimeIsFree => InAPauseNobodyOwns(Latest, Last - 1)

(***************************************************************************)
(* Words for a tenure, which is the record k that won it.                  *)
(***************************************************************************)
Ours    == {i \in Instances \ Headerless : status[i] = "up"}
Tenures == {k \in Records : IsWin(k) /\ SenderOf(k) \notin Headerless}

EpochOf(k)  == log[k].offset
WinnerOf(k) == SenderOf(k)

HoldsIn(k, claim) == IsOwned(claim) /\ claim.epoch = EpochOf(k)

\* The record that ended it; one after the last where none has.
EndOf(k) ==
    LET ends == {l \in k + 1 .. Last : ~HoldsIn(k, After(l))}
    IN  IF ends = {} THEN Last + 1 ELSE CHOOSE l \in ends : \A m \in ends : l <= m

Lasts(k) == EndOf(k) > Last

EndedInItsRelease(k) ==
    /\ ~Lasts(k)
    /\ TypeOf(EndOf(k)) = "ReleasingPartition"
    /\ Obeyed(EndOf(k))
    /\ ~SetByAdmin(EndOf(k))

\* The claim as the tenure left it: what sets the position belongs to no tenure.
LeftAt(k) ==
    IF Lasts(k) THEN Latest
    ELSE IF EndedInItsRelease(k) THEN After(EndOf(k)) ELSE Before(EndOf(k))

BaseOf(k)    == After(k).position
BaseSetOf(k) == After(k).position_set

\* Where its owner began. Spec: Floor.
BeganAt(k) == IF BaseSetOf(k) THEN BaseOf(k) ELSE Max(BaseOf(k), StartAt(WinnerOf(k)))

\* Progress is what was processed: at least once, or an administrator's.
Counts(i) == Mode = "ALO" \/ i \in Admins

IsProcessed(m) == processed[m] > 0

KnowsTenure(i, k) == WinnerOf(k) = i /\ KnownBy(i).epoch = EpochOf(k)

ActsIn(i, k) == KnowsTenure(i, k) /\ ActsNow(i)

(***************************************************************************)
(* Of the log and a tenure in it.                                          *)
(***************************************************************************)
TenureIsInLog == \A k \in Tenures : EpochOf(k) <= Latest.epoch

TenureKeepsItsOwner ==
    \A k \in Tenures :
        /\ Lasts(k) => Latest.owner_instance = WinnerOf(k) /\ Latest.won_with_headers
        /\ ~Lasts(k) => ~(HoldsIn(k, Latest) /\ Latest.owner_instance = WinnerOf(k))

TenureEndsOnce ==
    \A k \in Tenures : ~Lasts(k) => Latest.epoch > EpochOf(k) \/ ~IsOwned(Latest)

TenureBeginsBelow ==
    \A k \in Tenures :
        /\ BaseOf(k) <= LeftAt(k).position
        /\ BaseSetOf(k) => LeftAt(k).position_set

SetIsBeyondStart ==
    \A k \in Tenures :
        Counts(WinnerOf(k)) /\ LeftAt(k).position_set /\ ~BaseSetOf(k)
            => LeftAt(k).position >= StartAt(WinnerOf(k))

\* NoneSkipped, of each tenure.
PassesWhatItProcessed ==
    \A k \in Tenures : \A m \in Messages :
        Counts(WinnerOf(k)) /\ BaseOf(k) <= m /\ m < LeftAt(k).position
            => IsProcessed(m) \/ (~BaseSetOf(k) /\ m < StartAt(WinnerOf(k)))

\* ReprocessingBound, of each tenure.
ReachedBy(k) ==
    IF LeftAt(k).position_set THEN LeftAt(k).position
    ELSE Max(LeftAt(k).position, StartAt(WinnerOf(k)))

OverhangInWindow ==
    \A i \in Ours : \A k \in Tenures :
        Counts(i) /\ Mode = "ALO" /\ KnowsTenure(i, k) /\ Owns(Me(i), consumers[i].reader)
            => consumers[i].next <= ReachedBy(k) + Window

\* ReleaseRepeatsNothing, of each tenure.
ReleasedTenurePassedAll ==
    \A i \in Ours : \A k \in Tenures :
        Mode = "ALO" /\ EndedInItsRelease(k) /\ KnowsTenure(i, k)
            => consumers[i].next <= LeftAt(k).position

(***************************************************************************)
(* Of the instance that won it.                                            *)
(***************************************************************************)
KnowsAPrefix == \A i \in Ours : KnownBy(i) = history[View(i) + 1]

ResignedFromWhatItWon == \A i \in Ours : consumers[i].resigned <= KnownBy(i).epoch

ReleasedHasResigned ==
    \A i \in Ours : \A k \in Tenures :
        EndedInItsRelease(k) /\ WinnerOf(k) = i
            => consumers[i].resigned = EpochOf(k) \/ KnownBy(i).epoch > EpochOf(k)

ProcessedInTenure ==
    Mode = "ALO" /\ Headerless = {} =>
        \A m \in Messages : IsProcessed(m) =>
            \E k \in Tenures : WinnerOf(k) \notin Admins /\ BeganAt(k) <= m

AdministratorsHoldNoGrants == \A i \in Ours \cap Admins : consumers[i].granted = {}

ProcessedIsPrefix ==
    \A i \in Ours : \A k \in Tenures :
        Mode = "ALO" /\ ActsIn(i, k) =>
            /\ BeganAt(k) <= consumers[i].next
            /\ \A m \in Messages :
                   BeganAt(k) <= m /\ m < consumers[i].next => IsProcessed(m)

NextInWindow ==
    \A i \in Ours :
        Mode = "ALO" /\ ActsNow(i)
            => consumers[i].next <= Floor(Me(i), consumers[i].reader) + Window

(***************************************************************************)
(* Of each record that it sends, in flight for ever.                       *)
(***************************************************************************)
InFlightOf(i) == {outbox[i][k] : k \in DOMAIN outbox[i]}

SentByOf(i) ==
    InFlightOf(i)
        \cup {[message |-> log[k].message, headers |-> log[k].headers] :
                  k \in {l \in Records : SenderOf(l) = i}}

OwnersTypes == {"Heartbeat", "ClaimingMessages", "ReleasingPartition"}

Writers == Instances \ Headerless

IsProgress(sent) ==
    \/ sent.message.type = "Heartbeat"
    \/ sent.message.type = "ReleasingPartition" /\ sent.headers.set_position = NONE

\* Every record of such an instance, and the tenure that it names.
EachInTenure(Holds(_, _, _)) ==
    \A i \in Writers : \A sent \in SentByOf(i) : \A k \in Tenures :
        /\ sent.message.type \in OwnersTypes
        /\ sent.headers.epoch = EpochOf(k)
        => Holds(i, sent, k)

WritesItsHeaders ==
    \A i \in Writers : \A sent \in SentByOf(i) :
        sent.message.type # "ReleaseGroup" => sent.headers.present

NamesItsEpoch ==
    \A i \in Writers : \A sent \in SentByOf(i) :
        sent.message.type \in OwnersTypes => sent.headers.epoch >= 0

NamesAWonEpoch ==
    \A i \in Writers : \A sent \in SentByOf(i) :
        sent.message.type \in OwnersTypes =>
            /\ \E k \in Tenures : EpochOf(k) = sent.headers.epoch /\ WinnerOf(k) = i
            /\ status[i] = "up" => KnownBy(i).epoch >= sent.headers.epoch

AsksNoGrants ==
    \A i \in Writers : \A sent \in SentByOf(i) :
        Counts(i) => sent.message.type # "ClaimingMessages"

OnlyAdministratorsSet ==
    \A i \in Writers : \A sent \in SentByOf(i) :
        sent.headers.set_position # NONE => i \in Admins

ProcessedBelowOffset ==
    EachInTenure(LAMBDA i, sent, k :
        Counts(i) /\ IsProgress(sent) =>
            /\ BeganAt(k) <= sent.message.offset
            /\ \A m \in Messages :
                   BeganAt(k) <= m /\ m < sent.message.offset => IsProcessed(m))

StartIsSaid ==
    EachInTenure(LAMBDA i, sent, k :
        /\ Counts(i) /\ i \notin Admins /\ IsProgress(sent)
        /\ StartAt(i) <= sent.message.offset
        => sent.headers.start = StartAt(i))

NothingAfterRelease ==
    EachInTenure(LAMBDA i, sent, k :
        sent.message.type = "ReleasingPartition" /\ status[i] = "up" =>
            /\ consumers[i].resigned = EpochOf(k) \/ KnownBy(i).epoch > EpochOf(k)
            /\ Mode = "ALO" /\ i \notin Admins /\ KnownBy(i).epoch = EpochOf(k)
                   => consumers[i].next <= sent.message.offset)

\* One sender's offsets rise within an epoch.
OffsetsRise ==
    EachInTenure(LAMBDA i, sent, k :
        Mode = "ALO" /\ IsProgress(sent) /\ status[i] = "up" /\ ActsIn(i, k)
            => sent.message.offset <= consumers[i].next)

MachineInvariant ==
    /\ TenureIsInLog
    /\ TenureKeepsItsOwner
    /\ TenureEndsOnce
    /\ TenureBeginsBelow
    /\ SetIsBeyondStart
    /\ PassesWhatItProcessed
    /\ OverhangInWindow
    /\ ReleasedTenurePassedAll
    /\ KnowsAPrefix
    /\ ResignedFromWhatItWon
    /\ ReleasedHasResigned
    /\ ProcessedInTenure
    /\ AdministratorsHoldNoGrants
    /\ ProcessedIsPrefix
    /\ NextInWindow
    /\ WritesItsHeaders
    /\ NamesItsEpoch
    /\ NamesAWonEpoch
    /\ AsksNoGrants
    /\ OnlyAdministratorsSet
    /\ ProcessedBelowOffset
    /\ StartIsSaid
    /\ NothingAfterRelease
    /\ OffsetsRise

=============================================================================
