"""`python -m kafka_marshal.testing.setup`: fetch the broker's jars and say so.

The first `Broker()` would do it too; here it happens once, with words.
"""

import sys

from kafka_marshal.jars import JarError
from kafka_marshal.java import JavaNotFoundError
from kafka_marshal.testing import kafka


def main() -> int:
    """Return 0, or 2 if they cannot be had."""
    jars = kafka.jars()
    if not all(jar.path.is_file() for jar in jars):
        print(f"setup: fetching Kafka {kafka.version()} (43 MB, half a minute)", flush=True)
    try:
        paths = kafka.fetched_jars()
    except (JarError, JavaNotFoundError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    print(f"setup: Kafka {kafka.version()}, {len(paths)} jars in {paths[0].parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
