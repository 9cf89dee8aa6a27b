"""How the tests are spread over two processes: `make test` runs `pytest -n 2 --dist loadgroup`.

What is dear to start (a Spark session, a broker, what TLC exported) is started in one process only:
each file is a group, and files that share such a thing are one.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
FOLDERS = {
    "tests/replay/": "spark",
    "tests/cli/": "spark",
    "tests/runtime/": "kafka",
    "tests/broker/": "kafka",
}
FIXTURES = {"exports": "tlc"}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the group that it runs in."""
    groups: dict[Path, str] = {}
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        group = next((group for name, group in FOLDERS.items() if path.startswith(name)), path)
        groups.setdefault(item.path, group)
        for fixture, together in FIXTURES.items():
            if fixture in getattr(item, "fixturenames", ()):
                groups[item.path] = together
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.path]))
