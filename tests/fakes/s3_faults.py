"""Faults of calls of FakeS3."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from urllib3.exceptions import IncompleteRead, ProtocolError, ReadTimeoutError

from tests.fakes.client import URL, ServiceError


@dataclass(frozen=True)
class Fault:
    """What goes wrong in one call; several things may go wrong at once.

    ``before`` runs first and may change the bucket (an object overwritten between two calls).
    ``raises`` is raised in place of an answer, after the call took effect where ``landed``. The
    rest is for ``get_object``: ``ignore_range`` answers 200 with the whole object; the body stops
    after ``cut_after`` bytes, and then raises ``cut_with`` (a urllib3 error becomes botocore's, as
    with a real body), or ends; ``silent`` takes from botocore the length by which it would notice.
    """

    before: Callable[[], object] | None = None
    raises: ServiceError | BaseException | None = None
    landed: bool = False
    ignore_range: bool = False
    cut_after: int | None = None
    cut_with: BaseException | None = None
    silent: bool = False


def slow_down() -> Fault:
    """Fault: S3's throttling error."""
    return Fault(raises=ServiceError("SlowDown", 503, "Please reduce your request rate."))


def internal_error() -> Fault:
    """Fault: S3's internal error."""
    message = "We encountered an internal error. Please try again."
    return Fault(raises=ServiceError("InternalError", 500, message))


def resets_after(count: int) -> Fault:
    """Fault: a reset after ``count`` bytes; the body raises ResponseStreamingError."""
    reset = ConnectionResetError(104, "Connection reset by peer")
    return Fault(cut_after=count, cut_with=ProtocolError(f"Connection broken: {reset!r}", reset))


def ends_after(count: int) -> Fault:
    """A connection closed after ``count`` bytes.

    A body read in pieces raises IncompleteReadError at its end, and one read whole
    ResponseStreamingError: there http.client notices before botocore does.
    """
    return Fault(cut_after=count)


def ends_silently_after(count: int) -> Fault:
    """Fault: the body ends after ``count`` bytes without an error."""
    return Fault(cut_after=count, silent=True)


def stalls_after(count: int) -> Fault:
    """Fault: the body stalls after ``count`` bytes; raises ReadTimeoutError."""
    stalled = ReadTimeoutError(None, URL, "Read timed out.")  # type: ignore[arg-type]
    return Fault(cut_after=count, cut_with=stalled)


class RawBody(io.BytesIO):
    """The stream below a StreamingBody.

    At most ``most`` bytes come a read; at the end ``then`` is raised; ``missing`` bytes of what was
    promised never come.
    """

    def __init__(
        self, data: bytes, most: int | None, then: BaseException | None, missing: int
    ) -> None:
        super().__init__(data)
        self._most = most
        self._then = then
        self._missing = missing

    def read(self, amt: int | None = None, /) -> bytes:
        if self.closed:
            return b""  # as urllib3, to which a closed body is one read to its end
        wanted = -1 if amt is None else amt
        if wanted > 0 and self._most is not None:
            wanted = min(wanted, self._most)
        data = super().read(wanted)
        # The read that meets the error loses the bytes that came in before it, as a socket's does.
        if self._then is not None and (wanted < 0 or len(data) < wanted):
            raise self._then
        if self._missing and wanted < 0:
            early = IncompleteRead(len(data), self._missing)
            raise ProtocolError(f"Connection broken: {early!r}", early)
        return data

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def is_open(self) -> bool:
        """True while it holds a connection: neither closed nor read to its end."""
        return not self.closed and self.tell() < len(self.getbuffer())
