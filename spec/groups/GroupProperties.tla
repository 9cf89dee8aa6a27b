--------------------------- MODULE GroupProperties ---------------------------
(***************************************************************************)
(* What groups promise, in terms of GroupWorld.tla.                        *)
(*                                                                         *)
(* What the reducer promises of every event, whoever sends it, is in       *)
(* MCGroupEvents.  A log holds every state that there was, so no property  *)
(* needs a variable of its own.                                            *)
(***************************************************************************)
EXTENDS GroupWorld

States == {appended[k].after : k \in DOMAIN appended}
GroupStates == {TheGroup(state) : state \in {s \in States : HasGroup(s)}}

\* The last event by which the member was given up; 0: none.
ExpelledAt(m) ==
    LET at == {appended[k].after.number :
                   k \in {j \in DOMAIN appended : /\ appended[j].verdict = "Expired"
                                                  /\ appended[j].record.event.member = m}}
    IN  IF at = {} THEN 0 ELSE CHOOSE n \in at : \A other \in at : other <= n

\* Given up since what it knows.  It stops by its own clock, which is not here.
IsExpelled(m) == ExpelledAt(m) > members[m].generation

\* Who holds a partition owns it, unless it was given up.
NoTwoOwners ==
    \A m \in Ms : \A tp \in members[m].holds :
        IsExpelled(m) \/ Owns(TheLatestGroup, m, tp)

\* Who holds a partition and has not stopped by its own clock owns it, given up or not.
LeaseOver ==
    \A m \in Ms : \A tp \in members[m].holds : IsStopped(m) \/ Owns(TheLatestGroup, m, tp)

\* Where members ask in time, none is given up.
SessionKept ==
    IsPunctual => \A record \in OnTheWay : record.event.type # "MemberExpired"

\* Who holds a partition knows its tenure, or does not know yet that it was rewound.
HeldTenureWasGiven ==
    \A m \in Ms : \A tp \in members[m].holds :
        \E group \in GroupStates :
            Owns(group, m, tp) /\ group.partitions[tp].tenure = members[m].at[tp].tenure

\* Every answer tells what was once, and what the log will always say.
AnswersHold ==
    \A answer \in answers :
        \E group \in GroupStates :
            LET told == AnswerTo(group, answer.member, answer.connection, answer.sent)
            IN  /\ told.generation = answer.generation
                /\ told.unknown = answer.unknown
                /\ DOMAIN told.own = DOMAIN answer.own
                /\ \A tp \in DOMAIN told.own : told.own[tp].tenure = answer.own[tp].tenure

\* The last rebalance before a tenure began.
RebalanceOf(tenure) ==
    LET at == {group.rebalanced_at : group \in
                  {TheGroup(s) : s \in {t \in States : t.number <= tenure /\ HasGroup(t)}}}
    IN  CHOOSE n \in at : \A other \in at : other <= n

\* Eager: what is held at one time was granted after the same rebalance.
OneGeneration ==
    TheLatestGroup.rebalance = "eager" =>
        \A m, other \in Ms :
            ~IsExpelled(m) /\ ~IsExpelled(other) =>
                \A tp \in members[m].holds, tq \in members[other].holds :
                    RebalanceOf(members[m].at[tp].tenure)
                        = RebalanceOf(members[other].at[tq].tenure)

\* The last event that rewound a partition; 0: none.
RewoundAt(n, tp) ==
    LET at == {appended[k].after.number :
                   k \in {j \in 1 .. n : /\ appended[j].verdict = "Rewound"
                                         /\ tp \in DOMAIN appended[j].record.event.positions}}
    IN  IF at = {} THEN 0 ELSE CHOOSE k \in at : \A other \in at : other <= k

\* What is committed was processed since the last rewind, by somebody who knew of it.
RewindSticks ==
    \A n \in DOMAIN appended :
        LET entry == appended[n]
        IN  entry.verdict = "Reconciled" =>
                \A tp \in DOMAIN entry.record.event.positions :
                    \/ n = 1
                    \/ TheGroup(entry.after).partitions[tp].position
                           = TheGroup(appended[n - 1].after).partitions[tp].position
                    \/ entry.record.event.positions[tp].tenure >= RewoundAt(n, tp)

\* Only one controller at a time decides what counts, and it read its own start.
OneController ==
    \A c, other \in Controllers :
        c # other => ~(/\ IsServing(controllers[c], Latest)
                       /\ IsServing(controllers[other], Latest))

\* A member that left nothing unsaid is in the group for all that is known of it.
FailoverKeepsGeneration ==
    \A n \in 2 .. Length(appended) :
        appended[n].verdict = "Started" => appended[n].after.groups = appended[n - 1].after.groups

=============================================================================
