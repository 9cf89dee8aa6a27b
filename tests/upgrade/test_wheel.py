"""The wheel of 0.1.0 is the one that was built of its commit, and it is whole."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.upgrade.versions import WHEEL, environment

IMPORT_ALL = """\
import importlib, pkgutil, kafka_marshal
from kafka_marshal.version import package_version
for each in pkgutil.walk_packages(kafka_marshal.__path__, "kafka_marshal."):
    importlib.import_module(each.name)
print(package_version(), kafka_marshal.__file__)
"""


def test_the_wheel_is_the_one_that_its_readme_names() -> None:
    readme = (WHEEL.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(WHEEL.read_bytes()).hexdigest() in readme
    assert WHEEL.stat().st_size < 1_000_000


def test_every_room_of_the_wheel_is_imported_and_says_0_1_0(old_version: Path) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        env=environment(old_version),
        capture_output=True,
        text=True,
        check=True,
    )
    found = old_version / "kafka_marshal" / "__init__.py"
    assert printed.stdout == f"0.1.0 {found}\n"
