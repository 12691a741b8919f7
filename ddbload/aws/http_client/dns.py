"""Looking up a host's addresses without waiting for them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from ddbload.aws.http_client.connection import Address

FRESH_SECONDS = 30.0
"""How long addresses are used before they are looked up again."""

LookUp = Callable[..., list[Any]]


class DnsCache:
    """The addresses of one host. The system's look-up blocks, so a thread of its own does it."""

    def __init__(
        self, host: str, port: int, clock: Callable[[], float], look_up: LookUp | None = None
    ) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._look_up = look_up or socket.getaddrinfo
        self._addresses: list[Address] = []
        self._asked_at = float("-inf")
        self._answer: list[Address] | None = None
        self._thread: threading.Thread | None = None
        # Readable when a look-up has ended, so that who watches sockets can watch it.
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._is_number = self._is_numeric()

    @property
    def fd(self) -> int:
        """Readable when there is something to `take`."""
        return self._bell.fileno()

    def known(self) -> list[Address]:
        """The addresses, best first; none while they are being looked up."""
        if self._is_number or self._clock() - self._asked_at < FRESH_SECONDS:
            return list(self._addresses)
        if self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="names", daemon=True)
            self._thread.start()
        return []

    def take(self) -> list[Address]:
        """What a look-up gave; the addresses of old when it failed, or none."""
        self._bell.recv(16)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._answer:
            self._addresses = self._answer
            self._asked_at = self._clock()
        return list(self._addresses)

    def failed(self, address: Address) -> None:
        """Try this address last from now on."""
        if address in self._addresses:
            self._addresses.remove(address)
            self._addresses.append(address)

    def close(self) -> None:
        """Watch no more. A look-up under way ends by itself, unheard."""
        self._bell.close()
        self._ringer.close()

    def _is_numeric(self) -> bool:
        try:
            self._addresses = self._found(socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            return False
        return True

    def _ask(self) -> None:
        try:
            self._answer = self._found(0)
        except (OSError, UnicodeError):
            self._answer = None
        try:
            self._ringer.send(b"!")
        except OSError:  # closed meanwhile
            pass

    def _found(self, flags: int) -> list[Address]:
        look_up = socket.getaddrinfo if flags else self._look_up
        found = look_up(self._host, self._port, type=socket.SOCK_STREAM, flags=flags)
        return list(dict.fromkeys(Address(each[0], each[4]) for each in found))
