"""The loop: take an input that went a new way, change it, run it, keep it if it goes another.

It runs in a process of its own (`tools.fuzz.supervisor`), which may crash or hang: what it is at
lies in a file. This room knows neither the targets nor the terminal.
"""

from __future__ import annotations

import itertools
import mmap
import random
import shutil
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from tools.fuzz.arcs import Arc, Arcs
from tools.fuzz.corpus import KEPT_BYTES
from tools.fuzz.mutation import WORDS, Chance, mutated
from tools.fuzz.oracle import Finding, check_memory, finding_of, peak_bytes
from tools.fuzz.target import Target

CURRENT_BYTES: Final = 4 << 20
_HEAD: Final = struct.Struct("<QQ")


class Current:
    """What a process is at: how many inputs it has begun, and the last of them."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(CURRENT_BYTES))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), CURRENT_BYTES)

    def put(self, number: int, data: bytes) -> None:
        """Begin with this one."""
        part = data[: CURRENT_BYTES - _HEAD.size]
        self._shared[_HEAD.size : _HEAD.size + len(part)] = part
        _HEAD.pack_into(self._shared, 0, number, len(part))

    def get(self) -> tuple[int, bytes]:
        """How many, and the last."""
        number, length = _HEAD.unpack_from(self._shared)
        return number, self._shared[_HEAD.size : _HEAD.size + length]


@frozen
class Counts:
    """What a run came to."""

    inputs: int = 0
    seconds: float = 0.0
    arcs_before: int = 0
    """Reached by what was kept."""
    arcs: int = 0
    corpus: int = 0


@define
class Fuzzer:
    """One target under way."""

    target: Target
    folder: Path
    seed: int
    on_finding: Callable[[Finding, bytes], None]
    on_input: Callable[[int, bytes], None] = lambda number, data: None
    inputs: int = 0
    corpus: list[bytes] = field(factory=list)
    reached: set[Arc] = field(factory=set)
    _found: set[str] = field(factory=set)
    _arcs: Arcs = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._arcs = Arcs(self.target.rooms)

    def run(self, kept: Iterable[bytes], seconds: float, inputs: int | None = None) -> Counts:
        """Play what was kept, then go on by chance until the time is over, or this many are."""
        began = time.monotonic()
        seeds = [*self.target.seeds()]
        checked(self.target, seeds[0], self.folder)  # what it imports and compiles is not watched
        for data in (*seeds, *kept):
            self._take(data)
        before = len(self.reached)
        chance = random.Random(f"{self.target.name} {self.seed}")
        words = (*WORDS, *self.target.words, *self.target.words)
        for number in itertools.count():
            over = time.monotonic() - began >= seconds if inputs is None else number >= inputs
            if over:
                break
            drawn = Chance(chance, words, self.corpus)
            late = chance.random() < 0.5
            parent = chance.choice(self.corpus[-20:] if late else self.corpus)
            self._take(self.target.repaired(mutated(parent, drawn, self.target.size_max)))
        return Counts(
            self.inputs, time.monotonic() - began, before, len(self.reached), len(self.corpus)
        )

    def _take(self, data: bytes) -> None:
        self.inputs += 1
        self.on_input(self.inputs, data)
        finding = None
        peak = peak_bytes()
        with self._arcs.watched():
            finding = checked(self.target, data, self.folder)
        try:
            check_memory(peak, peak_bytes(), len(data))
        except Finding as memory:
            finding = finding or memory
        if finding is not None and finding.text.split(":")[0] not in self._found:
            self._found.add(finding.text.split(":")[0])
            self.on_finding(finding, data)
        if not self._arcs.now <= self.reached or not self.corpus:
            self.reached |= self._arcs.now
            self.corpus.append(data)


def checked(target: Target, data: bytes, folder: Path) -> Finding | None:
    """What is found of one input."""
    try:
        with _emptied(folder) as desk:
            target.check(data, desk)
    except (Exception, SystemExit) as error:
        return finding_of(error)
    return None


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    desk = folder / "input"
    desk.mkdir(parents=True, exist_ok=True)
    try:
        yield desk
    finally:
        if any(desk.iterdir()):
            shutil.rmtree(desk)


def minimal(
    target: Target,
    inputs: Iterable[bytes],
    folder: Path,
    always: Sequence[bytes] = (),
    bytes_max: int = KEPT_BYTES,
) -> list[bytes]:
    """As few and as short inputs as go every way that all of them go, within that many bytes."""
    arcs, reached = Arcs(target.rooms), set[Arc]()
    for data in (*target.seeds(), *always):
        with arcs.watched():
            checked(target, data, folder)
        reached |= arcs.now
    chosen = sorted(set(always))
    room = bytes_max - sum(map(len, chosen))
    for data in sorted(set(inputs) - set(chosen), key=lambda each: (len(each), each)):
        with arcs.watched():
            checked(target, data, folder)
        cost = len(data) * 4 // 3 + 4
        if not arcs.now <= reached and cost <= room:
            reached |= arcs.now
            room -= cost
            chosen.append(data)
    return chosen
