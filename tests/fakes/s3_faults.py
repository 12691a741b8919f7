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
    """Fault of one call, which may combine several effects.

    ``before`` runs first and may change the bucket, for example overwrite the object. ``raises`` is
    raised instead of a response, after the call took effect if ``landed``. The rest is for
    ``get_object``: ``ignore_range`` returns the whole object with status 200; the body stops after
    ``cut_after`` bytes and raises ``cut_with`` (a urllib3 error becomes botocore's, as with a real
    body), or ends; ``silent`` hides the length by which botocore would notice.
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
    """Fault: the connection is closed after ``count`` bytes.

    A body read in pieces raises IncompleteReadError at its end. One read as a whole raises
    ResponseStreamingError, because http.client notices first.
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
    """Stream under a StreamingBody.

    A read returns at most ``most`` bytes; ``then`` is raised at the end; ``missing`` bytes of the
    announced length are never returned.
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
