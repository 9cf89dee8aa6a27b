------------------------------- MODULE MCLate -------------------------------
(***************************************************************************)
(* Readers that begin late, in measured time, in a log of honest records   *)
(* in any order.                                                           *)
(*                                                                         *)
(* The worlds of MCSuffix reach a late reader through consumers, so few    *)
(* of them have a clock that steps back, a pause, an administrator and a   *)
(* certificate in one log.  Here there are no consumers.  Every record may *)
(* follow every other, however late, as long as it is honest: its sender   *)
(* had won the epoch that it names, had seen what it says, and had sent    *)
(* nothing more in a tenure after its release.  A reader begins at every   *)
(* offset, and what it calls certain is compared with the full fold.       *)
(***************************************************************************)
EXTENDS Reader, Lists

CONSTANTS
    RecordsAt(_),         \* the records that may stand at an offset, as honest senders build them
    LogMax

VARIABLES
    history,              \* history[v + 1] is the claim after the first v records
    readers,              \* readers[f + 1] is what who began at offset f knows
    sent,                 \* by whom, in which tenure, from which view, and whether a release
    last                  \* the last record and its verdict; not part of the VIEW

vars == <<history, readers, sent, last>>

Appended == Length(history) - 1

Latest == history[Length(history)]

Init ==
    /\ history = <<NewClaim>>
    /\ readers = <<NewReader(0)>>
    /\ sent = {}
    /\ last = [record |-> NONE, verdict |-> "Nothing"]

Append(built) ==
    LET record  == built.record
        outcome == FencedStep(Latest, record)
        read    == [f \in DOMAIN readers |-> ReadRecord(readers[f], record)]
    IN  /\ history' = With(history, outcome.claim)
        /\ readers' = With(read, NewReader(record.offset + 1))
        /\ sent' = sent \cup built.notes
        /\ last' = [record |-> record, verdict |-> outcome.verdict]

Next == Appended < LogMax /\ \E built \in RecordsAt(Appended) : Append(built)

Spec == Init /\ [][Next]_vars

\* The future does not depend on how the last record was judged.
WithoutTheLast == <<history, readers, sent>>

(***************************************************************************)
(* Records.                                                                *)
(***************************************************************************)
ClientOf == [a1 |-> "a", a2 |-> "a", b1 |-> "b", x1 |-> "x", admin |-> "admin"]

\* The broker's clock steps back by one interval, or goes on by exactly two, or by four.
Start == 2000
Steps == {-1000, 2000, 4000}
OneSecond == 1000
At(step) == IF Latest.clock_ms = NONE THEN Start ELSE Latest.clock_ms + step

Message(type, sender, offset) ==
    [type           |-> type,
     version        |-> IF type = "ReleaseGroup" THEN 0 ELSE 1,
     unix_s         |-> 0,
     instance_id    |-> sender,
     client_id      |-> ClientOf[sender],
     offset         |-> offset,
     expires_unix_s |-> NONE]

Built(step, headers, message, notes) ==
    [record |-> [offset |-> Appended, timestamp_ms |-> At(step), headers |-> headers,
                 message |-> message],
     notes  |-> notes]

Present == [NoHeaders EXCEPT !.present = TRUE]

Claims(senders, steps) ==
    {Built(step, Present, Message("ClaimingPartition", sender, NONE), {}) :
        sender \in senders, step \in steps}

\* The instance that paused the group.
PauserClaims(steps) == IF Latest.pauser = "admin" THEN Claims({"admin"}, steps) ELSE {}

\* A restart names the tenure that it has read of.
Restarts(sender, steps) ==
    {Built(step, [Present EXCEPT !.supersedes = history[v].epoch],
           Message("ClaimingPartition", sender, NONE), {}) :
        step \in steps,
        v \in {w \in DOMAIN history : history[w].owner_client = ClientOf[sender]}}

Bare(type, sender, offset, steps) ==
    {Built(step, NoHeaders, Message(type, sender, offset), {}) : step \in steps}

\* A pause of `seconds` from the clock on: 0, or the longest.  A reader that does not know the
\* clock may take the first for a pause.
Pauses(seconds, steps) ==
    {Built(step, NoHeaders,
           [Message("ReleaseGroup", "admin", NONE) EXCEPT
               !.expires_unix_s = Max(Latest.clock_ms, Start) \div 1000 + more], {}) :
        step \in steps, more \in seconds}

\* Of a tenure that its sender has seen itself win, from any view of it.
Views(sender) == {v \in DOMAIN history : history[v].owner_instance = sender}

Note(sender, v, isRelease, certifies) ==
    [by |-> sender, epoch |-> history[v].epoch, view |-> v, release |-> isRelease,
     certifies |-> certifies]

SameTenure(sender, v) == {n \in sent : n.by = sender /\ n.epoch = history[v].epoch}

\* R7: nothing is built in a tenure after its release.  An owner that knows position and clock
\* knows them to the end of its tenure, so it certifies whatever it sends from then on.  (If it
\* did not, an uncertified release that overtakes a certified heartbeat would be forgotten.)
MayBuild(sender, v, isRelease, certifies) ==
    \A n \in SameTenure(sender, v) :
        /\ n.release => v <= n.view /\ ~isRelease
        /\ isRelease => n.view <= v
        /\ n.certifies /\ ~certifies => v < n.view
        /\ ~n.certifies /\ certifies => n.view < v

Certifying(v) ==
    [Present EXCEPT !.epoch = history[v].epoch, !.seen = v - 2, !.clock = history[v].clock_ms]

Uncertified(v) == [Present EXCEPT !.epoch = history[v].epoch]

\* Half a certificate, as no consumer of ours writes it.
HalfCertifying(v) == [Certifying(v) EXCEPT !.clock = NONE]

\* A sender that cannot write one of its headers.
Odd(v) == [Certifying(v) EXCEPT !.supersedes = NOT_DECIMAL]

\* How far it is, from where the position was: `more`.
OfOwner(type, sender, more, steps, HeadersAt(_)) ==
    {Built(step, HeadersAt(v), Message(type, sender, history[v].position + more),
           {Note(sender, v, type = "ReleasingPartition", HeadersAt(v).seen # NONE)}) :
        step \in steps,
        v \in {w \in Views(sender) :
                  MayBuild(sender, w, type = "ReleasingPartition", HeadersAt(w).seen # NONE)}}

\* An administrator sets the position to 0.
Sets(steps) ==
    {Built(step, [Certifying(v) EXCEPT !.set_position = 0],
           Message("ReleasingPartition", "admin", 0), {Note("admin", v, TRUE, TRUE)}) :
        step \in steps, v \in {w \in Views("admin") : MayBuild("admin", w, TRUE, TRUE)}}

\* An older one sets it back and does not say so.
SetsSilently(steps) ==
    {built \in OfOwner("ReleasingPartition", "admin", -1, steps, Certifying) :
        built.record.message.offset >= 0}

\* A rewind, a ReleaseGroup, an administrator's claim and release, certified heartbeats and a
\* foreign claim.
Measured(n) ==
    Claims({"a1", "b1"}, Steps)
    \cup PauserClaims({-1000})
    \cup Pauses({0}, {-1000})
    \cup Pauses({9}, {2000})
    \cup OfOwner("Heartbeat", "a1", 1, {-1000, 4000}, Certifying)
    \cup OfOwner("ReleasingPartition", "a1", 0, {-1000}, Certifying)
    \cup Sets({-1000})

\* Every kind of record of an owner, restarts, and originals, in shorter logs.
Kinds(n) ==
    Claims({"a1", "b1"}, Steps)
    \cup Restarts("a2", {-1000})
    \cup Bare("ClaimingPartition", "x1", NONE, {-1000, 4000})
    \cup Bare("Heartbeat", "x1", 1, {-1000, 4000})
    \cup Bare("ReleasingPartition", "x1", 1, {-1000})
    \cup OfOwner("Heartbeat", "b1", 1, {-1000}, HalfCertifying)
    \cup OfOwner("Heartbeat", "a1", 3, {-1000}, Odd)
    \cup {[built EXCEPT !.record.message.version = 2] :
              built \in OfOwner("Heartbeat", "a1", 3, {-1000}, Certifying)}
    \cup OfOwner("Heartbeat", "admin", 1, {-1000}, Certifying)
    \cup SetsSilently({-1000})
    \cup PauserClaims({-1000})
    \cup Pauses({0}, {-1000})
    \cup OfOwner("Heartbeat", "a1", 1, {-1000, 4000}, Certifying)
    \cup OfOwner("Heartbeat", "a1", 0, {-1000}, Uncertified)
    \cup OfOwner("ClaimingMessages", "a1", 1, {-1000}, Certifying)
    \cup OfOwner("ClaimingMessages", "a1", 2, {-1000}, Certifying)
    \cup OfOwner("ReleasingPartition", "a1", 1, {-1000}, Certifying)
    \cup OfOwner("ReleasingPartition", "a1", 0, {-1000}, Uncertified)
    \cup Sets({-1000})

\* Requests for messages of an owner that does not know the position.
Grants(n) ==
    Claims({"a1"}, {-1000, 4000})
    \cup Pauses({0}, {-1000})
    \cup OfOwner("Heartbeat", "a1", 1, {-1000}, Certifying)
    \cup OfOwner("ClaimingMessages", "a1", 0, {4000}, Uncertified)
    \cup OfOwner("ClaimingMessages", "a1", 1, {-1000}, Uncertified)

\* Requests for messages that overtake each other.
OldGrants(n) ==
    Claims({"a1", "b1"}, {-1000})
    \cup OfOwner("ClaimingMessages", "a1", 1, {4000}, Certifying)
    \cup OfOwner("ClaimingMessages", "a1", 2, {4000}, Certifying)

\* An administrator that sets the position back and does not say so, though it says what it saw.
\* Ours do not.  A reader that does not know the pauser then has too high a position.
SetBack(n) ==
    Claims({"b1"}, {-1000})
    \cup PauserClaims({-1000})
    \cup Pauses({0}, {-1000})
    \cup OfOwner("Heartbeat", "admin", 1, {-1000}, Certifying)
    \cup SetsSilently({-1000})

\* Several processes write under a1's instance id, as participants of a claim that is shared by
\* ranges do: each from a view of its own, so offsets do not rise, one still writes after another
\* has released, and one certifies while another does not know what it could.
ByAnyProcess(sender, v, isRelease, certifies) == TRUE

SharedHeartbeats ==
    Claims({"a1", "b1"}, {-1000, 4000})
    \cup OfOwner("Heartbeat", "a1", 0, {-1000}, Certifying)
    \cup OfOwner("Heartbeat", "a1", 2, {-1000, 4000}, Certifying)
    \cup OfOwner("Heartbeat", "a1", 1, {-1000}, Uncertified)

Shared(n) == SharedHeartbeats

SharedGrants(n) ==
    Claims({"a1"}, {-1000, 4000})
    \cup Pauses({0}, {-1000})
    \cup OfOwner("Heartbeat", "a1", 0, {-1000}, Certifying)
    \cup OfOwner("ClaimingMessages", "a1", 1, {-1000}, Certifying)
    \cup OfOwner("ClaimingMessages", "a1", 2, {-1000}, Certifying)

\* And a release among them.
SharedReleases(n) ==
    SharedHeartbeats
    \cup OfOwner("ReleasingPartition", "a1", 0, {-1000}, Certifying)

\* A guess that such a release ends: another process may know no more of it, and certify.  So
\* nothing that was seen before it certifies.
ReleaseIsUndecided(reader, claim, record) ==
    LET newer == record.headers.epoch > claim.epoch
        guess == [claim EXCEPT
                     !.owner_instance    = record.message.instance_id,
                     !.owner_client      = record.message.client_id,
                     !.epoch             = record.headers.epoch,
                     !.position          = Max(@, record.message.offset),
                     !.last_heartbeat_ms = claim.clock_ms,
                     !.won_with_headers  = TRUE]
        isRelease == record.message.type = "ReleasingPartition"
    IN  [reader EXCEPT
            !.claim     = IF isRelease THEN Freed(guess) ELSE guess,
            !.undecided = IF isRelease THEN record.offset ELSE @,
            !.reached   = IF newer THEN record.message.offset
                          ELSE Max(@, record.message.offset),
            !.alive_ms  = claim.clock_ms]

\* Pauses that last longer than an owner may be silent.
LongPauses(n) == Claims({"a1", "b1"}, Steps) \cup Pauses({9}, {4000})

(***************************************************************************)
(* Properties, as in MCSuffix.                                             *)
(***************************************************************************)
IsPausedBy(claim) == claim.paused_until_ms # NONE /\ claim.clock_ms < claim.paused_until_ms

Exact(reader, truth) ==
    LET says == reader.claim
    IN  /\ "owner" \in reader.certain =>
               /\ says.owner_instance = truth.owner_instance
               /\ says.owner_client = truth.owner_client
               /\ says.won_with_headers = truth.won_with_headers
        /\ "epoch" \in reader.certain => says.epoch = truth.epoch
        /\ "position" \in reader.certain => says.position = truth.position
        /\ "position_set" \in reader.certain => says.position_set = truth.position_set
        /\ "pauser" \in reader.certain => says.pauser = truth.pauser
        /\ "clock" \in reader.certain =>
               /\ says.clock_ms = truth.clock_ms
               /\ says.last_heartbeat_ms = truth.last_heartbeat_ms
               /\ IsPausedBy(says) = IsPausedBy(truth)

SuffixExact == \A f \in DOMAIN readers : Exact(readers[f], Latest)

SuffixLowerBound ==
    \A f \in DOMAIN readers :
        "owner" \in readers[f].certain => readers[f].claim.position <= Latest.position

BeganLate(reader) == reader.head_ms # NONE

ClockBounded ==
    \A f \in DOMAIN readers :
        BeganLate(readers[f]) =>
            Latest.clock_ms <= Max(readers[f].claim.clock_ms, readers[f].head_ms)

\* Of a pause that is still in force: a certificate ends the memory of one that is over.
PausesEnd ==
    \A f \in DOMAIN readers :
        BeganLate(readers[f]) /\ IsPausedBy(Latest) =>
            Latest.paused_until_ms
            <= Max(readers[f].claim.paused_until_ms, readers[f].head_ms + PauseMaxMs)

\* At every heartbeat and grant that counts, the guess has the right owner and epoch.
SuffixGuessRight ==
    [][/\ last'.verdict \in {"Refreshed", "Granted"}
       /\ last'.record.headers.epoch # NONE
       => \A f \in DOMAIN readers :
              /\ readers'[f].claim.owner_instance = Latest'.owner_instance
              /\ readers'[f].claim.epoch = Latest'.epoch]_vars

\* No guess goes back to an older epoch, and no record without one undoes it.
SuffixGuessGrows ==
    [][\A f \in DOMAIN readers :
           ~IsKnown(readers[f]) /\ ~IsKnown(readers'[f]) =>
               /\ readers'[f].claim.epoch >= readers[f].claim.epoch
               /\ /\ readers[f].claim.epoch # NONE
                  /\ last'.record.headers.epoch = NONE
                  => readers'[f].claim.owner_instance = readers[f].claim.owner_instance]_vars

\* A timely owner's heartbeat makes its claim known.
SuffixBecomesKnown ==
    [][/\ last'.verdict = "Refreshed"
       /\ last'.record.headers.seen # NONE
       /\ last'.record.headers.clock # NONE
       => \A f \in DOMAIN readers :
              last'.record.headers.seen >= readers[f].undecided =>
                  readers'[f].certain \cup Lasting = Fields]_vars

=============================================================================
