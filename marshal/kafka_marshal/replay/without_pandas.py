"""Keeps pandas from being imported where a command or a worker has no use for it.

Arrow imports pandas when it first makes an array, only to ask whether it was given one of pandas.
That takes a third of a second. A program that calls `run` may want pandas, so no library does this.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


def without_pandas() -> None:
    """Let Arrow look for pandas once and find none; it does not look again in this process."""
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
