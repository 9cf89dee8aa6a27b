"""What a process and everything it started take: CPU time, and memory at its peak. Linux only.

Memory is proportional set size: what processes share counts once. It is looked at several times a
second, so a peak that is shorter is missed.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_EVERY_S: Final = 0.3
DRIVER, JVM, WORKERS, WORKER = "driver", "JVM", "workers", "worker"


def _processes() -> Iterator[tuple[int, str, float]]:
    """This process and its descendants: number, name, CPU seconds with those of dead children."""
    rows: dict[int, tuple[int, str, float]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            before, after = place.read_text().rsplit(")", 1)
            fields = after.split()
            spent = sum(map(int, fields[11:15])) / _TICKS
            rows[int(place.parent.name)] = int(fields[1]), before.split("(", 1)[1], spent
    ours = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, (parent, _, _) in rows.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    for pid in ours:
        if pid in rows:
            yield pid, rows[pid][1], rows[pid][2]


def _bytes_of(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def spent_s() -> float:
    """CPU seconds of this process and of all it started, those that are gone included."""
    return sum(spent for _, _, spent in _processes())


def cpu_s(pid: int) -> float:
    """Processor seconds of a process; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / _TICKS


def machine_s() -> float:
    """Processor seconds of everything on this machine, since it started."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split(maxsplit=9)
    user, nice, system, _, _, irq, soft_irq = map(int, fields[1:8])
    return (user + nice + system + irq + soft_irq) / _TICKS


class Meter:
    """Measures while a block lasts."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        """Of all processes together. Those that are gone count if their starter lives."""
        self._peaks: dict[str, int] = defaultdict(int)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def peaks(self) -> Mapping[str, int]:
        """Bytes, by kind: this process, its Java, all its Python workers, the biggest of them."""
        return self._peaks

    def __enter__(self) -> Meter:
        self.cpu_s = -spent_s()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.cpu_s += spent_s()

    def _look(self) -> None:
        while not self._over.wait(_EVERY_S):
            workers = [0]
            for pid, name, _ in _processes():
                size = _bytes_of(pid)
                if pid == os.getpid():
                    self._note(DRIVER, size)
                elif name == "java":
                    self._note(JVM, size)
                else:
                    workers.append(size)
            self._note(WORKERS, sum(workers))
            self._note(WORKER, max(workers))

    def _note(self, kind: str, size: int) -> None:
        self._peaks[kind] = max(self._peaks[kind], size)
