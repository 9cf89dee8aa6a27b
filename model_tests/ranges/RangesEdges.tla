----------------------------- MODULE RangesEdges -----------------------------
(***************************************************************************)
(* What MCRanges goes through, exported and held against the Python: of    *)
(* each step the claim and its ranges, the record, and what became of      *)
(* both.  Any configuration of MCRanges is one of this module, with one    *)
(* line more: ACTION_CONSTRAINT ExportRanges.                              *)
(***************************************************************************)
EXTENDS MCRanges, Export

\* The bounds stand in every row, so that a row says all.
Bounds == <<HeartbeatIntervalMs, PauseMaxMs, IntervalsMax, OpenRangesMax, RangeMessagesMax>>

ExportRanges ==
    LET record  == last'.record
        outcome == RangesStep(Latest.ranges, Latest.claim, record)
    IN  Export(<<Bounds, Latest.claim, Latest.ranges, record, Latest.claim', outcome.ranges,
                 outcome.verdict, outcome.guard>>)
=============================================================================
