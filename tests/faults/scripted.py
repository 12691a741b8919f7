"""Server on 127.0.0.1 whose connections follow scripts."""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any, Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Script = Callable[["Scripted", Any], None]


class Scripted:
    """Server that runs the first script for its first connection, and so on.

    The last script serves all further connections. A script gets the server and the connection,
    which is closed after it.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.accepted = 0
        self.ended = threading.Event()
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._open:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            script = self._scripts[min(self.accepted, len(self._scripts) - 1)]
            self.accepted += 1
            self._open.append(accepted)
            thread = threading.Thread(target=self._run, args=(accepted, script))
            self._threads.append(thread)
            thread.start()

    def _run(self, accepted: socket.socket, script: Script) -> None:
        try:
            if self._tls is not None:
                wrapped = self._tls.wrap_socket(accepted, server_side=True)
                self._open.append(wrapped)
                accepted = wrapped
            script(self, accepted)
        except OSError:
            pass
        finally:
            accepted.close()

    def read(self, connection: socket.socket, pause: float = 0.0) -> bytes:
        """Read one request in pieces, `pause` seconds apart. Raises ConnectionError at the end."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._some(connection)
        length = re.search(rb"content-length: (\d+)", data, re.IGNORECASE)
        end = data.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)
        pieces, have = [data], len(data)
        while have < end:
            self.ended.wait(pause)
            pieces.append(self._some(connection))
            have += len(pieces[-1])
        self.requests.append(b"".join(pieces))
        return self.requests[-1]

    def _some(self, connection: socket.socket) -> bytes:
        data = connection.recv(1 << 20)
        if not data:
            raise ConnectionError
        return data


def answers(times: int = 1_000_000, answer: bytes = OK) -> Script:
    """Script that answers `count` requests, then closes."""

    def run(server: Scripted, connection: Any) -> None:
        for _ in range(times):
            server.read(connection)
            connection.sendall(answer)

    return run


def silent(server: Scripted, _connection: Any) -> None:
    """Script that sends nothing."""
    server.ended.wait()


def reads_and_is_silent(server: Scripted, connection: Any) -> None:
    server.read(connection)
    server.ended.wait()


def reset(connection: socket.socket) -> None:
    """Make closing the connection send a reset (RST)."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
