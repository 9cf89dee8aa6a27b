------------------------------ MODULE Controller -----------------------------
(***************************************************************************)
(* One controller of a partition of `__marshal_groups`: what it knows,     *)
(* what it may decide, what it sends, and when it answers.                 *)
(*                                                                         *)
(* A controller knows the log up to where it has read (its view), and the  *)
(* events that it sent and has not read back.  It does not know whether    *)
(* another one was started behind its view.                                *)
(*                                                                         *)
(* This module does not know how requests travel, nor how many controllers *)
(* there are: that is GroupWorld.tla.  It has no variables.                *)
(***************************************************************************)
EXTENDS GroupEvents

NewController ==
    [read    |-> 0,           \* as many records of the log it has read
     epoch   |-> NONE,        \* the epoch that it won, while it serves
     starts  |-> FALSE,       \* its ControllerStarted is on the way
     pending |-> <<>>,        \* what it sent in its epoch and has not read back
     waiting |-> {},          \* requests that it took: [member, connection, needs, sent, end]
     newest  |-> [m \in {} |-> 0]] \* of each member the latest connection that it knows

\* G1: between reading back its own start and reading another's.
IsServing(c, view) == c.epoch # NONE /\ c.epoch = view.epoch

\* What is if all that it sent lands.  It judges by this, and answers by its view.
Speculative(c, view) == Folded(view, c.pending)

HasGroup(view) == G \in DOMAIN view.groups
TheGroup(view) == view.groups[G]

(***************************************************************************)
(* Requests and what they come to.                                         *)
(*                                                                         *)
(* A request: [member, to, connection, as_of, held, positions, sent].      *)
(* as_of is NONE of a member without memory: it holds nothing, and that is *)
(* true only of the moment in which it was sent.  Of others the connection *)
(* does not matter, and is 0.  `sent` is when the member sent it.  Only    *)
(* the member looks at that, and knows it by the number of the answer.     *)
(***************************************************************************)
IsFresh(request) == request.as_of = NONE

NewestOf(c, m) == IF m \in DOMAIN c.newest THEN c.newest[m] ELSE 0

\* A member that connects again has closed the connection before.  What comes over the older one
\* after that may be older than what the member holds.
IsVoid(c, request) == IsFresh(request) /\ request.connection < NewestOf(c, request.member)

SaysSomething(group, event) ==
    \/ \E tp \in DOMAIN event.positions : PositionVerdict(group, event, tp) = "Committed"
    \/ \E tp \in NotHeld(group, event) : ReleaseVerdict(group, event, tp) = "Released"

\* The events of a request: one, or none if nothing comes of it.
EventsOfRequest(group, request) ==
    LET said == Reconcile(request.member, request.as_of, request.held, request.positions)
    IN  IF IsFresh(request) THEN <<Register(request.member, {"t"}, {}, TRUE)>>
        ELSE IF ~IsMember(group, request.member) THEN <<>>
        ELSE IF SaysSomething(group, said) THEN <<said>>
        ELSE <<>>

Sending(c, view, event) ==
    Record(NONE, c.epoch, Speculative(c, view).number + 1, KeyOf(event), event)

\* G2: it is answered when everything that the answer was judged by has landed, also if the
\* request itself needed no event.
Needs(c, view, events) == Speculative(c, view).number + Length(events)

HasLanded(c, view, wait) == view.number >= wait.needs

\* G3: an answer prolongs the session.  So it has asked the broker, after the request came in, for
\* the end of the log, and has read up to it: nobody had been started in its place by then.
IsConfirmed(c, wait) == wait.end # NONE /\ c.read >= wait.end

\* What an answer is read from.
AnswersFrom(c, view) == view

\* The answer to a member.  A member that is not known reads that in it, and begins without memory.
AnswerTo(group, m, connection, sent) ==
    [member     |-> m,
     connection |-> connection,
     sent       |-> sent,
     generation |-> group.generation,
     unknown    |-> ~IsMember(group, m),
     own        |-> [tp \in ToOwn(group, m) |->
                        [tenure |-> group.partitions[tp].tenure,
                         offset |-> group.partitions[tp].position]]]

Owes(group, m) == \E tp \in OwnedBy(group, m) : IsRevoking(group.partitions[tp])

\* A heartbeat is answered "register" while its member has something to learn, or to let go.  The
\* request in which it lets go may be lost, so the answer asks until that has arrived.
IsToRegister(group, m, generation) == MustRegister(group, m, generation) \/ Owes(group, m)

(***************************************************************************)
(* What it does next.                                                      *)
(***************************************************************************)
Taken(c, view, request, events) ==
    [c EXCEPT
        !.waiting = @ \cup {[member     |-> request.member,
                              connection |-> request.connection,
                              needs      |-> Needs(c, view, events),
                              sent       |-> request.sent,
                              end        |-> NONE]},
        !.newest  = [m \in DOMAIN @ \cup {request.member} |->
                        IF m = request.member THEN Max(NewestOf(c, m), request.connection)
                        ELSE @[m]]]

\* The broker said where the log ends.
EndIs(c, end) ==
    [c EXCEPT !.waiting = {IF wait.end = NONE THEN [wait EXCEPT !.end = end] ELSE wait : wait \in @}]

Sent(c, records) == [c EXCEPT !.pending = WithAll(@, records)]

\* It serves no longer, and what it did not answer is not answered.
Stopped(c) == [c EXCEPT !.epoch = NONE, !.pending = <<>>, !.waiting = {}]

IsOwnStart(me, record) ==
    record.event.type = "ControllerStarted" /\ record.event.controller_id = me

IsOwnEvent(c, record) ==
    record.event.type # "ControllerStarted" /\ c.epoch # NONE /\ record.epoch = c.epoch

\* Its own start: from here on it serves.  Connections from before are closed, since it does not
\* know what members learned elsewhere.
AfterOwnStart(c, record, verdict) ==
    IF verdict = "Started"
    THEN [c EXCEPT !.epoch = record.offset, !.starts = FALSE, !.pending = <<>>, !.waiting = {},
                   !.newest = [m \in {} |-> 0]]
    ELSE [c EXCEPT !.starts = FALSE]

\* One of its events was refused: one before it was lost, so it does not know what it decided.
AfterOwnEvent(c, verdict) ==
    IF verdict \in Accepted THEN [c EXCEPT !.pending = Rest(@)] ELSE Stopped(c)

AfterReading(me, c, record, verdict) ==
    LET read == [c EXCEPT !.read = @ + 1]
    IN  IF IsOwnStart(me, record)     THEN AfterOwnStart(read, record, verdict)
        ELSE IF verdict = "Started"   THEN Stopped(read)
        ELSE IF IsOwnEvent(c, record) THEN AfterOwnEvent(read, verdict)
        ELSE read

=============================================================================
