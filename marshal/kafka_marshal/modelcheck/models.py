"""The models of `spec/`, and the result that each must give.

`spec/models.toml` is the only list of models. This module reads it, checks it for contradictions,
and compares runs with it. `tlc.py` makes a run; `spec.py` and `stories.py` print the tables about
it.
"""

import difflib
import enum
import functools
import hashlib
import io
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

import kafka_marshal
from kafka_marshal import cache
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import Progress, TlcOutcome, TlcResult


class ModelKind(enum.StrEnum):
    """The purpose of a model."""

    SAFETY = "safety"
    LIVENESS = "liveness"
    REFINEMENT = "refinement"
    CONFORMANCE = "conformance"
    """Its transitions are exported and held against the reducer."""
    FAULT = "fault"
    """Must fail: a fault of the original rules, shown as a trace."""
    GAP = "gap"
    """Must fail: an existing rule that does not ensure a property that it should."""
    LIMIT = "limit"
    """Must fail: a property that is impossible, or only holds if all participants follow the
    rules."""
    BROKEN = "broken"
    """Must fail: a rule left out, so that a property is seen to notice."""
    REACHABILITY = "reachability"
    """Must fail: something that has to happen in our models."""


@attrs.frozen
class Model:
    """One table of models.toml, its keys by the same names."""

    name: str
    module: Path
    cfg: Path
    kind: ModelKind
    about: str
    """One sentence."""
    expect: TlcOutcome
    violates: str | None = None
    """The property that must be violated, if any."""
    states: int | None = None
    """Distinct states; recorded for models that must not fail, as are edges and depth."""
    edges: int | None = None
    depth: int | None = None
    length: int | None = None
    """States of the shortest counterexample; recorded for models that must fail."""
    workers: int = 1
    """Only for models that must not fail: with more than one, TLC's depth is not exact and not
    compared. The others use one worker, so that their counterexample is the shortest and always the
    same."""
    deadlock_check: bool = False
    """Off: a bounded log ends in a deadlock by nature."""
    tags: tuple[str, ...] = ()
    """Where else it is run: `test`, `demo`. Named `in` in the file. Models in `test` that must fail
    do so within few states."""

    @property
    def must_fail(self) -> bool:
        """Whether a run without a violation would be wrong."""
        return self.expect is not TlcOutcome.OK

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> TlcResult:
        """Run TLC on it; raises ModelCheckError as `tlc.run` does."""
        return tlc.run(
            self.module,
            self.cfg,
            workers=1 if self.must_fail else self.workers,
            check_deadlock=self.deadlock_check,
            short=self.kind is ModelKind.REACHABILITY or (self.must_fail and "test" in self.tags),
            libraries=libraries(self.module.parents[2]),
            on_progress=on_progress,
        )

    def differences(self, result: TlcResult) -> list[str]:
        """The differences of a result from the file, in words; empty if there are none."""
        if otherwise := self.ended_otherwise(result):
            return [otherwise]
        return [
            f"{key}: recorded {'nothing' if recorded is None else f'{recorded:,}'}, now {now:,}"
            for key, now in self.figures(result).items()
            if (recorded := getattr(self, key)) != now
        ]

    def ended_otherwise(self, result: TlcResult) -> str | None:
        """A description if a run ended differently than it must."""
        found = _in_words(result.outcome, result.violated)
        expected = _in_words(self.expect, self.violates)
        return None if found == expected else f"must give {expected}, gave {found}"

    def figures(self, result: TlcResult) -> dict[str, int]:
        """Return the numbers of a run that are the same at every run, and so are recorded."""
        if self.must_fail:
            return {"length": len(result.trace.states) if result.trace else 0}
        figures = {"states": result.states, "edges": result.edges}
        if self.workers == 1 and result.depth is not None:
            figures["depth"] = result.depth
        return figures


def spec_folder() -> Path:
    """Return the folder of the specification: the checkout's, or that of an installed wheel.

    A wheel contains one archive; it is unpacked into the cache once. Raises ModelCheckError if
    there is neither.
    """
    package = Path(kafka_marshal.__file__).parent
    checkout = package.parent.parent / "spec"
    if (checkout / "models.toml").is_file():
        return checkout
    carried = package / "spec.zip"
    if not carried.is_file():
        raise ModelCheckError("there is no spec/models.toml, neither in a checkout nor installed")
    content = carried.read_bytes()
    folder = cache.folder() / "spec" / hashlib.sha256(content).hexdigest()[:16]
    if not folder.is_dir():
        with cache.made_beside(folder) as made, zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(made)
    return folder


def libraries(folder: Path | None = None) -> tuple[Path, ...]:
    """Return TLC's library path: every folder of the specification with modules."""
    return tuple(sorted({path.parent for path in (folder or spec_folder()).rglob("*.tla")}))


def read(folder: Path | None = None) -> tuple[Model, ...]:
    """Return all models of `folder`, by default of our specification, in the file's order.

    Raises ModelCheckError, naming the model, for a table that contradicts itself or the folder.
    """
    folder = folder or spec_folder()
    path = folder / "models.toml"
    try:
        return _models(folder, path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ModelCheckError(f"{path}: {error}") from error


@functools.cache
def _models(folder: Path, text: str) -> tuple[Model, ...]:
    models = tuple(_model(folder, table) for table in tomllib.loads(text).get("model", []))
    for name, count in Counter(model.name for model in models).items():
        if count > 1:
            raise ModelCheckError(f"{folder / 'models.toml'}: {name} is there twice")
    return models


def find(name: str, models: tuple[Model, ...]) -> Model:
    """Return the model with this name; otherwise a ModelCheckError names the nearest one."""
    for model in models:
        if model.name == name:
            return model
    near = difflib.get_close_matches(name, [model.name for model in models], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ModelCheckError(f"there is no model {name!r} in spec/models.toml{hint}")


_KEYS = {"in" if field.name == "tags" else field.name for field in attrs.fields(Model)}
_NEEDED = ("name", "kind", "about", "expect")


def _model(folder: Path, table: Mapping[str, Any]) -> Model:
    name = table.get("name", "a model without a name")

    def wrong(sentence: str) -> ModelCheckError:
        return ModelCheckError(f"{folder / 'models.toml'}: {name}: {sentence}")

    if unknown := sorted(set(table) - _KEYS):
        raise wrong(f"unknown keys: {', '.join(unknown)}")
    if missing := [key for key in _NEEDED if key not in table]:
        raise wrong(f"missing keys: {', '.join(missing)}")
    fields = dict(table)
    fields["tags"] = tuple(fields.pop("in", ()))
    try:
        fields["kind"] = ModelKind(fields["kind"])
        fields["expect"] = TlcOutcome(fields["expect"])
    except ValueError as error:
        raise wrong(str(error)) from error
    module = fields.get("module", name.partition("_")[0])
    fields["module"] = folder / "models" / module / f"{module}.tla"
    fields["cfg"] = fields["module"].with_name(fields.get("cfg", f"{name}.cfg"))
    model = Model(**fields)
    for file in (model.module, model.cfg):
        if not file.is_file():
            raise wrong(f"{file.name} is not there")
    if not model.cfg.name.startswith(module):
        raise wrong(f"the name of {model.cfg.name} does not start with its module's")
    names_a_property = model.expect in (TlcOutcome.INVARIANT, TlcOutcome.PROPERTY)
    if names_a_property != (model.violates is not None):
        raise wrong(f"expect = {model.expect!s} and violates = {model.violates}")
    if model.expect is TlcOutcome.DEADLOCK and not model.deadlock_check:
        raise wrong("expects a deadlock and does not look for one")
    return model


def _in_words(outcome: TlcOutcome, violated: str | None) -> str:
    return f"{outcome} {violated}" if violated else str(outcome)
