----------------------------- MODULE MCOriginal ----------------------------
(***************************************************************************)
(* The original's rules and consumers, and a world for each of its faults. *)
(* Every model of this module must fail: it is a fault told as a trace.    *)
(*                                                                         *)
(* A world gives each instance a part to play, by how many messages of     *)
(* each kind it may send, so that the shortest trace is the fault's own    *)
(* and not another one's.                                                  *)
(***************************************************************************)
EXTENDS Properties

Sends(claims, heartbeats, releases, grants, pauses) ==
    [type \in MessageTypes |->
        CASE type = "ClaimingPartition"  -> claims
          [] type = "Heartbeat"          -> heartbeats
          [] type = "ReleasingPartition" -> releases
          [] type = "ClaimingMessages"   -> grants
          [] type = "ReleaseGroup"       -> pauses
          [] OTHER                       -> 0]

Base ==
    [rules               |-> "original",
     mode                |-> "ALO",
     time_is_free        |-> FALSE,
     readers_own_clock   |-> FALSE,
     client_of           |-> [a1 |-> "a", b1 |-> "b"],
     starts_up           |-> {"a1", "b1"},
     admins              |-> {},
     headerless          |-> {},
     strangers           |-> {},
     certifies           |-> FALSE,
     joins_late          |-> {},
     misses              |-> {},
     skew_s              |-> [a1 |-> 0, b1 |-> 0],
     start_of            |-> [i \in {} |-> 0],
     sends_max           |-> [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)],
     window              |-> 2,
     batch               |-> 1,
     message_count       |-> 2,
     set_targets         |-> {1},
     pause_s             |-> 1,
     tick_s              |-> 2,
     log_max             |-> 5,
     crashes_max         |-> 0,
     stalls_max          |-> 0,
     losses_max          |-> 0,
     copies_max          |-> 0,
     cuts_max            |-> 0,
     rewinds_max         |-> 0,
     reorders            |-> FALSE,
     gives_up            |-> FALSE]

\* (a) A late heartbeat displaces a fresh owner.
LateHeartbeat == Base

\* (b) Two instances of one client id both own: the second one starts while the first
\* one lives, and the document lets it recover what its client id holds.
TwoOfOneClient ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a"],
        !.starts_up = {"a1", "a2"},
        !.skew_s = [a1 |-> 0, a2 |-> 0],
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(0, 1, 0, 0, 0)]]

\* (c) Two readers of one log disagree: each asks its own clock when it reads.
OwnClocks == [Base EXCEPT !.readers_own_clock = TRUE, !.tick_s = 1]

\* (d) Two consumers validate the same message: ClaimingMessages moves nothing, and
\* "we still hold the claim" is true for both, each in what it has read.  Each sends the
\* heartbeat that commits before it processes, as the document says.
DocumentAmo ==
    [Base EXCEPT
        !.mode = "AMO",
        !.message_count = 1,
        !.log_max = 6,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), b1 |-> Sends(1, 1, 0, 1, 0)]]

\* (e) A restarted instance sends the bare heartbeat of a fast reclaim; it lands after
\* another client took over.
FastReclaim ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", b1 |-> "b"],
        !.starts_up = {"a1", "b1"},
        !.skew_s = [a1 |-> 0, a2 |-> 0, b1 |-> 0],
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), a2 |-> Sends(0, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.crashes_max = 1]

\* (f) The group is paused, and a consumer heartbeats.  The document means that nobody
\* claims in a pause; even where every reader kept to that, heartbeats would not.
LiveOwnerOrPaused(claim, record) ==
    ClaimedAt(claim, Seconds(claim.clock_ms)) \/ ClockSaysPaused(claim, record)

HeartbeatInPause ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.skew_s = [a1 |-> 0, admin |-> 0],
        !.pause_s = 3,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), admin |-> Sends(0, 0, 0, 0, 1)]]

\* (f) The group is paused, and a consumer claims: the reducer does not look.
ClaimInPause == [HeartbeatInPause EXCEPT
    !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), admin |-> Sends(0, 0, 0, 0, 1)]]

\* (f) The administrator set the position, and a zombie's heartbeat brings the old one,
\* even where claims keep the pause and wins keep the position.
KeepsPosition(claim) == claim.position

ZombieUndoesSet ==
    [HeartbeatInPause EXCEPT
        !.message_count = 0,
        !.pause_s = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)]]

\* (f) Nobody is late, and still: once a ReleaseGroup was seen, the next win resets the
\* position to 0 (e79661b).
WinUndoesSet ==
    [HeartbeatInPause EXCEPT
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)]]

\* (g) A zombie's release is refused by the instance check, unless its late heartbeat
\* comes first: then it frees what somebody else lives on.
ZombieReleases ==
    [Base EXCEPT
        !.sends_max = [a1 |-> Sends(1, 1, 1, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]]

\* (h) A sender's clock is ahead, so its fresh claim looks like one from the future,
\* which the original takes for stale.
ClockAhead ==
    [Base EXCEPT
        !.skew_s = [a1 |-> 1, b1 |-> 0],
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]]

\* (i) The position moves back: the old owner's heartbeat carries its old position.
PositionMovesBack ==
    [Base EXCEPT
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)]]

=============================================================================
