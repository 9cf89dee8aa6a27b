"""A saved replay: the state of every coordinating partition, and the next offsets to read.

A folder holds one file of state per partition (`partition_state`) and `checkpoint.json`. That file
lists the files that belong together, and replacing it is the commit. So after any interruption, the
folder holds either the last commit or the one before, complete. This module knows files and
pickles. It does not know the content of an account, nor where records come from.

State is a pickle. Reading one only loads classes of an account, but the folder must be trusted like
the program.
"""

from __future__ import annotations

import contextlib
import enum
import io
import json
import os
import pickle
import re
import sys
import types
import uuid
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.errors import InvalidOption, naming
from kafka_marshal.markup import visible
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.places import UriPath, reason_of
from kafka_marshal.replay.state.lock import locked
from kafka_marshal.version import package_version

FORMAT: Final = 4
"""The version of the folder's format. Pickles depend on the package's version instead."""
MANIFEST: Final = "checkpoint.json"
_TOO_MUCH: Final = (AttributeError, RecursionError, OverflowError)
"""Errors for JSON that is no manifest: no object, nested too deeply, an infinite number."""


@frozen
class CommittedStates:
    """A folder's last commit, with no state read yet."""

    states: Mapping[int, str]
    """The file name of each coordinating partition's state."""
    beside: Mapping[str, Any]
    """Further data that the writer committed with them."""


_UNFINISHED: Final = re.compile(r"\..+\.[0-9a-f]{32}")
"""The name of a file that `replace_whole` has not put in its place."""


class Checkpoint:
    """A checkpoint folder, held by one process at a time; close it.

    `options` are the settings of the fold and the identity of the log. A folder made with others,
    or by another version of the package, is refused.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        """Create or open the folder.

        Raises:
            CheckpointRefused: another process holds it, or it cannot be written.
        """
        self.folder = folder
        self._made_by = {
            "format": FORMAT,
            "version": package_version(),
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "options": json.loads(json.dumps(dict(options))),
        }
        self._generation = 0
        self._states: dict[int, str] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = locked(folder)
        except OSError as error:
            raise CheckpointRefused(f"{folder}: cannot write there: {reason_of(error)}") from None

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()

    def known(self) -> CommittedStates | None:
        """The last commit; None if there was none.

        Raises:
            CheckpointRefused: made by another version or with other options, or damaged.
        """
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            manifest = json.loads(path.read_text())
            made_by = {name: manifest[name] for name in self._made_by}
            states = {int(number): file for number, file in manifest["partitions"].items()}
            generation, beside = int(manifest["generation"]), dict(manifest["beside"])
            if not all(_is_state_of(number, file) for number, file in states.items()):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, *_TOO_MUCH):
            raise damaged(self.folder, MANIFEST) from None
        self._compare(made_by)
        self._generation, self._states = generation, states
        self._sweep()
        for path in self.folder.glob(".*"):  # what a killed process was writing
            if _UNFINISHED.fullmatch(path.name):
                path.unlink(missing_ok=True)
        return CommittedStates(states, beside)

    def name_for(self, partition: int) -> str:
        """A file name for a state that the next commit may hold."""
        return f"partition-{partition}.{self._generation + 1}"

    def adopt(self, partition: int, file: str) -> None:
        """This file is the partition's state, from the next `commit` on."""
        self._states[partition] = file

    def commit(self, beside: Mapping[str, Any]) -> None:
        """Commit the adopted states.

        `known` then returns them, and for other partitions the former ones.
        """
        self._generation += 1
        manifest = {
            **self._made_by,
            "generation": self._generation,
            "partitions": {str(n): file for n, file in sorted(self._states.items())},
            "beside": dict(beside),
        }
        self._lock.check()
        replace_whole(self.folder / MANIFEST, json.dumps(manifest, indent=1).encode())
        if not isinstance(self.folder, UriPath):
            _folder_to_disk(self.folder)
        self._sweep()

    def _sweep(self) -> None:
        """Remove the files that are not in the last commit."""
        for path in self.folder.glob("partition-*"):
            if path.name not in self._states.values():
                path.unlink(missing_ok=True)

    def _compare(self, made_by: Mapping[str, Any]) -> None:
        here = self._made_by
        for name, called in (
            ("format", "has the format"),
            ("version", "was made by kafka-marshal"),
            ("python", "was made by Python"),
        ):
            if made_by[name] != here[name]:
                raise CheckpointRefused(
                    f"{self.folder}: the checkpoint {called} {visible(str(made_by[name]), 60)}, "
                    "this is "
                    f"{here[name]}: begin anew in another folder"
                )
        theirs, ours = made_by["options"], here["options"]
        for name in sorted({*theirs, *ours}, key=lambda name: (name != "protocol", name)):
            if theirs.get(name) != ours.get(name):
                raise CheckpointRefused(
                    f"{self.folder}: the checkpoint was made with {name} "
                    f"{_shown(theirs.get(name))}, and this is {_shown(ours.get(name))}: give the "
                    f"same options, or another folder"
                )


def _is_state_of(partition: int, file: object) -> bool:
    """A file named as those of a replay or of a watch are, so that no other file is read."""
    of_watch = rf"partition-{partition}\.[0-9]+(-[0-9a-f]{{12}})?"
    of_replay = rf"run-[0-9]{{5,}}-[0-9a-f]{{8}}/states/{partition}\.state"
    return (
        isinstance(file, str)
        and re.fullmatch(rf"{of_watch}|{of_replay}", file) is not None
        and 0 <= partition <= PARTITION_MAX
    )


def check_apart(checkpoint: Path, out: Path) -> None:
    """Check that neither an output nor a checkpoint folder lies within the other.

    A checkpoint's files are replaced and removed by name, and an output may have such a name.

    Raises:
        InvalidOption: they lie in each other.
    """
    inside, outside = checkpoint.resolve(), out.resolve()
    if inside.is_relative_to(outside) or outside.is_relative_to(inside):
        raise InvalidOption(f"--checkpoint {checkpoint} and --out {out} lie in each other")


def damaged(folder: Path, name: str) -> CheckpointRefused:
    """The error for a folder with a damaged file."""
    return CheckpointRefused(f"{folder}: {name} is damaged: begin anew in another folder")


def thawed(state: bytes, place: str) -> Any:
    """Unpickle a state, if it only contains classes of accounts.

    Raises:
        CheckpointRefused: it does not; the message begins with `place`.
    """
    try:
        return _Unpickler(io.BytesIO(state)).load()
    except Exception as error:  # damage makes pickle raise anything, as its documentation says
        raise CheckpointRefused(
            f"{place} is not a state of this version: {visible(str(error), 200)}"
        ) from None


def thawed_each(file: io.BufferedReader, place: str) -> Iterator[Any]:
    """Unpickle the values of a file, one after the other.

    Raises:
        CheckpointRefused: the same.
    """
    while file.peek(1):
        try:
            yield _Unpickler(file).load()
        except Exception as error:  # as above
            raise CheckpointRefused(f"{place} is damaged: {visible(str(error), 200)}") from None


def _shown(value: object) -> str:
    return "nothing" if value is None else visible(json.dumps(value), 60)


def replace_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically: it has either the old or the new content, even after a power cut.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(path, UriPath):
        path.write_bytes(data)
        return
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with naming(path, beside), beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)  # where the disk is full it must not fill it further
        raise


def _folder_to_disk(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system syncs a folder
            os.fsync(number)
    finally:
        os.close(number)


_CONTAINERS: Final = {
    "builtins": {"set", "frozenset", "list", "dict", "tuple", "int", "float", "bytearray"},
    "collections": {"defaultdict", "Counter", "deque", "OrderedDict"},
    "functools": {"partial"},
    "array": {"array", "_array_reconstructor"},
    "numpy": {"ndarray", "dtype"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
}
_CLASSES: Final = ("kafka_marshal.core.", "kafka_marshal.capture", "kafka_marshal.replay.")
_FUNCTIONS: Final = ("kafka_marshal.replay.findings.",)
"""They write the sentences of findings."""


class _Unpickler(pickle.Unpickler):
    """Unpickles the classes that accounts are made of, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        if name in _CONTAINERS.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _member
        if module.startswith(_CLASSES):
            found: Any = import_module(module)
            for part in name.split("."):
                found = vars(found).get(part)
            if isinstance(found, type) and found.__module__ == module:
                return found
            if (
                isinstance(found, types.FunctionType)
                and found.__module__ == module
                and module.startswith(_FUNCTIONS)
            ):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an account")


def _member(owner: Any, name: str) -> Any:
    """A method of a thing of ours, or a member of an enumeration of ours."""
    kind = owner if isinstance(owner, type) else type(owner)
    if kind.__module__.startswith(_CLASSES):
        if isinstance(owner, enum.EnumMeta) and name in owner.__members__:
            return owner[name]
        if not isinstance(owner, type) and isinstance(
            getattr(kind, name, None), types.FunctionType
        ):
            return getattr(owner, name)
    raise pickle.UnpicklingError(f"{kind.__module__}.{kind.__name__}.{name} is no part of it")
