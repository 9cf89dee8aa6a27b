------------------------------ MODULE MCFenced -----------------------------
(***************************************************************************)
(* Bounds for the fenced rules, and the ways to break them on purpose.     *)
(* Time is free unless a configuration's world says otherwise.             *)
(***************************************************************************)
EXTENDS Marshal

\* How many of each kind an instance sends, in the order of the names.
Sends(claims, heartbeats, releases, grants, pauses) ==
    [type \in MessageTypes |->
        CASE type = "ClaimingPartition"  -> claims
          [] type = "Heartbeat"          -> heartbeats
          [] type = "ReleasingPartition" -> releases
          [] type = "ClaimingMessages"   -> grants
          [] type = "ReleaseGroup"       -> pauses]

TwoClients  == [a1 |-> "a", b1 |-> "b"]
Restarting  == [a1 |-> "a", a2 |-> "a", b1 |-> "b"]
WithAdmin   == [a1 |-> "a", b1 |-> "b", admin |-> "admin"]
OneAndAdmin == [a1 |-> "a", admin |-> "admin"]

Base ==
    [rules               |-> "fenced",
     mode                |-> "AMO",
     time_is_free        |-> TRUE,
     readers_own_clock   |-> FALSE,
     client_of           |-> TwoClients,
     starts_up           |-> {"a1", "b1"},
     admins              |-> {},
     headerless          |-> {},
     skew_s              |-> [i \in {"a1", "a2", "b1", "admin"} |-> 0],
     sends_max           |-> [i \in {"a1", "a2", "b1", "admin"} |-> Sends(2, 1, 1, 2, 0)],
     window              |-> 1,
     batch               |-> 1,
     message_count       |-> 2,
     set_targets         |-> {0},
     pause_s             |-> 1,
     log_max             |-> 5,
     crashes_max         |-> 0,
     stalls_max          |-> 0,
     release_may_be_lost |-> FALSE]

AmoTwo == Base
AloTwo == [Base EXCEPT !.mode = "ALO"]
=============================================================================
