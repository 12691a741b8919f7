"""The tests here cannot open a socket, and neither can those of tests/property."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import urllib3  # noqa: F401 - it opens a socket when it is first imported, to look for IPv6

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SocketsAreOffError", "sockets_off"]


class SocketsAreOffError(BaseException):
    """A test of pure code tried to reach the network.

    No Exception, so that code which retries or reports every Exception cannot hide it.
    """


class _Gate:
    """An audit hook: it sees every socket, however and in whichever thread it is made.

    A hook cannot be taken out again, so this one is put in once and opened and closed.
    """

    def __init__(self) -> None:
        self.closed = False
        self._installed = False

    def install(self) -> None:
        if not self._installed:
            sys.addaudithook(self._on_event)
            self._installed = True

    def _on_event(self, event: str, _args: tuple[Any, ...]) -> None:
        if self.closed and event in _FORBIDDEN:
            raise SocketsAreOffError(
                f"{event}: sockets are off in tests/unit and tests/property. "
                "A test that needs one belongs in another folder of tests."
            )


_FORBIDDEN = frozenset(
    {
        "socket.__new__",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.getnameinfo",
    }
)
_gate = _Gate()


@pytest.fixture(autouse=True)
def sockets_off() -> Iterator[None]:
    """Any socket, and any name look-up, raises SocketsAreOffError during the test."""
    _gate.install()
    _gate.closed = True
    try:
        yield
    finally:
        _gate.closed = False
