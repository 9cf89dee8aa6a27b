------------------------------ MODULE Interval ------------------------------
(***************************************************************************)
(* Consumers of one group that judge by different heartbeat intervals.     *)
(*                                                                         *)
(* Each folds the log under its own interval, so an owner that is dead to  *)
(* one may be alive to another, and then both process everything.  The     *)
(* rule: who comes later yields.  It must be decided without an interval,  *)
(* so it goes by what owners say: their claims and heartbeats carry their  *)
(* interval, and of two tenures of one claim the later one stands.         *)
(*                                                                         *)
(* Everything is processed at most once here: a heartbeat also asks for    *)
(* the next message, and its sender has it once it has read, under its own *)
(* interval, that the heartbeat was accepted.                              *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANT World
\* interval_of  of each instance, in ticks
\* up           who is up at the beginning; the others may come at any time
\* rule         whether anybody yields
\* wins_say     whether a win says that its sender lives, before its first heartbeat
\* stops        whether one may give its claim back and go
\* keys, messages, log_max, now_max, crashes_max  bounds
ASSUME World.up \subseteq DOMAIN World.interval_of

VARIABLES
    records,    \* what was appended: type, from, key, position, epoch, at_ms
    now,        \* the broker's clock
    mode,       \* of each instance: "down", "up", "yielded", "gone"
    began,      \* of each: how many records there were when it came
    view,       \* of each: how many records it has read
    sending,    \* of each: a record on its way, or none
    processed   \* of each: pairs of key and message

vars == <<records, now, mode, began, view, sending, processed>>

Instances == DOMAIN World.interval_of
Own(i)    == World.interval_of[i]
Periods   == {Own(i) : i \in Instances}
Keys      == 1 .. World.keys
NONE      == 0
Larger(x, y) == IF x > y THEN x ELSE y

(***************************************************************************)
(* The fold of one claim under an interval.                                *)
(***************************************************************************)
NewClaim == [owner |-> NONE, epoch |-> NONE, at |-> NONE, position |-> 0]

\* Not a disjunction: TLC would count an action that asks for it once for each side.
Dead(claim, at, interval) ==
    IF claim.owner = NONE THEN TRUE ELSE at - claim.at > 2 * interval

Step(claim, r, offset, interval) ==
    CASE r.type = "Claim" ->
            IF Dead(claim, r.at, interval)
            THEN [claim EXCEPT !.owner = r.from, !.epoch = offset, !.at = r.at]
            ELSE claim
      [] r.epoch # claim.epoch \/ r.from # claim.owner -> claim
      [] r.type = "Heartbeat" ->
            [claim EXCEPT !.at = r.at, !.position = Larger(claim.position, r.position)]
      [] r.type = "Release" -> [claim EXCEPT !.owner = NONE]

RECURSIVE Fold(_, _, _)
Fold(n, key, interval) ==
    IF n = 0 THEN NewClaim
    ELSE LET before == Fold(n - 1, key, interval)
         IN  IF records[n].key = key THEN Step(before, records[n], n, interval) ELSE before

Known(i, key) == Fold(view[i], key, Own(i))

(***************************************************************************)
(* Who lives under which interval, as a reader of a part of the log says.  *)
(* `since` is where a lineage of owners began of whom always one lived.    *)
(***************************************************************************)
NoLineage == [since |-> NONE, at |-> NONE, tenure |-> [k \in Keys |-> [epoch |-> NONE, at |-> NONE]]]

Window(x, own, lines) ==
    2 * IF x # own THEN Larger(x, own)
        ELSE CHOOSE y \in Periods :
                /\ y = own \/ lines[y].since # NONE
                /\ \A z \in Periods : (z = own \/ lines[z].since # NONE) => y >= z

Lived(lines, x, own, at) ==
    lines[x].since # NONE /\ at - lines[x].at <= Window(x, own, lines)

Says(lines, r, epoch, offset, own) ==
    LET x == World.interval_of[r.from]
        old == lines[x]
        line == IF old.since = NONE THEN [NoLineage EXCEPT !.since = epoch, !.at = r.at]
                ELSE IF Lived(lines, x, own, r.at) THEN old
                ELSE [NoLineage EXCEPT !.since = offset, !.at = r.at]
    IN  IF line.tenure[r.key].epoch > epoch
        THEN [lines EXCEPT ![x] = line]
        ELSE [lines EXCEPT ![x] =
                [line EXCEPT !.tenure[r.key] = [epoch |-> epoch, at |-> r.at],
                             !.at = Larger(line.at, r.at)]]

MaxAt(tenure) ==
    CHOOSE m \in {tenure[k].at : k \in Keys} : \A k \in Keys : m >= tenure[k].at

Ends(lines, r) ==
    LET x == World.interval_of[r.from]
        tenure == [lines[x].tenure EXCEPT ![r.key] = [epoch |-> NONE, at |-> NONE]]
    IN  IF lines[x].tenure[r.key].epoch # r.epoch THEN lines
        ELSE IF \A k \in Keys : tenure[k].epoch = NONE
        THEN [lines EXCEPT ![x] = NoLineage]
        ELSE [lines EXCEPT ![x] = [@ EXCEPT !.tenure = tenure, !.at = MaxAt(tenure)]]

\* A claim says something only where it has won, as its reader judges.
Won(n, own) ==
    /\ records[n].type = "Claim"
    /\ Fold(n, records[n].key, own).epoch = n

RECURSIVE Lineages(_, _)
Lineages(n, own) ==
    IF n = 0 THEN [x \in Periods |-> NoLineage]
    ELSE LET lines == Lineages(n - 1, own)
             r == records[n]
         IN  CASE r.type = "Heartbeat" -> Says(lines, r, r.epoch, n, own)
               [] r.type = "Release"   -> Ends(lines, r)
               [] World.wins_say /\ Won(n, own) -> Says(lines, r, n, n, own)
               [] ~World.wins_say /\ Won(n, own) /\ World.interval_of[r.from] = own ->
                    Says(lines, r, n, n, own)
               [] OTHER -> lines

BeforeUs(lines, own, at) ==
    {x \in Periods \ {own} :
        /\ Lived(lines, x, own, at)
        /\ ~(Lived(lines, own, own, at) /\ lines[own].since < lines[x].since)}

\* A record that came after the log was read to its end: those before it are the past.
Yields(i, n) ==
    /\ World.rule
    /\ n > began[i]
    /\ LET r == records[n]
           \* What this very record wins is not looked at.
           lines == IF r.type = "Claim" THEN Lineages(n - 1, Own(i)) ELSE Lineages(n, Own(i))
       IN  BeforeUs(lines, Own(i), r.at) # {}

\* While others may live under another interval nothing is asked for.
HeldBack(i) == World.rule /\ BeforeUs(Lineages(view[i], Own(i)), Own(i), now) # {}

(***************************************************************************)
(* What happens.                                                           *)
(***************************************************************************)
Nothing == [type |-> "none"]

Init ==
    /\ records = <<>>
    /\ now = 1
    /\ mode = [i \in Instances |-> IF i \in World.up THEN "up" ELSE "down"]
    /\ began = [i \in Instances |-> 0]
    /\ view = [i \in Instances |-> 0]
    /\ sending = [i \in Instances |-> Nothing]
    /\ processed = [i \in Instances |-> {}]

Tick ==
    /\ now < World.now_max
    /\ now' = now + 1
    /\ UNCHANGED <<records, mode, began, view, sending, processed>>

\* It has read the log to its end when it begins.
Join(i) ==
    /\ mode[i] = "down"
    /\ mode' = [mode EXCEPT ![i] = "up"]
    /\ began' = [began EXCEPT ![i] = Len(records)]
    /\ view' = [view EXCEPT ![i] = Len(records)]
    /\ UNCHANGED <<records, now, sending, processed>>

Crash(i) ==
    /\ mode[i] = "up"
    /\ Cardinality({j \in Instances : mode[j] = "gone"}) < World.crashes_max
    /\ mode' = [mode EXCEPT ![i] = "gone"]
    /\ UNCHANGED <<records, now, began, view, sending, processed>>

Send(i, record) ==
    /\ sending[i] = Nothing
    /\ sending' = [sending EXCEPT ![i] = record]
    /\ UNCHANGED <<records, now, began, view, processed>>

Record(i, type, key, position, epoch) ==
    [type |-> type, from |-> i, key |-> key, position |-> position, epoch |-> epoch, at |-> NONE]

SendClaim(i, key) ==
    /\ mode[i] = "up"
    /\ view[i] = Len(records)
    /\ Known(i, key).owner # i
    /\ Dead(Known(i, key), now, Own(i))
    /\ ~HeldBack(i)
    /\ Send(i, Record(i, "Claim", key, 0, NONE))
    /\ UNCHANGED mode

SendHeartbeat(i, key) ==
    /\ mode[i] = "up"
    /\ Known(i, key).owner = i
    /\ Send(i, Record(i, "Heartbeat", key,
                      Larger(Known(i, key).position,
                             IF Known(i, key).position < World.messages
                             THEN Known(i, key).position + 1 ELSE 0),
                      Known(i, key).epoch))
    /\ UNCHANGED mode

\* It gives its claim back and goes.
Stop(i, key) ==
    /\ mode[i] = "up"
    /\ World.stops
    /\ Known(i, key).owner = i
    /\ Send(i, Record(i, "Release", key, 0, Known(i, key).epoch))
    /\ mode' = [mode EXCEPT ![i] = "gone"]

Lands(i) ==
    /\ sending[i] # Nothing
    /\ Len(records) < World.log_max
    /\ records' = Append(records, [sending[i] EXCEPT !.at = now])
    /\ sending' = [sending EXCEPT ![i] = Nothing]
    /\ UNCHANGED <<now, mode, began, view, processed>>

\* Messages that this record granted to its reader.
Granted(i, n) ==
    LET r == records[n]
        before == Fold(n - 1, r.key, Own(i))
    IN  IF r.type = "Heartbeat" /\ r.from = i /\ before.owner = i /\ before.epoch = r.epoch
        THEN {<<r.key, m>> : m \in (before.position + 1) .. r.position}
        ELSE {}

Read(i) ==
    LET n == view[i] + 1
    IN  /\ mode[i] = "up"
        /\ n <= Len(records)
        /\ view' = [view EXCEPT ![i] = n]
        /\ IF Yields(i, n)
           THEN mode' = [mode EXCEPT ![i] = "yielded"] /\ UNCHANGED processed
           ELSE /\ processed' = [processed EXCEPT ![i] = @ \cup Granted(i, n)]
                /\ UNCHANGED mode
        /\ UNCHANGED <<records, now, began, sending>>

Next ==
    \/ Tick
    \/ \E i \in Instances :
        \/ Join(i) \/ Crash(i) \/ Lands(i) \/ Read(i)
        \/ \E key \in Keys : SendClaim(i, key) \/ SendHeartbeat(i, key) \/ Stop(i, key)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What is promised.                                                       *)
(***************************************************************************)
OneIntervalProcesses ==
    \A i, j \in Instances : i # j => processed[i] \cap processed[j] = {}
=============================================================================
