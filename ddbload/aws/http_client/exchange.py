"""A request, from when it is to be sent until its one outcome, and how long that may take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ddbload.aws.http_client.connection import Address, Connection
from ddbload.aws.http_client.http1 import Response

NEVER = float("inf")

Glance = Callable[[Response], Any]
"""Looks at the beginning of an answer; anything but None is told, and then it looks no more."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds."""

    connect: float = 5.0
    """For all addresses together, and TLS's handshake."""
    stall: float = 10.0
    """How long sending may stand still."""
    first_byte: float = 10.0
    """From the request's last byte to the answer's first."""
    whole: float = 15.0
    """From the request's last byte to the answer's last."""
    idle: float = 50.0
    """How long a connection is kept for a next request."""


@dataclass(frozen=True, slots=True)
class RequestLost:
    """No whole answer came; the request may have been carried out."""

    reason: str
    """A name such as ReadTimeout or ConnectionReset, for people."""
    part: Response | None = None
    """What had come of the answer when it was lost."""


class Exchange:
    """A request under way."""

    __slots__ = (
        "address",
        "addresses",
        "connect_by",
        "connection",
        "deadline",
        "glance",
        "is_resent",
        "is_reused",
        "late",
        "left",
        "request",
        "token",
        "whole_by",
    )

    def __init__(self, token: Any, request: bytes) -> None:
        self.token, self.request = token, request
        self.glance: Glance | None = None
        self.connection: Connection | None = None
        # When it is lost, or another address is tried, and for which reason.
        self.deadline = NEVER
        self.late = ""
        self.connect_by = self.whole_by = NEVER
        self.left = 0
        self.is_reused = self.is_resent = False
        # The one that it is connecting to, and those that may be tried after it.
        self.address: Address | None = None
        self.addresses: deque[Address] = deque()
