------------------------------ MODULE MCResume ------------------------------
(***************************************************************************)
(* Ending a pause from an old view.  a1 wants the claim, x1 has paused the *)
(* group, and y1 ends the pause by what it has read, which may be long ago. *)
(* A ReleaseGroup that has expired ends the ownership of each that has won  *)
(* since.  A claim under the pauser's instance id (R8a) does not: where    *)
(* somebody lives who owns the claim it is refused.                        *)
(*                                                                         *)
(* The claim is given back by its winner.  Where z1 has released the       *)
(* group meanwhile, the claim has another pauser, and in its name a release *)
(* would be refused: y1 would own the claim until it is stale.             *)
(***************************************************************************)
EXTENDS MCLiveness

PausedByX ==
    [ClockTwo EXCEPT
        !.client_of = [a1 |-> "a", x1 |-> "x", y1 |-> "y"],
        !.starts_up = {"a1", "x1", "y1"},
        !.admins = {"x1", "y1"},
        !.skew_s = [i \in {"a1", "x1", "y1"} |-> 0],
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0),
                       x1 |-> Sends(0, 0, 0, 0, 1),
                       y1 |-> Sends(1, 0, 0, 0, 1)],
        !.log_max = 3]

ReleasedByZ ==
    [PausedByX EXCEPT
        !.client_of = [x1 |-> "x", y1 |-> "y", z1 |-> "z"],
        !.starts_up = {"x1", "y1", "z1"},
        !.admins = {"x1", "y1", "z1"},
        !.skew_s = [i \in {"x1", "y1", "z1"} |-> 0],
        !.sends_max = [x1 |-> Sends(0, 0, 0, 0, 1),
                       y1 |-> Sends(1, 0, 1, 0, 0),
                       z1 |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 4]

SaysPaused(i) ==
    /\ KnownBy(i).paused_until_ms # NONE
    /\ KnownBy(i).clock_ms < KnownBy(i).paused_until_ms

Ends(i, sent) ==
    /\ MaySend(i, sent.message.type)
    /\ Produce(i, sent)
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, mishaps, now>>

ReleaseAll(i) == i \in Admins /\ Ends(i, ReleaseGroupSent(Me(i), consumers[i], 0))

ResumeForAll(i) == SaysPaused(i) /\ ReleaseAll(i)

ResumeClaim(i) ==
    LET pauser == [Me(i) EXCEPT !.instance_id = KnownBy(i).pauser]
    IN  SaysPaused(i) /\ Ends(i, ClaimingPartitionSent(pauser, consumers[i]))

\* Whose win it was.
Winner(claim) == claim.owner_instance

GiveBack(i) ==
    LET claim == KnownBy(i)
        won   == [Me(i) EXCEPT !.instance_id = claim.owner_instance]
    IN  /\ claim.owner_client = won.client_id
        /\ MayRelease(won, consumers[i]) = PASSES
        /\ Ends(i, ReleasingPartitionSent([won EXCEPT !.instance_id = Winner(claim)],
                                          consumers[i]))

Others ==
    \/ SendClaimingPartition("a1")
    \/ SendReleaseGroup("x1")
    \/ \E i \in Instances : Append(i) \/ Read(i)
    \/ Tick

ForAll  == Others \/ ResumeForAll("y1")
ByClaim == Others \/ ResumeClaim("y1")

Released ==
    \/ SendReleaseGroup("x1")
    \/ ReleaseAll("z1")
    \/ ResumeClaim("y1")
    \/ GiveBack("y1")
    \/ \E i \in Instances : Append(i) \/ Read(i)
    \/ Tick

SpecReleased == Init /\ [][Released]_vars

SpecForAll  == Init /\ [][ForAll]_vars
SpecByClaim == Init /\ [][ByClaim]_vars

\* What y1 sent took the claim from nobody who was heard of in time.
ResumeFreesNobody ==
    \A k \in DOMAIN log :
        log[k].message.client_id = "y" /\ ~SaysStale(k) =>
            Before(k).owner_instance \in {NOBODY, Before(k).pauser, After(k).owner_instance}

\* It ends the pause: the claim is y1's to give back before the pause has run out.
NeverEndedEarly ==
    \A k \in DOMAIN log :
        log[k].message.client_id = "y" =>
            ~(log[k].timestamp_ms < Before(k).paused_until_ms /\ IsOwned(After(k)))

\* In the place of Winner: who is the pauser now.
PauserNow(claim) == claim.pauser

\* What y1 won it gives back: every reader takes its release for one, if it comes in time.
GivesBackWhatItWon ==
    \A k \in DOMAIN log :
        log[k].message.client_id = "y" /\ log[k].message.type = "ReleasingPartition" =>
            verdicts[k] # "Forged"

\* The group is released between the request and the release of the claim that it won.
NeverReleasedBetween ==
    \A k \in DOMAIN log :
        log[k].message.client_id = "y" /\ log[k].message.type = "ReleasingPartition" =>
            After(k).pauser # "z1"

=============================================================================
