"""`python -m tools.setup.broker`: fetch the broker's jars and say so.

The first `Broker()` would do it too; here it happens once, with words. Then a broker is started
once, so that Java keeps its classes for later starts (`class_data`).
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import JavaNotFoundError, find_java
from kafka_marshal.java.jars import JarError
from kafka_marshal.testing import kafka
from kafka_marshal.testing.broker import Broker

_KEPT_S: Final = 120.0
"""A broker that has not left within this time keeps no classes."""


def main() -> int:
    """Return 0, or 2 if they cannot be had."""
    jars = kafka.jars()
    if not all(jar.path.is_file() for jar in jars):
        print(f"setup: fetching Kafka {kafka.version()} (43 MB, half a minute)", flush=True)
    try:
        paths = kafka.fetched_jars()
        print(f"setup: Kafka {kafka.version()}, {len(paths)} jars in {paths[0].parent}")
        archive = class_data.make(find_java(), paths, _start_a_broker)
    except (JarError, JavaNotFoundError, kafka.BrokerError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    if archive is not None:
        print(f"setup: a broker's classes at {archive}")
    return 0


def _start_a_broker(java_options: Sequence[str]) -> None:
    with Broker(java_options=(*kafka.QUICK, *java_options)) as broker:
        os.kill(broker.pid, signal.SIGTERM)  # `stop` would soon kill it, while Java still writes
        deadline = time.monotonic() + _KEPT_S
        while broker.running and time.monotonic() < deadline:
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
