from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import attrs
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kafka_marshal import FENCED, Record, decode
from kafka_marshal.admin import pause as pausing
from kafka_marshal.admin import set_positions as administer
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.position_targets import PlannedPosition, plan, wish
from kafka_marshal.admin.set_positions import SetPositionsOperation, SetPositionsResult
from kafka_marshal.admin.view import View
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.log_writer import (
    LogWriter,
    NotAppended,
    OutcomeUnknown,
    RecordMetadata,
)
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Message,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import InvalidOption
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.hands import Hands

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1_000)


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def look(hands: Hands) -> View:
    with View(hands.settings, hands.topic, RULES) as view:
        return view.read()


def claim(hands: Hands, key: ClaimKey) -> Reader:
    return look(hands).folds[coordinating_partition(key.topic, hands.partitions)].claim(key)


def planned(hands: Hands, group: str, *wishes: str) -> list[PlannedPosition]:
    return plan([wish(text) for text in wishes], group, hands.cluster, look(hands))


class Interfering(LogWriter):
    """A log in which some records come to grief."""

    def __init__(self, hands: Hands, outcome: Callable[[Message], Exception | None]) -> None:
        super().__init__(hands.settings, hands.topic)
        self._spoilt = outcome

    def append(self, partition: int, message: Message, headers: Headers) -> Future[RecordMetadata]:
        error = self._spoilt(message)
        if error is None:
            return super().append(partition, message, headers)
        future: Future[RecordMetadata] = Future()
        future.set_exception(error)
        return future


def set_them(
    hands: Hands,
    group: str,
    wanted: list[PlannedPosition],
    *,
    log: LogWriter | None = None,
    called_off: Callable[[], bool] = lambda: False,
    notes: list[str] | None = None,
    pause_ms: int = 60_000,
) -> list[SetPositionsResult]:
    told = [] if notes is None else notes
    with (
        log or LogWriter(hands.settings, hands.topic) as appending,
        View(hands.settings, hands.topic, RULES) as view,
    ):
        operators = SetPositionsOperation(view, group, {one.key.topic for one in wanted}, pause_ms)
        return operators.set_positions(hands.cluster, appending, wanted, called_off, told.append)


def after(hands: Hands, group: str, topic: str) -> str | None:
    """Who paused the group, if claims that it has are paused, or if it has none."""
    fold = look(hands).folds[coordinating_partition(topic, hands.partitions)]
    paused = pausing.kept_expiry_s(fold, group) > 0
    return fold.newborn(group).claim.pauser if paused else None


# --- setting positions ----------------------------------------------------------------------------


def test_positions_are_set_and_committed_and_consumers_go_on_from_there(hands: Hands) -> None:
    topic = hands.data(partitions=3, messages=100)
    epoch = hands.wins("g", topic, 1)
    hands.beats("g", topic, 1, epoch, 80)
    wanted = planned(hands, "g", f"{topic}:1=20", f"{topic}:2=latest")
    assert [(one.position, one.target) for one in wanted] == [(80, 20), (0, 100)]
    [ended] = set_them(hands, "g", wanted)
    assert (ended.reason, len(ended.set), ended.still_paused) == (None, 2, False)
    assert administer.commit(hands.cluster, "g", [ended], wanted) is None
    # What the old owner still sends does nothing; the next to claim wins, and begins there.
    hands.beats("g", topic, 1, epoch, 90)
    won = hands.wins("g", topic, 1, "c2")
    known = claim(hands, ClaimKey("g", topic, 1)).claim
    assert (known.owner_client, known.epoch, known.position) == ("c2", won, 20)
    assert claim(hands, ClaimKey("g", topic, 2)).claim.position == 100
    admin = AdminClient({"bootstrap.servers": hands.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])["g"]
    found = {(one.topic, one.partition): one.offset for one in asked.result(30).topic_partitions}
    assert found[topic, 1] == 20
    assert found[topic, 2] == 100


def test_a_claim_that_was_not_named_is_not_paused_any_longer_than_it_takes(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.beats("g", topic, 0, hands.wins("g", topic, 0), 3)
    set_them(hands, "g", planned(hands, "g", f"{topic}:1=5"))
    assert after(hands, "g", topic) is None
    hands.wins("g", topic, 0, "c2")
    assert claim(hands, ClaimKey("g", topic, 0)).claim.owner_client == "c2"


def test_a_pause_that_was_in_force_is_in_force_afterwards_for_as_long(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.wins("g", topic, 0)
    hands.pauses("g", topic, 600)
    before = claim(hands, ClaimKey("g", topic, 0)).claim.paused_until_ms
    [ended] = set_them(hands, "g", planned(hands, "g", f"{topic}:0=5"))
    assert ended.reason is None
    known = claim(hands, ClaimKey("g", topic, 0)).claim
    assert (known.paused_until_ms, known.position, known.owned) == (before, 5, False)


def test_a_pause_that_came_after_the_log_was_read_is_in_force_afterwards(hands: Hands) -> None:
    topic = hands.data(messages=10)
    hands.wins("g", topic, 0)
    with (
        LogWriter(hands.settings, hands.topic) as log,
        View(hands.settings, hands.topic, RULES) as view,
    ):
        operators = SetPositionsOperation(view, "g", [topic], 60_000)
        for batch in view.changes(view.ends):
            operators.read(batch)
        wanted = plan([wish(f"{topic}=5")], "g", hands.cluster, view)
        hands.pauses("g", topic, 600)
        paused = claim(hands, ClaimKey("g", topic, 0)).claim.paused_until_ms
        [ended] = operators.set_positions(hands.cluster, log, wanted)
    assert ended.reason is None
    known = claim(hands, ClaimKey("g", topic, 0)).claim
    assert (known.paused_until_ms, known.position) == (paused, 5)


class Gathering(LogWriter):
    """A log that appends no record of these kinds before it was given `number` of them."""

    def __init__(self, hands: Hands, number: int) -> None:
        super().__init__(hands.settings, hands.topic)
        self._number = number
        self._waiting: dict[type[Message], list[Callable[[], None]]] = {
            ClaimingPartition: [],
            ReleasingPartition: [],
        }

    def append(self, partition: int, message: Message, headers: Headers) -> Future[RecordMetadata]:
        waiting = self._waiting.get(type(message))
        if waiting is None:
            return super().append(partition, message, headers)
        gathered: Future[RecordMetadata] = Future()
        append = super().append

        def appends() -> None:
            append(partition, message, headers).add_done_callback(
                lambda done: gathered.set_result(done.result())
            )

        waiting.append(appends)
        if len(waiting) == self._number:
            del self._waiting[type(message)]
            for each in waiting:
                each()
        return gathered


def test_many_positions_are_set_at_once(hands: Hands) -> None:
    """All claims are asked for before the first answer, and all positions written likewise."""
    topic = hands.data(partitions=40, messages=1)
    wanted, begun = planned(hands, "g", f"{topic}=latest"), time.monotonic()

    def waits_in_vain() -> bool:
        return time.monotonic() > begun + 120

    log = Gathering(hands, 40)
    [ended] = set_them(hands, "g", wanted, log=log, called_off=waits_in_vain, pause_ms=600_000)
    assert (len(ended.set), ended.reason) == (40, None)


def test_topics_on_different_coordinating_partitions_are_told_apart(hands: Hands) -> None:
    first = hands.data(messages=10)
    other = first
    while coordinating_partition(other, 4) == coordinating_partition(first, 4):
        other = hands.data(messages=10)
    wanted = planned(hands, "g", f"{first}=3", f"{other}=4")

    def refused(message: Message) -> Exception | None:
        spoilt = isinstance(message, ClaimingPartition) and message.topic == other
        return NotAppended("it may not be written") if spoilt else None

    ended = set_them(hands, "g", wanted, log=Interfering(hands, refused))
    by_partition = {one.coordinating_partition: one for one in ended}
    done = by_partition[coordinating_partition(first, 4)]
    failed = by_partition[coordinating_partition(other, 4)]
    assert (done.reason, done.set) == (None, (ClaimKey("g", first, 0),))
    assert (failed.set, failed.not_set) == ((), (ClaimKey("g", other, 0),))
    assert failed.reason == "it may not be written"
    assert claim(hands, ClaimKey("g", other, 0)).claim.position == 0
    assert failed.still_paused, "nobody may claim it, and so nobody ends its pause"


def test_an_operation_that_is_called_off_sets_nothing_and_ends_its_pause(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.wins("g", topic, 0)
    wanted = planned(hands, "g", f"{topic}=5")

    def called_off() -> bool:
        return after(hands, "g", topic) is not None  # as soon as it has paused the group

    [ended] = set_them(hands, "g", wanted, called_off=called_off)
    assert (ended.set, len(ended.not_set), ended.in_doubt) == ((), 2, ())
    assert ended.reason == "called_off"
    assert after(hands, "g", topic) is None
    assert claim(hands, ClaimKey("g", topic, 0)).claim.position == 0
    records = look(hands).records
    [at_once] = set_them(hands, "g", wanted, called_off=lambda: True)
    assert (at_once.set, at_once.reason) == ((), "called_off")
    assert look(hands).records == records, "nothing was sent"


def test_a_claim_that_was_won_and_is_given_back_unset_is_not_called_set(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.beats("g", topic, 0, hands.wins("g", topic, 0), 7)
    wanted = planned(hands, "g", f"{topic}=5")

    def never_asked(message: Message) -> Exception | None:
        asks = isinstance(message, ClaimingPartition) and message.partition == 1
        return OutcomeUnknown("nobody answers") if asks else None

    def called_off() -> bool:
        owner = claim(hands, ClaimKey("g", topic, 0)).claim.owner_client
        return owner is not None and owner != "c1"

    log = Interfering(hands, never_asked)
    [ended] = set_them(hands, "g", wanted, log=log, called_off=called_off)
    assert (ended.set, len(ended.not_set), ended.reason) == ((), 2, "called_off")
    known = claim(hands, ClaimKey("g", topic, 0)).claim
    assert (known.owned, known.position) == (False, 7)


def test_whoever_pauses_later_has_the_group_and_keeps_its_pause(hands: Hands) -> None:
    topic = hands.data(messages=10)
    wanted = planned(hands, "g", f"{topic}=5")
    interfered: list[int] = []

    def called_off() -> bool:
        if not interfered and after(hands, "g", topic) is not None:
            interfered.append(hands.pauses("g", topic, 600, "other"))
        return False

    [ended] = set_them(hands, "g", wanted, called_off=called_off)
    assert interfered
    assert (ended.set, ended.reason) == ((), "paused_by_another")
    assert after(hands, "g", topic) == "otheri"


def test_it_warns_of_a_half_set_group_that_it_did_not_see_when_it_planned(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    wanted = planned(hands, "g", f"{topic}:0=5")
    assert not administer.left_by_others(look(hands), "g")
    hands.pauses("g", topic, 600, "other")
    won = [hands.wins("g", topic, partition, "other") for partition in (0, 1)]
    hands.sets("g", topic, 0, won[0], 3, "other")
    notes: list[str] = []
    [ended] = set_them(hands, "g", wanted, notes=notes)
    assert (len(ended.set), ended.reason) == (1, None)
    [note] = notes
    assert note.startswith(f"otheri has paused the group and not set {topic}:1 (set: 1)")


def test_a_write_of_which_nobody_knows_is_settled_by_winning_its_claim_anew(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    wanted = planned(hands, "g", f"{topic}=5")
    lost: list[Message] = []

    def unknown(message: Message) -> Exception | None:
        if isinstance(message, ReleasingPartition) and message.partition == 1:
            lost.append(message)
            return OutcomeUnknown("nobody answers")
        return None

    [ended] = set_them(
        hands, "g", wanted, log=Interfering(hands, unknown), called_off=lambda: len(lost) > 2
    )
    assert (ended.set, ended.not_set) == ((ClaimKey("g", topic, 0),), (ClaimKey("g", topic, 1),))
    # No release of it arrives, so it stays the administrator's until that counts as stale.
    assert (ended.in_doubt, ended.reason, ended.still_paused) == ((), "called_off", True)


def test_a_write_that_got_lost_is_written_anew(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    lost: list[Message] = []

    def unknown(message: Message) -> Exception | None:
        if isinstance(message, ReleasingPartition) and not lost:
            lost.append(message)
            return OutcomeUnknown("nobody answers")
        return None

    wanted = planned(hands, "g", f"{topic}=5")
    [ended] = set_them(hands, "g", wanted, log=Interfering(hands, unknown))
    assert (ended.reason, len(ended.set)) == (None, 2)


def test_a_pause_that_may_not_be_written_changes_nothing(hands: Hands) -> None:
    topic = hands.data(messages=10)

    def refused(message: Message) -> Exception | None:
        return NotAppended("no permission") if isinstance(message, ReleaseGroup) else None

    wanted = planned(hands, "g", f"{topic}=5")
    [ended] = set_them(hands, "g", wanted, log=Interfering(hands, refused))
    assert (ended.reason, ended.set, ended.still_paused) == ("no permission", (), False)


def test_what_an_earlier_administrator_has_left_is_told_before_anything_is_done(
    hands: Hands,
) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.pauses("g", topic, 600, "x")
    hands.wins("g", topic, 0, "x")
    [work] = administer.left_by_others(look(hands), "g")
    sentence = f"xi has paused the group and not set {topic}:0"
    assert sentence in administer.work_left(work)
    at = ("set-position", "g", f"{topic}:1=5", *hands.options)
    stopped = marshal(*at)
    assert stopped.returncode == 1
    assert sentence in stopped.stderr
    assert "--anyway" in stopped.stderr
    assert marshal(*at, "--anyway").returncode == 0


class Working:
    """A real consumer that does nothing but remember what it was given, partition by partition."""

    def __init__(self, hands: Hands, topic: str, name: str) -> None:
        self.given: dict[int, list[int]] = {}
        self.consumer = Consumer(
            hands.bootstrap,
            group_id="g",
            client_id=name,
            heartbeat_interval_s=1.0,
            coordination_topic=hands.topic,
        )
        self.consumer.add_topic(topic)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        with self.consumer:
            for message in self.consumer:
                self.given.setdefault(message.partition, []).append(message.offset)

    def wait_for(self, reached: Callable[[dict[int, list[int]]], bool]) -> None:
        deadline = time.monotonic() + 60
        while not reached(self.given):
            assert time.monotonic() < deadline, {n: each[-3:] for n, each in self.given.items()}
            time.sleep(0.05)

    def stop(self) -> None:
        self.consumer.stop()
        self._thread.join(60)


def test_a_consumer_at_work_goes_on_where_it_is_told_to(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=500)
    working = Working(hands, topic, "worker")
    try:
        working.wait_for(lambda given: all(given.get(n, [0])[-1] == 499 for n in range(2)))
        set_position = ("set-position", "g", f"{topic}:0=200", f"{topic}:1=earliest")
        done = marshal(*set_position, *hands.options, "--heartbeat-interval", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        working.wait_for(lambda given: len(given[0]) >= 800 and len(given[1]) >= 1000)
    finally:
        working.stop()
    assert working.given == {0: [*range(500), *range(200, 500)], 1: [*range(500)] * 2}


# --- what may be wished ---------------------------------------------------------------------------


def test_places_are_offsets_ends_and_times(hands: Hands) -> None:
    before = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 3600))
    topic = hands.data(partitions=2, messages=10)
    hands.wins("g", topic, 0)
    assert [one.target for one in planned(hands, "g", f"{topic}={before}")] == [0, 0]
    assert [one.target for one in planned(hands, "g", f"{topic}=2100-01-01T00:00")] == [10, 10]
    mixed = planned(hands, "g", f"{topic}:0=latest", f"{topic}:1=earliest")
    assert [one.target for one in mixed] == [10, 0]


def test_what_cannot_be_is_said_in_one_sentence(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    for written, said in {
        f"{topic}:0=11": "offset 11 is outside .*:0, which holds 0 to 9",
        f"{topic}:2=5": "has partitions 0 to 1, not 2",
        f"{topic}=soon": "'soon' is no offset",
        f"{topic}:0": "must be written TOPIC=WHERE",
        f"{topic}:x=5": "must be written TOPIC or TOPIC:PARTITION",
        "nowhere=5": "there is no topic nowhere",
    }.items():
        with pytest.raises(InvalidOption, match=said):
            planned(hands, "g", written)
    empty = hands.data()
    with pytest.raises(
        InvalidOption, match=r"offset 5 is outside .*holds nothing and ends at offset 0"
    ):
        planned(hands, "g", f"{empty}=5")
    assert planned(hands, "g", f"{topic}:0=1969-12-31T23:59:59.999")[0].target == 0
    with pytest.raises(InvalidOption, match="is named twice"):
        planned(hands, "g", f"{topic}=5", f"{topic}:1=6")


def test_a_position_is_moved_from_where_the_log_says_that_it_is(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=100)
    hands.beats("g", topic, 0, hands.wins("g", topic, 0), 40)
    for moved, target in {"+10": 50, "-40": 0, "+60": 100, "-0": 40}.items():
        [one] = planned(hands, "g", f"{topic}:0={moved}")
        assert (one.position, one.target) == (40, target)
    with pytest.raises(InvalidOption) as beyond:
        planned(hands, "g", f"{topic}:0=+61")
    assert str(beyond.value) == (
        f"+61 from position 40, which is offset 101, is outside {topic}:0, which holds 0 to 99"
    )
    with pytest.raises(
        InvalidOption, match=r"-41 from position 40, which is offset -1, is outside"
    ):
        planned(hands, "g", f"{topic}:0=-41")
    with pytest.raises(InvalidOption) as unknown:
        planned(hands, "g", f"{topic}:1=+1")
    assert str(unknown.value) == (
        f"{topic}:1=+1 counts from the present position, and the log says none for certain of "
        "group g: name an offset, earliest or latest"
    )


def test_a_position_that_is_not_certain_is_not_moved_from(hands: Hands) -> None:
    """The head of the log is gone, and no record since states where the claim was."""
    topic = hands.data(messages=10)
    hands.wins("g", topic, 0)
    view = look(hands)
    place = coordinating_partition(topic, hands.partitions)
    view.folds[place] = ClaimsFold(7, RULES)
    hidden = decode(f"ClaimingPartition/1/0/i1/c1/g/{topic}/0".encode())
    view.folds[place].apply(Record(place, 7, 5, hidden))
    with pytest.raises(InvalidOption, match="says none for certain"):
        plan([wish(f"{topic}=+1")], "g", hands.cluster, view)


def test_the_position_of_a_group_that_has_no_record_yet_is_set(hands: Hands) -> None:
    topic = hands.data(messages=100)
    ran = marshal("set-position", "new", f"{topic}=40", *hands.options)
    assert (ran.returncode, "set: 1 of 1" in ran.stdout) == (0, True)
    assert ran.stderr == (
        f"Note: no record of {hands.topic} is of group new yet; its consumers will begin at "
        "the position that this sets.\n"
    )
    moved = marshal("set-position", "new", f"{topic}=+20", *hands.options, "--json")
    told = json.loads(moved.stdout)
    assert (told["position"], told["target"], told["state"]) == (40, 60, "set")
    assert claim(hands, ClaimKey("new", topic, 0)).claim.position == 60


@pytest.mark.parametrize("name", ["", "a/b"])
def test_no_position_is_set_of_what_cannot_be_a_group(hands: Hands, name: str) -> None:
    """As where a script's variable is empty: the group was paused, and had a position."""
    topic = hands.data(messages=100)
    ran = marshal("set-position", name, f"{topic}=40", *hands.options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"marshal: GROUP must be a name without '/', not {name!r}\n"


# --- pause, resume, release -----------------------------------------------------------------------


def test_a_pause_reaches_every_partition_and_a_resume_ends_it_everywhere(hands: Hands) -> None:
    topic, later = hands.data(), hands.data()
    hands.wins("g", topic, 0)
    with LogWriter(hands.settings, hands.topic) as log:
        with View(hands.settings, hands.topic, RULES) as view:
            done = pausing.pause(view.read(), log, "g", 600_000)
        assert len(done) == hands.partitions
        assert [one.key for each in done for one in each.freed] == [ClaimKey("g", topic, 0)]
        for each in (topic, later):
            hands.wins("g", each, 0, "c2")
            assert not claim(hands, ClaimKey("g", each, 0)).claim.owned
        with View(hands.settings, hands.topic, RULES) as view:
            known = {coordinating_partition(each, hands.partitions) for each in (topic, later)}
            assert {
                one.coordinating_partition for one in pausing.resume(view.read(), log, "g")
            } == known
        with View(hands.settings, hands.topic, RULES) as view:
            assert pausing.resume(view.read(), log, "g") == [], "there is nothing to end"
    hands.wins("g", topic, 0, "c2")
    assert claim(hands, ClaimKey("g", topic, 0)).claim.owner_client == "c2"


def test_a_resume_from_an_old_view_frees_nobody_who_has_won_since(hands: Hands) -> None:
    topic = hands.data(partitions=3)
    epoch = hands.wins("g", topic, 0)
    hands.beats("g", topic, 0, epoch, 40)
    hands.wins("g", topic, 1)
    hands.pauses("g", topic, 600, "x")
    at = (hands.settings, hands.topic)
    with LogWriter(*at) as log, View(*at, RULES) as view:
        view.read()
        # It is over before what was decided is sent, and others win.
        hands.pauses("g", topic, -1, "x")
        won = hands.wins("g", topic, 1, "c2")
        pausing.resume(view, log, "g")
    owned = claim(hands, ClaimKey("g", topic, 1)).claim
    assert (owned.owner_client, owned.epoch) == ("c2", won)
    free = claim(hands, ClaimKey("g", topic, 0)).claim
    assert (free.owned, free.position, free.paused_until_ms) == (False, 40, None)


def test_a_release_frees_what_was_named_and_says_what_lies_beside_it(hands: Hands) -> None:
    topic = hands.data(partitions=2)
    for partition in range(2):
        epoch = hands.wins("g", topic, partition)
        hands.beats("g", topic, partition, epoch, 40)
    dry = marshal("release", "g", f"{topic}:0", *hands.options, "--dry-run")
    assert (
        f"{topic}:1 is owned by c1 (c1i); not named, but on the same coordinating partition"
        in dry.stdout
    )
    assert claim(hands, ClaimKey("g", topic, 0)).claim.owned
    done = marshal("release", "g", f"{topic}:0", *hands.options)
    assert done.returncode == 0
    assert (
        f"{topic}:1 was owned by c1 (c1i); not named, but on the same coordinating partition"
        in done.stdout
    )
    known = claim(hands, ClaimKey("g", topic, 0)).claim
    assert (known.owned, known.position, known.paused_until_ms) == (False, 40, None)
    again = marshal("release", "g", f"{topic}:0", *hands.options)
    assert again.returncode == 1
    assert "none of them has an owner" in again.stderr
    unknown = marshal("release", "g", "nothing", *hands.options)
    assert unknown.returncode == 2
    assert unknown.stderr.endswith(f"has no claim of nothing; it has claims of: {topic}\n")


def test_a_release_can_hold_claims(hands: Hands) -> None:
    topic = hands.data()
    hands.wins("g", topic, 0)
    held = marshal("release", "g", topic, *hands.options, "--hold", "10m")
    assert held.returncode == 0
    assert "nobody can claim them for" in held.stdout
    hands.wins("g", topic, 0, "c2")
    assert not claim(hands, ClaimKey("g", topic, 0)).claim.owned


def test_a_release_leaves_a_pause_as_it_is(hands: Hands) -> None:
    topic = hands.data(partitions=2)
    hands.pauses("g", topic, 600, "x")
    hands.wins("g", topic, 0, "x")  # an administrator that went away
    hands.wins("g", topic, 1, "c1")
    before = claim(hands, ClaimKey("g", topic, 1)).claim.paused_until_ms
    assert marshal("release", "g", f"{topic}:0", *hands.options).returncode == 0
    for partition in range(2):
        known = claim(hands, ClaimKey("g", topic, partition)).claim
        assert (known.owned, known.paused_until_ms) == (False, before)


# --- commands -------------------------------------------------------------------------------------


def test_the_command_sets_positions_and_a_dry_run_does_not(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    for partition in range(2):
        hands.wins("g", topic, partition)
    at = ("set-position", "g", f"{topic}:0=5", *hands.options)
    records = look(hands).records
    dry = marshal(*at, "--dry-run")
    assert dry.returncode == 0
    assert f"{topic}:0" in dry.stdout
    assert "1 more claim of the group: interrupted, their positions stay" in dry.stdout
    assert look(hands).records == records
    done = marshal(*at, "--json")
    assert done.returncode == 0
    line = json.loads(done.stdout)
    assert (line["state"], line["target"], line["committed"]) == ("set", 5, True)
    wrong = marshal("set-position", "g", f"{topic}=11", *hands.options)
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_the_commands_pause_and_resume(hands: Hands) -> None:
    topic = hands.data()
    hands.wins("g", topic, 0, "east")
    paused = marshal("pause", "g", "--for", "10m", *hands.options)
    assert paused.returncode == 0
    assert "g is paused until" in paused.stdout
    assert f"{topic}:0 was owned by east (easti)" in paused.stdout
    new = "\n  but for topics and partitions that are new to it: until "
    assert marshal("resume", "g", *hands.options).stdout.startswith(
        f"g is not paused any more{new}"
    )
    assert not claim(hands, ClaimKey("g", topic, 0)).claim.paused_until_ms
    assert marshal("resume", "g", *hands.options).stdout.startswith(f"g is not paused{new}")
    long = marshal("pause", "g", "--for", "30h", *hands.options)
    assert long.returncode == 2
    assert "--for 30h: the longest pause is 1d" in long.stderr
