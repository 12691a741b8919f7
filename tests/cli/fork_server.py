"""Run `ddbload`, or the AWS CLI, in forks of one process that has imported everything beforehand.

A command spends most of its CPU time on imports, and the tests run hundreds of commands. The
program that `ForkServer` writes passes its arguments, folder, environment and standard streams on
to the server, and ends as the fork does. What depends on how Python starts is not tested so: that
a command is interrupted, or has no standard output.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import marshal
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_FDS = 3
_CLIENT = """\
import _socket, marshal, posix, sys
plain = posix.environ.get(b"LC_ALL") == b"C.UTF-8" and b"PYTHONUNBUFFERED" not in posix.environ
plain = plain and not any("/dev/fd/" in argument for argument in sys.argv)
try:
    for number in range(3):
        posix.fstat(number)
except OSError:
    plain = False
if not plain:
    posix.execv({program!r}, [{program!r}, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
request = marshal.dumps((sys.argv[1:], posix.getcwd(), dict(posix.environ)))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
server.sendmsg([len(request).to_bytes(4, "big")], [rights])
server.sendall(request)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""


@contextlib.contextmanager
def fork_server(
    folder: Path, program: Path, env: Mapping[str, str], aws: Path | None = None
) -> Iterator[Path]:
    """Start a server; yield the program that runs `ddbload` by it, and end it.

    `program`: the installed command, which runs instead where a standard stream is closed, another
    stream is an argument, or the environment changes how Python starts. `aws`: folder of the AWS
    CLI, to run that.
    """
    address = folder / "socket"
    client = folder / program.name
    client.write_text(
        f"#!{sys.executable} -IS\n" + _CLIENT.format(program=str(program), address=str(address))
    )
    client.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(address), *([] if aws is None else [str(aws)])],
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.read(1) == b"."
        yield client
    finally:
        server.stdin.close()
        server.wait()
        server.stdout.close()


def _import_all() -> None:
    import botocore.loaders
    import botocore.session

    import ddbload

    for module in pkgutil.walk_packages(ddbload.__path__, "ddbload."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # Every session would read the same descriptions of AWS's services.
    loader = functools.cache(botocore.loaders.create_loader)
    botocore.session.create_loader = loader  # type: ignore[attr-defined]
    session = botocore.session.Session()
    for service in ("dynamodb", "s3", "cloudformation", "stepfunctions"):
        session.create_client(
            service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
        )


def _load_ddbload() -> Callable[[], object]:
    _import_all()
    from ddbload.cli.main import main

    return main


def _load_aws_cli(folder: str) -> Callable[[], object]:
    # It has a botocore of its own.
    sys.path.insert(0, folder)
    clidriver: Any = importlib.import_module("awscli.clidriver")
    clidriver.create_clidriver()
    # Importing it has added its folder of descriptions.
    data_path = os.environ["AWS_DATA_PATH"]

    def main() -> None:
        os.environ["AWS_DATA_PATH"] = data_path
        sys.exit(clidriver.main())

    return main


def _serve(address: str, main: Callable[[], object]) -> None:
    """Fork for each request, until standard input is closed."""
    gc.freeze()
    # Worker processes import the main module of the process that starts them.
    sys.modules["__main__"] = ModuleType("__main__")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    running: dict[int, socket.socket] = {}
    ended, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.write(1, b".")
    with selectors.DefaultSelector() as waiting:
        for each in (0, ended, listener):
            waiting.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in waiting.select()}
            if ended in ready:
                os.read(ended, 4096)
                _answer_ended(running, waiting)
            if 0 in ready:
                break
            for client in ready - {ended, listener}:
                # Its client was killed, so it is ended as well.
                for pid, connected in running.items():
                    if connected is client:
                        os.kill(pid, signal.SIGKILL)
                waiting.unregister(client)
            if listener in ready:
                client, _ = listener.accept()
                pid = _fork(client, main)
                running[pid] = client
                waiting.register(client, selectors.EVENT_READ)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _answer_ended(running: dict[int, socket.socket], waiting: selectors.BaseSelector) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        client = running.pop(pid)
        with contextlib.suppress(KeyError):
            waiting.unregister(client)
        with contextlib.suppress(OSError):
            client.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        client.close()


def _fork(client: socket.socket, main: Callable[[], object]) -> int:
    length, streams, _, _ = socket.recv_fds(client, 4, _FDS)
    size = int.from_bytes(length, "big")
    request = b""
    while len(request) < size:
        request += client.recv(size - len(request))
    arguments, folder, env = marshal.loads(request)  # noqa: S302 - from this test's own program
    pid = os.fork()
    if pid:
        for each in streams:
            os.close(each)
        return pid
    try:
        _run(main, streams, arguments, os.fsdecode(folder), env)
    finally:
        os._exit(70)


def _run(
    main: Callable[[], object],
    streams: list[int],
    arguments: list[str],
    folder: str,
    env: Mapping[bytes, bytes],
) -> NoReturn:
    """Be the command, as if the interpreter had just started."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, each in enumerate(streams):
        os.dup2(each, number)
    os.closerange(3, 1024)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(env)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = open(  # noqa: PTH123, SIM115 - a descriptor, for good
            number,
            "w" if number else "r",
            buffering=1 if number == 2 else -1,
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "surrogateescape",
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    sys.argv = ["ddbload", *arguments]
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            file.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1], _load_aws_cli(sys.argv[2]) if sys.argv[2:] else _load_ddbload())
