"""HTTP event loop: many concurrent requests to one endpoint in one thread, with keep-alive."""

from __future__ import annotations

import selectors
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ddbload.aws.http_client.connection import (
    Address,
    Connection,
    ConnectionBroken,
    DnsCache,
    Endpoint,
)
from ddbload.aws.http_client.http1 import LEAST_BYTES_PER_SECOND, Response
from ddbload.records import Record

NEVER = float("inf")

# An idle connection that was used less than this ago is not checked before its next request.
_UNCHECKED_SECONDS = 0.001
# Headers with AWS's request id, which differs between responses.
_REQUEST_ID = "x-amzn-requestid"
_S3_REQUEST_ID = "x-amz-request-id"


FIRST_BYTE_SECONDS = 10.0
"""Seconds after which a response that has not begun counts as lost."""


class Timeouts(Record):
    """Time limits of an exchange, in seconds.

    Their sum ends the exchange, also one whose request is sent again over a new connection.
    """

    connect: float = 5.0
    """Connecting: all addresses together, and the TLS handshake."""
    stall: float = 10.0
    """Time without progress while sending a request; sending takes that in all, and a second more
    for each `LEAST_BYTES_PER_SECOND`."""
    first_byte: float = FIRST_BYTE_SECONDS
    """From the request's last byte to the response's first byte."""
    whole: float = 15.0
    """From the request's last byte to the response's last byte."""
    idle: float = 50.0
    """Time that an unused connection is kept open."""


class RequestLost(Record):
    """Outcome of a request without a whole response; it may have been carried out."""

    reason: str
    """Short name for error messages, such as ReadTimeout or ConnectionReset."""
    partial: Response | None = None
    """The part of the response that had been received."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request in flight, until its one outcome."""

    token: Any
    request: bytes
    end_by: float
    connection: Connection | None = None
    deadline: float = NEVER
    """Time limit of the present step."""
    timeout: str = ""
    """Reason to report once the time limit is over."""
    connect_by: float = NEVER
    sent_by: float = NEVER
    whole_by: float = NEVER
    left: int = 0
    is_reused: bool = False
    is_resent: bool = False
    address: Address | None = None
    """Address of the connection attempt."""
    addresses: deque[Address] = field(default_factory=deque)
    """Addresses to try after it."""


class HttpLoop:
    """Event loop that sends requests and returns their outcomes. Only `wait` blocks.

    To be used by one thread.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        connections: int,
        tls: ssl.SSLContext | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeouts: Timeouts | None = None,
    ) -> None:
        """Open no connection yet. `connections`: limit, each with one request in flight."""
        if (endpoint.scheme == "https") != (tls is not None):
            raise ValueError("https needs a TLS context, and http must have none")
        self._host, self._tls = endpoint.host, tls
        self._limit = connections
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._under_way: set[Exchange] = set()
        self._idle: list[tuple[float, Connection]] = []
        self._unresolved: list[Exchange] = []
        self._done: list[tuple[Any, Response | RequestLost]] = []
        # The earliest deadline of any exchange, or an earlier time.
        self._next_deadline = NEVER
        self._is_closed = False
        # Whether request ids were seen to differ; the last one until then.
        self._has_request_ids = False
        self._last_request_id: str | None = None
        self._selector = selectors.DefaultSelector()
        self._dns = DnsCache(endpoint.host, endpoint.port, clock)
        self._selector.register(self._dns.fd, selectors.EVENT_READ, None)

    def now(self) -> float:
        """Read the loop's clock, in seconds."""
        return self._clock()

    def free(self) -> int:
        """Count the requests that may be sent now."""
        return self._limit - len(self._under_way)

    def send(self, token: Any, request: bytes) -> None:
        """Begin an exchange, whose outcome `wait` returns once, with `token`.

        Raises ValueError when no connection is free.
        """
        if len(self._under_way) >= self._limit:
            raise ValueError("no connection is free")
        limits = self._timeouts
        limit = limits.connect + self._sending_seconds(request) + limits.whole
        exchange = Exchange(token, request, self._clock() + limit)
        self._under_way.add(exchange)
        while self._idle:
            since, connection = self._idle.pop()
            idle = self._clock() - since
            # Bytes received before the request is sent are not its response, so a connection with
            # any is dropped. Right after a response the check is not worth a system call.
            if idle < _UNCHECKED_SECONDS or (idle < self._timeouts.idle and connection.is_quiet()):
                exchange.is_reused = True
                self._begin(exchange, connection)
                return
            self._drop(connection)
        self._connect(exchange)

    def wait(self, seconds: float) -> list[tuple[Any, Response | RequestLost]]:
        """Wait for outcomes, at most `seconds`; returns the tokens and outcomes, if any."""
        until = self._clock() + seconds
        while True:
            now = self._clock()
            pause = 0.0 if self._done else max(0.0, min(until, self._next_deadline) - now)
            for key, _ in self._selector.select(pause):
                connection = key.data
                if connection is None:
                    self._resolved()
                else:
                    # Handling one connection closes no other one of this list.
                    self._ready(connection)
            # Responses are read before deadlines are checked: the process may have been suspended.
            now = self._clock()
            if now >= self._next_deadline:
                self._expire(now)
            if self._done or now >= until:
                done, self._done = self._done, []
                return done

    def close(self) -> None:
        """Close all sockets. Requests in flight get no outcome."""
        if self._is_closed:
            return
        self._is_closed = True
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data.close()
        self._under_way.clear()
        self._idle.clear()
        self._unresolved.clear()
        self._dns.close()
        self._selector.close()

    abandon = close
    """Also cancels requests in flight."""

    # Connecting

    def _connect(self, exchange: Exchange) -> None:
        now = self._clock()
        exchange.connect_by = min(now + self._timeouts.connect, exchange.end_by)
        addresses = self._dns.known()
        if addresses:
            exchange.addresses.extend(addresses)
            self._try_next(exchange, "ConnectTimeout")
        else:
            self._unresolved.append(exchange)
            self._set_deadline(exchange, exchange.connect_by, "NameNotResolved")

    def _resolved(self) -> None:
        addresses = self._dns.take()
        waiting, self._unresolved = self._unresolved, []
        for exchange in waiting:
            exchange.addresses.extend(addresses)
            self._try_next(exchange, "NameNotResolved")

    def _try_next(self, exchange: Exchange, reason: str) -> None:
        """Connect to the next address. `reason`: why the exchange has no connection yet."""
        if exchange.address is not None:
            self._dns.failed(exchange.address)
        while exchange.addresses:
            now = self._clock()
            left = exchange.connect_by - now
            if left <= 0:
                break
            exchange.address = address = exchange.addresses.popleft()
            try:
                connection = Connection(address, self._tls, self._host)
            except ConnectionBroken as broken:
                self._dns.failed(address)
                reason = broken.reason
                continue
            connection.owner = exchange
            exchange.connection = connection
            connection.watched = connection.wants
            self._selector.register(connection.fd, connection.watched, connection)
            # An address that does not answer must leave time for the others; a second suffices.
            share = max(left / (len(exchange.addresses) + 1), min(left, 1.0))
            self._set_deadline(exchange, now + share, "ConnectTimeout")
            return
        self._lose(exchange, reason)

    def _go_on_connecting(self, exchange: Exchange, connection: Connection) -> None:
        try:
            is_open = connection.connect()
        except ConnectionBroken as broken:
            self._drop(connection)
            self._try_next(exchange, broken.reason)
            return
        if is_open:
            self._begin(exchange, connection)
            return
        self._watch(connection)
        if exchange.deadline < exchange.connect_by:
            # The address answers, so its handshake may take all the time that is left.
            self._set_deadline(exchange, exchange.connect_by, "ConnectTimeout")

    # Sending and receiving

    def _begin(self, exchange: Exchange, connection: Connection) -> None:
        connection.owner, exchange.connection = exchange, connection
        try:
            connection.send(exchange.request)
        except ConnectionBroken as broken:
            self._on_broken(exchange, connection, broken.reason)
            return
        # One above the maximum, so that the first bytes sent count as progress.
        exchange.left = len(exchange.request) + 1
        if connection.left:
            exchange.sent_by = self._clock() + self._sending_seconds(exchange.request)
        self._await(exchange, connection)

    def _sending_seconds(self, request: bytes) -> float:
        return self._timeouts.stall + len(request) / LEAST_BYTES_PER_SECOND

    def _await(self, exchange: Exchange, connection: Connection) -> None:
        """Watch the connection for its next event, and set the deadline for it."""
        self._watch(connection)
        if connection.left:
            if connection.left < exchange.left:
                exchange.left = connection.left
                stalled = self._clock() + self._timeouts.stall
                self._set_deadline(exchange, min(stalled, exchange.sent_by), "SendTimeout")
            return
        if exchange.left:
            exchange.left = 0
            now = self._clock()
            exchange.whole_by = now + self._timeouts.whole
            self._set_deadline(exchange, now + self._timeouts.first_byte, "ReadTimeout")
        if connection.reader.begun:
            self._set_deadline(exchange, exchange.whole_by, "ReadTimeout")

    def _ready(self, connection: Connection) -> None:
        exchange: Exchange | None = connection.owner
        if exchange is None:
            if not connection.is_quiet():
                self._idle = [each for each in self._idle if each[1] is not connection]
                self._drop(connection)
            return
        if not connection.is_open:
            self._go_on_connecting(exchange, connection)
            return
        try:
            response = connection.on_ready()
        except ConnectionBroken as broken:
            self._on_broken(exchange, connection, broken.reason)
            return
        if response is None:
            self._await(exchange, connection)
            return
        if self._is_repeated(connection, response):
            self._on_broken(exchange, connection, "BadResponse")
            return
        self._under_way.discard(exchange)
        if exchange.is_resent:
            response = response._replace(resent=True)
        self._done.append((exchange.token, response))
        connection.owner = None
        if response.keep_alive and not connection.left:
            self._watch(connection)
            self._idle.append((self._clock(), connection))
        else:
            self._drop(connection)

    def _is_repeated(self, connection: Connection, response: Response) -> bool:
        """Return, by its request id, whether a response repeats the connection's last one."""
        request_id = response.headers.get(_REQUEST_ID) or response.headers.get(_S3_REQUEST_ID)
        if request_id is None:
            return False
        if not self._has_request_ids:
            # Some emulators send the same request id always, which identifies nothing.
            self._has_request_ids = self._last_request_id not in (None, request_id)
            self._last_request_id = request_id
        is_repeated = self._has_request_ids and request_id == connection.answered
        connection.answered = request_id
        return is_repeated

    def _watch(self, connection: Connection) -> None:
        wants = connection.wants
        if wants != connection.watched:
            connection.watched = wants
            self._selector.modify(connection.fd, wants, connection)

    def _on_broken(self, exchange: Exchange, connection: Connection, reason: str) -> None:
        """Send the request again if a reused connection broke before the response; else lose it."""
        begun, partial = connection.reader.begun, connection.reader.partial_response()
        self._drop(connection)
        if exchange.is_reused and not begun and reason != "BadResponse":
            exchange.is_reused, exchange.is_resent = False, True
            self._connect(exchange)
        else:
            self._lose(exchange, reason, partial)

    # Deadlines

    def _set_deadline(self, exchange: Exchange, at: float, timeout: str) -> None:
        exchange.deadline, exchange.timeout = min(at, exchange.end_by), timeout
        self._next_deadline = min(self._next_deadline, exchange.deadline)

    def _expire(self, now: float) -> None:
        for exchange in [each for each in self._under_way if each.deadline <= now]:
            connection = exchange.connection
            is_connecting = connection is not None and not connection.is_open
            partial = None
            if connection is not None:
                partial = connection.reader.partial_response()
                self._drop(connection)
            if is_connecting:
                self._try_next(exchange, exchange.timeout)
            else:
                self._lose(exchange, exchange.timeout, partial)
        self._next_deadline = min((each.deadline for each in self._under_way), default=NEVER)

    def _lose(self, exchange: Exchange, reason: str, partial: Response | None = None) -> None:
        self._under_way.discard(exchange)
        if exchange in self._unresolved:
            self._unresolved.remove(exchange)
        self._done.append((exchange.token, RequestLost(reason, partial)))

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.fd)
        if connection.owner is not None:
            connection.owner.connection = None
            connection.owner = None
        connection.close()
