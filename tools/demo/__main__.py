"""The main job, end to end: `make demo`.

Checks the small fenced model and one model of the original that must fail, and replays the bundled
captures under both rule sets on Spark. Then three consumers share a topic on a real broker; it
kills one, stalls one, and replays what happened. Every step is a command that a user can type; it
is printed before it runs.
"""

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.demo import fleet

ROOT = Path(__file__).parent.parent.parent
CAPTURES = Path("tests/data/captures/original")
OUT = Path("demo-out")
MARSHAL = [sys.executable, "-m", "kafka_marshal.cli"]
FINE, FOUND_SOMETHING = 0, 1


def marshal(*words: str, expect: int) -> None:
    """Run one command as a user would; stop the demo if it ends otherwise than it must."""
    print(f"\n$ marshal {shlex.join(words)}", flush=True)
    code = subprocess.run([*MARSHAL, *words], cwd=ROOT, check=False).returncode
    if code != expect:
        sys.exit(f"demo: exit code {code}, not {expect}: {shlex.join(words)}")


def _either(*words: str, found_something: bool = False) -> None:
    marshal(*words, expect=FOUND_SOMETHING if found_something else FINE)


def main() -> None:
    """Run the demo."""
    began = time.monotonic()
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir()

    print("1. The fenced rules keep every promise, for every clock, at small bounds.")
    marshal("verify", "MCFenced_AloTwo", expect=FINE)

    print("\n2. The original's rules do not: a late heartbeat takes a living owner's partition.")
    marshal("verify", "MCOriginal_a_LateHeartbeat", expect=FOUND_SOMETHING)

    print("\n3. What that did on a real Kafka: logs of the original, under both rule sets.")
    at_4_s = sorted(
        path.relative_to(ROOT)
        for path in (ROOT / CAPTURES).glob("*.jsonl")
        if ".trace" not in path.name and not path.name.startswith("b60_")
    )
    replay = OUT / "replay"
    options = ["--heartbeat-interval", "4", "--rules", "both", "--engine", "spark"]
    options += ["--out", str(replay)]
    marshal("replay", *map(str, at_4_s), *options, expect=FOUND_SOMETHING)

    print(
        "\n4. Three consumers share a topic: one is killed, one stalls, and the log tells it all."
    )
    fleet.run(_either, OUT / "fleet")

    for page in (replay, OUT / "fleet"):
        print(f"A report: {(ROOT / page / 'report.html').as_uri()}")
    print(f"Demo done in {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
