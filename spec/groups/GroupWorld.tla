----------------------------- MODULE GroupWorld ------------------------------
(***************************************************************************)
(* The world around one group: a log, controllers that compete for it,     *)
(* members that ask them, and what can go wrong.                           *)
(*                                                                         *)
(* Records of one controller land in the order in which it sent them, at   *)
(* any later time, or never.  Requests and answers arrive late, in any     *)
(* order, or never; a request of a member with memory arrives as often as  *)
(* it likes, at any controller.  One without memory hangs on a connection  *)
(* and arrives once.  Any controller may be started at any moment, and     *)
(* gives up any member, rightly or wrongly.                                *)
(*                                                                         *)
(* Time passes where a session has an end.  Where Timeout is 0 no time     *)
(* passes, members are given up at any moment, and one that was given up   *)
(* may go on.                                                              *)
(***************************************************************************)
EXTENDS GroupMember

CONSTANTS
    Beginning,            \* the first events, all accepted
    ToldAfter,            \* as many of them members know of
    FirstRequests,        \* what was sent before, and may arrive yet
    FirstAnswers,
    Controllers,          \* their ids
    Ms,                   \* ids of members
    LogMax,
    RequestsMax(_),       \* as many requests a member sends
    ElectionsMax,
    ExpiriesMax,
    RewindsMax,
    LossesMax,            \* as many records never land
    MessagesMax           \* in each partition

VARIABLES
    appended,                  \* [record, verdict, after]: the log, and what each record came to
    sending,              \* of each controller: records on their way to the log
    controllers,
    members,
    requests,             \* sent, and to be received
    answers,              \* sent, and to be heard
    spent,                \* what of the bounds is used up
    clock                 \* [now, until, heard, asleep], below

vars == <<appended, sending, controllers, members, requests, answers, spent, clock>>

(***************************************************************************)
(* Time.  One clock: controllers and members differ in what they count by  *)
(* it.  `until` is when each member stops by itself, `heard` when each     *)
(* controller last heard of each member, or began to listen (G4), and      *)
(* `asleep` which controllers do nothing for a while.                      *)
(***************************************************************************)
Timeout == 0              \* how long a member may be silent before a controller gives it up
LeaseTime == Timeout      \* how long a member goes on after it sent what was answered
TimeMax == 0
SleepsMax == 0

\* Whether each member asks once a tick, and is read within it by who serves and is awake.
IsPunctual == FALSE

HasTime == Timeout > 0

IsStopped(m) == clock.now >= clock.until[m]

IsSilent(c, m) == clock.now - clock.heard[c][m] >= Timeout

\* It begins to listen when it has read back its own start.
ListensFrom(c, now) == [clock.heard EXCEPT ![c] = [m \in Ms |-> now]]

(***************************************************************************)
(* The log.                                                                *)
(***************************************************************************)
FirstRecords == RightlyAll(NewControllership, 0, Beginning)

RECURSIVE LogOf(_, _)
LogOf(before, records) ==
    IF Length(records) = 0 THEN <<>>
    ELSE LET outcome == Step(before, First(records))
         IN  WithAll(<<[record |-> First(records), verdict |-> outcome.verdict,
                        after |-> outcome.controllership]>>,
                     LogOf(outcome.controllership, Rest(records)))

After0(n)  == IF n = 0 THEN NewControllership ELSE appended[n].after
GroupAt(n) == TheGroup(Folded(NewControllership, FirstOf(FirstRecords, n)))
Latest     == After0(Length(appended))
View(c)    == After0(controllers[c].read)
TheLatestGroup == TheGroup(Latest)

OnTheWay == UNION {{sending[c][k] : k \in DOMAIN sending[c]} : c \in Controllers}

RECURSIVE SumOf(_)
SumOf(ids) == IF ids = {} THEN 0
              ELSE LET c == CHOOSE id \in ids : TRUE
                   IN  Length(sending[c]) + SumOf(ids \ {c})

HasRoom(n) == Length(appended) + SumOf(Controllers) + n <= LogMax

Init ==
    /\ appended = LogOf(NewControllership, FirstRecords)
    /\ sending = [c \in Controllers |-> <<>>]
    /\ controllers =
           [c \in Controllers |->
               IF c = 1
               THEN [NewController EXCEPT
                         !.read   = Length(Beginning),
                         !.epoch  = 0,
                         !.newest = [m \in Members(GroupAt(ToldAfter)) |-> 1]]
               ELSE NewController]
    /\ members =
           [m \in Ms |-> IF IsMember(GroupAt(ToldAfter), m)
                         THEN MemberAt(GroupAt(ToldAfter), m) ELSE NewMember]
    /\ requests = FirstRequests
    /\ answers = FirstAnswers
    /\ spent = [requests |-> [m \in Ms |-> 0], elections |-> 0, expiries |-> 0, rewinds |-> 0,
                losses |-> 0, sleeps |-> 0]
    /\ clock = [now   |-> 0,
                until |-> [m \in Ms |-> LeaseTime],
                heard |-> [c \in Controllers |-> [m \in Ms |-> 0]],
                asleep |-> {}]

\* One that neither serves nor was started has no reason to read on: it folds when it competes.
Reads(c) == controllers[c].starts \/ controllers[c].epoch # NONE

HasAsked(m) == spent.requests[m] > clock.now

Serves(c) == IsServing(controllers[c], View(c)) /\ c \notin clock.asleep

\* No log and no request is left unread by who could read it.
IsAtRest(c) ==
    /\ Reads(c) /\ c \notin clock.asleep => controllers[c].read = Length(appended)
    /\ Serves(c) => requests = {}

Tick ==
    /\ clock.now < TimeMax
    /\ IsPunctual => (\A c \in Controllers : IsAtRest(c)) /\ (\A m \in Ms : HasAsked(m))
    /\ clock' = [clock EXCEPT !.now = @ + 1]
    /\ UNCHANGED <<appended, sending, controllers, members, requests, answers, spent>>

(***************************************************************************)
(* Controllers.                                                            *)
(***************************************************************************)

\* It folds what there is, and then competes for the epoch that it found.
Compete(c) ==
    /\ spent.elections < ElectionsMax
    /\ HasRoom(1)
    /\ ~controllers[c].starts
    /\ ~IsServing(controllers[c], Latest)
    /\ controllers' = [controllers EXCEPT
           ![c] = [Stopped(controllers[c]) EXCEPT !.read = Length(appended), !.starts = TRUE]]
    /\ sending' = [sending EXCEPT
           ![c] = WithAll(@, <<Rightly(Latest, NONE, Start(Latest.epoch, c))>>)]
    /\ spent' = [spent EXCEPT !.elections = @ + 1]
    /\ UNCHANGED <<appended, members, requests, answers, clock>>

Land(c) ==
    /\ Length(sending[c]) > 0
    /\ LET record  == [First(sending[c]) EXCEPT !.offset = Length(appended)]
           outcome == Step(Latest, record)
       IN  appended' = WithAll(appended, <<[record |-> record, verdict |-> outcome.verdict,
                                  after |-> outcome.controllership]>>)
    /\ sending' = [sending EXCEPT ![c] = Rest(@)]
    /\ UNCHANGED <<controllers, members, requests, answers, spent, clock>>

\* The broker never gets it, and gets what was sent behind it.
Lose(c) ==
    /\ Length(sending[c]) > 0
    /\ spent.losses < LossesMax
    /\ sending' = [sending EXCEPT ![c] = Rest(@)]
    /\ spent' = [spent EXCEPT !.losses = @ + 1]
    /\ UNCHANGED <<appended, controllers, members, requests, answers, clock>>

ConnectionsTo(c) == {request \in requests : IsFresh(request) /\ request.to = c}

Read(c) ==
    /\ Reads(c)
    /\ c \notin clock.asleep
    /\ controllers[c].read < Length(appended)
    /\ LET next  == appended[controllers[c].read + 1]
           after == AfterReading(c, controllers[c], next.record, next.verdict)
           began == IsOwnStart(c, next.record) /\ next.verdict = "Started"
       IN  /\ controllers' = [controllers EXCEPT ![c] = after]
           /\ requests' = IF began THEN requests \ ConnectionsTo(c) ELSE requests
           /\ clock' = IF began THEN [clock EXCEPT !.heard = ListensFrom(c, clock.now)] ELSE clock
    /\ UNCHANGED <<appended, sending, members, answers, spent>>

Decide(c, after, events) ==
    /\ HasRoom(Length(events))
    /\ LET records == [k \in DOMAIN events |-> Sending(controllers[c], View(c), events[k])]
       IN  /\ controllers' = [controllers EXCEPT ![c] = Sent(after, records)]
           /\ sending' = [sending EXCEPT ![c] = WithAll(@, records)]

\* Its program is held up: it does nothing, and what it is asked waits.
Sleep(c) ==
    /\ spent.sleeps < SleepsMax
    /\ Serves(c)
    /\ clock' = [clock EXCEPT !.asleep = @ \cup {c}]
    /\ spent' = [spent EXCEPT !.sleeps = @ + 1]
    /\ UNCHANGED <<appended, sending, controllers, members, requests, answers>>

\* What it slept through was no silence.
Wake(c) ==
    /\ c \in clock.asleep
    /\ clock' = [clock EXCEPT !.asleep = @ \ {c}, !.heard = ListensFrom(c, clock.now)]
    /\ UNCHANGED <<appended, sending, controllers, members, requests, answers, spent>>


Foreseen(c) == TheGroup(Speculative(controllers[c], View(c)))

ArrivesOnce(request) == IsFresh(request)

Receive(c, request) ==
    /\ Serves(c)
    /\ request.to \in {c, NONE}
    /\ ~IsVoid(controllers[c], request)
    /\ LET events == EventsOfRequest(Foreseen(c), request)
       IN  Decide(c, Taken(controllers[c], View(c), request, events), events)
    /\ requests' = IF ArrivesOnce(request) THEN requests \ {request} ELSE requests
    /\ clock' = [clock EXCEPT !.heard[c][request.member] = clock.now]
    /\ UNCHANGED <<appended, members, answers, spent>>

\* The broker answers all that wait with where the log ends now.
Confirm(c) ==
    /\ HasTime
    /\ Serves(c)
    /\ controllers' = [controllers EXCEPT ![c] = EndIs(@, Length(appended))]
    /\ controllers' # controllers
    /\ UNCHANGED <<appended, sending, members, requests, answers, spent, clock>>

Answer(c, wait) ==
    /\ Serves(c)
    /\ HasLanded(controllers[c], View(c), wait)
    /\ HasTime => IsConfirmed(controllers[c], wait)
    /\ controllers' = [controllers EXCEPT ![c].waiting = @ \ {wait}]
    /\ answers' = answers \cup
           {AnswerTo(TheGroup(AnswersFrom(controllers[c], View(c))), wait.member,
                     wait.connection, wait.sent)}
    /\ UNCHANGED <<appended, sending, members, requests, spent, clock>>

\* G10: any target that is right, when one is due.
TargetsOf(group) ==
    IF Members(group) = {} THEN {NoFunction} ELSE [Wanted(group) -> Members(group)]

DecideRebalance(c) ==
    /\ Serves(c)
    /\ IsDue(Foreseen(c))
    /\ \E target \in TargetsOf(Foreseen(c)) : Decide(c, controllers[c], <<Rebalance(target)>>)
    /\ UNCHANGED <<appended, members, requests, answers, spent, clock>>

GiveUp(c, m) ==
    /\ Serves(c)
    /\ spent.expiries < ExpiriesMax
    /\ IsMember(Foreseen(c), m)
    /\ IsSilent(c, m)
    /\ Decide(c, controllers[c], <<Expire(m)>>)
    /\ spent' = [spent EXCEPT !.expiries = @ + 1]
    /\ UNCHANGED <<appended, members, requests, answers, clock>>

DecideRewind(c) ==
    /\ Serves(c)
    /\ spent.rewinds < RewindsMax
    /\ Decide(c, controllers[c],
              <<Rewind([tp \in PartitionsOf(Foreseen(c).topics) |-> 0])>>)
    /\ spent' = [spent EXCEPT !.rewinds = @ + 1]
    /\ UNCHANGED <<appended, members, requests, answers, clock>>

(***************************************************************************)
(* Members.                                                                *)
(***************************************************************************)
Ask(m) ==
    /\ IsPunctual => ~HasAsked(m)
    /\ spent.requests[m] < RequestsMax(m)
    /\ \E to \in (IF members[m].fresh THEN Controllers ELSE {1}) :
           requests' = requests \cup {RequestOf(m, members[m], to, clock.now)}
    /\ members' = [members EXCEPT ![m] = AfterAsking(@)]
    /\ spent' = [spent EXCEPT !.requests[m] = @ + 1]
    /\ UNCHANGED <<appended, sending, controllers, answers, clock>>

Hear(m, answer) ==
    /\ answer.member = m
    /\ ~IsOld(members[m], answer)
    /\ ~IsClosed(members[m], answer)
    /\ members' = [members EXCEPT ![m] = AfterAnswer(@, answer)]
    /\ clock' = [clock EXCEPT !.until[m] = GoesOnUntil(@, answer, LeaseTime, clock.now)]
    /\ <<members', clock'>> # <<members, clock>>
    /\ UNCHANGED <<appended, sending, controllers, requests, answers, spent>>

Process(m, tp) ==
    /\ members[m].at[tp].offset < MessagesMax
    /\ members' = [members EXCEPT ![m] = Processed(@, tp)]
    /\ UNCHANGED <<appended, sending, controllers, requests, answers, spent, clock>>

Next ==
    \/ \E c \in Controllers :
           \/ Compete(c) \/ Land(c) \/ Lose(c) \/ Read(c)
           \/ DecideRebalance(c) \/ DecideRewind(c)
           \/ \E m \in Ms : GiveUp(c, m)
           \/ \E request \in requests : Receive(c, request)
           \/ Confirm(c) \/ Sleep(c) \/ Wake(c)
           \/ \E wait \in controllers[c].waiting : Answer(c, wait)
    \/ \E m \in Ms :
           \/ Ask(m)
           \/ \E answer \in answers : Hear(m, answer)
           \/ \E tp \in members[m].holds : Process(m, tp)
    \/ Tick

Spec == Init /\ [][Next]_vars

=============================================================================
