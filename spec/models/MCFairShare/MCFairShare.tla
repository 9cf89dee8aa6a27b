---------------------------- MODULE MCFairShare ----------------------------
(***************************************************************************)
(* Bounds for fair share, and the ways to break it on purpose.             *)
(***************************************************************************)
EXTENDS FairShare

ForAll(members, value) == [m \in members |-> value]

\* Members and claims of one topic: all members are present, all claims are free.
Base(members, keys) ==
    [keys_of     |-> ForAll(1 .. members, 1 .. keys),
     static_of   |-> ForAll(1 .. members, {}),
     limit_of    |-> ForAll(1 .. members, keys),
     topic_of    |-> [key \in 1 .. keys |-> 1],
     owners      |-> [key \in 1 .. keys |-> NOBODY],
     up          |-> 1 .. members,
     joins_max   |-> 0,
     crashes_max |-> 0,
     overdue_max |-> 0,
     patient     |-> TRUE,
     moves_max   |-> 0]

\* Everybody begins at once.
Start == Base(3, 4)

\* The same, where nobody waits for the others to make themselves known.
StartInHaste ==
    [Base(2, 4) EXCEPT
        !.patient = FALSE,
        !.moves_max = 2]

\* One has everything, and two come.
TwoCome ==
    [Base(3, 4) EXCEPT
        !.owners = [key \in 1 .. 4 |-> 1],
        !.up = {1},
        !.joins_max = 2,
        !.moves_max = 2]

\* One goes, and may come back, before it is missed or after.
OneGoes ==
    [Base(3, 4) EXCEPT
        !.owners = <<1, 1, 2, 3>>,
        !.joins_max = 1,
        !.crashes_max = 1,
        !.moves_max = 2]

\* Two have the same, and one comes.
OneComes ==
    [Base(3, 4) EXCEPT
        !.owners = <<1, 1, 2, 2>>,
        !.up = {1, 2},
        !.joins_max = 1,
        !.moves_max = 1]

\* One goes and may come back, where nobody has patience.
OneGoesInHaste ==
    [Base(2, 3) EXCEPT
        !.owners = <<1, 1, 2>>,
        !.joins_max = 1,
        !.crashes_max = 1,
        !.patient = FALSE,
        !.moves_max = 2]

\* One has six, and two come.
TwoComeToSix ==
    [Base(3, 6) EXCEPT
        !.owners = [key \in 1 .. 6 |-> 1],
        !.up = {1},
        !.joins_max = 2,
        !.moves_max = 4]

\* One more than the other has, which is as even as it can be.
Odd == [Base(2, 3) EXCEPT !.owners = <<1, 1, 2>>]

\* More members than claims: one is there for when another goes.
Standby ==
    [Base(3, 2) EXCEPT
        !.crashes_max = 1]

\* One keeps two claims that it asked for by name; another takes one and no more.
StaticAndLimit ==
    [Base(3, 4) EXCEPT
        !.owners = <<1, 1, 1, 1>>,
        !.static_of = <<{1, 2}, {}, {}>>,
        !.limit_of = <<4, 1, 4>>,
        !.moves_max = 2]

\* A free claim is offered to one that takes no more.
Limit ==
    [Base(2, 3) EXCEPT
        !.limit_of = <<1, 3>>,
        !.overdue_max = 1]

\* Two topics; not everybody may own claims of both.
Topics ==
    [Base(3, 4) EXCEPT
        !.topic_of = <<1, 1, 2, 2>>,
        !.keys_of = <<{1, 2, 3, 4}, {1, 2}, {3, 4}>>,
        !.owners = <<1, 1, 1, 1>>,
        !.moves_max = 2]

(***************************************************************************)
(* Ways to break the rules.  A configuration puts one of these in the      *)
(* place of what its name says otherwise; a property must then fail.       *)
(***************************************************************************)

\* One more than the asker is enough.
One == 1

\* Everybody asks for everything that is free.
AllFree(me, seen, overdue) == FreeClaims(me, seen)

\* It does not make itself known first.
NeedNotAnnounce(me, seen) == TRUE

\* A member that is rich gives something when anybody asks for anything.
GivesAnything(me, seen, memory) ==
    {key \in OwnedBy(me, seen, me.id) \ memory.giving :
        \E asker \in DOMAIN seen.requests \ {me.id} :
            seen.requests[asker] # NOBODY /\ IsWorthGiving(me, seen, memory, asker)}

\* What is under way is not counted.
NothingUnderWay(me, seen, memory, asker) == 0

GivesNothing(me, seen, memory) == {}

\* It keeps its wishes to itself.
NamesNothing(me, seen, memory, offered) == FALSE

\* It goes before those that are poorer.
NobodyIsPoorer(me, seen, key) == FALSE

\* It names the same claim again and again.
AllAnew(seen, keys, passed_over) == keys

\* A free claim is passed on at once.
NoGrace == [OneGoesInHaste EXCEPT !.overdue_max = 1]

\* A claim that is not taken is not passed on.
LimitKept == [Limit EXCEPT !.overdue_max = 0]

\* Without one of the assumptions.
NothingLands ==
    Spec /\ \A m \in Members : WF_vars(Acts(m)) /\ WF_vars(AskAgain(m)) /\ WF_vars(Expire(m))
NobodyIsMissed ==
    Spec /\ \A m \in Members : WF_vars(Acts(m)) /\ WF_vars(AskAgain(m)) /\ WF_vars(Lands(m))

=============================================================================
