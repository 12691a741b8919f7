"""DynamoDB Local, AWS's emulator, on this machine: its jars, and a server.

Maven downloads the jars once, and each must have the hash that `jars.txt` lists.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".dynamodb-local"
"""Folder of the jars and of the compiled launcher."""
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAVA = 17
"""Oldest Java that runs it."""


class JavaMissing(Exception):
    """Error for a missing Java or Maven."""


def fetch_jars() -> Path:
    """Have Maven download what is not there, and check the hash of each; return the folder.

    Raises JavaMissing.
    """
    jars = FOLDER / "jars"
    hashes = _wanted_hashes()
    if _hashes(jars) == hashes:
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissing("mvn (Maven), which downloads DynamoDB Local, was not found on PATH")
    subprocess.run(
        [
            *(maven, "--batch-mode", "--quiet", f"--file={HERE / 'pom.xml'}", COPY),
            *("-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
        ],
        check=True,
    )
    found = _hashes(jars)
    if found != hashes:
        wrong = sorted(set(found.items()) ^ set(hashes.items()))
        raise RuntimeError(f"these do not have the hashes of jars.txt: {wrong}")
    return jars


def _wanted_hashes() -> dict[str, str]:
    lines = (HERE / "jars.txt").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: _sha256(path.read_bytes()) for path in folder.glob("*")}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """Run an empty DynamoDB Local; yield its endpoint. Raises JavaMissing."""
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        raise JavaMissing(f"java and javac, {JAVA} or newer, were not found on PATH")
    jars = fetch_jars()
    classes = FOLDER / "classes"
    source = HERE / "LoopbackServer.java"
    subprocess.run(
        [javac, "--release", str(JAVA), "-cp", f"{jars}/*", "-d", str(classes), str(source)],
        check=True,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            java,
            f"-Djava.library.path={jars}",
            "-cp",
            f"{classes}:{jars}/*",
            "LoopbackServer",
            "-inMemory",
            "-disableTelemetry",
            "-port",
            str(port),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == b"ready":
                break
        else:
            raise RuntimeError(f"DynamoDB Local ended with status {process.wait()}")
        yield f"http://127.0.0.1:{port}"
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
