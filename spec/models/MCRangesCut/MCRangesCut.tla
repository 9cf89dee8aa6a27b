----------------------------- MODULE MCRangesCut -----------------------------
(***************************************************************************)
(* MCRanges, and once the log loses its end, as after an unclean election  *)
(* of a leader.  What was sent before may still land: late, and of offsets *)
(* that are other records by now.  Processes read again from where it was  *)
(* cut; what they were granted, and what they have said, stays.            *)
(***************************************************************************)
EXTENDS MCRanges

VARIABLE late             \* what was under way when the log was cut; nothing before that

CutInit == Init /\ late = {}

Truncate ==
    /\ late = {}
    /\ \E n \in 1 .. Appended :
           /\ history' = FirstOf(history, n)
           /\ last' = [record |-> NONE, verdict |-> "LogTruncated", void |-> FALSE]
    /\ late' = Buildable
    /\ set_at' = NONE
    /\ UNCHANGED <<leases, said, passed, repeatable, heard>>

LandLate ==
    /\ Appended < LogMax
    /\ \E built \in late :
           Land([built EXCEPT !.record.offset = Appended, !.record.timestamp_ms = At(0)])
    /\ UNCHANGED late

CutNext == Truncate \/ LandLate \/ (Next /\ UNCHANGED late)

CutSpec == CutInit /\ [][CutNext]_<<vars, late>>

WithTheLate == <<WithoutTheLast, late>>

\* What must be reached: a range by a record that was sent before the cut.
NoneGrantedLate == last.verdict = "RangeGranted" => last.record.headers.seen < 0 \/ late = {}

=============================================================================
