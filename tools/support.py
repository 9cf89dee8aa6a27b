"""Which Pythons and which librdkafka the wheel runs with: `make support` prints a row for each.

The wheel is built once, and installed into an empty environment for each pair, through pip and from
wheels alone. There `support_smoke.py` consumes from a real broker. A Python that is not on this
machine is named, and not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen
from tools.wheel import built

from kafka_marshal.admin.trial import Trial, create
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.scratch import Scratch
from kafka_marshal.testing import QUICK, Broker, version

ROOT: Final = Path(__file__).parent.parent
SMOKE: Final = Path(__file__).parent / "support_smoke.py"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
OLDEST: Final = "2.6.0"
"""Of confluent-kafka: the bound in pyproject.toml. Not each Python has a wheel of it."""
MESSAGES: Final = 1_000
LONGEST_S: Final = 300.0
_VERSIONS: Final = re.compile(r"Python (\S+), confluent-kafka (\S+), librdkafka (\S+)")


@frozen
class Ran:
    """What came of a pair."""

    python: str
    client: str
    librdkafka: str
    outcome: str

    def line(self) -> str:
        """A row of the table."""
        return f"| {self.python} | {self.client} | {self.librdkafka} | {self.outcome} |"


def found(name: str) -> Path | None:
    """The interpreter of this version, if it is on this machine: on PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = shutil.which(f"python{name}")
    candidates = [Path(on_path)] if on_path else []
    for candidate in (*candidates, *sorted(pyenv.glob(f"{name}.*/bin/python"))):
        ran = _run([candidate, "-c", "import sys, venv; print(sys.version)"])
        if ran.returncode == 0 and ran.stdout.startswith(f"{name}."):
            return candidate
    return None


def _run(words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=bare
    )


def tried(name: str, python: Path, client: str, wheel: Path, bootstrap: str, desk: Path) -> Ran:
    """Install the wheel with this client, and consume."""
    asked = f"{client} asked for" if client else "newest"
    folder = desk / f"venv-{name}-{client or 'newest'}"
    if (made := _run([python, "-m", "venv", folder])).returncode:
        return Ran(name, asked, "-", f"no environment: {_last(made)}")
    inside = folder / "bin" / "python"
    pip: list[str | Path] = [
        inside,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "install",
        "--quiet",
    ]
    wanted = [f"confluent-kafka=={client}"] if client else []
    installed = _run([*pip, "--only-binary", ":all:", f"{wheel}[kafka]", *wanted])
    if installed.returncode:
        return Ran(name, asked, "-", f"not installed: {_last(installed)}")
    topic = folder.name
    create(ClusterClient(settings_of(bootstrap)), Trial(topic, 2), MESSAGES)
    smoke = _run([inside, SMOKE, bootstrap, topic, str(MESSAGES)])
    shutil.rmtree(folder)
    versions = _VERSIONS.search(smoke.stdout)
    if versions is None:
        return Ran(name, asked, "-", f"does not start: {_last(smoke)}")
    outcome = "ok" if smoke.returncode == 0 else _last(smoke)
    return Ran(versions[1], versions[2], versions[3], outcome)


def _last(ran: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {ran.returncode}"


def main() -> int:
    """The exit code: 1 if something that was run failed."""
    parser = argparse.ArgumentParser(prog="make support", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print what would be run")
    asked = parser.parse_args()
    here = {name: found(name) for name in PYTHONS}
    if asked.list:
        for name, python in here.items():
            print(f"{name}: {python or 'not on this machine'}")
        return 0
    rows = []
    with Scratch("support") as desk, Broker(java_options=QUICK) as broker:
        wheel = built(ROOT, desk)
        print(f"broker {version()}\n| Python | confluent-kafka | librdkafka | |\n|---|---|---|---|")
        for name, python in here.items():
            for client in (OLDEST, ""):
                if python is None:
                    ran = Ran(name, "-", "-", "not run: not on this machine")
                else:
                    ran = tried(name, python, client, wheel, broker.bootstrap, desk)
                rows.append(ran)
                print(ran.line(), flush=True)
                if python is None:
                    break
    return 1 if any(not row.outcome.startswith(("ok", "not ")) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
