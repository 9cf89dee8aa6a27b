----------------------------- MODULE MCRangesCut -----------------------------
(***************************************************************************)
(* MCRanges with a log that loses its end once, as after an unclean leader *)
(* election.  What was sent before may still land: late, and about offsets *)
(* that now have other records.  Processes read again from where the log   *)
(* was cut.  They keep what they were granted, and what they have reported *)
(* of it.                                                                  *)
(***************************************************************************)
EXTENDS MCRanges

VARIABLE late             \* what was under way when the log was cut; nothing before that

CutInit == Init /\ late = {}

\* Who holds what was granted in the part that is lost: by the same ids others are granted
\* something else, and nothing that is said of the log that is left is said of that.
Lost(i) == WithAll(i, " before")

\* Of a log of which `n - 1` records are left.
LeaseOf(lease, n) ==
    IF lease.id < n - 1 THEN lease ELSE [lease EXCEPT !.instance = Lost(@)]

ToldOf(notes, n) ==
    {[note EXCEPT !.seen = Min(@, n - 2)] : note \in notes}
    \cup {[note EXCEPT !.instance = Lost(@)] : note \in notes}

Truncate ==
    /\ late = {}
    /\ \E n \in 1 .. Appended :
           /\ history' = FirstOf(history, n)
           /\ leases' = {LeaseOf(lease, n) : lease \in leases}
           /\ said' = ToldOf(said, n)
           /\ late' = {[built EXCEPT !.notes = ToldOf(@, n)] : built \in Buildable}
    /\ last' = [record |-> NONE, verdict |-> "LogTruncated", void |-> FALSE]
    /\ set_at' = NONE
    /\ UNCHANGED <<passed, repeatable, heard>>

LandLate ==
    /\ Appended < LogMax
    /\ \E built \in late :
           Land([built EXCEPT !.record.offset = Appended, !.record.timestamp_ms = At(0)])
    /\ UNCHANGED late

CutNext == Truncate \/ LandLate \/ (Next /\ UNCHANGED late)

CutSpec == CutInit /\ [][CutNext]_<<vars, late>>

WithTheLate == <<WithoutTheLast, late>>

\* A world in which nobody gives anything back.
AsksOrSaysDone(i, v) ==
    UNION {Ranging(i, v, count, done, NONE) : count \in Counts,
           done \in {NONE} \cup {x + 1 : x \in UNION {OfLease(range) :
                                    range \in OpenOf(history[v].ranges, i)}}}

\* What must be reached: a range by a record that was sent before the cut.
NoneGrantedLate == last.verdict = "RangeGranted" => last.record.headers.seen < 0 \/ late = {}

=============================================================================
