"""One consumer of a group that is upgraded, in a process of its own.

It runs under the version of the package that PYTHONPATH names, so it uses nothing that 0.1.0 does
not have. It writes a line for each message when it processes it, and for each event. A line is in
the file before the next message is taken, so kill -9 loses none. After SIGUSR1 it stands still as
soon as it has processed a message and has more of the same batch in hand.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from kafka_marshal.runtime.consumer import Claim, Consumer, Lost

from kafka_marshal.version import package_version


def main(text: str) -> None:
    """Consume until SIGTERM."""
    options = json.loads(text)
    hold = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: hold.set())
    topic, path = options.pop("topic"), Path(options.pop("path"))
    pause_s = options.pop("pause_s", 0.0)
    share = {"share": options.pop("share")} if "share" in options else {}
    with path.open("w", encoding="utf-8", buffering=1) as lines:

        def claimed(claim: Claim) -> None:
            lines.write(f"claimed {claim.partition}\n")

        def lost(claim: Claim, reason: Lost) -> None:
            lines.write(f"lost {claim.partition} {reason.value}\n")

        lines.write(f"version {package_version()} {sys.modules['kafka_marshal'].__file__}\n")
        with Consumer(**options, on_claimed=claimed, on_lost=lost) as consumer:
            signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
            lines.write(f"instance {consumer.instance_id}\n")
            consumer.add_topic(topic, **share)
            for batch in consumer.batches():
                for message in batch.messages:
                    lines.write(f"{(message.value or b'').decode()}\n")
                    time.sleep(pause_s)
                    if hold.is_set() and message.offset + 1 < batch.end:
                        lines.write("holding\n")
                        signal.pause()
        lines.write("ended\n")


if __name__ == "__main__":
    main(sys.argv[1])
