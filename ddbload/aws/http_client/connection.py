"""Where requests go."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, NamedTuple

from ddbload.aws.http_client.http1 import BadResponse, Response, ResponseReader

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `scheme`: http or https. `region`: for which they are signed."""

    scheme: str
    host: str
    """A name, or an address without brackets."""
    port: int
    region: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


_PIECE_BYTES = 64 * 1024
"""More than a TLS record holds."""
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
    """One of those that `socket.getaddrinfo` finds."""

    family: int
    sockaddr: Any


class ConnectionBroken(Exception):
    """The connection ended, or cannot be used any further."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """A name such as ConnectionReset, for people."""


class Connection:
    """Connects, shakes hands, and then takes one request after the other."""

    __slots__ = (
        "_poll",
        "_reader",
        "_receive_wants_write",
        "_rest",
        "_send_wants_write",
        "_server_name",
        "_sock",
        "_tls",
        "answered",
        "fd",
        "is_open",
        "owner",
        "watched",
    )

    def __init__(self, address: Address, tls: ssl.SSLContext | None, server_name: str) -> None:
        """Begins to connect. Raises `Broken`.

        `tls`: none for a plain connection. `server_name`: whom the certificate must be for.
        """
        self._reader = ResponseReader()
        self._rest: memoryview | None = None
        self._send_wants_write = True
        self._receive_wants_write = False
        self._tls, self._server_name = tls, server_name
        self.is_open = False
        """Whether requests may be sent."""
        self.answered: str | None = None
        """What the last answer calls itself, for the user of the connection."""
        self.watched = 0
        """What its user watches it for."""
        self.owner: Any = None
        """Whose request is under way, for the user of the connection."""
        try:
            self._sock = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectionBroken(_reason(error)) from None
        try:
            self._sock.setblocking(False)
            # Requests are written whole: waiting for more to send only delays their last packet.
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
        """What to watch the socket for: `selectors`' events."""
        if self._send_wants_write or self._receive_wants_write:
            return EVENT_READ | EVENT_WRITE
        return EVENT_READ

    @property
    def is_sending(self) -> bool:
        """Whether some of the request has not gone yet."""
        return self._rest is not None

    @property
    def begun(self) -> bool:
        """Whether some of an answer has come."""
        return self._reader.begun

    def part(self, most: int | None = None) -> Response | None:
        """What has come of an answer, as `ResponseReader.part`."""
        return self._reader.part(most)

    @property
    def left(self) -> int:
        """Bytes of the request that have not gone yet."""
        return 0 if self._rest is None else len(self._rest)

    def connect(self) -> bool:
        """Go on connecting; whether it is done, and requests may be sent. Raises `Broken`."""
        try:
            if self._tls is None:
                self._raise_error()
                self.is_open = True
            else:
                if not isinstance(self._sock, ssl.SSLSocket):
                    self._raise_error()
                    self._sock = self._tls.wrap_socket(
                        self._sock,
                        server_hostname=self._server_name,
                        do_handshake_on_connect=False,
                        # An end that TLS did not announce is no end of an answer.
                        suppress_ragged_eofs=False,
                    )
                self._send_wants_write = False
                self._sock.do_handshake()
                self.is_open = True
        except ssl.SSLWantReadError:
            self._send_wants_write = False
        except ssl.SSLWantWriteError:
            self._send_wants_write = True
        except (OSError, ValueError) as error:
            raise ConnectionBroken(_reason(error)) from None
        else:
            self._send_wants_write = False
        return self.is_open

    def send(self, request: bytes) -> None:
        """Send a request, or as much of it as goes now. Raises `Broken`."""
        if len(request) > _PIECE_BYTES:
            self._rest = memoryview(request)
            self._go_on()
            return
        try:
            sent = self._sock.send(request)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError) as error:
            sent = 0
            self._send_wants_write = not isinstance(error, ssl.SSLWantReadError)
        except OSError as error:
            raise ConnectionBroken(_reason(error)) from None
        if sent < len(request):
            self._rest = memoryview(request)[sent:]
            if sent:
                self._go_on()

    def on_ready(self) -> Response | None:
        """Receive and send what can be; the answer, when it is whole. Raises `Broken`."""
        response = self._receive()
        if response is None and self._rest is not None:
            try:
                self._go_on()
            except ConnectionBroken:
                # Who refuses a request may answer before it has all of it, and close.
                response = self._receive()
                if response is None:
                    raise
        return response

    def is_quiet(self) -> bool:
        """Whether an idle connection is still to be used: nobody said anything, or hung up."""
        if not self._poll.poll(0):
            return True
        try:
            self._sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            # What TLS itself says (a session ticket) is nothing.
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close the socket, whatever is under way."""
        self._sock.close()

    def _go_on(self) -> None:
        rest = self._rest
        try:
            while rest:
                # By the piece, for TLS takes all that it is given or nothing, and what it could
                # not take it must be given again.
                rest = rest[self._sock.send(rest[:_PIECE_BYTES]) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._send_wants_write = True
            self._rest = rest
            return
        except ssl.SSLWantReadError:
            self._send_wants_write = False
            self._rest = rest
            return
        except OSError as error:
            self._rest = rest
            raise ConnectionBroken(_reason(error)) from None
        self._send_wants_write = False
        self._rest = None

    def _receive(self) -> Response | None:
        reader = self._reader
        # An SSLSocket's own method: its recv() is one more call for each answer.
        read = self._sock.read if isinstance(self._sock, ssl.SSLSocket) else self._sock.recv
        self._receive_wants_write = False
        try:
            while True:
                data = read(_PIECE_BYTES)
                if not data:
                    reader.eof()
                    raise ConnectionBroken("ConnectionClosed")
                response = reader.feed(data)
                if response is not None:
                    return response
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except ssl.SSLWantWriteError:
            self._receive_wants_write = True
            return None
        except BadResponse:
            raise ConnectionBroken("BadResponse") from None
        except OSError as error:
            raise ConnectionBroken(_reason(error)) from None

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
