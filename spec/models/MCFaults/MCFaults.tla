------------------------------ MODULE MCFaults -----------------------------
(***************************************************************************)
(* Worlds in which more goes wrong than a late record: duplicates, records *)
(* that overtake each other, requests whose outcome nobody knows, logs     *)
(* that lose their end, and instances of the original that send anything.  *)
(*                                                                         *)
(* Bounds only, as in MCFenced, whose worlds these are made of; what is    *)
(* promised is in Properties.tla.                                          *)
(***************************************************************************)
EXTENDS MCFenced

(***************************************************************************)
(* A producer that keeps no order: whatever waits may be the next record,  *)
(* and one of them is appended twice.                                      *)
(***************************************************************************)
WithoutOrder(world) == [world EXCEPT !.reorders = TRUE, !.copies_max = 1]

AmoUnordered ==
    WithoutOrder([Base EXCEPT
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 0, 0, 2, 0), b1 |-> Sends(1, 0, 0, 1, 0)]])

AloUnordered ==
    WithoutOrder([Base EXCEPT
        !.mode = "ALO",
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 1, 1, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]])

\* One of two instances of a client crashes, and what it had in flight arrives in any order.
AmoUnorderedRestart ==
    WithoutOrder([AmoRestart EXCEPT
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), a2 |-> Sends(1, 0, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)]])

AloUnorderedRestart ==
    WithoutOrder([AloRestart EXCEPT
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4])

\* What an older tenure sent arrives after an administrator set the position.
AloUnorderedAdmin ==
    [AloAdmin EXCEPT
        !.reorders = TRUE,
        !.message_count = 1,
        !.set_targets = {0},
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 6]

AloUnorderedAdmin7 == [AloUnorderedAdmin EXCEPT !.copies_max = 1, !.log_max = 7]

(***************************************************************************)
(* An append whose outcome is not known: the record may be lost, or land   *)
(* when its sender has long given up on it and asked again.                *)
(***************************************************************************)
Unsure(world) == [world EXCEPT !.gives_up = TRUE, !.losses_max = 1]

AmoUnsure ==
    Unsure([Base EXCEPT
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 0, 1, 1, 0), b1 |-> Sends(1, 0, 0, 1, 0)]])

AloUnsure ==
    Unsure([Base EXCEPT
        !.mode = "ALO",
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 1, 1, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]])

AloUnsureRestart ==
    Unsure([AloRestart EXCEPT
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(2, 0, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4])

(***************************************************************************)
(* The same without headers.  Here the order of each sender's records is   *)
(* what keeps out those of an older tenure.                                *)
(***************************************************************************)
Bare(world) == [world EXCEPT !.headerless = DOMAIN world.client_of \ world.admins]

BareUnordered      == Bare(AloUnordered)
\* Here what an older tenure sent also passes a position that was set back.
BareUnorderedAdmin == Bare(AloUnorderedAdmin7)
BareUnsure         == Bare(AloUnsure)
BareUnsureAdmin ==
    Bare([AloUnorderedAdmin EXCEPT !.reorders = FALSE, !.gives_up = TRUE, !.copies_max = 1])
BareAmoUnordered   == Bare(AmoUnordered)

\* A client restarts; nothing overtakes and nothing is doubled.
BareRestart == Bare(AloRestart)

(***************************************************************************)
(* The log loses its end.  An instance that has read what is gone learns it*)
(* at its next fetch; until then it goes on.                               *)
(***************************************************************************)
AmoCut ==
    [Base EXCEPT
        !.client_of = Restarting,
        !.message_count = 1,
        !.cuts_max = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), a2 |-> Sends(1, 0, 0, 1, 0),
                       b1 |-> Sends(1, 0, 0, 1, 0)],
        !.log_max = 4]

AloCut ==
    [AmoCut EXCEPT
        !.mode = "ALO",
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)]]

\* Nothing that was granted is lost.
LosesNoGrant == mishaps'.cuts > mishaps.cuts => Latest'.position = Latest.position

\* Folding anew under the old instance id.
Itself(i) == {i}

\* Three instances of one client.  Offsets are given anew, so the third may win under the
\* epoch that the second meant to supersede.
AloCutThrice ==
    [AloCut EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", a3 |-> "a"],
        !.starts_up = {"a1"},
        !.skew_s = [i \in {"a1", "a2", "a3"} |-> 0],
        !.sends_max = [i \in {"a1", "a2", "a3"} |-> Sends(1, 0, 0, 0, 0)],
        !.crashes_max = 2]

\* An administrator's pause, or the position that it set, may be what is lost.
AloCutAdmin ==
    [AloCut EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(0, 0, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)]]

\* The properties that a log which loses its end cannot give, said of everybody: also of
\* those that have not been told.
MutexOfAll ==
    \A i, j \in Instances :
        /\ i # j
        /\ status[i] = "up" /\ ActsNow(i)
        /\ status[j] = "up" /\ ActsNow(j)
        => KnownBy(i).epoch # KnownBy(j).epoch

ReadersAgreeOfAll ==
    \A i, j \in Instances :
        View(i) = View(j) /\ status[i] = "up" /\ status[j] = "up"
        => OwnerSeenBy(i) = OwnerSeenBy(j)

\* Nobody remembers an epoch that is above the log's.
RememberedEpochStands == \A i \in Instances : KnownBy(i).epoch <= Latest.epoch

\* A client that comes late, where the head of the log may be gone.
Joining ==
    [Base EXCEPT
        !.starts_up = {"a1"},
        !.joins_late = {"b1"},
        !.message_count = 1,
        !.log_max = 2]

(***************************************************************************)
(* The original beside ours.  One that keeps the rules is an instance like *)
(* ours that writes no headers.  A stranger sends any record at any time;  *)
(* what it processes is not counted, so AtMostOnce speaks of ours.         *)
(***************************************************************************)
AmoNeighbour ==
    [Base EXCEPT
        !.headerless = {"b1"},
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 1, 1, 1, 0), b1 |-> Sends(1, 1, 1, 1, 0)]]
AloNeighbour == [AmoNeighbour EXCEPT !.mode = "ALO"]

\* A stranger's records depend on nothing that it reads, so it need not read, and one that
\* waits might as well be produced later.
StrangersRememberNothing ==
    \A i \in Strangers : consumers[i] = NewConsumer(0) /\ Length(outbox[i]) <= 1

AmoStranger ==
    [Base EXCEPT
        !.client_of = [a1 |-> "a", b1 |-> "b", x1 |-> "x"],
        !.starts_up = {"a1", "b1", "x1"},
        !.headerless = {"x1"},
        !.strangers = {"x1"},
        !.skew_s = [i \in {"a1", "b1", "x1"} |-> 0],
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), b1 |-> Sends(1, 0, 0, 0, 0),
                       x1 |-> Sends(1, 1, 0, 1, 0)],
        !.log_max = 4]
AloStranger ==
    [AmoStranger EXCEPT
        !.mode = "ALO",
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0),
                       x1 |-> Sends(1, 1, 1, 0, 0)],
        !.log_max = 4]

\* A client moves from the original to ours at a restart, or back.
AloMoved ==
    [AloRestart EXCEPT
        !.headerless = {"a1"},
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4]
AloMovedBack == [AloMoved EXCEPT !.headerless = {"a2"}]

\* The original does not wait to read what it was granted.
OriginalsGrantThemselves(me, c, offset) ==
    IF me.headerless THEN Known(c).position .. offset - 1 ELSE {}

\* Under the client id of one of ours.
AmoStrangerOfOurs == [AmoStranger EXCEPT !.client_of = [a1 |-> "a", b1 |-> "b", x1 |-> "a"]]
AloStrangerOfOurs == [AloStranger EXCEPT !.client_of = [a1 |-> "a", b1 |-> "b", x1 |-> "a"]]

\* An administrator of the original's.
AmoStrangerAdmin ==
    [AmoStranger EXCEPT
        !.client_of = [a1 |-> "a", x1 |-> "x"],
        !.starts_up = {"a1", "x1"},
        !.admins = {"x1"},
        !.sends_max = [a1 |-> Sends(2, 0, 0, 2, 0), x1 |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 6]
AloStrangerAdmin ==
    [AmoStrangerAdmin EXCEPT
        !.mode = "ALO",
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), x1 |-> Sends(1, 0, 1, 0, 1)]]

(***************************************************************************)
(* R9, the original's fast reclaim: what each choice is worth.             *)
(***************************************************************************)

\* The original heartbeats on, whether or not it has read that its first one won.
HeartbeatsOn ==
    [AloHeaderlessAdmin EXCEPT
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), a2 |-> Sends(0, 2, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 8]

A2ReadsNoMore == OnlyA2IsLate /\ View("a2") <= 2

\* Measured time: a1 and a2 are the original's, a1 crashes, b1 is ours.
ClockOriginal ==
    [ClockTwo EXCEPT
        !.client_of = Restarting,
        !.headerless = {"a1", "a2"},
        !.tick_s = 3,
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), a2 |-> Sends(0, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4]

(***************************************************************************)
(* A position that was set back, and then a release.                       *)
(***************************************************************************)
AloAdminReleases ==
    [AloAdmin EXCEPT
        !.message_count = 1,
        !.set_targets = {0},
        !.sends_max = [a1 |-> Sends(3, 0, 2, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 8]

EverybodyIsPrompt ==
    SumOver(LAMBDA i : Length(log) - View(i) + Length(outbox[i]), Instances) <= 3

ReleaseRepeatsNothingOnceSetBack == AskedAgain > 0 => ReleaseRepeatsNothing

(***************************************************************************)
(* Time passes an owner's stall by any amount, and an administrator by.    *)
(***************************************************************************)
ClockStall ==
    [ClockTwo EXCEPT
        !.mode = "AMO",
        !.tick_s = 3,
        !.message_count = 1,
        !.stalls_max = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), b1 |-> Sends(1, 0, 0, 1, 0)],
        !.log_max = 5]

\* Just enough for the broker's clock to step back.
ClockRewinding == [ClockTwo EXCEPT !.rewinds_max = 1, !.log_max = 1]

ClockAdmin ==
    [AloAdmin EXCEPT
        !.time_is_free = FALSE,
        !.tick_s = 3,
        !.message_count = 1,
        !.set_targets = {0},
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 5]

=============================================================================
