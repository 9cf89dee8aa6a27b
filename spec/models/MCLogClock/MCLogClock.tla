----------------------------- MODULE MCLogClock ----------------------------
(***************************************************************************)
(* Time to take over, if the survivor's clock is wrong and nobody else     *)
(* writes.  It judges by the log's clock: the time of the last record that *)
(* it read, and how long ago that was.  If its own clock is behind by more *)
(* than that, a takeover is delayed by as much.                            *)
(***************************************************************************)
EXTENDS MCLiveness

VARIABLE read_ms        \* when each instance last read a record, by its own clock

ReadLog(i) == IF View(i) = 0 THEN OwnClock(i)
              ELSE log[View(i)].timestamp_ms + (OwnClock(i) - read_ms[i])

\* Administrators look at no clock.
Reads(i) == i \notin Admins /\ consumers'[i].view > View(i)

ClockSpec ==
    /\ Init
    /\ read_ms = [i \in Instances |-> OwnClock(i)]
    /\ [][/\ Next
          /\ read_ms' = [i \in Instances |-> IF Reads(i) THEN OwnClock(i) ELSE read_ms[i]]]_
        <<vars, read_ms>>
    /\ Fairness

\* Time matters for as long after a record was read as after it was appended.
TimeMattersToReaders ==
    \E i \in Instances :
        /\ status[i] = "up"
        /\ now < Max(LastTimestamp, read_ms[i] - SkewS[i] * 1000) + 2 * HeartbeatIntervalMs + 1000

=============================================================================
