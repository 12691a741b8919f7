"""Many requests to one endpoint at once, in one thread: keep-alive, time-outs, one outcome each."""

from __future__ import annotations

import selectors
import ssl
import time
from collections.abc import Callable
from typing import Any

from ddbload.aws.http_client.connection import Connection, ConnectionBroken, Endpoint
from ddbload.aws.http_client.dns import DnsCache, LookUp
from ddbload.aws.http_client.exchange import NEVER, Exchange, Glance, RequestLost, Timeouts
from ddbload.aws.http_client.http1 import Response

_AT_ONCE = 0.001
"""Seconds."""
_BEGINNING_BYTES = 4096
"""Of an answer's body, to be glanced at."""
_NAME = "x-amzn-requestid"
_S3_NAME = "x-amz-request-id"
"""The headers by which AWS tells its answers apart."""


class HttpLoop:
    """Takes requests and gives outcomes. One thread uses it; only `wait` waits."""

    def __init__(
        self,
        endpoint: Endpoint,
        connections: int,
        tls: ssl.SSLContext | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeouts: Timeouts | None = None,
        look_up: LookUp | None = None,
    ) -> None:
        """`connections`: at most so many, each with one request under way. `tls`: for https."""
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
        self._glimpses: list[tuple[Any, Any]] = []
        # No deadline is earlier than this.
        self._look_at = NEVER
        self._is_closed = False
        # Whether answers have names that tell them apart; that of the last one until then.
        self._are_named = False
        self._last_name: str | None = None
        self._selector = selectors.DefaultSelector()
        self._names = DnsCache(endpoint.host, endpoint.port, clock, look_up)
        self._selector.register(self._names.fd, selectors.EVENT_READ, None)

    def now(self) -> float:
        """By the loop's clock."""
        return self._clock()

    def free(self) -> int:
        """How many more requests may be sent now."""
        return self._limit - len(self._under_way)

    def send(self, token: Any, request: bytes, glance: Glance | None = None) -> None:
        """Begin an exchange, whose outcome `wait` gives once.

        `glance` is shown the beginning of an answer that does not come all at once, until it finds
        something there: then `wait` ends, and `glimpses` gives it.

        Raises ValueError when no connection is free.
        """
        if len(self._under_way) >= self._limit:
            raise ValueError("no connection is free")
        exchange = Exchange(token, request)
        exchange.glance = glance
        self._under_way.add(exchange)
        while self._idle:
            since, connection = self._idle.pop()
            idle = self._clock() - since
            # What is there before a request is sent is no answer to it. Right after an answer there
            # is nothing yet, and it is not worth being asked for with each request.
            if idle < _AT_ONCE or (idle < self._timeouts.idle and connection.is_quiet()):
                exchange.is_reused = True
                self._begin(exchange, connection)
                return
            self._drop(connection)
        self._connect(exchange)

    def wait(self, seconds: float) -> list[tuple[Any, Response | RequestLost]]:
        """What came, as soon as something has come; nothing after so many seconds."""
        until = self._clock() + seconds
        while True:
            now = self._clock()
            pause = 0.0 if self._done else max(0.0, min(until, self._look_at) - now)
            for key, _ in self._selector.select(pause):
                connection = key.data
                if connection is None:
                    self._resolved()
                else:
                    # It closes no connection but its own: the others here are ready still.
                    self._ready(connection)
            # What has come is taken before it can be late: this process may have been stopped.
            now = self._clock()
            if now >= self._look_at:
                self._find_late(now)
            if self._done or self._glimpses or now >= until:
                done, self._done = self._done, []
                return done

    def glimpses(self) -> list[tuple[Any, Any]]:
        """What was found in the beginnings of answers since it was last asked, by their tokens."""
        found, self._glimpses = self._glimpses, []
        return found

    def close(self) -> None:
        """Close all sockets. What is under way has no outcome."""
        if self._is_closed:
            return
        self._is_closed = True
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data.close()
        self._under_way.clear()
        self._idle.clear()
        self._unresolved.clear()
        self._names.close()
        self._selector.close()

    # Connecting

    def _connect(self, exchange: Exchange) -> None:
        now = self._clock()
        exchange.connect_by = now + self._timeouts.connect
        addresses = self._names.known()
        if addresses:
            exchange.addresses.extend(addresses)
            self._try_next(exchange, "ConnectTimeout")
        else:
            self._unresolved.append(exchange)
            self._set_deadline(exchange, exchange.connect_by, "NameNotResolved")

    def _resolved(self) -> None:
        addresses = self._names.take()
        waiting, self._unresolved = self._unresolved, []
        for exchange in waiting:
            exchange.addresses.extend(addresses)
            self._try_next(exchange, "NameNotResolved")

    def _try_next(self, exchange: Exchange, reason: str) -> None:
        """Connect to the next address. `reason`: why there is no connection yet."""
        if exchange.address is not None:
            self._names.failed(exchange.address)
        while exchange.addresses:
            now = self._clock()
            left = exchange.connect_by - now
            if left <= 0:
                break
            exchange.address = address = exchange.addresses.popleft()
            try:
                connection = Connection(address, self._tls, self._host)
            except ConnectionBroken as broken:
                self._names.failed(address)
                reason = broken.reason
                continue
            connection.owner = exchange
            exchange.connection = connection
            connection.watched = connection.wants
            self._selector.register(connection.fd, connection.watched, connection)
            # A silent address leaves time for the others, of which a second is enough for any.
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
            # It answers: the handshake has all the time there is.
            self._set_deadline(exchange, exchange.connect_by, "ConnectTimeout")

    # Sending and receiving

    def _begin(self, exchange: Exchange, connection: Connection) -> None:
        connection.owner, exchange.connection = exchange, connection
        try:
            connection.send(exchange.request)
        except ConnectionBroken as broken:
            self._broken(exchange, connection, broken.reason)
            return
        # One more than there can be: that it has begun is progress too.
        exchange.left = len(exchange.request) + 1
        self._await(exchange, connection)

    def _await(self, exchange: Exchange, connection: Connection) -> None:
        """Look for what the connection waits for, and say how long it may."""
        self._watch(connection)
        if connection.is_sending:
            if connection.left < exchange.left:
                exchange.left = connection.left
                self._set_deadline(exchange, self._clock() + self._timeouts.stall, "SendTimeout")
            return
        if exchange.left:
            exchange.left = 0
            now = self._clock()
            exchange.whole_by = now + self._timeouts.whole
            self._set_deadline(exchange, now + self._timeouts.first_byte, "ReadTimeout")
        if connection.begun:
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
            self._broken(exchange, connection, broken.reason)
            return
        if response is None:
            self._await(exchange, connection)
            if exchange.glance is not None:
                self._look(exchange, exchange.glance, connection)
            return
        if self._is_doubled(connection, response):
            self._broken(exchange, connection, "BadResponse")
            return
        self._under_way.discard(exchange)
        if exchange.is_resent:
            response = response._replace(resent=True)
        self._done.append((exchange.token, response))
        connection.owner = None
        if response.keep_alive and not connection.is_sending:
            self._watch(connection)
            self._idle.append((self._clock(), connection))
        else:
            self._drop(connection)

    def _look(self, exchange: Exchange, glance: Glance, connection: Connection) -> None:
        part = connection.part(_BEGINNING_BYTES)
        found = None if part is None else glance(part)
        if found is not None:
            exchange.glance = None
            self._glimpses.append((exchange.token, found))

    def _is_doubled(self, connection: Connection, response: Response) -> bool:
        """Whether it is the answer before once more, which came too late to be noticed as such."""
        name = response.headers.get(_NAME) or response.headers.get(_S3_NAME)
        if name is None:
            return False
        if not self._are_named:
            # Where all answers have one name, as with some emulators, it says nothing.
            self._are_named = self._last_name not in (None, name)
            self._last_name = name
        is_doubled = self._are_named and name == connection.answered
        connection.answered = name
        return is_doubled

    def _watch(self, connection: Connection) -> None:
        wants = connection.wants
        if wants != connection.watched:
            connection.watched = wants
            self._selector.modify(connection.fd, wants, connection)

    def _broken(self, exchange: Exchange, connection: Connection, reason: str) -> None:
        """Send once more what a connection of old did not carry; else it is lost."""
        begun, part = connection.begun, connection.part()
        self._drop(connection)
        if exchange.is_reused and not begun and reason != "BadResponse":
            exchange.is_reused, exchange.is_resent = False, True
            self._connect(exchange)
        else:
            self._lose(exchange, reason, part)

    # Time

    def _set_deadline(self, exchange: Exchange, at: float, late: str) -> None:
        exchange.deadline, exchange.late = at, late
        self._look_at = min(self._look_at, at)

    def _find_late(self, now: float) -> None:
        for exchange in [each for each in self._under_way if each.deadline <= now]:
            connection = exchange.connection
            is_connecting = connection is not None and not connection.is_open
            part = None
            if connection is not None:
                part = connection.part()
                self._drop(connection)
            if is_connecting:
                self._try_next(exchange, exchange.late)
            else:
                self._lose(exchange, exchange.late, part)
        self._look_at = min((each.deadline for each in self._under_way), default=NEVER)

    def _lose(self, exchange: Exchange, reason: str, part: Response | None = None) -> None:
        self._under_way.discard(exchange)
        if exchange in self._unresolved:
            self._unresolved.remove(exchange)
        self._done.append((exchange.token, RequestLost(reason, part)))

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.fd)
        if connection.owner is not None:
            connection.owner.connection = None
            connection.owner = None
        connection.close()
