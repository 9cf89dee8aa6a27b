----------------------------- MODULE Deliveries ------------------------------
(***************************************************************************)
(* How often the messages of a range were delivered to a holder that then  *)
(* fell silent with them.                                                  *)
(*                                                                         *)
(* A record is not needed for that: the log has it.  Whose range is taken  *)
(* from it because it was silent may have begun any message of it, so each *)
(* counts once more.  What is given back was not begun, and what is done   *)
(* is given to nobody again, so neither counts.                            *)
(*                                                                         *)
(* Nothing here decides who is granted what.  A reader that does not count *)
(* computes the same ranges.                                               *)
(*                                                                         *)
(* Ranges and intervals of the pool are cut and never merged, so all of    *)
(* one counts the same: a number for each of them is enough, and what was  *)
(* never taken needs none.                                                 *)
(***************************************************************************)
EXTENDS Ranges

\* [from, to, times]: open, or in the pool, and taken from as many silent holders.
NothingTaken == {}

TimesTaken(taken, x) ==
    LET its == {each \in taken : each.from <= x /\ x < each.to}
    IN  IF its = {} THEN 0 ELSE (CHOOSE each \in its : TRUE).times

\* Who holds it now, or is granted it next, is the last of that many.
DeliveriesOf(taken, x) == TimesTaken(taken, x) + 1

\* A ClaimingRange ends ranges of others only because these are silent.
TakenBy(record, before, after) ==
    IF ~IsRangeMessage(record) THEN {}
    ELSE {range \in before.open :
             /\ range.instance # Sender(record)
             /\ \A other \in after.open : other.id # range.id}

AfterTaken(taken, record, before, after) ==
    LET gone == TakenBy(record, before, after)
        Times(x) ==
            TimesTaken(taken, x) + Cardinality({range \in gone : range.from <= x /\ x < range.to})
        Counted(interval) ==
            [from |-> interval.from, to |-> interval.to, times |-> Times(interval.from)]
    IN  {each \in {Counted(interval) : interval \in after.open \cup after.pool} : each.times > 0}

=============================================================================
