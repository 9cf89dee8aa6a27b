------------------------------ MODULE MCFenced -----------------------------
(***************************************************************************)
(* Bounds for the fenced rules, and the ways to break them on purpose.     *)
(* Time is free unless a configuration's world says otherwise.             *)
(***************************************************************************)
EXTENDS Invariant, Export

\* How many of each kind an instance sends, in the order of the names.
Sends(claims, heartbeats, releases, grants, pauses) ==
    [type \in MessageTypes |->
        CASE type = "ClaimingPartition"  -> claims
          [] type = "Heartbeat"          -> heartbeats
          [] type = "ReleasingPartition" -> releases
          [] type = "ClaimingMessages"   -> grants
          [] type = "ReleaseGroup"       -> pauses
          [] OTHER                       -> 0]

TwoClients  == [a1 |-> "a", b1 |-> "b"]
Restarting  == [a1 |-> "a", a2 |-> "a", b1 |-> "b"]
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
     strangers           |-> {},
     certifies           |-> FALSE,
     joins_late          |-> {},
     misses              |-> {},
     skew_s              |-> [i \in {"a1", "a2", "b1", "admin"} |-> 0],
     start_of            |-> [i \in {} |-> 0],
     sends_max           |-> [i \in {"a1", "a2", "b1", "admin"} |-> Sends(2, 1, 1, 2, 0)],
     window              |-> 1,
     batch               |-> 1,
     message_count       |-> 2,
     set_targets         |-> {0},
     pause_s             |-> 1,
     tick_s              |-> 1,
     log_max             |-> 5,
     crashes_max         |-> 0,
     stalls_max          |-> 0,
     losses_max          |-> 0,
     copies_max          |-> 0,
     cuts_max            |-> 0,
     rewinds_max         |-> 0,
     reorders            |-> FALSE,
     gives_up            |-> FALSE]

All(sends) == [i \in {"a1", "a2", "b1", "admin"} |-> sends]

\* Two consumers of two clients.
AmoTwo ==
    [Base EXCEPT
        !.batch = 2,
        !.sends_max = [a1 |-> Sends(2, 1, 1, 2, 0), b1 |-> Sends(1, 1, 0, 1, 0)]]
AloTwo ==
    [Base EXCEPT
        !.mode = "ALO",
        !.sends_max = [a1 |-> Sends(2, 1, 1, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)],
        !.losses_max = 1]
AmoTwoFew ==
    [AmoTwo EXCEPT
        !.sends_max = [a1 |-> Sends(1, 0, 0, 2, 0), b1 |-> Sends(1, 0, 0, 1, 0)]]

\* The same with longer logs and one message, which everybody would like to process.
AmoTwoDeep ==
    [Base EXCEPT
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 1, 1, 1, 0), b1 |-> Sends(1, 1, 0, 1, 0)],
        !.log_max = 6]

\* Three instances, two of one client: a1 crashes and a2 comes back in its place.
AmoRestart ==
    [Base EXCEPT
        !.client_of = Restarting,
        !.crashes_max = 1,
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), a2 |-> Sends(1, 1, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 1, 0)],
        !.log_max = 5]
AloRestart == [AmoRestart EXCEPT !.mode = "ALO", !.message_count = 2, !.log_max = 5]

\* The same three, and a1 and a2 both live: a client id used twice.
AmoTwins ==
    [AmoRestart EXCEPT
        !.starts_up = {"a1", "a2", "b1"},
        !.crashes_max = 0,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), a2 |-> Sends(1, 1, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 1, 0)],
        !.log_max = 4]
AloTwins == [AmoTwins EXCEPT !.mode = "ALO"]

\* An administrator pauses the group, claims, and sets the position back.
AmoAdmin ==
    [Base EXCEPT
        !.client_of = OneAndAdmin,
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.sends_max = [a1 |-> Sends(2, 1, 0, 2, 0), admin |-> Sends(1, 1, 1, 0, 1)],
        !.log_max = 6]
AloAdmin == [AmoAdmin EXCEPT !.mode = "ALO", !.set_targets = {0, 2}, !.log_max = 7]

\* Start policies that differ, as Kafka's committed offset differs from one start to the next.
\* An administrator sets the position to 0, which is not the same as never having set it.
AloStart ==
    [AloAdmin EXCEPT
        !.client_of = [a1 |-> "a", b1 |-> "b", admin |-> "admin"],
        !.starts_up = {"a1", "b1", "admin"},
        !.start_of = [a1 |-> 2],
        !.set_targets = {0},
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 5]
AmoStart ==
    [AloStart EXCEPT
        !.mode = "AMO",
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), b1 |-> Sends(1, 0, 0, 1, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)]]
PromptOnes == InFlight <= 1

\* A fleet half moved: the original's instances beside ours, here under one client id.
AmoMixed ==
    [AmoRestart EXCEPT
        !.headerless = {"a1"},
        !.sends_max = [a1 |-> Sends(1, 1, 1, 1, 0), a2 |-> Sends(1, 1, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 1, 0)],
        !.starts_up = {"a1", "a2"},
        !.client_of = [a1 |-> "a", a2 |-> "a"],
        !.crashes_max = 1]
AloMixed == [AmoMixed EXCEPT !.mode = "ALO"]

\* The original's instances only, and its fast reclaim.
AloHeaderless == [AloRestart EXCEPT !.headerless = {"a1", "a2", "b1"}, !.message_count = 1]

\* The administrator among the original's instances, of which a2 sends a fast reclaim.
\* To keep it small everybody but a2 is prompt.
AloHeaderlessAdmin ==
    [AloAdmin EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", admin |-> "admin"],
        !.headerless = {"a1", "a2"},
        !.starts_up = {"a1", "a2", "admin"},
        !.set_targets = {0},
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), a2 |-> Sends(0, 1, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 7]

OnlyA2IsLate ==
    LET behind(i) == Length(log) - View(i) + Length(outbox[i])
    IN  behind("a1") + behind("admin") <= 2

\* R9 as a win like any other: it leaves the position where it is.
FastReclaimedInPlace(claim, record) ==
    [Won(claim, record) EXCEPT !.paused_until_ms = claim.paused_until_ms]

\* Measured time, to say what staleness is worth.
ClockTwo ==
    [Base EXCEPT
        !.time_is_free = FALSE,
        !.tick_s = 2,
        !.mode = "ALO",
        !.message_count = 0,
        !.sends_max = [a1 |-> Sends(1, 1, 1, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)],
        !.log_max = 4]
OwnClocks == [ClockTwo EXCEPT !.readers_own_clock = TRUE]

\* Measured time and fairness: a1 claims, may heartbeat and release, and may crash or
\* stall for good; b1 stays up and wants the claim.  It asks as often as it can be
\* refused: while a1 is fresh, after a1's last heartbeat, and once more.
Liveness ==
    [ClockTwo EXCEPT
        !.tick_s = 3,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(3, 0, 0, 0, 0)],
        !.crashes_max = 1,
        !.stalls_max = 1,
        !.log_max = 5]
LivenessReleased ==
    [Liveness EXCEPT
        !.sends_max = [a1 |-> Sends(1, 0, 1, 0, 0), b1 |-> Sends(2, 0, 0, 0, 0)],
        !.stalls_max = 0,
        !.log_max = 4]
B1StaysUp == <>[](status["b1"] = "up")

\* Just enough for an action to happen.
Small ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.crashes_max = 1,
        !.stalls_max = 1,
        !.sends_max = All([type \in MessageTypes |-> 1]),
        !.log_max = 3]
SmallAlo == [Small EXCEPT !.mode = "ALO"]
SmallClock == [Small EXCEPT !.time_is_free = FALSE]

(***************************************************************************)
(* Ways to break the rules.  A configuration puts one of these in the      *)
(* place of a guard or of a consumer's rule; a property must then fail, or *)
(* the model would not have needed the rule.                               *)
(***************************************************************************)

\* In the place of any guard.
Waived(claim, record) == FALSE
Granting(claim, record) == TRUE

\* R3 without the maximum.
MovedBlindly(claim, record) == record.message.offset

\* A win that keeps the epoch of its predecessor.
WonUnderTheOldEpoch(claim, record) ==
    [claim EXCEPT
        !.owner_instance    = record.message.instance_id,
        !.owner_client      = record.message.client_id,
        !.epoch             = IF @ = NONE THEN record.offset ELSE @,
        !.last_heartbeat_ms = claim.clock_ms,
        !.won_with_headers  = record.headers.present,
        !.paused_until_ms   = IF FromPauser(claim, record) THEN NONE ELSE @]

\* A ReleaseGroup, or a release, that leaves the owner in place.
KeepsOwner(claim) == claim

\* R2 by client id, as the document has it.
BelievesByClient(me, claim) == claim.owner_client = me.client_id

\* R4 as if asking were being granted.
GrantsItself(me, c, offset) == Known(c).position .. offset - 1

\* R4 with what it asked for, in the place of what was granted.
GrantsWhatWasAsked(me, before, record, owns) ==
    IF record.message.instance_id = me.instance_id /\ record.message.type = "ClaimingMessages"
    THEN record.message.offset - 1 .. record.message.offset - 1
    ELSE {}

\* R5, R6, R7 dropped.
InAnyWindow(me, c) == TRUE
NeverOutstanding(c) == FALSE
NeverResigned(me, c, claim) == FALSE

\* Position 0 means that nobody ever set it.
NeverSetAtZero(reader) == reader.claim.position = 0

\* ALO that commits before it processed.
CommitsAhead(me, c) == Min(c.next + 1, MessageCount)

(***************************************************************************)
(* Measured time: what every appended record did to the claim is exported, *)
(* and held against the Python.                                            *)
(***************************************************************************)
ExportStep ==
    log' # log =>
        Export(<<Rules, HeartbeatIntervalMs, PauseMaxMs, Latest, log'[Length(log')], Latest',
                 verdicts'[Length(log')]>>)

=============================================================================
