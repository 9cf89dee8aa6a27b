------------------------------ MODULE MCTenure ------------------------------
(***************************************************************************)
(* Who processed what: a ghost variable for two properties that counts     *)
(* cannot express.  A tenure that passes a message has processed it        *)
(* itself, and no tenure processes beyond its own furthest position and a  *)
(* window.                                                                 *)
(***************************************************************************)
EXTENDS MCFenced

VARIABLE done           \* <<epoch, message>>: processed in that tenure

Handled(i) ==
    {m \in Messages : processed'[m] > processed[m] /\ consumers'[i] # consumers[i]}

TenureSpec ==
    /\ Init
    /\ done = {}
    /\ [][/\ Next
          /\ done' = done \cup UNION {{<<KnownBy(i).epoch, m>> : m \in Handled(i)} : i \in Instances}]_
        <<vars, done>>

\* NoneSkipped, sharper: not that somebody processed it often enough, but who.
NoneSkippedByTenureAt(k) ==
    \A m \in Messages :
        /\ Before(k).position <= m
        /\ m < After(k).position
        /\ ~SetByAdmin(k)
        /\ ~LeftOut(k, m)
        => <<Before(k).epoch, m>> \in done

NoneSkippedByTenure == ForLast(NoneSkippedByTenureAt)

\* ReprocessingBound, sharper: of every tenure, also of one that was not the last.
FurthestOf(epoch) ==
    LET positions == {history[k].position : k \in {l \in DOMAIN history : history[l].epoch = epoch}}
    IN  CHOOSE p \in positions : \A q \in positions : q <= p

TenureKeepsItsWindow == \A each \in done : each[2] < FurthestOf(each[1]) + Window

\* A window of two, and one message more than it holds.
Wide(world) == [world EXCEPT !.window = 2, !.message_count = 3]

Two ==
    Wide([AloTwo EXCEPT
        !.losses_max = 0,
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)]])

\* An administrator sets the position back over what was processed.
SetBackOnce ==
    [AloAdmin EXCEPT
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)],
        !.set_targets = {0}]

=============================================================================
