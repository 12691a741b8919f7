"""Servers of the demo: dynalite for an import alone, an emulated AWS for the whole pipeline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ddbload.cli.terminal import print_stderr
from ddbload.deploy.toolchain import Toolchain, app_folder, environment_without_aws
from ddbload.errors import DemoUnavailable

STOP_SECONDS = 15.0
"""Seconds that a server gets to stop its own processes."""


@contextmanager
def _serving(
    command: Sequence[str], *, log: IO[bytes] | None = None, **more: Any
) -> Iterator[Callable[[], bytes]]:
    """Run a server until the end of the block.

    Yields a function that waits for the server's first line of output and returns it. The server
    also ends if this process is killed, because that closes its standard input.
    """
    process = subprocess.Popen(  # noqa: S603 - the app's own programs
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C reaches this process alone, which stops the server in order.
        start_new_session=True,
        **more,
    )
    try:
        yield lambda: process.stdout.readline().strip() if process.stdout else b""
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print_stderr("ddbload: the AWS emulator did not stop in time and was killed")
        finally:
            # Also after a second Ctrl-C; has no effect if the process has ended.
            process.kill()
            process.wait()


@contextmanager
def dynalite(modules: Path) -> Iterator[str]:
    """Start an empty dynalite and yield its endpoint. Raises `DemoUnavailable`.

    `modules`: folder with dynalite's npm packages.
    """
    script = str(app_folder() / "localaws" / "dynalite_server.cjs")
    variables = {**os.environ, "DYNALITE": str(modules / "dynalite")}
    with _serving([str(shutil.which("node")), script, "127.0.0.1"], env=variables) as first_line:
        port = first_line()
        if not port.isdigit():
            raise DemoUnavailable("dynalite did not start; its output is above")
        yield f"http://127.0.0.1:{port.decode()}"


@contextmanager
def emulated_aws(folder: Path, tools: Toolchain) -> Iterator[Callable[[], Mapping[str, Any]]]:
    """Start the AWS emulator, with logs in `folder`.

    Yields a function that waits until the emulator is ready and returns its account, region,
    endpoints and environment. The function raises `DemoUnavailable` if the emulator failed to
    start.
    """
    with (folder / "localaws.log").open("w+b") as log:
        variables = {"TMPDIR": str(folder), "PYTHONPATH": str(app_folder())}
        command = [tools.python, "-m", "localaws", "--exit-on-stdin-eof"]
        with _serving(
            command,
            log=log,
            # The emulator looks for npm packages in its working folder.
            cwd=tools.node_modules.parent,
            env={**environment_without_aws(), **variables},
        ) as first_line:

            def wait_until_ready() -> Mapping[str, Any]:
                line = first_line()
                if not line:
                    log.seek(0)
                    print_stderr(*log.read().decode(errors="replace").splitlines())
                    raise DemoUnavailable("the AWS emulator did not start; its output is above")
                found: Mapping[str, Any] = json.loads(line)
                return found

            yield wait_until_ready
