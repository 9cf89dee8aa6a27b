"""The bill of materials names what the lock names. The network is not asked."""

from __future__ import annotations

import json
import re
from typing import Any

from tools import sbom

BOM: dict[str, Any] = json.loads(sbom.SBOM.read_text(encoding="utf-8"))
LOCKED = sbom.locked(sbom.LOCK.read_text(encoding="utf-8"))
STALE = "the lock has changed: make sbom"


def test_every_release_of_the_lock_is_in_it_and_no_other() -> None:
    named = {one["name"]: one["version"] for one in BOM["components"]}
    assert named == {name: one.version for name, one in LOCKED.items()}, STALE
    for one in BOM["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
    assert BOM["metadata"]["component"]["version"] == sbom.version(), "make sbom"


def test_every_release_is_read_off_the_lock() -> None:
    text = sbom.LOCK.read_text(encoding="utf-8")
    assert len(LOCKED) == len(re.findall(r"(?m)^[^\s#].*==", text)) > 50
    assert all(one.needed_by for one in LOCKED.values())


def test_who_needs_what_is_as_the_lock_says() -> None:
    needs = {one["ref"]: set(one.get("dependsOn", ())) for one in BOM["dependencies"]}
    for name in (sbom.US, *LOCKED):
        assert needs[name] == {each for each, one in LOCKED.items() if name in one.needed_by}, STALE


def test_what_users_install_is_not_called_development() -> None:
    scopes = {one["name"]: one["scope"] for one in BOM["components"]}
    assert [name for name, scope in scopes.items() if scope == "required"] == ["attrs"]
    assert scopes["confluent-kafka"] == scopes["numpy"] == scopes["llvmlite"] == "optional"
    assert scopes["pytest"] == scopes["mypy"] == "excluded"
    assert scopes == sbom.scopes(LOCKED, sbom._project()), STALE


def test_a_release_that_is_missing_or_another_one_is_noticed() -> None:
    text = "a==1 ; python_version < '3' \\\n    --hash=sha256:0\n    # via\n    #   b\n    #   c\n"
    found = sbom.locked(text + "b==2 \\\n    # via kafka-marshal (pyproject.toml)\nc==3\n")
    assert {name: (one.version, one.needed_by) for name, one in found.items()} == {
        "a": ("1", ["b", "c"]),
        "b": ("2", [sbom.US]),
        "c": ("3", []),
    }
    project = {"dependencies": ["b>=1"], "optional-dependencies": {"x": [], "dev": ["c[y]"]}}
    assert sbom.scopes(found, project) == {"a": "required", "b": "required", "c": "excluded"}
