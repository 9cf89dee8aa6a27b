"""Class data archives: classes that Java stores once loaded, so that the next start is faster.

A broker spends half of its start on loading and checking the same classes again. Java can store
them in a file (`-XX:ArchiveClassesAtExit`) and map that file at the next start. This module knows
where such a file is and which Java it fits. The callers decide what to run to make one, and when.

An archive is optional. Without one, or with one that Java refuses, a process starts as usual and
prints nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kafka_marshal import cache
from kafka_marshal.java.finder import Java
from kafka_marshal.scratch import Scratch

_SILENT: Final = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off")
"""Java would warn on its standard output, which others read, of an archive that does not fit."""


def options(java: Java, class_path: Sequence[Path]) -> tuple[str, ...]:
    """Java's options to start with the archive of these jars; empty if there is none.

    Further entries may follow the jars in the class path of the process, but none may precede them.
    """
    key = _key(java, class_path)
    archive = None if key is None else _found(key)
    return () if archive is None else (f"-XX:SharedArchiveFile={archive}", *_SILENT)


def make(
    java: Java, class_path: Sequence[Path], run: Callable[[Sequence[str]], None]
) -> Path | None:
    """Make the archive of these jars, if it does not exist, and return its path.

    `run` receives options of Java. It must start the class path with them, let it load the classes
    that later starts need, and return when the process has ended regularly.

    Returns None if this Java supports no archives (a runtime without `classes.jsa`), or stored
    none.
    """
    key = _key(java, class_path)
    if key is None:
        return None
    if archive := _found(key):
        return archive
    with Scratch("class-data", beside=_folder() / key) as desk:
        made = desk / "classes.jsa"
        run((f"-XX:ArchiveClassesAtExit={made}", *_SILENT))
        if made.is_file():
            made.replace(_folder() / f"{key}-{made.stat().st_size}.jsa")
    return _found(key)


def _folder() -> Path:
    folder = cache.folder() / "class-data"
    folder.mkdir(exist_ok=True)
    return folder


def _found(key: str) -> Path | None:
    """The archive, if it has the size that it was made with: Java crashes on one cut short."""
    whole = (
        path
        for path in sorted(_folder().glob(f"{key}-*.jsa"))
        if path.stem == f"{key}-{path.stat().st_size}"
    )
    return next(whole, None)


def _key(java: Java, class_path: Sequence[Path]) -> str | None:
    """The name of the archive: another one for another build of Java, or if a jar was replaced.

    Java itself refuses an archive of other files, by the same sizes and times.
    """
    base = java.executable.resolve().parent.parent / "lib" / "server" / "classes.jsa"
    if not base.is_file():
        return None
    kept = hashlib.sha256()
    for file in (base, *class_path):
        found = file.stat()
        kept.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return kept.hexdigest()[:16]
