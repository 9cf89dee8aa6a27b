---------------------------- MODULE MCGroupSuffix ----------------------------
(***************************************************************************)
(* Readers that begin at every offset of every log of GroupWorld.tla, in   *)
(* which controllers write snapshots.                                      *)
(*                                                                         *)
(* No member asks anything.  Controllers rewind a partition and compete,   *)
(* and what a deposed one sent lands behind the start that deposed it.     *)
(* Retention may cut the log anywhere, so anybody may begin anywhere.      *)
(* What a reader knows follows from the log: it needs no variable.         *)
(***************************************************************************)
EXTENDS GroupProperties, GroupReader, Export

CONSTANT SnapshotsMax     \* as often snapshots are written

VARIABLES
    writes,               \* of each controller: the snapshots that it sent
    positions,            \* [offset, end]: the claim's, ever, and how long the log was then
    snapshots             \* as often they were written

all == <<vars, writes, positions, snapshots>>

OneTopic == [x \in {"t"} |-> Topic(1, "first")]
T0 == Tp("t", 0)

Alone ==
    <<Start(NONE, 1), Create(OneTopic, "incremental"), Register("m1", {"t"}, {}, TRUE),
      Rebalance(One(T0, "m1"))>>

Nothing      == {}
NoRequest(m) == 0

\* One that was deposed reads on.
EverybodyReads(c) == TRUE

(***************************************************************************)
(* Snapshots: of what is if all lands that was sent before.                *)
(***************************************************************************)
SnapshotsAreOf(c) == Speculative(controllers[c], View(c))

\* Nothing lies between them.
Between == <<>>

EventsOfSnapshots(c) ==
    LET before == SnapshotsAreOf(c)
        head   == WithAll(<<ControllershipSnapshotOf(c)>>, Between)
        group  == TheGroup(Folded(before, RightlyAll(before, 0, head)))
    IN  WithAll(head, <<GroupSnapshotOf(group)>>)

SendSnapshots(c) ==
    /\ Serves(c)
    /\ snapshots < SnapshotsMax
    /\ LET events  == EventsOfSnapshots(c)
           number  == Speculative(controllers[c], View(c)).number
           records == [k \in DOMAIN events |->
                          Record(NONE, controllers[c].epoch, number + k, KeyOf(events[k]),
                                 events[k])]
       IN  /\ HasRoom(Length(records))
           /\ controllers' = [controllers EXCEPT ![c] = Sent(@, records)]
           /\ sending' = [sending EXCEPT ![c] = WithAll(@, records)]
           /\ writes' = [writes EXCEPT ![c] = SnapshotsSent(number + 1, Length(events))]
    /\ snapshots' = snapshots + 1
    /\ UNCHANGED <<appended, members, requests, answers, spent, clock, positions>>

\* It may be late when it moves the claim's position: what was a position once may be one again.
ReadSnapshot(c) ==
    /\ Read(c)
    /\ LET next  == appended[controllers[c].read + 1]
           now   == AfterSnapshot(writes[c], controllers[c], next.record, next.verdict)
           moves == MovesPosition(now, controllers[c], next.record, next.verdict)
       IN  /\ writes' = [writes EXCEPT
                  ![c] = IF moves \/ IsOwnStart(c, next.record) THEN NoSnapshots ELSE now]
           /\ positions' =
                  IF moves THEN positions \cup {[offset |-> now.offset, end |-> Length(appended)]}
                  ELSE positions
    /\ UNCHANGED snapshots

InitSuffix ==
    /\ Init
    /\ writes = [c \in Controllers |-> NoSnapshots]
    /\ positions = {}
    /\ snapshots = 0

NextSuffix ==
    \E c \in Controllers :
        \/ ReadSnapshot(c)
        \/ SendSnapshots(c)
        \/ /\ Compete(c) \/ Land(c) \/ Lose(c) \/ DecideRewind(c)
           /\ UNCHANGED <<writes, positions, snapshots>>

SuffixSpec == InitSuffix /\ [][NextSuffix]_all

(***************************************************************************)
(* Readers.  Who begins at no position has the end of the log at its first *)
(* record: it could not know anything earlier.                             *)
(***************************************************************************)
Beginnings ==
    {NewGroupReader(p.offset, TRUE, p.end) : p \in positions}
    \cup {NewGroupReader(k - 1, FALSE, k) : k \in DOMAIN appended}

\* What a reader calls known is what the whole log says, at each record from where it began.
RECURSIVE IsExact(_, _)
IsExact(reader, n) ==
    \/ n > Length(appended)
    \/ LET after == AfterReader(reader, appended[n].record)
       IN  /\ KnowsAll(after) => after.view = appended[n].after
           /\ IsExact(after, n + 1)

SuffixExact == \A reader \in Beginnings : IsExact(reader, reader.begin + 1)

\* Who begins at a claim's position knows what the whole log says, once it has come to the end.
RECURSIVE AtTheEnd(_, _)
AtTheEnd(reader, n) ==
    IF n > Length(appended) THEN reader
    ELSE AtTheEnd(AfterReader(reader, appended[n].record), n + 1)

PositionIsEnough ==
    \A reader \in Beginnings :
        reader.at_position => KnowsAll(AtTheEnd(reader, reader.begin + 1))

\* Must be reached: one that began in the middle knows of a failover and of what came of it.
NobodyBeginsBeforeAFailover ==
    \A reader \in Beginnings :
        LET now == AtTheEnd(reader, reader.begin + 1)
        IN  ~(/\ reader.begin > 0 /\ KnowsAll(now)
              /\ now.view.epoch > reader.begin /\ now.view.groups[G].partitions[T0].tenure > now.view.epoch)

\* Must be reached: snapshots that were refused lie where the log was cut.
NoDeposedSnapshot ==
    \A n \in DOMAIN appended :
        appended[n].record.event.type = "ControllershipSnapshot"
            => appended[n].verdict # "Deposed"

Records == [n \in DOMAIN appended |-> appended[n].record]

\* A row for each log and each beginning.
ExportGroupReaders ==
    \A reader \in Beginnings :
        FirstTime(<<reader, Records>>) =>
            Export(<<LastOf(Records, Length(Records) - reader.begin),
                     AtTheEnd(reader, reader.begin + 1)>>)

(***************************************************************************)
(* In the place of a rule, in the configurations that must fail.           *)
(***************************************************************************)
TrustsAny(reader)           == TRUE
AtOnce(reader, record)      == TRUE

\* A snapshot and that of the group behind it, of one sender.
AreWhole(n) ==
    /\ n < Length(appended)
    /\ appended[n].record.event.type = "ControllershipSnapshot"
    /\ appended[n + 1].record.event.type = "GroupSnapshot"
    /\ appended[n + 1].record.epoch = appended[n].record.epoch

BeginningsAtWhole ==
    {NewGroupReader(n - 1, FALSE, Length(appended)) : n \in {k \in DOMAIN appended : AreWhole(k)}}

NeverMissing(reader)        == FALSE
NeverDisagrees(verdict)     == FALSE
OfTheView(c)                == View(c)
ARewindBetween              == <<Rewind(One(T0, 0))>>
AnyOfItsOwn(sent, c, record, verdict) ==
    /\ sent # NoSnapshots
    /\ record.event.type # "ControllerStarted" /\ record.number \in sent.first .. sent.last
MovesAtTheFirst(sent, c, record, verdict) ==
    IsTaken(sent, c, record, verdict) /\ record.number = sent.first

=============================================================================
