"""What a page names exists: models, tests and modules, on every page but the changelog."""

from __future__ import annotations

import ast
import fnmatch
import re
from importlib import import_module
from pathlib import Path

import pytest

from kafka_marshal.modelcheck import models
from tests.docs.test_links import PAGES

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "marshal" / "kafka_marshal"
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
MODELS = {model.name for model in models.read()}
MODULES = {path.stem for path in (ROOT / "spec").rglob("*.tla")}
TESTS = {
    name
    for folder in ("tests", "model_tests", "proof")
    for path in (ROOT / folder).rglob("test_*.py")
    for name in [path.stem, *re.findall(r"(?m)^ *(?:async )?def (test_\w+)\(", path.read_text())]
}


def unknown(names: set[str], known: set[str]) -> set[str]:
    """Which of the names, or patterns with *, match nothing."""
    return {name for name in names if not fnmatch.filter(known, name)}


def test_every_model_that_is_named_exists() -> None:
    for page, text in TEXTS.items():
        named = set(re.findall(r"`(MC\w[\w*]*)`", text))
        assert unknown(named, MODELS | MODULES) == set(), page


def test_every_test_that_is_named_exists() -> None:
    for page, text in TEXTS.items():
        named = set(re.findall(r"`(test_\w+)(?:\.py)?`", text))
        assert unknown(named, TESTS) == set(), page


def test_every_module_that_is_named_exists() -> None:
    for page, text in TEXTS.items():
        for path in re.findall(r"`((?:[\w*]+/)+[\w*]+\.(?:py|tla|cfg|toml))`", text):
            assert any(any(folder.glob(path)) for folder in (ROOT, PACKAGE)), (page, path)
        for dotted in re.findall(r"`(kafka_marshal(?:\.\w+)+)`", text):
            assert leads_somewhere(dotted), (page, dotted)


def leads_somewhere(dotted: str) -> bool:
    """Whether it is a module or a package, or what one of them names."""
    parts = dotted.split(".")[1:]
    for end in range(len(parts), -1, -1):
        found = PACKAGE.joinpath(*parts[:end])
        module = found / "__init__.py" if found.is_dir() else found.with_suffix(".py")
        if module.exists():
            rest = parts[end:]
            return not rest or bool(re.search(rf"\b{rest[0]}\b", module.read_text("utf-8")))
    return False


@pytest.mark.filterwarnings("ignore:kafka_marshal.runtime:DeprecationWarning")
def test_what_a_page_imports_from_the_package_is_there() -> None:
    """The page about upgrades imports an old name, too."""
    for page, text in TEXTS.items():
        for code in re.findall(r"(?ms)^```python[^\n]*\n(.*?)^```$", text):
            tree = compile(code, page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE.name):
                    module = import_module(str(node.module))
                    assert [a.name for a in node.names if not hasattr(module, a.name)] == [], page


def test_decisions_are_numbered_and_have_their_four_parts() -> None:
    numbers = [int(page.name[:3]) for page in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:3]}: ")
        parts = re.findall(r"(?m)^\*\*(Context|Decision|Consequences|To change it)\.\*\*", text)
        assert parts == ["Context", "Decision", "Consequences", "To change it"], page.name
