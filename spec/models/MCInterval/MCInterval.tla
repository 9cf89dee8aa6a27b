----------------------------- MODULE MCInterval -----------------------------
(***************************************************************************)
(* Bounds for intervals, and the ways to break the rule on purpose.        *)
(***************************************************************************)
EXTENDS Interval

\* A holder with the long interval and a newcomer with the short one.
Two ==
    [interval_of |-> <<2, 1>>,
     up          |-> {1},
     keys        |-> 1,
     messages    |-> 1,
     log_max     |-> 5,
     now_max     |-> 6,
     crashes_max |-> 0,
     stops       |-> FALSE,
     wins_say    |-> TRUE,
     rule        |-> TRUE]

\* A holder with the short interval and a newcomer with the long one.
TwoSlow == [Two EXCEPT !.interval_of = <<1, 2>>]

\* Two claims; a holder may stop, or crash.
TwoClaims ==
    [Two EXCEPT
        !.keys = 2,
        !.log_max = 4,
        !.now_max = 6,
        !.crashes_max = 1,
        !.stops = TRUE]

\* Both begin at once.
AtOnce == [Two EXCEPT !.up = {1, 2}]

\* A holder, one more of its interval and a newcomer with another.
Three == [Two EXCEPT !.interval_of = <<2, 2, 1>>, !.up = {1}, !.log_max = 5]

\* Stopping: everybody gives back, and then others come.
Change == [Two EXCEPT !.stops = TRUE]

\* Broken on purpose.
NoRule == [Two EXCEPT !.rule = FALSE]
WinsSayNothing == [AtOnce EXCEPT !.wins_say = FALSE]

\* Must be reached.
NeverYields == \A i \in Instances : mode[i] # "yielded"
NeverChanges == \A i, j \in Instances :
    Own(i) # Own(j) => processed[i] = {} \/ mode[j] # "gone" \/ records = <<>> \/ records[1].from # j
=============================================================================
