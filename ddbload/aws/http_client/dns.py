"""DNS look-ups that do not block the event loop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from ddbload.aws.http_client.connection import Address

FRESH_SECONDS = 30.0
"""Time for which addresses are used before the next look-up."""

LookUp = Callable[..., list[Any]]


class DnsCache:
    """Cached addresses of one host; a thread calls the system's look-up, which blocks."""

    def __init__(
        self, host: str, port: int, clock: Callable[[], float], look_up: LookUp | None = None
    ) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._look_up = look_up or socket.getaddrinfo
        self._addresses: list[Address] = []
        self._looked_up_at = float("-inf")
        self._answer: list[Address] | None = None
        self._thread: threading.Thread | None = None
        # A socket that becomes readable when a look-up has ended, for the event loop's selector.
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._is_number = self._is_numeric()

    @property
    def fd(self) -> int:
        """File descriptor that is readable when a look-up has ended; then call `take`."""
        return self._wake_reader.fileno()

    def known(self) -> list[Address]:
        """Return the addresses, best first; empty while a look-up is running."""
        if self._is_number or self._clock() - self._looked_up_at < FRESH_SECONDS:
            return list(self._addresses)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_look_up, name="names", daemon=True)
            self._thread.start()
        return []

    def take(self) -> list[Address]:
        """Return the addresses of an ended look-up; the earlier ones, if any, when it failed."""
        self._wake_reader.recv(16)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._answer:
            self._addresses = self._answer
            self._looked_up_at = self._clock()
        return list(self._addresses)

    def failed(self, address: Address) -> None:
        """Move an address to the end of the list, after it failed."""
        if address in self._addresses:
            self._addresses.remove(address)
            self._addresses.append(address)

    def close(self) -> None:
        """Close the sockets. A running look-up ends by itself, and its result is dropped."""
        self._wake_reader.close()
        self._wake_writer.close()

    def _is_numeric(self) -> bool:
        try:
            self._addresses = self._resolve(socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            return False
        return True

    def _run_look_up(self) -> None:
        try:
            self._answer = self._resolve(0)
        except (OSError, UnicodeError):
            self._answer = None
        try:
            self._wake_writer.send(b"!")
        except OSError:  # closed in the meantime
            pass

    def _resolve(self, flags: int) -> list[Address]:
        look_up = socket.getaddrinfo if flags else self._look_up
        found = look_up(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)
        return list(dict.fromkeys(Address(each[0], each[4]) for each in found))
