------------------------------- MODULE Share -------------------------------
(***************************************************************************)
(* Fair share: when a member of a group asks for a claim, and when it      *)
(* gives one back.                                                         *)
(*                                                                         *)
(* Nothing here decides who owns a claim: Claim.tla does, and it refuses   *)
(* whatever a member should not have asked.  There is no new message.  A   *)
(* member that wants more asks for a claim that somebody else owns: it is  *)
(* refused, changes nothing, and every member has read who wants more.     *)
(* The owner of the named claim gives it back if it owns at least two      *)
(* more than the asker, so every move makes the difference smaller, and    *)
(* one request moves one claim.                                            *)
(*                                                                         *)
(* Members and claims are numbers here: of two that are alike, the lower   *)
(* comes first.  A member is a client, whichever of its instances runs.    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, Lists

NOBODY == 0

\* The member: who it is, which claims it may own, which of them it asked for by name and
\* never gives away, and how many it takes.
\*     me = [id, keys, static, limit, topic_of]
\*
\* What it has read: who owns each claim (a stale owner is nobody), and who asked for which
\* claim and was refused, since its last win, and not too long ago.
\*     seen = [owners, requests]
\*
\* What it remembers: what it asked for and has not read back, what it is giving back, and
\* the claims that it named in vain.
NewMemory == [asked |-> <<>>, giving |-> {}, passed_over |-> {}]

(***************************************************************************)
(* Who there is.                                                           *)
(***************************************************************************)
FreeClaims(me, seen) == {key \in me.keys : seen.owners[key] = NOBODY}

OwnedBy(me, seen, member) == {key \in me.keys : seen.owners[key] = member}

CountOf(me, seen, member) == Cardinality(OwnedBy(me, seen, member))

Asks(me, seen, member) == seen.requests[member] \in me.keys

KnownMembers(me, seen) ==
    {me.id} \cup {seen.owners[key] : key \in me.keys \ FreeClaims(me, seen)}
            \cup {member \in DOMAIN seen.requests : Asks(me, seen, member)}

\* Members may be of different topics.  That one can own a claim is known when it owns one of
\* the same topic, or asked for one.
CanOwn(me, seen, member, key) ==
    \/ member = me.id
    \/ \E other \in me.keys :
           /\ me.topic_of[other] = me.topic_of[key]
           /\ seen.owners[other] = member \/ seen.requests[member] = other

\* The others can know of it.
IsAnnounced(me, seen) == CountOf(me, seen, me.id) > 0 \/ Asks(me, seen, me.id)

(***************************************************************************)
(* A free claim is offered to the poorest.  Everybody who has read as much *)
(* offers the same claims to the same members, so nobody asks in vain.     *)
(* One that is not taken is offered to the next poorest, and after the     *)
(* last to the poorest again, which may not have looked while it had its   *)
(* turn.  `overdue` says how often it was passed on.                       *)
(***************************************************************************)
IsPoorer(counts, one, other) ==
    \/ counts[one] < counts[other]
    \/ counts[one] = counts[other] /\ one < other

Lowest(keys) == CHOOSE key \in keys : \A other \in keys : key <= other

\* The member with `rank` poorer members before it; ranks wrap around.
AtRank(counts, members, rank) ==
    CHOOSE member \in members :
        Cardinality({other \in members : IsPoorer(counts, other, member)})
        = rank % Cardinality(members)

\* The sets of one element make TLC work a value out once, and not wherever it is named.
RECURSIVE Offered(_, _, _, _, _)
Offered(me, seen, counts, free, overdue) ==
    IF free = {} THEN {}
    ELSE LET key  == Lowest(free)
             able == {member \in DOMAIN counts : CanOwn(me, seen, member, key)}
         IN  UNION {{<<key, taker>>}
                    \cup UNION {Offered(me, seen, more, free \ {key}, overdue) :
                                more \in {[counts EXCEPT ![taker] = @ + 1]}} :
                    taker \in {AtRank(counts, able, overdue)}}

\* Pairs of a free claim and the member that it is offered to.
Offers(me, seen, overdue) ==
    UNION {Offered(me, seen, counts, FreeClaims(me, seen) \ me.static, overdue) :
           counts \in {[member \in KnownMembers(me, seen) |-> CountOf(me, seen, member)]}}

OfferedToMe(me, seen, overdue) == {offer[1] : offer \in {o \in Offers(me, seen, overdue) : o[2] = me.id}}

(***************************************************************************)
(* What it asks for, of what is free.  Who is not announced asks for one:  *)
(* others may begin at the same moment, and it knows of none of them.      *)
(***************************************************************************)
AskedFor(memory) == {memory.asked[n] : n \in DOMAIN memory.asked}

\* How many more it may ask for.  What it asked for and did not expect to get, it may get.
Room(me, seen, memory, offered) ==
    LET has   == CountOf(me, seen, me.id)
        asked == Cardinality(AskedFor(memory) \ OwnedBy(me, seen, me.id))
        share == Cardinality(offered)
                 + Cardinality(me.static \cap FreeClaims(me, seen))
        room  == IF share < me.limit - has THEN share - asked ELSE me.limit - has - asked
    IN  IF IsAnnounced(me, seen) THEN room
        ELSE IF room > 0 /\ memory.asked = <<>> THEN 1 ELSE 0

RECURSIVE InOrder(_, _)
InOrder(keys, room) ==
    IF keys = {} \/ room <= 0 THEN <<>>
    ELSE WithAll(<<Lowest(keys)>>, InOrder(keys \ {Lowest(keys)}, room - 1))

\* Those it asked for by name come first.
ClaimsToAsk(me, seen, memory, offered) ==
    LET room   == Room(me, seen, memory, offered)
        static == InOrder((me.static \cap FreeClaims(me, seen)) \ AskedFor(memory), room)
        shared == InOrder(offered \ AskedFor(memory), room - Length(static))
    IN  WithAll(static, shared)

(***************************************************************************)
(* What it asks for although somebody owns it: a request for a share.      *)
(***************************************************************************)
\* With one, a move would only change places.
Difference == 2

IsRicher(me, seen, member) ==
    CountOf(me, seen, member) >= CountOf(me, seen, me.id) + Difference

OthersClaims(me, seen) == {key \in me.keys : seen.owners[key] \notin {NOBODY, me.id}}

\* Somebody poorer asks, and goes first.
IsForPoorer(me, seen, key) ==
    \E member \in DOMAIN seen.requests \ {me.id} :
        /\ Asks(me, seen, member)
        /\ CountOf(me, seen, member) < CountOf(me, seen, me.id)
        /\ CanOwn(me, seen, member, key)

\* Claims whose owner would give them.
Gettable(me, seen) ==
    {key \in OthersClaims(me, seen) :
        IsRicher(me, seen, seen.owners[key]) /\ ~IsForPoorer(me, seen, key)}

IsHungry(me, seen) == CountOf(me, seen, me.id) < me.limit /\ Gettable(me, seen) # {}

\* Its request stands, and there is reason to wait for the answer.
IsWaiting(me, seen) == seen.requests[me.id] \in Gettable(me, seen)

\* The richest first; of its claims one that nobody else asks for.
IsNamed(me, seen, key) == \E member \in DOMAIN seen.requests : member # me.id /\ seen.requests[member] = key

IsBetter(me, seen, one, other) ==
    LET counts == [key \in {one, other} |-> CountOf(me, seen, seen.owners[key])]
    IN  \/ counts[one] > counts[other]
        \/ /\ counts[one] = counts[other]
           /\ \/ seen.owners[one] < seen.owners[other]
              \/ /\ seen.owners[one] = seen.owners[other]
                 /\ \/ ~IsNamed(me, seen, one) /\ IsNamed(me, seen, other)
                    \/ IsNamed(me, seen, one) = IsNamed(me, seen, other) /\ one < other

Best(me, seen, keys) ==
    CHOOSE key \in keys : \A other \in keys \ {key} : IsBetter(me, seen, key, other)

\* An owner that did not answer may not give anything; one claim of it may be static.
Untried(seen, keys, passed_over) ==
    LET silent    == {seen.owners[key] : key \in passed_over}
        of_others == {key \in keys : seen.owners[key] \notin silent}
    IN  IF of_others # {} THEN of_others
        ELSE IF keys \ passed_over # {} THEN keys \ passed_over ELSE keys

ClaimToName(me, seen, passed_over) ==
    LET keys == IF IsHungry(me, seen) THEN Gettable(me, seen) ELSE OthersClaims(me, seen)
    IN  Best(me, seen, Untried(seen, keys, passed_over))

\* Also who is not hungry says that it is there, if nobody can know.
WantsToName(me, seen, memory, offered) ==
    /\ memory.asked = <<>>
    /\ ClaimsToAsk(me, seen, memory, offered) = <<>>
    /\ OthersClaims(me, seen) # {}
    /\ CountOf(me, seen, me.id) < me.limit
    /\ \/ ~IsAnnounced(me, seen)
       \/ IsHungry(me, seen) /\ ~IsWaiting(me, seen)

(***************************************************************************)
(* What it gives back.                                                     *)
(***************************************************************************)

\* What is on its way to be free, or free, is counted as the asker's.
OnTheWay(me, seen, memory, asker) ==
    Cardinality(memory.giving \cap OwnedBy(me, seen, me.id))
    + Cardinality({key \in FreeClaims(me, seen) : CanOwn(me, seen, asker, key)})

IsWorthGiving(me, seen, memory, asker) ==
    CountOf(me, seen, me.id) - Cardinality(memory.giving \cap OwnedBy(me, seen, me.id))
    >= CountOf(me, seen, asker) + OnTheWay(me, seen, memory, asker) + Difference

ClaimsToGive(me, seen, memory) ==
    {key \in OwnedBy(me, seen, me.id) \ (me.static \cup memory.giving) :
        \E asker \in DOMAIN seen.requests \ {me.id} :
            seen.requests[asker] = key /\ IsWorthGiving(me, seen, memory, asker)}

=============================================================================
