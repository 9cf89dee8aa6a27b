---------------------------- MODULE MCRangesSuffix ---------------------------
(***************************************************************************)
(* Readers that begin at every offset of every log of MCRanges, in which   *)
(* every heartbeat of the anchor holds a checkpoint.                       *)
(***************************************************************************)
EXTENDS MCRanges, RangesReader

VARIABLE entries          \* the log, as RangesReader reads it

\* What a sender had folded through `seen`.
Checkpoint(state) == FoldedState(state.claim, state.ranges)

CheckpointOf(record) ==
    IF record.message.type = "Heartbeat" /\ Sender(record) = ANCHOR
    THEN {Checkpoint(history[record.headers.seen + 2])} ELSE {}

SuffixInit == Init /\ entries = <<>>

SuffixNext ==
    /\ Next
    /\ entries' = With(entries, LogEntry(last'.record, CheckpointOf(last'.record)))

SuffixSpec == SuffixInit /\ [][SuffixNext]_<<vars, entries>>

\* A log leads to one state of everything else.
TheLog == entries

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)
\* Whoever has all records after a checkpoint knows the claim and the ranges as a full reader.
SuffixExact ==
    \A first \in 1 .. Length(entries) :
        Candidates(entries, first) \subseteq {FoldedState(Claim, Ranges)}

(***************************************************************************)
(* Rules left out.                                                         *)
(***************************************************************************)
\* A checkpoint speaks of where it landed.
FromItsLanding(entry, first) == entry.record.offset

\* It says how far ranges were cut, and not who holds what.
FrontierOnly(state) ==
    FoldedState(state.claim, [state.ranges EXCEPT !.open = {}, !.pool = {}])

\* Records between `seen` and the beginning of the suffix are not missed.
AnyCheckpoint(entry, first) == entry.record.headers.seen < entry.record.offset
FromTheSuffix(entry, first) == Max(entry.record.headers.seen + 1, first)

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
KnownToNobody == \A first \in 1 .. Length(entries) : ~RangesKnown(entries, first)
NoRefusedOneCounts ==
    \A n \in DOMAIN entries :
        /\ entries[n].checkpoint # {}
        /\ history[n].claim.epoch # entries[n].record.headers.epoch
        => \A first \in 1 .. n - 1 : ~CheckpointCounts(entries[n], first)

=============================================================================
