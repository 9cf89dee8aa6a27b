----------------------------- MODULE GroupMember -----------------------------
(***************************************************************************)
(* One member of a group: what it was told, what it holds, what it says.   *)
(*                                                                         *)
(* A member reads no log.  It knows what controllers answered, and that an *)
(* answer may be old.  This module does not know how answers travel: that  *)
(* is GroupWorld.tla.  It has no variables.                                *)
(***************************************************************************)
EXTENDS Controller

\* `at` keeps where it got in what it held: it may say so after it let go.
NewMember ==
    [generation |-> 0,        \* the latest that it was told
     fresh      |-> TRUE,     \* nobody told it yet that it is a member
     holds      |-> {},
     at         |-> [tp \in {} |-> NONE],
     connection |-> 0]        \* the latest

\* A member that holds all that the group says it owns.
MemberAt(group, m) ==
    [generation |-> group.generation,
     fresh      |-> FALSE,
     holds      |-> ToOwn(group, m),
     at         |-> [tp \in ToOwn(group, m) |->
                        [tenure |-> group.partitions[tp].tenure,
                         offset |-> Max(group.partitions[tp].position, 0)]],
     connection |-> 1]

\* What it commits.
Says(self) == self.at

\* The request that it may send.  `to` is whom a connection leads to: only what says nothing
\* but "I hold nothing" depends on that.
RequestOf(m, self, to, now) ==
    [member     |-> m,
     to         |-> IF self.fresh THEN to ELSE NONE,
     connection |-> IF self.fresh THEN self.connection + 1 ELSE 0,
     as_of      |-> IF self.fresh THEN NONE ELSE self.generation,
     held       |-> self.holds,
     positions  |-> IF self.fresh THEN NoFunction ELSE Says(self),
     sent       |-> now]

AfterAsking(self) == [self EXCEPT !.connection = @ + 1]

\* G9.
IsOld(self, answer) == answer.generation < self.generation

\* Who connects again has closed the connection before.  If it heard more over that one, it would
\* hold something while it says that it holds nothing.
IsClosed(self, answer) == answer.connection \notin {0, self.connection}

\* It goes on where the tenure is its own, and starts anew from the told offset elsewhere.
GoesOn(self, answer, tp) ==
    tp \in self.holds /\ self.at[tp].tenure = answer.own[tp].tenure

ToldAt(answer, tp) ==
    [tenure |-> answer.own[tp].tenure, offset |-> Max(answer.own[tp].offset, 0)]

AfterAnswer(self, answer) ==
    IF answer.unknown
    THEN [self EXCEPT !.generation = answer.generation, !.fresh = TRUE, !.holds = {}]
    ELSE [self EXCEPT
             !.generation = answer.generation,
             !.fresh      = FALSE,
             !.holds      = DOMAIN answer.own,
             !.at         = [tp \in DOMAIN @ \cup DOMAIN answer.own |->
                                IF tp \notin DOMAIN answer.own \/ GoesOn(self, answer, tp)
                                THEN @[tp] ELSE ToldAt(answer, tp)]]

\* G5: until when it goes on.  It counts from when it sent what was answered, and an answer that
\* comes late does not take back what one before it gave.
GoesOnUntil(until, answer, lease, now) == Max(until, answer.sent + lease)

Processed(self, tp) == [self EXCEPT !.at[tp].offset = @ + 1]

=============================================================================
