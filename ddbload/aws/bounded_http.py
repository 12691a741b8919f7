"""End times and sizes of what botocore's HTTP client receives and sends.

urllib3's time-outs are those of one read, so that a server which sends a byte now and then holds a
request for hours. Here all reads of a response share their seconds, and a body has a limit.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

from ddbload.aws.http_client.http1 import (
    LEAST_BYTES_PER_SECOND,
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_HEAD_BYTES,
)

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

_PIECE_BYTES = 64 * 1024
# What the thread's request expects: a body that its caller reads in pieces, or a short one.
_expected = threading.local()


class Patience:
    """Seconds that a request may wait for the network: the time-out, and more for each byte.

    Only waiting counts: a caller may take its time between two pieces of a body.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._clock = clock

    def left(self) -> float:
        """Return the seconds that are left. Raises `TimeoutError` if there are none."""
        if self._left <= 0:
            raise TimeoutError("timed out: the bytes came too slowly")
        return self._left

    def wait(self, operation: Callable[[], int | None]) -> int | None:
        """Call an operation that returns the bytes that it moved, and count its seconds."""
        begun = self._clock()
        moved = operation()
        self._left += (moved or 0) / LEAST_BYTES_PER_SECOND - (self._clock() - begun)
        return moved


class BoundedReader(io.RawIOBase):
    """Bytes of one response: within its `Patience`, and no more than `most_bytes`."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, patience: Patience) -> None:
        super().__init__()
        self._raw, self._sock, self._patience = raw, sock, patience
        self._timeout = sock.gettimeout()
        self.most_bytes: float = _PIECE_BYTES + MAX_HEAD_BYTES
        """Bytes that may still come."""

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Read what there is. Raises `TimeoutError`, and `ConnectionError` for too much."""
        left = self._patience.left()
        self._sock.settimeout(left if self._timeout is None else min(left, self._timeout))
        count = self._patience.wait(lambda: self._raw.readinto(buffer))
        self.most_bytes -= count or 0
        if self.most_bytes < 0:
            raise ConnectionError("the answer is too long")
        return count

    def close(self) -> None:
        """Close the file of the socket."""
        if not self.closed:
            self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """A response that is read through a `BoundedReader`."""

    def __init__(self, sock: socket.socket, *args: Any, patience_of: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw: Any = self.fp.detach()
        self._bounded = BoundedReader(raw, sock, patience_of())
        self.fp = io.BufferedReader(self._bounded)

    def begin(self) -> None:
        super().begin()
        if self.status >= 300:
            self._bounded.most_bytes = MAX_ERROR_BYTES
        else:
            streams = getattr(_expected, "streams", False)
            self._bounded.most_bytes = float("inf") if streams else MAX_BODY_BYTES


class _Bounded:
    """Mixin of connections whose requests have an end time."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._patience: Patience | None = None
        # For the class that botocore adds, which keeps it as the usual one.
        self.response_class: Any = partial(_BoundedResponse, patience_of=self._reading)
        super().__init__(*args, **more)

    def request(self, *args: Any, **more: Any) -> Any:
        self._patience = None
        return super().request(*args, **more)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        """Send bytes in pieces, and stop when the request's seconds are over."""
        connection: Any = super()
        if not isinstance(data, bytes) or self.__dict__.get("sock") is None:
            # The first bytes also connect, which has a time-out of its own.
            connection.send(data)
            return
        sock: Any = self.__dict__["sock"]
        usual = sock.gettimeout()
        if self._patience is None:
            self._patience = Patience(_seconds(usual))
        patience = self._patience

        def send(piece: bytes) -> int:
            connection.send(piece)
            return len(piece)

        for at in range(0, len(data), _PIECE_BYTES):
            sock.settimeout(min(patience.left(), _seconds(usual)))
            patience.wait(partial(send, data[at : at + _PIECE_BYTES]))
        sock.settimeout(usual)

    def _reading(self) -> Patience:
        # urllib3 has set the time-out of reading by now.
        return Patience(_seconds(self.__dict__["sock"].gettimeout()))


def _seconds(timeout: float | None) -> float:
    return float("inf") if timeout is None else timeout


class _HTTPConnection(_Bounded, AWSHTTPConnection):
    pass


class _HTTPSConnection(_Bounded, AWSHTTPSConnection):
    pass


class _HTTPConnectionPool(AWSHTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSConnectionPool(AWSHTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


def bound(client: Any) -> None:
    """Give all requests of a botocore client an end time, and their responses a limit."""
    # botocore offers no way to pass its pools: the dictionary is shared with those of proxies.
    pools = client._endpoint.http_session._pool_classes_by_scheme  # noqa: SLF001
    pools.update(http=_HTTPConnectionPool, https=_HTTPSConnectionPool)
    name = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(f"before-send.{name}", _expect)


def _expect(request: AWSPreparedRequest, **_: object) -> None:
    """Remember, as a `before-send` handler of botocore, if the body is read in pieces."""
    _expected.streams = request.stream_output
