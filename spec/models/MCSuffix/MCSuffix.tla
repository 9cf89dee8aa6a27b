------------------------------ MODULE MCSuffix -----------------------------
(***************************************************************************)
(* Readers that begin in the middle of the log, and what they may call     *)
(* certain.  Bounds, and the weaker and stronger rules that fail.          *)
(***************************************************************************)
EXTENDS MCFenced

\* Two clients whose records say what they saw.  Nobody in these worlds begins late: what
\* a late reader would know is computed from the log, for every offset to begin at.
SuffixTwo ==
    [Base EXCEPT
        !.certifies = TRUE,
        !.mode = "ALO",
        !.message_count = 1,
        !.sends_max = [a1 |-> Sends(2, 2, 1, 0, 0), b1 |-> Sends(1, 1, 0, 0, 0)]]

\* Requests for messages, of which a late one changes nothing.
SuffixAmo ==
    [SuffixTwo EXCEPT
        !.mode = "AMO",
        !.message_count = 2,
        !.sends_max = [a1 |-> Sends(1, 1, 0, 2, 0), b1 |-> Sends(1, 0, 0, 1, 0)]]

\* A client that restarts: the dead instance's records arrive late.
SuffixRestart ==
    [SuffixTwo EXCEPT
        !.client_of = Restarting,
        !.crashes_max = 1,
        !.sends_max = [a1 |-> Sends(1, 2, 0, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4]

\* A pause, the pauser's tenure, and a position that is set back.
SuffixAdmin ==
    [SuffixTwo EXCEPT
        !.client_of = OneAndAdmin,
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), admin |-> Sends(1, 1, 1, 0, 1)]]

\* Paused once more, after a heartbeat from before the position was set back.
SuffixPausedTwice ==
    [SuffixAdmin EXCEPT
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 2)],
        !.log_max = 6]

\* Records of one sender overtake each other and are appended twice.
SuffixDisorder ==
    [SuffixTwo EXCEPT
        !.reorders = TRUE,
        !.copies_max = 1,
        !.sends_max = [a1 |-> Sends(2, 2, 0, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]]
SuffixDisorderReleased ==
    [SuffixDisorder EXCEPT
        !.sends_max = [a1 |-> Sends(1, 2, 1, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0)]]

\* The original's instances among ours: their records cannot be certified.
SuffixMixed ==
    [SuffixTwo EXCEPT
        !.client_of = [a1 |-> "a", a2 |-> "a", b1 |-> "b"],
        !.starts_up = {"a1", "a2", "b1"},
        !.headerless = {"a1"},
        !.sends_max = [a1 |-> Sends(1, 1, 1, 0, 0), a2 |-> Sends(1, 1, 0, 0, 0),
                       b1 |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 4]

\* Measured time: what silence proves.  The log is long enough in time for every pause to
\* be over.
SuffixClock ==
    [SuffixTwo EXCEPT
        !.time_is_free = FALSE,
        !.certifies = FALSE,
        !.tick_s = 3,
        !.message_count = 0,
        !.sends_max = [a1 |-> Sends(2, 1, 0, 0, 0), b1 |-> Sends(2, 0, 0, 0, 0)],
        !.log_max = 5]
SuffixClockEven == [SuffixClock EXCEPT !.tick_s = 2]

\* The broker's clock steps back by as much as the constant allows, or by more.
SuffixClockRewound ==
    [SuffixClock EXCEPT
        !.rewinds_max = 1,
        !.client_of = [a1 |-> "a", b1 |-> "b", c1 |-> "c"],
        !.starts_up = {"a1", "b1", "c1"},
        !.skew_s = [i \in {"a1", "b1", "c1"} |-> 0],
        !.sends_max = [i \in {"a1", "b1", "c1"} |-> Sends(1, 0, 0, 0, 0)],
        !.log_max = 3]
OneTick == TickS * 1000

\* The same with a pause.
SuffixClockPaused ==
    [SuffixClock EXCEPT
        !.client_of = [a1 |-> "a", b1 |-> "b", admin |-> "admin"],
        !.starts_up = {"a1", "b1", "admin"},
        !.admins = {"admin"},
        !.pause_s = 4,
        !.tick_s = 3,
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), b1 |-> Sends(1, 0, 0, 0, 0),
                       admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 3]

\* c1 begins late, wherever it likes, and takes part.
SuffixJoins ==
    [SuffixTwo EXCEPT
        !.client_of = [a1 |-> "a", c1 |-> "c"],
        !.starts_up = {"a1"},
        !.joins_late = {"c1"},
        !.skew_s = [i \in {"a1", "c1"} |-> 0],
        !.mode = "AMO",
        !.sends_max = [a1 |-> Sends(1, 1, 0, 1, 0), c1 |-> Sends(1, 1, 0, 1, 0)]]
SuffixJoinsAlo ==
    [SuffixJoins EXCEPT
        !.mode = "ALO",
        !.sends_max = [a1 |-> Sends(2, 1, 1, 0, 0), c1 |-> Sends(1, 1, 0, 0, 0)]]

\* Both may find that records are gone, wherever they stand: also c1 that begins with the log,
\* whose low watermark is 0.
SuffixGaps ==
    [SuffixJoins EXCEPT
        !.misses = {"a1", "c1"},
        !.message_count = 1]
SuffixGapsAlo ==
    [SuffixJoinsAlo EXCEPT
        !.misses = {"a1", "c1"},
        !.sends_max = [a1 |-> Sends(1, 1, 1, 0, 0), c1 |-> Sends(1, 1, 0, 0, 0)]]
\* With an administrator, whose pause or position may be among what is gone.
SuffixGapsAdmin ==
    [SuffixAdmin EXCEPT
        !.misses = {"a1", "admin"},
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), admin |-> Sends(1, 0, 1, 0, 1)]]

\* All that wrote is gone, and so is the head: c1 claims because nobody was heard.  What it
\* sends must not make a reader that begins later still certain of a position.
SuffixOrphaned ==
    [SuffixJoinsAlo EXCEPT
        !.time_is_free = FALSE,
        !.tick_s = 5,
        !.client_of = [a1 |-> "a", c1 |-> "c"],
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), c1 |-> Sends(2, 1, 0, 0, 0)],
        !.log_max = 5]

\* The same at most once: an instance that does not know the position may not even ask.
SuffixOrphanedAmo ==
    [SuffixOrphaned EXCEPT
        !.mode = "AMO",
        !.sends_max = [a1 |-> Sends(1, 0, 0, 1, 0), c1 |-> Sends(2, 0, 0, 1, 0)]]

\* c1 begins late, reads of the pause, and asks until it knows that it won.  The pause is
\* cut, so where the broker's clock stepped back it ends earlier for c1 than for all who
\* know the clock.
SuffixPauseOver ==
    [SuffixJoinsAlo EXCEPT
        !.time_is_free = FALSE,
        !.tick_s = 3,
        !.pause_s = 4,
        !.rewinds_max = 1,
        !.message_count = 0,
        !.client_of = [a1 |-> "a", c1 |-> "c", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.skew_s = [i \in {"a1", "c1", "admin"} |-> 0],
        !.sends_max = [a1 |-> Sends(1, 0, 0, 0, 0), c1 |-> Sends(2, 0, 0, 0, 0),
                       admin |-> Sends(0, 0, 0, 0, 1)],
        !.log_max = 4]

\* c1 begins late, after an administrator set the position to 0, and its start policy says 2.
\* Of a1's heartbeat at 0 it learns the position, and not that somebody set it.
AloStartLate ==
    [SuffixJoinsAlo EXCEPT
        !.client_of = [a1 |-> "a", c1 |-> "c", admin |-> "admin"],
        !.starts_up = {"a1", "admin"},
        !.admins = {"admin"},
        !.start_of = [a1 |-> 1, c1 |-> 2],
        !.skew_s = [i \in {"a1", "c1", "admin"} |-> 0],
        !.sends_max = [a1 |-> Sends(1, 1, 0, 0, 0), c1 |-> Sends(1, 0, 0, 0, 0),
                       admin |-> Sends(1, 0, 1, 0, 1)],
        !.log_max = 6]
\* To keep it small nobody dawdles but c1, who joins when the others are done.
OneUnderWay ==
    /\ InFlight <= 1
    /\ status["c1"] = "up" => Length(log) >= 5
    /\ View("a1") + 1 >= Length(log) \/ status["c1"] = "up"
    /\ View("admin") + 1 >= Length(log) \/ Length(log) >= 3

\* What the others read would change nothing.  One record is under way at a time.
OnlyC1Reads == View("a1") = 0 /\ View("admin") = 0 /\ InFlight <= 1

(***************************************************************************)
(* What a reader that began at an offset knows after the first n records.  *)
(***************************************************************************)
RECURSIVE ReaderFrom(_, _)
ReaderFrom(first, n) ==
    IF n = first THEN NewReader(first) ELSE ReadRecord(ReaderFrom(first, n - 1), log[n])

\* An instance that joined late, at the offset that it has read to.
IsUp(i) == status[i] \in {"up", "stalled"} /\ i \notin unaware

ForEveryReader(Holds(_, _)) ==
    /\ \A first \in 0 .. Length(log) : Holds(ReaderFrom(first, Length(log)), Length(log))
    /\ \A i \in JoinsLate \cup Misses : IsUp(i) => Holds(consumers[i].reader, View(i))

(***************************************************************************)
(* Properties.                                                             *)
(***************************************************************************)

\* Free time: a pause that was over stays over.
PausedAfter(k) ==
    /\ history[k + 1].paused_until_ms # NONE
    /\ IF TimeIsFree
       THEN ~\E l \in 1 .. k :
                /\ log[l].pause_over
                /\ \A later \in l .. k : log[later].message.type # "ReleaseGroup"
       ELSE history[k + 1].clock_ms < history[k + 1].paused_until_ms

SaysPaused(claim) ==
    /\ claim.paused_until_ms # NONE
    /\ TimeIsFree \/ claim.clock_ms < claim.paused_until_ms

ExactAfter(reader, k) ==
    LET truth == history[k + 1]
        says  == reader.claim
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
               /\ PausedAfter(k) => SaysPaused(says)
               /\ ~TimeIsFree => (SaysPaused(says) => PausedAfter(k))

\* Every field that a reader calls certain equals the full fold's.
SuffixExact == ForEveryReader(ExactAfter)

\* Where the owner is certain and the position is not, the claim holds a lower bound.
BoundedAfter(reader, k) ==
    "owner" \in reader.certain => reader.claim.position <= history[k + 1].position

SuffixLowerBound == ForEveryReader(BoundedAfter)

\* At every heartbeat and grant that counts, the guess has the right owner and epoch.  (For
\* records with an epoch: without one nothing can be said.)
GuessedAfter(reader, k) ==
    /\ k > 0
    /\ reader.certain = Fields \/ reader.head_ms # NONE    \* it has read something
    /\ verdicts[k] \in {"Refreshed", "Granted"}
    /\ log[k].headers.epoch # NONE
    => /\ reader.claim.owner_instance = history[k + 1].owner_instance
       /\ reader.claim.epoch = history[k + 1].epoch

SuffixGuessRight == ForEveryReader(GuessedAfter)

\* A timely owner makes its claim Known: a heartbeat that it sent after it had read
\* everything that may have displaced it, by a reader that has read all that it had not.
KnownAfter(reader, k) ==
    /\ k > 0
    /\ reader.certain = Fields \/ reader.head_ms # NONE
    /\ verdicts[k] = "Refreshed"
    /\ log[k].headers.seen # NONE
    /\ log[k].headers.seen >= reader.undecided
    => reader.certain \cup Lasting = Fields

SuffixBecomesKnown == ForEveryReader(KnownAfter)

(***************************************************************************)
(* What DefiniteWin assumes of the log.                                    *)
(***************************************************************************)
BeganLate(reader) == reader.head_ms # NONE

\* The true clock is at most the reader's, or at most head_ms: no broker's clock stepped back
\* by more than ClockRewindMaxMs.
ClockBoundedAfter(reader, k) ==
    BeganLate(reader) => history[k + 1].clock_ms <= Max(reader.claim.clock_ms, reader.head_ms)

ClockBounded == ForEveryReader(ClockBoundedAfter)

\* Pauses end: one of the head no later than PauseMaxMs after head_ms, and one that was read
\* then, or when the reader thinks that it does.
PausesEndAfter(reader, k) ==
    BeganLate(reader) =>
        history[k + 1].paused_until_ms
        <= Max(reader.claim.paused_until_ms, reader.head_ms + PauseMaxMs)

PausesEnd == ForEveryReader(PausesEndAfter)

(***************************************************************************)
(* What must be reachable, for the readers that begin late.                *)
(***************************************************************************)
NoLateReader(Is(_)) == \A first \in 1 .. Length(log) : ~Is(ReaderFrom(first, Length(log)))

\* Of those that take part.
NobodyLate(Is(_)) == \A i \in JoinsLate : IsUp(i) => ~Is(consumers[i].reader)

IsUnknown(reader)       == Knowledge(reader) = "Unknown"
IsProvisional(reader)   == Knowledge(reader) = "Provisional"
IsKnownOwner(reader)    == IsKnown(reader) /\ IsOwned(reader.claim)
IsKnownFree(reader)     == IsKnown(reader) /\ ~IsOwned(reader.claim)
HasOnlyPosition(reader) == "position" \in reader.certain /\ "clock" \notin reader.certain
KnowsNoPosition(reader) == IsKnownOwner(reader) /\ "position" \notin reader.certain
WonAfterPause(reader)   ==
    /\ reader.head_ms # NONE           \* It began late.
    /\ IsKnownOwner(reader)
    /\ reader.claim.paused_until_ms # NONE

NeverUnknown         == NoLateReader(IsUnknown)
NeverProvisional     == NoLateReader(IsProvisional)
NeverKnownOwner      == NoLateReader(IsKnownOwner)
NeverKnownFree       == NoLateReader(IsKnownFree)
NeverKnownPosition   == NoLateReader(HasOnlyPosition)
NeverPositionUnknown == NoLateReader(KnowsNoPosition)
NeverKnowsWinAfterPause == NobodyLate(WonAfterPause)

(***************************************************************************)
(* Weaker and stronger rules, which fail.                                  *)
(***************************************************************************)

\* The epoch header alone: an owner's record makes its claim Known.
EpochCertifies(reader, record) == FromAnOwner(record) /\ HasEpoch(record)

\* The epoch header, and some time: once the suffix holds this many records.
EpochAndAWhile(reader, record) ==
    FromAnOwner(record) /\ HasEpoch(record) /\ reader.reached # NONE

\* What the sender saw, and not whether anything came after it.
SeenAnything(reader, record) ==
    FromAnOwner(record) /\ HasEpoch(record) /\ SaysWhatItSaw(record)

\* One record too few.
SeenAlmostAll(reader, record) ==
    SeenAnything(reader, record) /\ record.headers.seen >= reader.undecided - 1

\* A position that is not certain, certified all the same.
CertifiesAlways(me, c) == me.certifies

\* A request wins once the owner was silent for a while, whatever pause the head may hold.
WinsWithoutPause(reader, claim, record) ==
    /\ reader.head_ms # NONE
    /\ claim.clock_ms - Max(reader.head_ms, reader.alive_ms) > 2 * HeartbeatIntervalMs

\* In the place of PausedUntil: no pause is cut.
NotCut(claim, record) ==
    LET until == record.message.expires_unix_s * 1000
    IN  IF until > claim.clock_ms THEN until ELSE NONE

\* The end of a pause that was read is believed, though the true clock was ahead.
WinsAfterPauseRead(reader, claim, record) ==
    /\ reader.head_ms # NONE
    /\ IF claim.paused_until_ms = NONE
       THEN claim.clock_ms > reader.head_ms + PauseMaxMs
       ELSE claim.clock_ms >= claim.paused_until_ms
    /\ claim.clock_ms - Max(reader.head_ms, reader.alive_ms) > 2 * HeartbeatIntervalMs

\* A request wins once nobody was heard since the cut, requests not counted.
WinsOverRequests(reader, claim, record) ==
    /\ claim.paused_until_ms = NONE \/ claim.clock_ms >= claim.paused_until_ms
    /\ reader.head_ms # NONE
    /\ claim.clock_ms > reader.head_ms + PauseMaxMs
    /\ claim.clock_ms - reader.head_ms > 2 * HeartbeatIntervalMs

\* Exactly two intervals of silence.
WinsAtTwoIntervals(reader, claim, record) ==
    /\ claim.paused_until_ms = NONE \/ claim.clock_ms >= claim.paused_until_ms
    /\ reader.head_ms # NONE
    /\ claim.clock_ms > reader.head_ms + PauseMaxMs
    /\ claim.clock_ms - Max(reader.head_ms, reader.alive_ms) >= 2 * HeartbeatIntervalMs

\* A guessed position outlives the guess.
KeepsGuess(reader, claim, record) ==
    [reader EXCEPT
        !.claim     = ReleaseGroup(claim, record).claim,
        !.certain   = {"owner", "pauser"},
        !.undecided = NONE,
        !.reached   = NONE,
        !.alive_ms  = NONE]

\* Without the head of the log, a reader takes a position that it has not read of for never set.
NeverSetAsFarAsKnown(reader) == ~reader.claim.position_set

\* Who knows the owner takes a position for never set until it reads otherwise.
SetOrNot(claim) == {"position_set"}

\* A gap is passed over, as if nothing had been there.
GapPassedOver(me, c, first) == [c EXCEPT !.view = first]

\* After a gap nothing is certain, but what an owner saw before it still certifies.
GapBeforeSeen(me, c, first) ==
    [c EXCEPT !.reader.certain = {}, !.view = first, !.asked = FALSE]

\* Nobody guesses.
NoGuess(reader, claim, record) == [reader EXCEPT !.claim = claim]

=============================================================================
