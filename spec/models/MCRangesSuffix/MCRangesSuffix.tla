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

\* What a record may hold for a checkpoint.
MayHold(record) == {CheckpointOf(record)}

SuffixInit == Init /\ entries = <<>>

SuffixNext ==
    /\ Next
    /\ \E held \in MayHold(last'.record) : entries' = With(entries, LogEntry(last'.record, held))

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
(* A world in which any heartbeat of the anchor may lie.                   *)
(***************************************************************************)
Lied(state) == [state EXCEPT !.ranges.frontier = @ + 1]
MayLie(record) == {CheckpointOf(record), {Lied(state) : state \in CheckpointOf(record)}}

\* Whoever has read the whole log compares each checkpoint with what it had folded through `seen`.
Noticed(n) ==
    \E state \in entries[n].checkpoint :
        state # Checkpoint(history[entries[n].record.headers.seen + 2])

\* A late reader is misled only by what every full reader notices.
LieIsNoticed ==
    \A first \in 1 .. Length(entries) :
        \/ Candidates(entries, first) \subseteq {FoldedState(Claim, Ranges)}
        \/ \E n \in Checkpoints(entries, first) : Noticed(n)

\* Beside a checkpoint that is true and counts, none that lies is used.
TruthProtects ==
    \A first \in 1 .. Length(entries) :
        (\E n \in Checkpoints(entries, first) : entries[n].checkpoint # {} /\ ~Noticed(n))
        /\ RangesKnown(entries, first)
        => Candidates(entries, first) = {FoldedState(Claim, Ranges)}

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

\* The last checkpoint is taken, whatever others say.
OfTheLast(log, first) ==
    LET counts == {n \in Checkpoints(log, first) : log[n].checkpoint # {}}
    IN  UNION {{FoldedOn(log, state, FoldsFrom(log[n], first)) : state \in log[n].checkpoint} :
                   n \in {latest \in counts : \A other \in counts : other <= latest}}

(***************************************************************************)
(* What must be reached: each of these fails.                              *)
(***************************************************************************)
KnownToNobody == \A first \in 1 .. Length(entries) : ~RangesKnown(entries, first)
NoTwoDiffer == \A first \in 1 .. Length(entries) : Cardinality(Candidates(entries, first)) < 2
NoRefusedOneCounts ==
    \A n \in DOMAIN entries :
        /\ entries[n].checkpoint # {}
        /\ history[n].claim.epoch # entries[n].record.headers.epoch
        => \A first \in 1 .. n - 1 : ~CheckpointCounts(entries[n], first)

=============================================================================
