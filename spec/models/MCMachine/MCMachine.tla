------------------------------ MODULE MCMachine ------------------------------
(***************************************************************************)
(* One machine, and a log in which anybody writes anything.                *)
(*                                                                         *)
(* Instances that keep the rules bring a reader and a consumer into few of *)
(* the situations that their operators distinguish.  Here every record may *)
(* follow every other, and the machine does whatever its guards allow.     *)
(* What it reads, what it may do, what it would send and what it would     *)
(* remember is exported and held against the Python.  Nothing is promised  *)
(* here: records that lie about what was seen are believed.                *)
(***************************************************************************)
EXTENDS Consumer, Export

CONSTANTS
    Self,                 \* who the machine is
    RecordsAt(_),         \* the records that may stand at an offset
    Begins,               \* where it may begin to read
    LogMax

VARIABLES
    machine,
    deed                  \* what it did last; not part of the VIEW

vars == <<machine, deed>>

Init ==
    /\ machine \in {NewConsumer(first) : first \in Begins}
    /\ deed = <<"Begin">>

Does(name, may, after) ==
    /\ may = PASSES
    /\ machine' = after
    /\ deed' = <<name>>

Read ==
    /\ machine.view < LogMax
    /\ \E record \in RecordsAt(machine.view) :
           /\ machine' = AfterRead(Self, machine, record)
           /\ deed' = <<"Read", record>>

Next ==
    \/ Read
    \/ Does("Claim", MayClaim(Self, machine), AfterClaimingPartition(Self, machine))
    \/ Does("Release", MayRelease(Self, machine), AfterRelease(Self, machine))
    \/ Does("Process", MayProcess(Self, machine, machine.next), AfterProcess(Self, machine))
    \/ Does("ProcessGrant", MayProcessGrant(Self, machine), AfterProcessGrant(Self, machine))
    \/ Does("GiveUp", MayGiveUp(Self, machine), AfterGivingUp(Self, machine))

Spec == Init /\ [][Next]_vars

\* A reader only: it does nothing but read.
ReadsOnly == Init /\ [][Read]_vars

Machine == machine

(***************************************************************************)
(* Rows.  The durations stand in every one, so that a row says all.        *)
(***************************************************************************)
Durations == <<HeartbeatIntervalMs, PauseMaxMs, ClockRewindMaxMs>>

ExportReader ==
    Export(<<"Reader", Durations, 0, machine.reader, deed'[2], machine'.reader>>)

ExportRead ==
    deed'[1] = "Read" =>
        Export(<<"Read", Durations, Self, machine, deed'[2], machine'>>)

Offsets == -1 .. 5

Answers(me, c) ==
    [claim          |-> MayClaim(me, c),
     act_as_owner   |-> MayActAsOwner(me, c),
     heartbeat      |-> MayHeartbeat(me, c),
     release        |-> MayRelease(me, c),
     release_group  |-> MayReleaseGroup(me, c),
     process_grant  |-> MayProcessGrant(me, c),
     give_up        |-> MayGiveUp(me, c),
     claim_messages |-> [offset \in Offsets |-> MayClaimMessages(me, c, offset)],
     process        |-> [message \in Offsets |-> MayProcess(me, c, message)]]

\* Whether it may or not: what is sent follows from what it knows.
Sending(me, c) ==
    [claiming_partition  |-> ClaimingPartitionSent(me, c),
     heartbeat           |-> HeartbeatSent(me, c),
     releasing_partition |-> ReleasingPartitionSent(me, c),
     position            |-> PositionSent(me, c, 3),
     claiming_messages   |-> ClaimingMessagesSent(me, c, 4),
     release_group       |-> ReleaseGroupSent(me, c, 7)]

Remembering(me, c) ==
    [claiming_partition |-> AfterClaimingPartition(me, c),
     release            |-> AfterRelease(me, c),
     claiming_messages  |-> AfterClaimingMessages(me, c, 4),
     process            |-> AfterProcess(me, c),
     process_grant      |-> AfterProcessGrant(me, c),
     giving_up          |-> AfterGivingUp(me, c)]

\* Before the first record there is nothing that it could have seen.
ExportState ==
    machine'.reader.claim.clock_ms # NONE /\ FirstTime(machine') =>
        Export(<<"State", Durations, Self, machine',
                 [may       |-> Answers(Self, machine'),
                  sends     |-> Sending(Self, machine'),
                  remembers |-> Remembering(Self, machine')], 0>>)

ExportMachine == ExportRead /\ ExportState

(***************************************************************************)
(* Who there is.                                                           *)
(***************************************************************************)
ClientOf == [a1 |-> "a", a2 |-> "a", b1 |-> "b", admin |-> "admin"]

Being(i) ==
    [instance_id |-> i,
     client_id   |-> ClientOf[i],
     admin       |-> i = "admin",
     headerless  |-> FALSE,
     certifies   |-> TRUE,
     mode        |-> "ALO",
     window      |-> 2,
     batch       |-> 2,
     start       |-> 0,
     rules       |-> "fenced",
     now_ms      |-> 0]

AtLeastOnce  == Being("a1")
AtMostOnce   == [Being("a1") EXCEPT !.mode = "AMO"]
SaysNothing  == [Being("a1") EXCEPT !.certifies = FALSE, !.window = 1, !.start = 2]
Admin        == Being("admin")

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
OneRecord(n, time, headers, message) ==
    [offset |-> n, timestamp_ms |-> time, headers |-> headers, message |-> message]

By(i, type, offset) == Message(Being(i), type, offset)

Pause(i, expires_unix_s) ==
    [By(i, "ReleaseGroup", NONE) EXCEPT !.expires_unix_s = expires_unix_s]

Present              == [NoHeaders EXCEPT !.present = TRUE]
WithEpoch(epoch)     == [Present EXCEPT !.epoch = epoch]
WithSupersedes(old)  == [Present EXCEPT !.supersedes = old]
Saw(epoch, seen, clock) == [WithEpoch(epoch) EXCEPT !.seen = seen, !.clock = clock]
Sets(headers)        == [headers EXCEPT !.set_position = 0]
Began(headers)       == [headers EXCEPT !.start = 0]

OwnerTypes == {"Heartbeat", "ClaimingMessages", "ReleasingPartition"}

ClaimsAt(n, senders, times, headers) ==
    {OneRecord(n, time, each, By(sender, "ClaimingPartition", NONE)) :
        time \in times, sender \in senders, each \in headers}

OwnersAt(n, types, senders, times, offsets, headers) ==
    {OneRecord(n, time, each, By(sender, type, offset)) :
        type \in types, time \in times, sender \in senders, offset \in offsets,
        each \in headers}

PausesAt(n, senders, times, expiries) ==
    {OneRecord(n, time, NoHeaders, Pause(sender, expires)) :
        time \in times, sender \in senders, expires \in expiries}

\* A sender that cannot write its headers, or from another log, or of a later version.
OddAt(n, times) ==
    {OneRecord(n, time, headers,
            IF type = "ReleaseGroup" THEN Pause("a1", 9) ELSE By("a1", type, 2)) :
        type \in MessageTypes, time \in times,
        headers \in {WithEpoch(NOT_DECIMAL), Saw(0, 1, NOT_DECIMAL), Saw(0, n, 1000),
                     Saw(n, 1, 1000)}}
    \cup
    {OneRecord(n, time, headers,
            [IF type = "ReleaseGroup" THEN Pause("a1", 9) ELSE By("a1", type, 2)
                EXCEPT !.version = 2]) :
        type \in MessageTypes, time \in times, headers \in {NoHeaders, Saw(0, 1, 1000)}}

\* With an interval of one second, a pause of at most three and a clock that steps back by
\* one: after a first record at 1000, a pause may last until 5000, and an owner at 4000 was
\* silent for exactly two intervals at 6000.
Times == {1000, 2000, 4000, 5000, 6000}

HeadersOfOwners ==
    {NoHeaders, Present, WithEpoch(0), WithEpoch(1),
     Saw(0, 0, 1000), Saw(0, 1, 1000), Saw(1, 1, 3000), Saw(1, 2, 5500), Saw(2, 2, 1000),
     [Saw(1, 1, NONE) EXCEPT !.present = TRUE], Saw(1, NONE, 3000), Sets(Saw(1, 1, 3000)),
     Sets(Present), Began(Saw(1, 1, 3000))}

\* Every kind of record, in logs of two that begin at offset 2.
Wide(n) ==
    ClaimsAt(n, {"a1", "a2", "b1", "admin"}, Times,
             {NoHeaders, Present, WithSupersedes(1), WithSupersedes(2)})
    \cup OwnersAt(n, OwnerTypes, {"a1"}, {1000, 4000}, {-3, 0, 2, 3}, HeadersOfOwners)
    \cup OwnersAt(n, OwnerTypes, {"b1"}, {4000}, {2}, HeadersOfOwners)
    \cup PausesAt(n, {"a1", "admin"}, Times, {0, 3, 9})
    \cup OddAt(n, {1000, 6000})

\* Fewer records, longer logs: what is certain after what was.
Deep(n) ==
    ClaimsAt(n, {"a1", "b1"}, {1000, 2000, 6000},
             {NoHeaders, WithSupersedes(2), WithSupersedes(3)})
    \cup OwnersAt(n, OwnerTypes, {"a1"}, {2000}, {0, 2},
                  {NoHeaders, WithEpoch(2), Saw(2, 2, 1000), Saw(3, n - 1, 3000)})
    \cup OwnersAt(n, {"ReleasingPartition"}, {"a1", "admin"}, {2000}, {-3, 1},
                  {NoHeaders, Sets(WithEpoch(3))})
    \cup PausesAt(n, {"a1", "admin"}, {1000}, {0, 9})
    \cup ClaimsAt(n, {"admin"}, {2000}, {Present})

\* What a consumer meets: its own records, those of its successor, of another and of an
\* administrator.
Met(n) ==
    ClaimsAt(n, {"a1", "a2", "b1"}, {1000, 6000}, {Present, WithSupersedes(Max(n - 1, 0))})
    \cup OwnersAt(n, OwnerTypes, {"a1"}, {2000}, {1, 3},
                  {Saw(Max(n - 1, 0), n - 1, 1000), WithEpoch(Max(n - 2, 0))})
    \cup OwnersAt(n, {"ClaimingMessages"}, {"b1"}, {2000}, {3}, {WithEpoch(Max(n - 1, 0))})
    \cup PausesAt(n, {"admin"}, {1000}, {0})
    \cup ClaimsAt(n, {"admin"}, {2000}, {Present})
    \cup OwnersAt(n, {"ReleasingPartition"}, {"admin", "a1"}, {2000}, {0},
                  {Sets(WithEpoch(Max(n - 1, 0)))})

OneSecond == 1000

(***************************************************************************)
(* What a machine must and must not do, by what it remembers and by the    *)
(* record, and never by the guards of Consumer.tla, which they judge.      *)
(***************************************************************************)
Believed(c) == c.reader.claim

Knows(c, field) == field \in c.reader.certain

\* A guess is not enough.  An instance that sent its release takes itself for no owner any more.
IsOwner(c) ==
    /\ Knows(c, "owner")
    /\ Believed(c).owner_instance = Self.instance_id
    /\ c.resigned # Believed(c).epoch

\* The log's position, also 0.  The start policy counts where nobody ever said one, for certain,
\* and where nobody can know any more which.
BeginsAt(c) ==
    IF Knows(c, "position") /\ (Believed(c).position_set \/ ~Knows(c, "position_set"))
    THEN Believed(c).position
    ELSE Max(Believed(c).position, Self.start)

ClaimsOnlyIfItMay ==
    Answers(Self, machine).claim = PASSES <=>
        /\ ~machine.stopped
        /\ ~machine.asked
        /\ ~IsOwner(machine)
        /\ Self.admin => Believed(machine).pauser = Self.instance_id
        /\ Self.mode = "AMO" /\ ~Self.admin =>
               Knows(machine, "owner") /\ Knows(machine, "position")

ActsOnlyAsOwner ==
    \A guard \in {"act_as_owner", "heartbeat", "release"} :
        Answers(Self, machine)[guard] = PASSES <=> ~machine.stopped /\ IsOwner(machine)

AsksForItsBatch ==
    \A offset \in Offsets :
        Answers(Self, machine).claim_messages[offset] = PASSES <=>
            /\ Self.mode = "AMO" /\ ~Self.admin
            /\ ~machine.stopped /\ IsOwner(machine)
            /\ Knows(machine, "position")
            /\ offset > Believed(machine).position
            /\ offset <= Believed(machine).position + Self.batch

ProcessesItsWindow ==
    \A message \in Offsets :
        Answers(Self, machine).process[message] = PASSES <=>
            /\ Self.mode = "ALO" /\ ~Self.admin
            /\ ~machine.stopped /\ IsOwner(machine)
            /\ message = machine.next
            /\ message < BeginsAt(machine) + Self.window

AnswersTheRest ==
    /\ Answers(Self, machine).release_group = PASSES <=> Self.admin
    /\ Answers(Self, machine).process_grant = PASSES <=> machine.granted # {}
    /\ Answers(Self, machine).give_up = PASSES <=> machine.asked
    /\ ~FastReclaims(Self, machine)

\* What it sends: where it stands, under which epoch, and what it saw if it knows all of it.
SaysWhatItKnows ==
    LET sends     == Sending(Self, machine)
        claim     == Believed(machine)
        certifies == Self.certifies /\ Knows(machine, "position") /\ Knows(machine, "clock")
        reached   == {m + 1 : m \in machine.granted}
        position  == IF Knows(machine, "position_set") /\ ~claim.position_set
                     THEN Self.start ELSE claim.position
        offset    == IF Self.mode = "ALO" THEN machine.next
                     ELSE CHOOSE o \in reached \cup {position} :
                              \A other \in reached \cup {position} : other <= o
    IN  /\ sends.claiming_partition.headers.supersedes =
               IF claim.owner_client = Self.client_id THEN claim.epoch ELSE NONE
        /\ sends.position.headers.set_position = sends.position.message.offset
        /\ \A said \in {sends.heartbeat, sends.releasing_partition} :
               /\ said.message.offset = offset
               /\ said.headers.set_position = NONE
               /\ said.headers.start =
                      IF Self.admin \/ offset < Self.start THEN NONE ELSE Self.start
        /\ \A said \in {sends.heartbeat, sends.releasing_partition, sends.position,
                          sends.claiming_messages} :
               /\ said.headers.epoch = claim.epoch
               /\ said.headers.seen = IF certifies THEN machine.view - 1 ELSE NONE
               /\ said.headers.clock = IF certifies THEN claim.clock_ms ELSE NONE

\* A tenure begins where the log says, whatever its owner processed before.
BeginsAtThePosition ==
    [][/\ deed'[1] = "Read"
       /\ IsOwner(machine')
       /\ ~IsOwner(machine) \/ Believed(machine).epoch # Believed(machine').epoch
       => machine'.next = BeginsAt(machine')]_vars

\* Two processes under one client id would take turns for ever.  Nothing else stops one.
StopsWhenItsIdIsUsedTwice ==
    [][deed'[1] = "Read" =>
           machine'.stopped =
               \/ machine.stopped
               \/ /\ IsOwner(machine)
                  /\ Knows(machine', "owner")
                  /\ Believed(machine').owner_client = Self.client_id
                  /\ Believed(machine').owner_instance # Self.instance_id]_vars

\* A grant is what a request of its own granted it, for certain, and all of that.
IsGranted(record) ==
    /\ Knows(machine, "owner")
    /\ Knows(machine, "position")
    /\ Believed(machine).owner_instance = Self.instance_id
    /\ record.message.type = "ClaimingMessages"
    /\ record.message.instance_id = Self.instance_id
    /\ record.headers.epoch = Believed(machine).epoch
    /\ record.message.version \in {0, 1}

ReadsItsGrant ==
    [][deed'[1] = "Read" =>
           machine'.granted =
               machine.granted \cup
                   (IF IsGranted(deed'[2])
                    THEN Believed(machine).position .. deed'[2].message.offset - 1 ELSE {})]_vars

\* What else it remembers.
Remembers ==
    [][/\ deed'[1] = "Read" =>
              /\ machine'.view = deed'[2].offset + 1
              /\ machine'.asked <=> /\ machine.asked
                                    /\ ~(/\ deed'[2].message.type = "ClaimingPartition"
                                         /\ deed'[2].message.instance_id = Self.instance_id)
       /\ deed'[1] = "Claim" => machine'.asked
       /\ deed'[1] = "Release" => machine'.resigned = Believed(machine).epoch
       /\ deed'[1] = "Process" => machine'.next = machine.next + 1
       /\ deed'[1] = "ProcessGrant" => machine'.granted = {}
       /\ deed'[1] = "GiveUp" => ~machine'.asked]_vars

\* Only these reasons exist.
KnownReasons ==
    \A reason \in {Answers(Self, machine)[guard] :
                       guard \in DOMAIN Answers(Self, machine) \ {"claim_messages", "process"}} :
        reason \in {PASSES} \cup {Forbidden[k] : k \in DOMAIN Forbidden}

=============================================================================
