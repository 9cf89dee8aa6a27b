"""Process settings for a process that only replays: a command, or a worker.

When Arrow first makes an array, it imports pandas, only to check whether it was given a pandas
object. That takes a third of a second. Arrow also returns freed memory to the system within 10 ms,
and so does glibc for arrays. The next chunk's columns then get new pages, which the system clears:
an eighth of a chunk's time. NumPy's matrix library starts spinning threads, but a replay has no
matrices. A process without threads of its own may be forked, so that its copies need no start
(`workers`). A program that calls `run` may want other settings, so the library does not change
them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Final

_KEPT: Final = {"MIMALLOC_PURGE_DELAY": "1000", "OPENBLAS_NUM_THREADS": "1"}
"""For how many milliseconds Arrow's allocator keeps freed memory, and the number of threads for
matrices. Both libraries read these variables when they are loaded."""
_OF_ARRAYS: Final = {-3: 32 << 20, -1: 512 << 20}
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: the size from which an array is returned at once,
and how much freed memory is kept."""


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


_prepared = False


def is_prepared() -> bool:
    """Whether `prepare` was called: this process replays and does nothing else."""
    return _prepared


def prepare() -> None:
    """Prevent the import of pandas, and keep freed memory for a second; loaded modules stay."""
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
