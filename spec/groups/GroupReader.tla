------------------------------ MODULE GroupReader ----------------------------
(***************************************************************************)
(* What a reader knows of a partition of `__marshal_groups` if it began to *)
(* read in the middle, and where a controller lets others begin.           *)
(*                                                                         *)
(* Retention cuts the head of the log.  A controller therefore writes      *)
(* snapshots: who is controller, and every group, with nothing between     *)
(* them.  A controller that was deposed and does not know it writes the    *)
(* same records, and who begins there finds nothing wrong with the log.    *)
(* So a reader takes a snapshot only where a controller read all of them   *)
(* back as accepted, and wrote that down: as the position of its claim in  *)
(* `__marshal`.  Anywhere else it says that it knows nothing.              *)
(*                                                                         *)
(* This module does not know how a log is cut.  It has no variables.       *)
(***************************************************************************)
EXTENDS Controller

(***************************************************************************)
(* A reader.  `at_position` is whether it begins at the claim's position,  *)
(* and `end` what the broker called the end of the log after it began.     *)
(***************************************************************************)
NewGroupReader(begin, at_position, end) ==
    [view        |-> NewControllership,
     begin       |-> begin,
     at_position |-> at_position,
     end         |-> end,
     knowledge   |-> "Some"]          \* then "All" or, for ever, "Lost"

KnowsAll(reader) == reader.knowledge = "All"

\* The controllership that begins at a snapshot.  Snapshots of all groups must follow at once.
BegunAt(record) ==
    [NewControllership EXCEPT
        !.epoch         = record.epoch,
        !.number        = record.number,
        !.controller_id = record.event.controller_id,
        !.host          = record.event.host,
        !.port          = record.event.port]

IsVouchedFor(reader) == reader.at_position

BeginsAt(reader, record) ==
    /\ reader.begin > 0 /\ record.offset = reader.begin
    /\ IsVouchedFor(reader)
    /\ record.event.type = "ControllershipSnapshot"
    /\ ~Malformed(reader.view, record)

\* The log was cut, and no snapshot lies where it begins.
HeadIsMissing(reader) == reader.begin > 0 /\ reader.view.number = 0

\* It knows a state that there was after it began: the groups' snapshots lie before that end.
HasReachedEnd(reader, record) == record.offset + 1 >= reader.end

FoldedBy(reader, record) ==
    IF BeginsAt(reader, record) THEN [reader EXCEPT !.view = BegunAt(record)]
    ELSE IF StopsReader(reader.view, record) \/ HeadIsMissing(reader)
    THEN [reader EXCEPT !.knowledge = "Lost"]
    ELSE [reader EXCEPT !.view = Step(@, record).controllership]

AfterReader(reader, record) ==
    LET folded == FoldedBy(reader, record)
    IN  IF reader.knowledge = "Lost" THEN reader
        ELSE IF folded.knowledge = "Some" /\ HasReachedEnd(reader, record)
        THEN [folded EXCEPT !.knowledge = "All"]
        ELSE folded

(***************************************************************************)
(* Where a controller lets others begin.                                   *)
(***************************************************************************)

\* Numbers of the first and the last snapshot that it sent, and where it read the first one back.
NoSnapshots == [first |-> 0, last |-> 0, offset |-> NONE]

SnapshotsSent(first, count) == [first |-> first, last |-> first + count - 1, offset |-> NONE]

\* One of them came back, while it serves in the epoch in which it sent them.
IsTaken(writes, c, record, verdict) ==
    /\ writes # NoSnapshots
    /\ IsOwnEvent(c, record)
    /\ verdict \in Accepted

\* A snapshot that is not what the log says is none to begin at.
Disagrees(verdict) == verdict = "SnapshotDiffers"

AfterSnapshot(writes, c, record, verdict) ==
    IF ~IsTaken(writes, c, record, verdict) THEN writes
    ELSE IF Disagrees(verdict)              THEN NoSnapshots
    ELSE IF record.number = writes.first    THEN [writes EXCEPT !.offset = record.offset]
    ELSE writes

\* The last one came back, so the claim's position is where the first one lies.
MovesPosition(writes, c, record, verdict) ==
    /\ IsTaken(writes, c, record, verdict)
    /\ ~Disagrees(verdict)
    /\ record.number = writes.last

=============================================================================
