------------------------------ MODULE MCWorlds ------------------------------
(***************************************************************************)
(* Worlds that combine two situations which the other modules have one at  *)
(* a time. Bounds only; what is promised is in Properties.tla.             *)
(***************************************************************************)
EXTENDS MCFaults

\* A window of two messages, and three to process.
AloWindow ==
    [AloTwo EXCEPT
        !.window = 2,
        !.message_count = 3,
        !.losses_max = 0,
        !.sends_max = [a1 |-> Sends(1, 2, 1, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]]

\* Requests for two messages of three.
AmoBatch ==
    [AmoTwo EXCEPT
        !.message_count = 3,
        !.sends_max = [a1 |-> Sends(1, 0, 1, 2, 0), b1 |-> Sends(1, 0, 0, 1, 0)]]

\* An administrator beside two consumers, all with headers.
AloTwoAdmin ==
    [AloAdmin EXCEPT
        !.client_of = [a1 |-> "a", b1 |-> "b", admin |-> "admin"],
        !.starts_up = {"a1", "b1", "admin"},
        !.message_count = 1,
        !.set_targets = {0},
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 6]
AmoTwoAdmin ==
    [AloTwoAdmin EXCEPT
        !.mode = "AMO",
        !.sends_max = [a1 |-> Sends(2, 0, 0, 1, 0), b1 |-> Sends(1, 0, 0, 1, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)]]

\* An administrator, a crash and the restart after it.
AloAdminRestart ==
    [AloTwoAdmin EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)]]
AmoAdminRestart ==
    [AloAdminRestart EXCEPT
        !.mode = "AMO",
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), a2 |-> Sends(1, 0, 0, 1, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)]]

\* The owner reports twice beside an administrator.
AloAdminTwice ==
    [AloAdmin EXCEPT
        !.set_targets = {0},
        !.sends_max = [a1 |-> Sends(2, 2, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)]]

\* Start policies other than 0, which differ between an instance and its successor.
AloStartRestart ==
    [AloRestart EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a"],
        !.starts_up = {"a1"},
        !.start_of = [a1 |-> 1, a2 |-> 2],
        !.message_count = 3,
        !.sends_max = [a1 |-> Sends(1, 2, 1, 0, 0), a2 |-> Sends(1, 1, 1, 0, 0)],
        !.log_max = 6]

\* The broker's clock is far ahead for a while: it jumps, and steps back.  A late record of a
\* tenure that is over brings the jump into the log and says nothing of who lives.
ClockJump ==
    [ClockTwo EXCEPT
        !.tick_s = 5,
        !.rewinds_max = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(2, 1, 0, 0, 0)]]

\* Two processes under one client id, and a supervisor that starts a new one in the place of
\* each that stopped.  Instances of one client overlap here, so PredecessorStaysOut is not asked.
Supervised ==
    [AmoTwins EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", a3 |-> "a"],
        !.starts_up = {"a1", "a2"},
        !.skew_s = [i \in {"a1", "a2", "a3"} |-> 0],
        !.crashes_max = 1,
        !.sends_max = [i \in {"a1", "a2", "a3"} |-> Sends(1, 0, 0, 1, 0)],
        !.log_max = 5]

OnlyTheStoppedEnd ==
    \A i \in Instances :
        status[i] # "crashed" /\ status'[i] = "crashed" => consumers[i].stopped

=============================================================================
