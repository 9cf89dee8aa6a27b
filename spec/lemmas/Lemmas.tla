------------------------------- MODULE Lemmas -------------------------------
(***************************************************************************)
(* What must be accepted: the effect of this record in this state.         *)
(*                                                                         *)
(* Safety only forbids, so a rule that refuses too much breaks no safety.  *)
(* Each lemma is about one step: a claim before a record, the record, and  *)
(* the claim after it.  It looks at fields and at the record, and never at *)
(* a verdict or at a guard of Claim.tla, since those are what it judges.   *)
(* The proof has the same lemmas by the same names, for every claim and    *)
(* every record: proof/properties.py.                                      *)
(*                                                                         *)
(* For the fenced rules, where time is measured.  It has no variables.     *)
(***************************************************************************)
EXTENDS Claim

HasOddHeaders(record) ==
    LET headers == record.headers
    IN  \/ NOT_DECIMAL \in {headers.epoch, headers.seen, headers.clock, headers.supersedes,
                             headers.set_position}
        \/ headers.epoch >= record.offset
        \/ headers.seen >= record.offset

CanBeRead(record) == record.message.version \in {0, 1} /\ ~HasOddHeaders(record)

\* An administrator's release, by its sender, the pauser and the header.
AdminSets(before, record) ==
    /\ record.message.type = "ReleasingPartition"
    /\ \/ record.message.instance_id = before.pauser
       \/ record.headers.set_position # NONE

\* A release at 0 sets the position if its sender has no headers to say so, or says so.
ReleaseSaysSo(record) == ~record.headers.present \/ record.headers.set_position # NONE

\* A request that can be read, of somebody whom no pause excludes: also at its very end.
MayBeAskedFor(before, record, after) ==
    /\ record.message.type = "ClaimingPartition"
    /\ CanBeRead(record)
    /\ \/ before.paused_until_ms = NONE
       \/ after.clock_ms >= before.paused_until_ms
       \/ record.message.instance_id = before.pauser

IsGiven(record, after) ==
    /\ after.owner_instance = record.message.instance_id
    /\ after.owner_client = record.message.client_id
    /\ after.epoch = record.offset
    /\ after.last_heartbeat_ms = after.clock_ms
    /\ after.won_with_headers = record.headers.present

\* A claim that nobody owns goes to the next who asks.
FreeClaimIsGivenAt(before, record, after) ==
    before.owner_instance = NOBODY /\ MayBeAskedFor(before, record, after) =>
        IsGiven(record, after)

\* An owner that was silent for more than two intervals gives way to the next who asks, also
\* to one of its own client that names no tenure.
StaleOwnerIsReplacedAt(before, record, after) ==
    /\ before.owner_instance # NOBODY
    /\ after.clock_ms - before.last_heartbeat_ms > 2 * HeartbeatIntervalMs
    /\ MayBeAskedFor(before, record, after)
    => IsGiven(record, after)

\* R1a.  An owner that asks anew wins anew.
OwnerMayAskAgainAt(before, record, after) ==
    /\ before.owner_instance = record.message.instance_id
    /\ MayBeAskedFor(before, record, after)
    => IsGiven(record, after)

\* R8a.  The pauser's own win ends its pause.
WinEndsOwnPauseAt(before, record, after) ==
    /\ record.message.instance_id = before.pauser
    /\ MayBeAskedFor(before, record, after)
    /\ IsGiven(record, after)
    => after.paused_until_ms = NONE

\* A record that can be read, of the owner, under its epoch; of a stale one, too.
IsOwners(before, record) ==
    /\ CanBeRead(record)
    /\ before.owner_instance = record.message.instance_id
    /\ IF record.headers.epoch = NONE
       THEN ~before.won_with_headers
       ELSE record.headers.epoch = before.epoch

LivesAt(after, position) == after.last_heartbeat_ms = after.clock_ms /\ after.position = position

\* Whether anybody said where to go on: above 0 always, at 0 one that says that it began there.
SaysWhere(before, record) ==
    \/ before.position_set
    \/ record.message.offset > 0
    \/ record.message.offset = 0 /\ record.headers.start # NONE

\* Its heartbeat, also one below the position, says that it lives, and where it stands.
OwnerIsObeyedAt(before, record, after) ==
    record.message.type = "Heartbeat" /\ IsOwners(before, record) =>
        /\ LivesAt(after, IF record.message.offset > before.position
                          THEN record.message.offset ELSE before.position)
        /\ after.position_set = SaysWhere(before, record)

\* What it asks for beyond the position is its own, and the request says that it lives.
OwnerIsGrantedAt(before, record, after) ==
    /\ record.message.type = "ClaimingMessages"
    /\ IsOwners(before, record)
    /\ record.message.offset > before.position
    => LivesAt(after, record.message.offset)

IsFree(after) ==
    /\ after.owner_instance = NOBODY
    /\ after.owner_client = NOBODY
    /\ after.last_heartbeat_ms = NONE
    /\ ~after.won_with_headers

\* Its release frees the claim, at the position that it sets or has reached.
OwnerMayReleaseAt(before, record, after) ==
    /\ record.message.type = "ReleasingPartition"
    /\ IsOwners(before, record)
    /\ ~(AdminSets(before, record) /\ record.message.offset < 0)
    => /\ IsFree(after)
       /\ after.position = IF \/ AdminSets(before, record)
                              \/ record.message.offset > before.position
                           THEN record.message.offset ELSE before.position
       /\ after.position_set =
              (SaysWhere(before, record) \/ (AdminSets(before, record) /\ ReleaseSaysSo(record)))

\* A ReleaseGroup frees the claim, also an expired one.  Its pause replaces the one before,
\* also where it is shorter.
PauseIsReplacedAt(before, record, after) ==
    record.message.type = "ReleaseGroup" /\ record.message.version \in {0, 1} =>
        LET asked == record.message.expires_unix_s * 1000
            most  == after.clock_ms + PauseMaxMs
            until == IF asked < most THEN asked ELSE most
        IN  /\ IsFree(after)
            /\ after.pauser = record.message.instance_id
            /\ after.paused_until_ms = IF until > after.clock_ms THEN until ELSE NONE

\* Nothing but a ReleaseGroup begins a pause, and nothing but its pauser's win ends one: what
\* is over is remembered, too.
PauseIsKeptAt(before, record, after) ==
    record.message.type # "ReleaseGroup" =>
        /\ after.pauser = before.pauser
        /\ \/ after.paused_until_ms = before.paused_until_ms
           \/ /\ record.message.type = "ClaimingPartition"
              /\ record.message.instance_id = before.pauser
              /\ after.paused_until_ms = NONE

\* Nothing but a win says whether an owner has headers.
HowItWasWonIsKeptAt(before, record, after) ==
    /\ before.owner_instance # NOBODY
    /\ after.owner_instance # NOBODY
    /\ before.epoch = after.epoch
    => after.won_with_headers = before.won_with_headers

\* R9.  A bare heartbeat of the client of an owner without headers takes over, and lives.
OriginalMayRestartAt(before, record, after) ==
    /\ record.message.type = "Heartbeat"
    /\ CanBeRead(record)
    /\ ~record.headers.present
    /\ before.owner_instance \notin {NOBODY, record.message.instance_id}
    /\ before.owner_client = record.message.client_id
    /\ ~before.won_with_headers
    => /\ after.owner_instance = record.message.instance_id
       /\ after.epoch = record.offset
       /\ LivesAt(after, IF record.message.offset > before.position
                         THEN record.message.offset ELSE before.position)

=============================================================================
