"""Compiles a Java file with the Eclipse compiler, a jar, because a runtime has no javac."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafka_marshal import cache
from kafka_marshal.java.finder import find_java
from kafka_marshal.java.jars import Jar, ensure

# The last line of releases that still runs on Java 17.
ECJ: Final = Jar(
    "org.eclipse.jdt",
    "ecj",
    "3.38.0",
    "97c566b120009c203a2fc8b291f4a9adbc171cf1ccb70f06f6b4e1828c00ce8e",
)


class CompileError(Exception):
    """A file does not compile; the message holds the reasons."""


def compiled(source: Path, jars: Sequence[Path]) -> Path:
    """Return a folder with the classes of `source`, compiled with `jars` on the class path.

    The folder is cached, by the file's content and the jars' names.

    Raises:
        CompileError: it does not compile.
        JarError: the compiler cannot be fetched.
        JavaNotFoundError: there is no Java.
    """
    parts = [source.read_bytes(), ECJ.sha256.encode(), *(path.name.encode() for path in jars)]
    key = hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]
    folder = cache.folder() / "classes" / key
    if folder.is_dir():
        return folder
    with cache.made_beside(folder) as made:
        command = [str(find_java().executable), "-jar", str(ensure(ECJ)), "-17", "-nowarn"]
        command += [
            "-proc:none",
            "-cp",
            os.pathsep.join(map(str, jars)),
            "-d",
            str(made),
            str(source),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise CompileError(f"{source.name} does not compile: {ran.stdout}{ran.stderr}")
    return folder
