------------------------------- MODULE MCFull ------------------------------
(***************************************************************************)
(* Bounds for the explorer of the Python machines: everything at once,     *)
(* which `make spec` leaves out because it takes minutes, and a small      *)
(* world for cases that no other world has.                                *)
(***************************************************************************)
EXTENDS MCFenced

\* At most once.  Three instances, two of one client: one crashes and its successor comes
\* back, anybody may stall, a1 releases, and the group is paused at any time.  The
\* pauser does nothing else.
AmoEverything ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", b1 |-> "b", admin |-> "admin"],
        !.starts_up = {"a1", "b1", "admin"},
        !.admins = {"admin"},
        !.crashes_max = 1,
        !.stalls_max = 1,
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 1, 1, 0), a2 |-> Sends(1, 0, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 1, 0), admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 5]

\* c1 begins late, wherever it likes.  Where it reads of the pause and no more, it knows that
\* nobody owns the claim and not how far anybody got: at most once, it may not even ask.
AmoJoinsPaused ==
    [AmoEverything EXCEPT
        !.client_of = [a1 |-> "a", c1 |-> "c", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.certifies = TRUE,
        !.joins_late = {"c1"},
        !.skew_s = [i \in {"a1", "c1", "admin"} |-> 0],
        !.crashes_max = 0,
        !.stalls_max = 0,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), c1 |-> Sends(1, 0, 0, 1, 0),
                       admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 4]

\* Two instances of one client live, and both would ask again: the one that lost its
\* claim to the other does not, or they would take turns.
AloTwinsAgain ==
    [AloTwins EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a"],
        !.starts_up = {"a1", "a2"},
        !.skew_s = [i \in {"a1", "a2"} |-> 0],
        !.sends_max = [i \in {"a1", "a2"} |-> Sends(2, 0, 0, 0, 0)]]

\* What the administrator read would change nothing.
AdminReadsNothing == View("admin") = 0

=============================================================================
