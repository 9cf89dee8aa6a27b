"""What a page names as its proof exists."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FOR_EVER = re.compile(r"for \w+ in consumer(?::|\.batches)|consumer\.run\(")
INTEROP = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", INTEROP))
    assert named
    assert not named - written


def test_every_test_of_a_mixed_fleet_is_named() -> None:
    """Otherwise it would be promised, or denied, unnoticed."""
    source = (ROOT / "tests/machines/interop/test_not_safe.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^def (test_\w+)\(", source, re.MULTILINE)) <= set(
        re.findall(r"`(test_\w+)`", INTEROP)
    )


def test_every_model_that_is_named_exists() -> None:
    models = tomllib.loads((ROOT / "spec" / "models.toml").read_text(encoding="utf-8"))
    named = set(re.findall(r"`(MC\w+)`", INTEROP))
    assert named
    assert not named - {model["name"] for model in models["model"]}


def test_whatever_consumes_for_ever_ends_in_order_on_sigterm() -> None:
    """Kubernetes, systemd and docker stop send it; without a handler claims are not released."""
    programs = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        programs += re.findall(r"(?ms)^```python[^\n]*\n(.*?)^```$", text)
    for program in programs:
        simulated = "Scheduler(" in program  # nobody sends it a signal
        if "Consumer(" in program and FOR_EVER.search(program) and not simulated:
            assert "SIGTERM" in program, program


def test_the_newest_section_of_the_changelog_is_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    [(version, state), *_] = re.findall(r"^## (\S+) \((.+)\)$", changelog, re.MULTILINE)
    assert version == project["version"].removesuffix(".dev0")
    assert (state == "unreleased") is project["version"].endswith(".dev0")
