"""The bill of materials, `sbom.cdx.json`: all that requirements.lock names, as CycloneDX 1.6.

`make sbom` writes it. What a component is for is its scope: `required` by the core, `optional` with
an extra for users, `excluded` where only development needs it. Who needs it is in the
dependencies. It names no time and no serial number, so the same lock gives the same file. The
hashes of all files are in the lock. CycloneDX's library is in an environment of its own and
imported only to write.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "requirements.lock"
SBOM: Final = ROOT / "sbom.cdx.json"
US: Final = "kafka-marshal"
_PINNED: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)")
_NEEDED_BY: Final = re.compile(r"    #(?: via |   )([A-Za-z0-9._-]+)(?: \([^)]*\))?")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass
class Locked:
    """One release that the lock names."""

    name: str
    version: str
    needed_by: list[str]
    """Names of others in the lock, or of the project."""


def locked(text: str) -> dict[str, Locked]:
    """What a lock file names, by name."""
    found: dict[str, Locked] = {}
    last: Locked | None = None
    for line in text.splitlines():
        pinned, needed_by = _PINNED.match(line), _NEEDED_BY.fullmatch(line)
        if pinned:
            last = found[pinned[1]] = Locked(pinned[1], pinned[2], [])
        elif needed_by and last is not None:
            last.needed_by.append(needed_by[1])
    return found


def scopes(lock: dict[str, Locked], project: dict[str, Any]) -> dict[str, str]:
    """What each release is for."""
    extras = dict(project["optional-dependencies"])
    development = extras.pop("dev")
    asked = {
        "excluded": development,
        "optional": [each for extra in extras.values() for each in extra],
        "required": project["dependencies"],
    }
    found: dict[str, str] = dict.fromkeys(lock, "excluded")
    for scope, requirements in asked.items():  # the strongest last
        found.update(dict.fromkeys(_reached(lock, map(_name, requirements)), scope))
    return found


def _name(requirement: str) -> str:
    named = _NAME.match(requirement)
    assert named is not None, requirement
    return named[0].lower().replace("_", "-")


def _reached(lock: dict[str, Locked], names: Iterable[str]) -> Iterator[str]:
    """These, and all that they need."""
    left, seen = list(names), {US}
    while left:
        name = left.pop()
        if name not in seen and name in lock:
            seen.add(name)
            yield name
            left += [each.name for each in lock.values() if name in each.needed_by]


def version() -> str:
    """The project's own."""
    return str(_project()["version"])


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(project["project"])


def written() -> str:
    """The file's text, checked against the schema."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentScope, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from packageurl import PackageURL

    lock = locked(LOCK.read_text(encoding="utf-8"))
    root = Component(name=US, version=version(), type=ComponentType.LIBRARY, bom_ref=US)
    scope_of = scopes(lock, _project())
    components = {
        name: Component(
            name=name,
            version=each.version,
            type=ComponentType.LIBRARY,
            bom_ref=name,
            scope=ComponentScope(scope_of[name]),
            purl=PackageURL("pypi", name=name, version=each.version),
        )
        for name, each in lock.items()
    }
    bom = Bom(components=components.values())
    bom.metadata.component = root
    for name, component in {US: root, **components}.items():
        bom.register_dependency(
            component, [components[each.name] for each in lock.values() if name in each.needed_by]
        )
    fields = json.loads(JsonV1Dot6(bom).output_as_string())
    del fields["serialNumber"], fields["metadata"]["timestamp"]
    text = json.dumps(fields, indent=1, sort_keys=True) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise SystemExit(f"{SBOM.name}: {wrong}")
    return text


if __name__ == "__main__":
    SBOM.write_text(written(), encoding="utf-8")
