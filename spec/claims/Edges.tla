------------------------------- MODULE Edges -------------------------------
(***************************************************************************)
(* What a model's instances do, exported and compared with the Python      *)
(* code.                                                                   *)
(*                                                                         *)
(* Extended beside an MC module, whose bounds it takes as they are.  Each  *)
(* row is one of                                                           *)
(*   <<"Send",    me, before, what it sent, after>>                        *)
(*   <<"GiveUp",  me, before, 0, after>>                                   *)
(*   <<"Read",    me, before, the record, after>>                          *)
(*   <<"Process", me, before, the messages, after>>                        *)
(*   <<"Gap",     me, before, where it goes on, after>>                    *)
(*   <<"Start",   me, where it begins to read, 0, after>>                  *)
(*   <<"May",     me, consumer, what every guard says, 0>>                 *)
(*   <<"Reader",  0, reader, the record, reader afterwards>>               *)
(* so who reads them needs no model.  An instance is who it is; its clock  *)
(* is left out, since only the original looks at it.                       *)
(***************************************************************************)
EXTENDS Marshal, Export

Who(i) == [Me(i) EXCEPT !.now_ms = 0]

(***************************************************************************)
(* Whose step a transition is, by what changed.                            *)
(***************************************************************************)
WasUp(i)   == status[i] = "up" /\ status'[i] = "up"
Began(i)   == status[i] = "unborn" /\ status'[i] = "up"
HasSent(i) == Length(outbox'[i]) > Length(outbox[i])
Advanced(i) == WasUp(i) /\ consumers'[i].view > View(i)
\* Where a record would leave the same behind, it need not be asked which of the two it was.
HasPassedGap(i) ==
    /\ i \in Misses
    /\ Advanced(i)
    /\ consumers'[i] = AfterGap(Me(i), consumers[i], consumers'[i].view)
HasRead(i) == Advanced(i) /\ ~HasPassedGap(i)
Handled    == {m \in Messages : processed'[m] > processed[m]}
Remembers(i) == WasUp(i) /\ consumers'[i] # consumers[i]
HasProcessed(i) == Remembers(i) /\ Handled # {}
HasGivenUp(i) ==
    Remembers(i) /\ ~HasSent(i) /\ ~Advanced(i) /\ Handled = {} /\ outbox' = outbox

Row(kind, i, what) == Export(<<kind, Who(i), consumers[i], what, consumers'[i]>>)

\* A stranger sends what no rule of ours allows.
ExportDeeds(i) ==
    /\ HasSent(i) /\ i \notin Strangers => Row("Send", i, outbox'[i][Length(outbox'[i])])
    /\ HasGivenUp(i) => Row("GiveUp", i, 0)
    /\ HasRead(i) => Row("Read", i, AsReadBy(i, log[View(i) + 1]))
    /\ HasPassedGap(i) => Row("Gap", i, consumers'[i].view)
    /\ HasProcessed(i) => Row("Process", i, Handled)
    /\ Began(i) => Export(<<"Start", Who(i), consumers'[i].view, 0, consumers'[i]>>)

(***************************************************************************)
(* A reader that begins at any offset.                                     *)
(***************************************************************************)
RECURSIVE Reading(_, _)
Reading(first, n) ==
    IF n = first THEN NewReader(first) ELSE ReadRecord(Reading(first, n - 1), log[n])

HasAppended == Length(log') > Length(log)

ExportReaders ==
    HasAppended =>
        \A first \in 0 .. Length(log) :
            LET before == Reading(first, Length(log))
                record == log'[Length(log')]
            IN  Export(<<"Reader", 0, before, record, ReadRecord(before, record)>>)

\* This and ExportReaders are for an ACTION_CONSTRAINT.
ExportEdges == \A i \in Instances : ExportDeeds(i)

(***************************************************************************)
(* Every question that an instance can be asked, also those to which the   *)
(* answer is no.  For an INVARIANT.                                        *)
(***************************************************************************)
Answers(me, c) ==
    [claim          |-> MayClaim(me, c),
     heartbeat      |-> MayHeartbeat(me, c),
     release        |-> MayRelease(me, c),
     claim_messages |-> [offset \in 0 .. MessageCount + 1 |-> MayClaimMessages(me, c, offset)],
     release_group  |-> MayReleaseGroup(me, c),
     process        |-> [message \in 0 .. MessageCount |-> MayProcess(me, c, message)],
     process_grant  |-> MayProcessGrant(me, c),
     give_up        |-> MayGiveUp(me, c),
     act_as_owner   |-> MayActAsOwner(me, c)]

ExportAnswers ==
    \A i \in Instances :
        status[i] = "up" /\ FirstTime(<<Who(i), consumers[i]>>) =>
            Export(<<"May", Who(i), consumers[i], Answers(Who(i), consumers[i]), 0>>)

=============================================================================
