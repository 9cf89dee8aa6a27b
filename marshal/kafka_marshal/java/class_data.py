"""Class data archives: classes that Java stores once loaded, so that the next start is faster.

Half of what a broker does until it serves is to load and check the same classes again. Java can
keep them in a file (`-XX:ArchiveClassesAtExit`) and map that file at the next start. This room
knows where such a file is and whom it fits. What has to run to make one, and when, is for those
who run Java.

An archive is never needed. Without one, and with one that Java refuses, a process starts as it
would without this room and prints nothing else.
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
    """Java's options to start with the archive of these jars; none if there is no such archive.

    Further entries may follow the jars in the class path of the process, and none may precede them.
    """
    key = _key(java, class_path)
    archive = None if key is None else _found(key)
    return () if archive is None else (f"-XX:SharedArchiveFile={archive}", *_SILENT)


def make(
    java: Java, class_path: Sequence[Path], run: Callable[[Sequence[str]], None]
) -> Path | None:
    """Make the archive of these jars, if it is not there, and return its path.

    `run` is given options of Java. With them it starts the class path, lets it load what later
    starts will need, and returns when the process has left in order.

    Returns nothing if this Java keeps no archives (a runtime without `classes.jsa`), or kept none.
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
