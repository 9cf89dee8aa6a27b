------------------------------ MODULE MCGroups ------------------------------
(***************************************************************************)
(* Two groups and two keys in one log.  A claim is a function of its own   *)
(* records: those of its group and its key, and the ReleaseGroups of its   *)
(* group.  What anybody writes about another claim changes nothing of it,  *)
(* not even its clock.                                                     *)
(***************************************************************************)
EXTENDS Claim, Lists

CONSTANT LogMax

VARIABLES
    appended,     \* [group, key, record]; the key of a ReleaseGroup is its group's
    folds         \* of every group and key, after the whole log

vars == <<appended, folds>>

Groups == {"g", "h"}
Keys   == {"k1", "k2"}
Places == Groups \X Keys
ANY    == "any"

\* Whom a record concerns: the folds that it is folded into.
Concerns(addressed, place) ==
    /\ addressed.group = place[1]
    /\ addressed.record.message.type = "ReleaseGroup" \/ addressed.key = place[2]

Message(type, sender, offset) ==
    [type |-> type, version |-> 1, unix_s |-> 0, instance_id |-> sender, client_id |-> sender,
     offset |-> offset, expires_unix_s |-> IF type = "ReleaseGroup" THEN 9 ELSE NONE]

Record(time, headers, message) ==
    [offset |-> Length(appended), timestamp_ms |-> time, headers |-> headers, message |-> message]

Present == [NoHeaders EXCEPT !.present = TRUE]

Addressed(group, key, record) == [group |-> group, key |-> key, record |-> record]

ClaimAt(place) == folds[place[1]][place[2]]

Owners(place) ==
    IF IsOwned(ClaimAt(place))
    THEN {Addressed(place[1], place[2],
            Record(1000, [Present EXCEPT !.epoch = ClaimAt(place).epoch],
                   Message("Heartbeat", ClaimAt(place).owner_instance, 2)))}
    ELSE {}

Sendable ==
    {Addressed(place[1], place[2], Record(time, Present, Message("ClaimingPartition", sender, NONE))) :
        place \in Places, time \in {1000, 4000}, sender \in {"a", "b"}}
    \cup UNION {Owners(place) : place \in Places}
    \cup {Addressed(group, ANY, Record(1000, NoHeaders, Message("ReleaseGroup", "admin", NONE))) :
            group \in Groups}

Init ==
    /\ appended = <<>>
    /\ folds = [group \in Groups |-> [key \in Keys |-> NewClaim]]

Folded(addressed) ==
    [group \in Groups |-> [key \in Keys |->
        IF Concerns(addressed, <<group, key>>)
        THEN FencedStep(folds[group][key], addressed.record).claim ELSE folds[group][key]]]

Next ==
    /\ Length(appended) < LogMax
    /\ \E addressed \in Sendable :
           /\ appended' = With(appended, addressed)
           /\ folds' = Folded(addressed)

Spec == Init /\ [][Next]_vars

\* The fold of its own records, of nothing else.
OwnOf(place) ==
    SelectFrom(appended, LAMBDA each :
        \/ each.group = place[1] /\ each.key = place[2]
        \/ each.group = place[1] /\ each.record.message.type = "ReleaseGroup")

RECURSIVE FoldOf(_, _)
FoldOf(own, n) ==
    IF n = 0 THEN NewClaim ELSE FencedStep(FoldOf(own, n - 1), own[n].record).claim

ClaimsAreApart ==
    \A place \in Places :
        LET own == OwnOf(place) IN ClaimAt(place) = FoldOf(own, Length(own))

=============================================================================
