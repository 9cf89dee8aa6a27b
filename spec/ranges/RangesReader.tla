---------------------------- MODULE RangesReader ----------------------------
(***************************************************************************)
(* What a reader knows of ranges if it began to read in the middle of the  *)
(* log.                                                                    *)
(*                                                                         *)
(* Ranges cannot be inferred from what is left of a log: any record of the *)
(* head may hold an offset.  So they are carried.  A heartbeat of the      *)
(* anchor may hold a checkpoint: the claim and its ranges as its sender    *)
(* had folded them, through `seen`.  Whoever has every record after `seen` *)
(* folds on from there, and knows both.                                    *)
(*                                                                         *)
(* A checkpoint counts whatever became of its record: a heartbeat of an    *)
(* old epoch saw what it saw.  If two lead to different claims, somebody   *)
(* lied, and neither is used.                                              *)
(*                                                                         *)
(* This module has no variables and does not know who reads or why.        *)
(***************************************************************************)
EXTENDS Ranges, Lists

\* An entry of a log: a record, and its checkpoint: {}, or {[claim, ranges]}.
LogEntry(record, checkpoint) == [record |-> record, checkpoint |-> checkpoint]

FoldedState(claim, ranges) == [claim |-> claim, ranges |-> ranges]

After(state, record) ==
    FoldedState(ClaimOutcome(state.claim, record).claim,
                RangesStep(state.ranges, state.claim, record).ranges)

\* The state after every record of the log from an offset on.
RECURSIVE FoldedOn(_, _, _)
FoldedOn(log, state, offset) ==
    IF offset >= Length(log) THEN state
    ELSE FoldedOn(log, After(state, log[offset + 1].record), offset + 1)

\* The reader began at `first`, and nothing that it has not read came after `seen`.
CheckpointCounts(entry, first) ==
    /\ entry.record.headers.seen >= first - 1
    /\ entry.record.headers.seen < entry.record.offset

\* Where a checkpoint speaks of: not of where it landed.
FoldsFrom(entry, first) == entry.record.headers.seen + 1

Checkpoints(log, first) ==
    {n \in first + 1 .. Length(log) : CheckpointCounts(log[n], first)}

\* What the reader may take the claim and its ranges for.
Candidates(log, first) ==
    UNION {{FoldedOn(log, state, FoldsFrom(log[n], first)) : state \in log[n].checkpoint} :
               n \in Checkpoints(log, first)}

RangesKnown(log, first) == Cardinality(Candidates(log, first)) = 1

=============================================================================
