-------------------------- MODULE RangesSuffixEdges --------------------------
(***************************************************************************)
(* What readers that begin at each offset of each log of MCRangesSuffix    *)
(* may take the claim and its ranges for, exported and held against the    *)
(* Python.                                                                 *)
(***************************************************************************)
EXTENDS MCRangesSuffix, Export

Bounds == <<HeartbeatIntervalMs, PauseMaxMs, IntervalsMax, OpenRangesMax, RangeMessagesMax>>

ExportReaders ==
    Export(<<Bounds, entries',
             [first \in 1 .. Length(entries') |-> Candidates(entries', first)]>>)
=============================================================================
