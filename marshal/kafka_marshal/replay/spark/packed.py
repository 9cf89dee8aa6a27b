"""The imports of executors, as archives: they need Python, but no installed packages.

Spark copies them to each executor and unpacks them there. They contain compiled code. So an
executor needs this machine's kind of processor and system, and the same minor version of Python.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kafka_marshal import cache

_IMPORTED: Final = (
    "aiokafka",
    "async-timeout",
    "attrs",
    "cramjam",
    "fastavro",
    "llvmlite",
    "numba",
    "numpy",
    "orjson",
    "packaging",
    "pyarrow",
    "typing_extensions",
)
"""Distributions that a fold imports; a test runs executors that have no others."""
_LEFT_OUT: Final = ("tests", "include", "__pycache__")
"""Folders of them that no fold imports."""


def executor_settings(folder: Path) -> dict[str, str]:
    """The settings that let Spark copy the archives; that of this package is written to `folder`.

    Raises:
        OSError: an archive cannot be written.
    """
    archives = {"kafka-marshal": _own(folder), "kafka-marshal-needs": _needs()}
    return {
        "spark.archives": ",".join(f"{path}#{name}" for name, path in archives.items()),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(archives),
    }


def _own(folder: Path) -> Path:
    """This package in its current state: an editable installation has no list of files."""
    package = Path(cache.__file__).parent
    found = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return _zipped(
        folder / "kafka-marshal.zip",
        ((path.relative_to(package.parent).as_posix(), path) for path in found),
    )


def _needs() -> Path:
    """The installed versions of its dependencies; cached, since the archive is large."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _installed()]
    told = "\n".join((sys.version, platform.platform(), *versions))
    digest = hashlib.sha256(told.encode()).hexdigest()
    kept = cache.folder() / f"executors-{digest[:16]}.zip"
    if not kept.exists():
        with cache.made_beside(kept) as made:
            _zipped(made, _others())
    return kept


def _zipped(archive: Path, files: Iterable[tuple[str, Path]]) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, path in files:
            packed.write(path, name)
    return archive


def _others() -> Iterator[tuple[str, Path]]:
    for name in _installed():
        for file in importlib.metadata.files(name) or ():
            if not {"..", *_LEFT_OUT} & {*file.parts} and file.suffix != ".pyc":
                yield file.as_posix(), Path(str(file.locate()))


def _installed() -> Iterator[str]:
    """Yield the installed dependencies: some are only needed for certain formats."""
    for name in _IMPORTED:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield name
