"""What goes into the wheel beside the package: the specification, as one archive.

Hatchling runs it; `pyproject.toml` names it. `marshal verify` and `validate --tlc` read the archive
where there is no checkout (`modelcheck.models`).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ("**/*.tla", "**/*.cfg", "models.toml")
"""What TLC and the list of models are read from. Pages and kept traces stay in the checkout."""


def archive(spec: Path, path: Path) -> None:
    """Write what is needed of `spec`; the same files give the same bytes."""
    files = sorted({file for pattern in NEEDED for file in spec.glob(pattern) if file.is_file()})
    write({file.relative_to(spec).as_posix(): file.read_bytes() for file in files}, path)


def write(files: Mapping[str, bytes], path: Path) -> None:
    """A zip archive without a trace of when and where it was made."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # its default date is 1980-01-01
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # Unix, wherever it is made
            made.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


class SpecificationHook(BuildHookInterface[Any]):
    """Adds `kafka_marshal/spec.zip`; an editable install reads the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the archive, and name it to hatchling."""
        if version == "editable":
            return
        root = Path(self.root)
        made = root / "build" / "spec.zip"
        made.parent.mkdir(exist_ok=True)
        archive(root / "spec", made)
        build_data["force_include"][str(made)] = "kafka_marshal/spec.zip"
