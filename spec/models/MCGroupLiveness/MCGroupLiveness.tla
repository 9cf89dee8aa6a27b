--------------------------- MODULE MCGroupLiveness ---------------------------
(***************************************************************************)
(* What eventually happens to a group whose members stop joining and       *)
(* leaving.                                                                *)
(*                                                                         *)
(* Members and controllers are those of GroupWorld.tla.  A member asks     *)
(* when a heartbeat told it to register; heartbeats themselves are not     *)
(* here.  A few requests or answers are lost, a member or a controller     *)
(* dies at any moment, and who is dead is given up in the end: no time     *)
(* passes here, and nobody is given up wrongly.                            *)
(***************************************************************************)
EXTENDS GroupProperties

CONSTANTS
    DeathsMax,            \* of members
    CrashesMax,           \* of controllers
    MessagesLostMax       \* requests and answers

VARIABLES
    dead,                 \* members that do nothing any more
    gone,                 \* controllers
    lost                  \* as many requests and answers

all == <<vars, dead, gone, lost>>

T(count) == [x \in {"t"} |-> Topic(count, "first")]
AllTo(m, count) == [tp \in PartitionsOf(T(count)) |-> m]

\* m1 owns all that there is; m2 does not know the group yet.
AloneAmong(count, rebalance) ==
    <<Start(NONE, 1), Create(T(count), rebalance), Register("m1", {"t"}, {}, TRUE),
      Rebalance(AllTo("m1", count))>>

AloneOne   == AloneAmong(1, "incremental")
AloneEager == AloneAmong(2, "eager")

\* m2 is a member and owns nothing, and no rebalance is due.
RestedOne == WithAll(AloneOne, <<Register("m2", {"t"}, {}, TRUE), Rebalance(AllTo("m1", 1))>>)

Nothing             == {}
NoRequest(m)        == 0
SaysNothing(self)   == NoFunction
EveryOne(request)   == TRUE

\* Connections count where a member has no memory.
AsksAnew(self) == IF self.fresh THEN [self EXCEPT !.connection = @ + 1] ELSE self

(***************************************************************************)
(* Members.                                                                *)
(***************************************************************************)
IsUnderWay(m) ==
    \/ \E request \in requests : request.member = m
    \/ \E c \in Controllers : \E wait \in controllers[c].waiting : wait.member = m
    \/ \E answer \in answers : answer.member = m

\* What a heartbeat would be answered.
IsTold(m, c) == IsToRegister(TheGroup(View(c)), m, members[m].generation)

Registers(m) ==
    /\ m \notin dead
    /\ ~IsUnderWay(m)
    /\ \E c \in Controllers :
           /\ Serves(c)
           /\ members[m].fresh \/ IsTold(m, c)
           /\ requests' = requests \cup {RequestOf(m, members[m], c, 0)}
    /\ members' = [members EXCEPT ![m] = AfterAsking(@)]
    /\ UNCHANGED <<appended, sending, controllers, answers, spent, clock, dead, gone, lost>>

Hears(m, answer) ==
    /\ answer.member = m
    /\ answers' = answers \ {answer}
    /\ members' =
           IF IsOld(members[m], answer) \/ IsClosed(members[m], answer) THEN members
           ELSE [members EXCEPT ![m] = AfterAnswer(@, answer)]
    /\ UNCHANGED <<appended, sending, controllers, requests, spent, clock, dead, gone, lost>>

\* The connection ends before the request is answered.
IsRefused(request) ==
    IsFresh(request) /\ (~Serves(request.to) \/ IsVoid(controllers[request.to], request))

HangsUp(request) ==
    /\ IsRefused(request)
    /\ requests' = requests \ {request}
    /\ UNCHANGED <<appended, sending, controllers, members, answers, spent, clock, dead, gone,
                   lost>>

LosesOne ==
    /\ lost < MessagesLostMax
    /\ lost' = lost + 1
    /\ \/ \E request \in requests : requests' = requests \ {request} /\ UNCHANGED answers
       \/ \E answer \in answers : answers' = answers \ {answer} /\ UNCHANGED requests
    /\ UNCHANGED <<appended, sending, controllers, members, spent, clock, dead, gone>>

Dies(m) ==
    /\ m \notin dead
    /\ Cardinality(dead) < DeathsMax
    /\ dead' = dead \cup {m}
    /\ members' = [members EXCEPT ![m].holds = {}]
    /\ answers' = {answer \in answers : answer.member # m}
    /\ UNCHANGED <<appended, sending, controllers, requests, spent, clock, gone, lost>>

(***************************************************************************)
(* Controllers.                                                            *)
(***************************************************************************)
Others == UNCHANGED <<dead, gone, lost>>

\* What it sent lands yet, or never.
Crashes(c) ==
    /\ c \notin gone
    /\ Cardinality(gone) < CrashesMax
    /\ gone' = gone \cup {c}
    /\ controllers' = [controllers EXCEPT ![c] = [Stopped(@) EXCEPT !.starts = FALSE]]
    /\ sending' \in {sending, [sending EXCEPT ![c] = <<>>]}
    /\ requests' = requests \ ConnectionsTo(c)
    /\ UNCHANGED <<appended, members, answers, spent, clock, dead, lost>>

NobodyServes ==
    \A c \in Controllers :
        ~controllers[c].starts /\ ~IsServing(controllers[c], Latest)

Takes(c) ==
    /\ c \notin gone
    /\ NobodyServes
    /\ controllers' = [controllers EXCEPT
           ![c] = [Stopped(controllers[c]) EXCEPT !.read = Length(appended), !.starts = TRUE]]
    /\ sending' = [sending EXCEPT
           ![c] = WithAll(@, <<Rightly(Latest, NONE, Start(Latest.epoch, c))>>)]
    /\ UNCHANGED <<appended, members, requests, answers, spent, clock>> /\ Others

\* Who is dead is given up, and nobody else.
GivesUp(c, m) ==
    /\ m \in dead
    /\ Serves(c)
    /\ IsMember(Foreseen(c), m)
    /\ Decide(c, controllers[c], <<Expire(m)>>)
    /\ UNCHANGED <<appended, members, requests, answers, spent, clock>> /\ Others

ReadsOn(c)    == Read(c) /\ Others
LandsOne(c)   == Land(c) /\ Others
Rebalances(c) == DecideRebalance(c) /\ Others
Receives(c)   == (\E request \in requests : Receive(c, request)) /\ Others
AnswersOne(c) == (\E wait \in controllers[c].waiting : Answer(c, wait)) /\ Others
GivesUpOne(c) == \E m \in Ms : GivesUp(c, m)
HearsOne(m)   == \E answer \in answers : Hears(m, answer)
HangsUpOne    == \E request \in requests : HangsUp(request)

InitLiving == Init /\ dead = {} /\ gone = {} /\ lost = 0

NextLiving ==
    \/ \E c \in Controllers :
           \/ ReadsOn(c) \/ LandsOne(c) \/ Rebalances(c) \/ Receives(c) \/ AnswersOne(c)
           \/ GivesUpOne(c) \/ Takes(c) \/ Crashes(c)
    \/ \E m \in Ms : Registers(m) \/ HearsOne(m) \/ Dies(m)
    \/ HangsUpOne
    \/ LosesOne

(***************************************************************************)
(* Fairness, one assumption at a time.  Each says when it can be done, as  *)
(* its action does: to find that out, TLC would try the action in every    *)
(* state, and take minutes for a thousand of them.                         *)
(***************************************************************************)
CanRead(c)      == Reads(c) /\ controllers[c].read < Length(appended)
CanLand(c)      == Length(sending[c]) > 0
CanRebalance(c) == Serves(c) /\ IsDue(Foreseen(c))
CanGiveUp(c)    == Serves(c) /\ \E m \in dead : IsMember(Foreseen(c), m)
CanTake(c)      == c \notin gone /\ NobodyServes
CanReceive(c)   ==
    /\ Serves(c)
    /\ \E request \in requests :
           request.to \in {c, NONE} /\ ~IsVoid(controllers[c], request)
CanAnswer(c)    ==
    Serves(c) /\ \E wait \in controllers[c].waiting : HasLanded(controllers[c], View(c), wait)
CanHangUp       == \E request \in requests : IsRefused(request)
CanRegister(m)  ==
    /\ m \notin dead
    /\ ~IsUnderWay(m)
    /\ \E c \in Controllers : Serves(c) /\ (members[m].fresh \/ IsTold(m, c))
CanHear(m)      == \E answer \in answers : answer.member = m

FairRead(c)      == []<>~CanRead(c)      \/ []<><<ReadsOn(c)>>_all
FairLand(c)      == []<>~CanLand(c)      \/ []<><<LandsOne(c)>>_all
FairRebalance(c) == []<>~CanRebalance(c) \/ []<><<Rebalances(c)>>_all
FairGiveUp(c)    == []<>~CanGiveUp(c)    \/ []<><<GivesUpOne(c)>>_all
FairTake(c)      == []<>~CanTake(c)      \/ []<><<Takes(c)>>_all
FairReceive(c)   == []<>~CanReceive(c)   \/ []<><<Receives(c)>>_all
FairAnswer(c)    == []<>~CanAnswer(c)    \/ []<><<AnswersOne(c)>>_all
FairHangUp       == []<>~CanHangUp       \/ []<><<HangsUpOne>>_all
FairRegister(m)  == []<>~CanRegister(m)  \/ []<><<Registers(m)>>_all
FairHear(m)      == []<>~CanHear(m)      \/ []<><<HearsOne(m)>>_all

FairLog      == \A c \in Controllers : FairRead(c) /\ FairLand(c)
FairRequests == (\A c \in Controllers : FairReceive(c) /\ FairAnswer(c)) /\ FairHangUp
FairMembers  == \A m \in Ms : FairRegister(m) /\ FairHear(m)
FairTargets  == \A c \in Controllers : FairRebalance(c)
FairSessions == \A c \in Controllers : FairGiveUp(c)
FairClaims   == \A c \in Controllers : FairTake(c)

Living == InitLiving /\ [][NextLiving]_all

FairSpec ==
    Living /\ FairLog /\ FairRequests /\ FairMembers /\ FairTargets /\ FairSessions /\ FairClaims
WithoutLog ==
    Living /\ FairRequests /\ FairMembers /\ FairTargets /\ FairSessions /\ FairClaims
WithoutRequests ==
    Living /\ FairLog /\ FairMembers /\ FairTargets /\ FairSessions /\ FairClaims
WithoutMembers ==
    Living /\ FairLog /\ FairRequests /\ FairTargets /\ FairSessions /\ FairClaims
WithoutTargets ==
    Living /\ FairLog /\ FairRequests /\ FairMembers /\ FairSessions /\ FairClaims
WithoutSessions ==
    Living /\ FairLog /\ FairRequests /\ FairMembers /\ FairTargets /\ FairClaims
WithoutClaims ==
    Living /\ FairLog /\ FairRequests /\ FairMembers /\ FairTargets /\ FairSessions

(***************************************************************************)
(* What must come, and stay.                                               *)
(***************************************************************************)
Alive == Ms \ dead

\* Whatever is wanted is owned by its target, who lives, holds it, and owes nothing.
IsAtPeace ==
    LET group == TheLatestGroup
    IN  /\ ~IsDue(group)
        /\ Members(group) = Alive
        /\ \A tp \in Wanted(group) :
               LET partition == group.partitions[tp]
               IN  /\ partition.owner = partition.target
                   /\ partition.owner \in Alive
                   /\ ~IsRevoking(partition)
                   /\ tp \in members[partition.owner].holds

RebalanceEnds == <>[]IsAtPeace

DeadMemberReplaced ==
    \A m \in Ms :
        m \in dead ~> (\A tp \in DOMAIN TheLatestGroup.partitions :
                           TheLatestGroup.partitions[tp].owner \in Alive)

ControllerReplaced ==
    \A c \in Controllers :
        c \in gone ~> (\E other \in Controllers \ gone : IsServing(controllers[other], Latest))

\* The bound of the log is no reason for anything to end.
NeverFull == HasRoom(1)

(***************************************************************************)
(* In the place of a rule, in the configurations that must fail.           *)
(***************************************************************************)
ToldOnce(group, m, generation) == MustRegister(group, m, generation)

\* Only those who come are a reason.
DueToJoins(group) == Members(group) \ DOMAIN group.target_of.members # {}

=============================================================================
