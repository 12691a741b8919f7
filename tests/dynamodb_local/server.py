"""DynamoDB Local, AWS's emulator, on this machine: its jars, and a server.

The jars come from Maven Central once, and each must have the hash that `jars.txt` lists.
`MAVEN_REPOSITORY` names another repository.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".dynamodb-local"
"""Folder of the jars and of the compiled launcher."""
REPOSITORY = os.environ.get("MAVEN_REPOSITORY", "https://repo1.maven.org/maven2")
JAVA = 17
"""Oldest Java that runs it."""


class JavaMissing(Exception):
    """Error for a missing or an old Java."""


def fetch_jars() -> Path:
    """Download the jars that are not there, and check the hash of each; return their folder."""
    jars = FOLDER / "jars"
    jars.mkdir(parents=True, exist_ok=True)
    for line in (HERE / "jars.txt").read_text().splitlines():
        wanted, path = line.split("  ")
        jar = jars / path.rpartition("/")[2]
        if jar.exists() and _sha256(jar.read_bytes()) == wanted:
            continue
        with urllib.request.urlopen(f"{REPOSITORY}/{path}", timeout=60) as answer:
            data = answer.read()
        if _sha256(data) != wanted:
            raise RuntimeError(f"{path} from {REPOSITORY} does not have the hash in jars.txt")
        jar.write_bytes(data)
    return jars


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
