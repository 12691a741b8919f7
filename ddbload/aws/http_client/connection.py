"""Non-blocking HTTP connections, plain or TLS, and the DNS look-ups of their addresses."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, NamedTuple

from ddbload.aws.http_client.http1 import BadResponse, Response, ResponseReader
from ddbload.records import Record

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Endpoint(Record):
    """Address of an AWS service and the region for which its requests are signed."""

    scheme: str
    """http or https."""
    host: str
    """Host name, or IP address without brackets."""
    port: int
    region: str

    @property
    def authority(self) -> str:
        """Value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


# Larger than a TLS record, so that a read leaves nothing in TLS's own buffer.
_PIECE_BYTES = 64 * 1024
# Reads of one connection before the others, and deadlines, have their turn.
_READS = 16
_REASONS = {
    errno.ECONNREFUSED: "ConnectionRefused",
    errno.ECONNRESET: "ConnectionReset",
    errno.EPIPE: "ConnectionReset",
    errno.EHOSTUNREACH: "HostUnreachable",
    errno.ENETUNREACH: "HostUnreachable",
    errno.EMFILE: "TooManyOpenFiles",
    errno.ENFILE: "TooManyOpenFiles",
}


class Address(NamedTuple):
    """Address of a host as returned by `socket.getaddrinfo`."""

    family: int
    sockaddr: Any


class ConnectionBroken(Exception):
    """The connection ended, or cannot be used any further."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """Short name for error messages, such as ConnectionReset."""


class Connection:
    """Connection that sends one request after the other, without blocking."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, server_name: str) -> None:
        """Begin to connect. Raises `ConnectionBroken`.

        `tls`: None for a plain connection. `server_name`: the name that the certificate must have.
        """
        self.reader = ResponseReader()
        """Parser of the received bytes."""
        self._rest: memoryview | None = None
        self._send_wants_write = True
        self._receive_wants_write = False
        self._tls, self._server_name = tls, server_name
        self.is_open = False
        """True once requests may be sent."""
        self.answered: str | None = None
        """Request id of the last response, stored by the event loop."""
        self.watched = 0
        """`selectors` events that the event loop watches the socket for."""
        self.owner: Any = None
        """Exchange of the request in flight, stored by the event loop."""
        try:
            self._sock = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectionBroken(_reason(error)) from None
        try:
            self._sock.setblocking(False)
            # Requests are written whole, so Nagle's algorithm would only delay the last packet.
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            code = self._sock.connect_ex(address.sockaddr)
        except OSError as error:
            code = error.errno or errno.EIO
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._sock.close()
            raise ConnectionBroken(_reason(OSError(code, "")))
        self.fd = self._sock.fileno()
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    @property
    def wants(self) -> int:
        """`selectors` events to watch the socket for."""
        if self._send_wants_write or self._receive_wants_write:
            return EVENT_READ | EVENT_WRITE
        return EVENT_READ

    @property
    def left(self) -> int:
        """Bytes of the request still to be sent."""
        return 0 if self._rest is None else len(self._rest)

    def connect(self) -> bool:
        """Continue connecting; true once requests may be sent. Raises `ConnectionBroken`."""
        try:
            if not isinstance(self._sock, ssl.SSLSocket):
                self._raise_error()
                if self._tls is not None:
                    self._sock = self._tls.wrap_socket(
                        self._sock,
                        server_hostname=self._server_name,
                        do_handshake_on_connect=False,
                        # A connection that ends without TLS's close_notify may be cut short.
                        suppress_ragged_eofs=False,
                    )
            self._send_wants_write = False
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.do_handshake()
            self.is_open = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self._send_wants_write = True
        except (OSError, ValueError) as error:
            raise ConnectionBroken(_reason(error)) from None
        return self.is_open

    def send(self, request: bytes) -> None:
        """Send a request, as much as the socket takes now. Raises `ConnectionBroken`."""
        self._rest = memoryview(request)
        self._send_rest()

    def on_ready(self) -> Response | None:
        """Receive and send; returns the response once it is whole. Raises `ConnectionBroken`."""
        response = self._receive()
        if response is None and self._rest is not None:
            try:
                self._send_rest()
            except ConnectionBroken:
                # A server that refuses a request may respond and close before it has all of it.
                response = self._receive()
                if response is None:
                    raise
        return response

    def is_quiet(self) -> bool:
        """Return whether an idle connection is still open, and no unexpected data have come."""
        if not self._poll.poll(0):
            return True
        try:
            self._sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            # TLS may receive a session ticket, which is not data.
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close the socket, also in the middle of a request."""
        self._sock.close()

    def _send_rest(self) -> None:
        rest = self._rest
        try:
            while rest:
                # In pieces, because TLS takes all of its input or none, and wants the same input
                # again if it took none.
                rest = rest[self._sock.send(rest[:_PIECE_BYTES]) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError) as error:
            self._send_wants_write = not isinstance(error, ssl.SSLWantReadError)
            self._rest = rest
        except OSError as error:
            self._rest = rest
            raise ConnectionBroken(_reason(error)) from None
        else:
            self._send_wants_write = False
            self._rest = None

    def _receive(self) -> Response | None:
        reader = self.reader
        # SSLSocket.recv() would be one more call for each response.
        read = self._sock.read if isinstance(self._sock, ssl.SSLSocket) else self._sock.recv
        self._receive_wants_write = False
        try:
            for _ in range(_READS):
                data = read(_PIECE_BYTES)
                if not data:
                    reader.eof()
                    raise ConnectionBroken("ConnectionClosed")
                response = reader.feed(data)
                if response is not None:
                    return response
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except ssl.SSLWantWriteError:
            self._receive_wants_write = True
        except BadResponse:
            raise ConnectionBroken("BadResponse") from None
        except OSError as error:
            raise ConnectionBroken(_reason(error)) from None
        return None

    def _raise_error(self) -> None:
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "CertificateNotTrusted"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "ConnectionClosed"
    if isinstance(error, ssl.SSLError | ValueError):
        return "TLSError"
    return _REASONS.get(getattr(error, "errno", None) or 0, "ConnectionLost")


FRESH_SECONDS = 30.0
"""Time for which addresses are used before the next look-up."""


class DnsCache:
    """Cached addresses of one host; a thread calls the system's look-up, which blocks."""

    def __init__(self, host: str, port: int, clock: Callable[[], float]) -> None:
        self._host, self._port, self._clock = host, port, clock
        self._look_up: Callable[..., list[Any]] = socket.getaddrinfo
        self._addresses: list[Address] = []
        self._looked_up_at = float("-inf")
        self._answer: list[Address] | None = None
        self._thread: threading.Thread | None = None
        # A socket that becomes readable when a look-up has ended, for the event loop's selector.
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)

    @property
    def fd(self) -> int:
        """File descriptor that is readable when a look-up has ended; then call `take`."""
        return self._wake_reader.fileno()

    def known(self) -> list[Address]:
        """Return the addresses, best first; empty while a look-up is running."""
        if self._clock() - self._looked_up_at < FRESH_SECONDS:
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

    def _run_look_up(self) -> None:
        try:
            found = self._look_up(self._host, self._port, type=socket.SOCK_STREAM)
            self._answer = list(dict.fromkeys(Address(each[0], each[4]) for each in found))
        except (OSError, UnicodeError):
            self._answer = None
        # Closed in the meantime.
        with suppress(OSError):
            self._wake_writer.send(b"!")
