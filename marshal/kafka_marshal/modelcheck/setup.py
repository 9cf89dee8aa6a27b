"""`python -m kafka_marshal.modelcheck.setup`: find Java, fetch the jars, say what is there.

Everything that it does, a later run would do when it needs it; here it happens once, with words.
"""

import sys

from kafka_marshal.modelcheck import jars
from kafka_marshal.modelcheck.errors import ModelCheckError


def main() -> int:
    """Return 0, or 2 if something is missing and cannot be had."""
    try:
        java = jars.java()
        print(f"setup: Java {java.major} at {java.executable}")
        for jar in jars.JARS:
            print(f"setup: {jar.coordinates} at {jars.ensure(jar)}")
    except ModelCheckError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
