"""Process settings for a process that only replays: a command, or a worker.

Arrow imports pandas when it first makes an array, only to ask whether it was given one of pandas.
That takes a third of a second. And Arrow gives freed memory back to the system within 10 ms. So do
arrays. The next chunk's columns get new pages, which the system clears: an eighth of what a chunk
takes. NumPy's library for matrices starts threads, which spin, and no replay has a matrix. A
process without threads of its own may be copied, so that its copies need no start (`workers`). A
program that calls `run` may want otherwise, so no library does this.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Final

_KEPT: Final = {"MIMALLOC_PURGE_DELAY": "1000", "OPENBLAS_NUM_THREADS": "1"}
"""For how many milliseconds Arrow's allocator keeps what was freed, and how many threads multiply
matrices. Both libraries ask as they are loaded."""
_OF_ARRAYS: Final = {-3: 32 << 20, -1: 512 << 20}
"""Of glibc, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: the largest array that goes back at once, and
how much is kept."""


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


_prepared = False


def is_prepared() -> bool:
    """Whether `prepare` was called: this process replays and does nothing else."""
    return _prepared


def prepare() -> None:
    """Keep pandas away, and freed memory for a second; what was loaded already stays as it is."""
    global _prepared
    _prepared = True
    for name, value in _KEPT.items():
        os.environ.setdefault(name, value)
    with suppress(OSError, TypeError, AttributeError):  # another system, or another library of C
        for option, number in _OF_ARRAYS.items():
            ctypes.CDLL(None).mallopt(option, number)
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])  # Arrow looks for pandas once, and finds none
    finally:
        sys.meta_path.remove(finder)
