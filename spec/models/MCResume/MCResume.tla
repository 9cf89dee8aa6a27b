------------------------------ MODULE MCResume ------------------------------
(***************************************************************************)
(* Ending a pause from an old view.  a1 wants the claim, x1 has paused the *)
(* group, and y1 ends the pause by what it has read, which may be long ago. *)
(* A ReleaseGroup that has expired ends the ownership of whoever has won    *)
(* since.  A claim under the pauser's instance id (R8a) does not: where    *)
(* somebody lives who owns the claim it is refused.                        *)
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

SaysPaused(i) ==
    /\ KnownBy(i).paused_until_ms # NONE
    /\ KnownBy(i).clock_ms < KnownBy(i).paused_until_ms

Ends(i, sent) ==
    /\ MaySend(i, sent.message.type)
    /\ Produce(i, sent)
    /\ UNCHANGED <<log, history, verdicts, status, consumers, unaware, processed, mishaps, now>>

ResumeForAll(i) == SaysPaused(i) /\ Ends(i, ReleaseGroupSent(Me(i), consumers[i], 0))

ResumeClaim(i) ==
    LET pauser == [Me(i) EXCEPT !.instance_id = KnownBy(i).pauser]
    IN  SaysPaused(i) /\ Ends(i, ClaimingPartitionSent(pauser, consumers[i]))

Others ==
    \/ SendClaimingPartition("a1")
    \/ SendReleaseGroup("x1")
    \/ \E i \in Instances : Append(i) \/ Read(i)
    \/ Tick

ForAll  == Others \/ ResumeForAll("y1")
ByClaim == Others \/ ResumeClaim("y1")

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

=============================================================================
