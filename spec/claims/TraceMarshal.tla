---------------------------- MODULE TraceMarshal ----------------------------
(***************************************************************************)
(* Decides whether a behaviour of the specification explains a recorded    *)
(* run.                                                                    *)
(*                                                                         *)
(* A run is the log, and what each recorded instance did: what it sent,    *)
(* what it read, what it processed, in the order in which it happened.     *)
(* Everything that a consumer decides is a function of what it has read    *)
(* and done before, so there is nothing to choose: one behaviour, event by *)
(* event, and it ends where an event is not an enabled action of           *)
(* Consumer.tla or has another effect.  Then `against` names the guard,    *)
(* and TLC prints it: a violated invariant would print every state.        *)
(*                                                                         *)
(* Runs are constant data, in TraceData.tla, which is generated for them   *)
(* (kafka_marshal.modelcheck.runs): instances, claims and coordinating     *)
(* partitions have numbers or plain names there, times count from the      *)
(* beginning of the run, and one log may hold several claims.  Each run    *)
(* has an initial state, and no step leads to another one's.               *)
(***************************************************************************)
EXTENDS Consumer, TraceData

LOCAL INSTANCE TLC

\* What cannot happen in the world around a consumer, whatever it may do.
Impossible ==
    <<"StartedBefore", "NotRunning", "NotWhatItSends", "OffsetTaken", "NotUnderWay",
      "NotAppended", "NotNextRecord", "ViewGoesBack">>

VARIABLES
    run,        \* which of TraceRuns; the others speak of this one
    event,      \* how many events were explained
    against,    \* why the next one is not, or Passes
    status,     \* "unborn", "up" or "crashed", of every instance
    consumers,  \* by instance and claim: see Consumer.tla
    next_read,  \* by instance and partition: which record of the log it reads next, from 1
    outbox,     \* by instance and partition: produced and not seen in the log, oldest first
    length      \* by partition: how much of the log there is

vars == <<run, event, against, status, consumers, next_read, outbox, length>>

(***************************************************************************)
(* The data.                                                               *)
(***************************************************************************)
Trace      == TraceRuns[run]
Instances  == DOMAIN Trace.instances
Partitions == 1 .. Trace.partitions

\* The chunks are a sequence of sequences: TLC reads a short one faster.
EventAt(n) == Trace.chunks[1 + ((n - 1) \div TraceChunkSize)][1 + ((n - 1) % TraceChunkSize)]

Me(i) == Trace.instances[i].me

\* The claims that an instance takes part in, and where each lives.
ClaimsOf(i) == Trace.instances[i].claims
HomeOf(key) == Trace.homes[key]

\* <<type, version, instance_id, client_id, offset, expires_unix_s>>
MessageIn(m) ==
    [type |-> m[1], version |-> m[2], unix_s |-> 0, instance_id |-> m[3], client_id |-> m[4],
     offset |-> m[5], expires_unix_s |-> m[6]]

\* <<>> is no header at all.
HeadersIn(h) ==
    IF h = <<>> THEN NoHeaders
    ELSE [present |-> TRUE, epoch |-> h[1], seen |-> h[2], clock |-> h[3],
          supersedes |-> h[4], set_position |-> h[5], start |-> h[6]]

\* <<"appended", partition, offset, timestamp_ms, claims, sender, message, headers>>: the
\* claims that it reaches, and its sender if that one was recorded.  A value that is no
\* message has the type "Malformed" and reaches no claim.
RecordIn(e) ==
    [offset |-> e[3], timestamp_ms |-> e[4], message |-> MessageIn(e[7]),
     headers |-> HeadersIn(e[8]), stale |-> FALSE, pause_over |-> FALSE]

\* The log: by partition, the numbers of the events that appended its records.
Landed(p, k) == EventAt(Trace.log[p][k])
EndOffset(p) == IF length[p] = 0 THEN NONE ELSE Landed(p, length[p])[3]

(***************************************************************************)
(* Sending.  <<"sent", instance, partition, claim, message, headers>>; the *)
(* claim is 0 for a ReleaseGroup, and NONE if the instance takes no part   *)
(* in any that the message could be about.                                 *)
(***************************************************************************)
Produced(e) == Sent(MessageIn(e[5]), HeadersIn(e[6]))

MaySendNow(me, c, message) ==
    LET type == message.type
    IN  CASE type = "Heartbeat"          -> MayHeartbeat(me, c)
          [] type = "ClaimingPartition"  -> MayClaim(me, c)
          [] type = "ClaimingMessages"   -> MayClaimMessages(me, c, message.offset)
          [] type = "ReleasingPartition" -> MayRelease(me, c)

WouldSend(me, c, message) ==
    LET type == message.type
    IN  CASE type = "Heartbeat"          -> HeartbeatSent(me, c)
          [] type = "ClaimingPartition"  -> ClaimingPartitionSent(me, c)
          [] type = "ClaimingMessages"   -> ClaimingMessagesSent(me, c, message.offset)
          [] type = "ReleasingPartition" ->
                IF me.admin THEN PositionSent(me, c, message.offset)
                ELSE ReleasingPartitionSent(me, c)

\* Older versions do not say where they began.
IsSaidBy(sent, would) == sent = would \/ sent = [would EXCEPT !.headers.start = NONE]

AfterSending(me, c, message) ==
    LET type == message.type
    IN  CASE type = "Heartbeat"          -> c
          [] type = "ClaimingPartition"  -> AfterClaimingPartition(me, c)
          [] type = "ClaimingMessages"   -> AfterClaimingMessages(me, c, message.offset)
          [] type = "ReleasingPartition" -> AfterRelease(me, c)

AgainstSent(e) ==
    LET i    == e[2]
        key  == e[4]
        sent == Produced(e)
    IN  IF status[i] # "up" THEN "NotRunning"
        ELSE IF key = NONE THEN "NotWhatItSends"
        ELSE IF key = 0
        THEN IF MayReleaseGroup(Me(i), NewConsumer(0)) # PASSES
             THEN MayReleaseGroup(Me(i), NewConsumer(0))
             ELSE IF sent # ReleaseGroupSent(Me(i), NewConsumer(0), sent.message.expires_unix_s)
             THEN "NotWhatItSends"
             ELSE PASSES
        ELSE IF MaySendNow(Me(i), consumers[i][key], sent.message) # PASSES
        THEN MaySendNow(Me(i), consumers[i][key], sent.message)
        ELSE IF ~IsSaidBy(sent, WouldSend(Me(i), consumers[i][key], sent.message))
        THEN "NotWhatItSends"
        ELSE PASSES

TakeSent(e) ==
    LET i == e[2]
        p == e[3]
        key == e[4]
    IN  /\ outbox' = [outbox EXCEPT ![i][p] = With(@, Produced(e))]
        /\ consumers' = IF key = 0 THEN consumers
                        ELSE [consumers EXCEPT
                                 ![i][key] = AfterSending(Me(i), @, MessageIn(e[5]))]
        /\ UNCHANGED <<status, next_read, length>>

(***************************************************************************)
(* The broker appends.  With an idempotent producer records land in order, *)
(* so whatever was sent before one that landed is lost; without one any    *)
(* record may land at any time, and more than once.                        *)
(***************************************************************************)
UnderWay(e) ==
    LET box == outbox[e[6]][e[2]]
    IN  {k \in DOMAIN box : box[k] = Sent(MessageIn(e[7]), HeadersIn(e[8]))}

AgainstAppended(e) ==
    IF e[3] <= EndOffset(e[2]) THEN "OffsetTaken"
    ELSE IF e[6] = NOBODY THEN PASSES
    ELSE IF UnderWay(e) = {} THEN "NotUnderWay"
    ELSE PASSES

\* Of several that are equal the oldest: that leaves most to land.
Landing(e) == CHOOSE k \in UnderWay(e) : \A l \in UnderWay(e) : k <= l

TakeAppended(e) ==
    LET p == e[2]
        i == e[6]
    IN  /\ length' = [length EXCEPT ![p] = @ + 1]
        /\ outbox' = IF i = NOBODY \/ ~Trace.idempotent THEN outbox
                     ELSE [outbox EXCEPT ![i][p] = LastOf(@, Length(@) - Landing(e))]
        /\ UNCHANGED <<status, consumers, next_read>>

(***************************************************************************)
(* Reading.  <<"read", instance, partition, offset>>                       *)
(***************************************************************************)
AgainstRead(e) ==
    LET i == e[2]
        p == e[3]
    IN  IF status[i] # "up" THEN "NotRunning"
        ELSE IF e[4] > EndOffset(p) THEN "NotAppended"
        ELSE IF next_read[i][p] > length[p] THEN "NotNextRecord"
        ELSE IF Landed(p, next_read[i][p])[3] # e[4] THEN "NotNextRecord"
        ELSE PASSES

TakeRead(e) ==
    LET i      == e[2]
        p      == e[3]
        landed == Landed(p, next_read[i][p])
        record == RecordIn(landed)
    IN  /\ next_read' = [next_read EXCEPT ![i][p] = @ + 1]
        /\ consumers' =
               IF landed[5] \cap ClaimsOf(i) = {} THEN consumers
               ELSE [consumers EXCEPT ![i] =
                        [key \in ClaimsOf(i) |->
                            IF key \in landed[5] THEN AfterRead(Me(i), @[key], record)
                            ELSE @[key]]]
        /\ UNCHANGED <<status, outbox, length>>

(***************************************************************************)
(* Records that it has not read are gone.  <<"gap", instance, partition,   *)
(* offset, record>>: where it goes on, and which record of the log that is.*)
(***************************************************************************)
AgainstGap(e) ==
    IF status[e[2]] # "up" THEN "NotRunning"
    ELSE IF e[5] < next_read[e[2]][e[3]] THEN "NotNextRecord"
    ELSE PASSES

TakeGap(e) ==
    LET i == e[2]
        p == e[3]
    IN  /\ next_read' = [next_read EXCEPT ![i][p] = e[5]]
        /\ consumers' =
               [consumers EXCEPT ![i] =
                   [key \in ClaimsOf(i) |->
                       IF HomeOf(key) = p THEN AfterGap(Me(i), @[key], e[4]) ELSE @[key]]]
        /\ UNCHANGED <<status, outbox, length>>

(***************************************************************************)
(* Processing.  <<"processed", instance, claim, from, to>>: the messages   *)
(* from .. to - 1.  At least once: Process, once for each.  Only the       *)
(* window looks at how far it got, and its end stands still meanwhile, so  *)
(* the first message and the last decide for all.  At most once: a grant   *)
(* may be processed in pieces; what is left is still granted.              *)
(***************************************************************************)
LastMessage(c, e) == [c EXCEPT !.next = e[5] - 1]

AgainstProcessed(e) ==
    LET i  == e[2]
        me == Me(i)
        c  == consumers[i][e[3]]
    IN  IF status[i] # "up" THEN "NotRunning"
        ELSE IF me.mode = "AMO"
        THEN IF MayProcessGrant(me, c) # PASSES THEN MayProcessGrant(me, c)
             ELSE IF e[4] .. e[5] - 1 \subseteq c.granted THEN PASSES
             ELSE "NotGranted"
        ELSE IF MayProcess(me, c, e[4]) # PASSES THEN MayProcess(me, c, e[4])
        ELSE MayProcess(me, LastMessage(c, e), e[5] - 1)

AfterPiece(me, c, piece) ==
    IF c.granted \subseteq piece THEN AfterProcessGrant(me, c)
    ELSE [c EXCEPT !.granted = @ \ piece]

TakeProcessed(e) ==
    LET i  == e[2]
        me == Me(i)
    IN  /\ consumers' =
               [consumers EXCEPT ![i][e[3]] =
                   IF me.mode = "AMO" THEN AfterPiece(me, @, e[4] .. e[5] - 1)
                   ELSE AfterProcess(me, LastMessage(@, e))]
        /\ UNCHANGED <<status, next_read, outbox, length>>

(***************************************************************************)
(* Beginnings and ends.  <<"started", instance, offsets, records>>: for    *)
(* every partition the first offset that it reads, and which record of the *)
(* log that is.  <<"crashed", instance>>, <<"gave_up", instance, claim>>.  *)
(***************************************************************************)
AgainstStarted(e) == IF status[e[2]] # "unborn" THEN "StartedBefore" ELSE PASSES

TakeStarted(e) ==
    LET i == e[2]
    IN  /\ status' = [status EXCEPT ![i] = "up"]
        /\ consumers' = [consumers EXCEPT ![i] =
                            [key \in ClaimsOf(i) |-> NewConsumer(e[3][HomeOf(key)])]]
        /\ next_read' = [next_read EXCEPT ![i] = e[4]]
        /\ UNCHANGED <<outbox, length>>

AgainstCrashed(e) == IF status[e[2]] # "up" THEN "NotRunning" ELSE PASSES

TakeCrashed(e) ==
    /\ status' = [status EXCEPT ![e[2]] = "crashed"]
    /\ consumers' = [consumers EXCEPT ![e[2]] = <<>>]
    /\ UNCHANGED <<next_read, outbox, length>>

AgainstGaveUp(e) ==
    IF status[e[2]] # "up" THEN "NotRunning" ELSE MayGiveUp(Me(e[2]), consumers[e[2]][e[3]])

TakeGaveUp(e) ==
    /\ consumers' = [consumers EXCEPT ![e[2]][e[3]] = AfterGivingUp(Me(e[2]), @)]
    /\ UNCHANGED <<status, next_read, outbox, length>>

(***************************************************************************)
(* Event by event.                                                         *)
(***************************************************************************)
Against(e) ==
    CASE e[1] = "read"      -> AgainstRead(e)
      [] e[1] = "gap"       -> AgainstGap(e)
      [] e[1] = "sent"      -> AgainstSent(e)
      [] e[1] = "appended"  -> AgainstAppended(e)
      [] e[1] = "processed" -> AgainstProcessed(e)
      [] e[1] = "started"   -> AgainstStarted(e)
      [] e[1] = "crashed"   -> AgainstCrashed(e)
      [] e[1] = "gave_up"   -> AgainstGaveUp(e)

Take(e) ==
    CASE e[1] = "read"      -> TakeRead(e)
      [] e[1] = "gap"       -> TakeGap(e)
      [] e[1] = "sent"      -> TakeSent(e)
      [] e[1] = "appended"  -> TakeAppended(e)
      [] e[1] = "processed" -> TakeProcessed(e)
      [] e[1] = "started"   -> TakeStarted(e)
      [] e[1] = "crashed"   -> TakeCrashed(e)
      [] e[1] = "gave_up"   -> TakeGaveUp(e)

Init ==
    /\ run \in DOMAIN TraceRuns
    /\ event = 0
    /\ against = PASSES
    /\ status = [i \in Instances |-> "unborn"]
    /\ consumers = [i \in Instances |-> <<>>]
    /\ next_read = [i \in Instances |-> <<>>]
    /\ outbox = [i \in Instances |-> [p \in Partitions |-> <<>>]]
    /\ length = [p \in Partitions |-> 0]

Next ==
    /\ event < Trace.length
    /\ against = PASSES
    /\ LET e == EventAt(event + 1)
           guard == Against(e)
       IN  IF guard = PASSES
           THEN event' = event + 1 /\ against' = PASSES /\ Take(e)
           ELSE /\ against' = guard
                /\ PrintT(<<"Unexplained", run, event + 1, guard>>)
                /\ UNCHANGED <<event, status, consumers, next_read, outbox, length>>
    /\ run' = run

Spec == Init /\ [][Next]_vars

\* A run has one behaviour, so these tell its states apart, and TLC need not look at more.
Seen == <<run, event, against>>

=============================================================================
