"""A day of many consumers by chance: mostly heartbeats, and now and then whatever goes wrong."""

from __future__ import annotations

import random

from kafka_marshal.capture import RawRecord, TimestampType


def fleet(
    seed: int, count: int, *, headers: bool = True, interval_ms: int = 4000, pauses: bool = True
) -> list[RawRecord]:
    """`count` records of two coordinating partitions, in the order of their offsets."""
    return _Fleet(seed, headers, interval_ms, pauses).records(count)


class _Fleet:
    def __init__(self, seed: int, headers: bool, interval_ms: int, pauses: bool) -> None:
        self.chance = random.Random(seed)
        self.headers = headers
        self.interval_ms = interval_ms
        self.pauses = pauses
        self.now_ms = 1_700_000_000_000
        self.offsets = [0, 0]
        self.claims = [(partition, f"t{n}") for n in range(6) for partition in (0, 1)]
        self.owner: dict[tuple[int, str], tuple[str, str, int]] = {}
        self.position: dict[tuple[int, str], int] = {}
        self.zombies: list[tuple[tuple[int, str], tuple[str, str, int]]] = []
        self.instance_of = {f"c{n}": f"i{n}.0" for n in range(4)}
        self.told: list[RawRecord] = []

    def records(self, count: int) -> list[RawRecord]:
        while len(self.told) < count:
            for claim in self.claims:
                self._turn(claim)
            self._mishap()
            self.now_ms += self.interval_ms * self.chance.choice((8, 9, 10, 10)) // 10
            if self.chance.random() < 0.02:
                self.now_ms -= self.interval_ms // 2
            if self.chance.random() < 0.02:
                self.now_ms += 3 * self.interval_ms
        return self.told[:count]

    def _turn(self, claim: tuple[int, str]) -> None:
        owner = self.owner.get(claim)
        self.now_ms += self.chance.choice((0, 1, 7))
        if owner is None:
            client = self.chance.choice(list(self.instance_of))
            instance = self.instance_of[client]
            epoch = self._say(claim, "ClaimingPartition", (instance, client, -1))
            self.owner[claim] = (instance, client, epoch)
            return
        if self.chance.random() < 0.8:
            self.position[claim] = self.position.get(claim, 0) + self.chance.randrange(90)
        if self.chance.random() < 0.004:
            self.position[claim] -= 50
        kind = "ClaimingMessages" if self.chance.random() < 0.01 else "Heartbeat"
        self._say(claim, kind, owner)

    def _mishap(self) -> None:
        dice = self.chance.random()
        claim = self.chance.choice(self.claims)
        owner = self.owner.get(claim)
        if dice < 0.03 and owner is not None:
            self._say(claim, "ReleasingPartition", self.owner.pop(claim))
        elif dice < 0.06 and owner is not None:
            # Its owner dies, and comes back late.
            self.zombies.append((claim, self.owner.pop(claim)))
            self.now_ms += 2 * self.interval_ms + 1
        elif dice < 0.10 and self.zombies:
            zombie = self.chance.choice(self.zombies)
            for _ in range(self.chance.randrange(1, 12)):
                self._say(zombie[0], "Heartbeat", zombie[1])
                self.now_ms += self.chance.choice((5, self.interval_ms // 2))
        elif dice < 0.13:
            client = self.chance.choice(list(self.instance_of))
            number = int(self.instance_of[client].split(".")[1]) + 1
            self.instance_of[client] = f"i{client[1:]}.{number}"
        elif dice < 0.135 and self.pauses:
            partition = self.chance.choice((0, 1))
            self._append(
                partition,
                f"ReleaseGroup/0/{self.now_ms // 1000}/adm/adm/g//0/{self.now_ms // 1000 + 9}",
                (),
            )
            self.owner = {key: who for key, who in self.owner.items() if key[0] != partition}
        elif dice < 0.14:
            self._append(0, "nonsense", ())
        elif dice < 0.15:
            self.offsets[0] += 3

    def _say(self, claim: tuple[int, str], kind: str, who: tuple[str, str, int]) -> int:
        instance, client, epoch = who
        late_s = self.chance.choice((0, 0, 0, 0, 2))
        value = f"{kind}/1/{self.now_ms // 1000 - late_s}/{instance}/{client}/g/{claim[1]}/0"
        if kind != "ClaimingPartition":
            value += f"/{self.position.get(claim, 0)}"
        pairs: list[tuple[str, bytes | None]] = []
        if self.headers:
            pairs.append(("marshal-version", b"1"))
            if epoch >= 0:
                seen = max(0, self.offsets[claim[0]] - 2)
                pairs += [
                    ("marshal-epoch", str(epoch).encode()),
                    ("marshal-seen", str(seen).encode()),
                    ("marshal-clock", str(self.now_ms).encode()),
                ]
        return self._append(claim[0], value, tuple(pairs))

    def _append(
        self, partition: int, value: str, pairs: tuple[tuple[str, bytes | None], ...]
    ) -> int:
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        self.told.append(
            RawRecord(
                partition,
                offset,
                self.now_ms,
                value.encode(),
                pairs,
                TimestampType.LOG_APPEND_TIME,
            )
        )
        return offset
