"""Concurrent S3 requests over the event loop, with retries."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_s3_response, redirected_region
from ddbload.aws.http_client.event_loop import RequestLost
from ddbload.aws.http_client.http1 import LEAST_BYTES_PER_SECOND, Response
from ddbload.aws.retry import RetryPolicy

if TYPE_CHECKING:
    from ddbload.aws.signing.signers import S3Signer


S3_POLL_SECONDS = 0.2
"""Longest wait for the network between two checks of a deadline."""


class S3Request(ABC):
    """One GET request, or several in sequence, for one object or listing page."""

    __slots__ = ("failures", "generation")

    peeks: ClassVar[bool] = False
    """True if `peek` is to be called."""

    def __init__(self) -> None:
        self.failures = 0
        """Failed attempts in a row."""
        self.generation = 0
        """Generation of the credentials that signed the last request."""

    @abstractmethod
    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """Sign the next request; returns its bytes and the generation of the credentials."""

    @abstractmethod
    def doing(self) -> str:
        """Describe the operation for error messages, for example "reading s3://b/k"."""

    @abstractmethod
    def expected(self, failure: AwsFailure) -> Exception | None:
        """Return the named error of a failure with a meaning for this request, else None."""

    def peek(self, partial: Response) -> Any:
        """Search the beginning of a response; None until the value is found."""
        del partial
        return None

    def take_partial(self, partial: Response) -> None:  # noqa: B027 - optional
        """Use the received part of a lost response. Raises `SourceChanged`."""


class S3RequestLoop:
    """Sender of `S3Request`s to one bucket, which repeats failed ones after a pause."""

    def __init__(self, signer: S3Signer, connections: int, retry_policy: RetryPolicy) -> None:
        """Make the event loop. Raises `AwsConfiguration`."""
        self._signer, self._retry_policy = signer, retry_policy
        self._loop = signer.connect(connections)
        # Heap of requests to repeat: time, a number that breaks ties, request.
        self._waiting: list[tuple[float, int, S3Request]] = []
        self._number = 0

    def free(self) -> int:
        """Count the requests that may be sent now."""
        return self._loop.free() - len(self._waiting)

    def send(self, request: S3Request) -> None:
        """Sign and send a request."""
        data, request.generation = request.request(self._signer)
        self._loop.send(request, data, request.peek if request.peeks else None)

    def wait(self) -> tuple[list[tuple[S3Request, Any]], list[tuple[S3Request, Response]]]:
        """Wait for responses; returns values found by `peek`, and whole successful responses.

        Both lists may be empty. Raises the named error of a request that failed for good.
        """
        loop, waiting = self._loop, self._waiting
        pause = S3_POLL_SECONDS
        if waiting:
            now = loop.now()
            while waiting and waiting[0][0] <= now:
                self.send(heapq.heappop(waiting)[2])
            if waiting:
                pause = min(pause, waiting[0][0] - now)
        responses: list[tuple[S3Request, Response]] = []
        for request, outcome in loop.wait(pause):
            if isinstance(outcome, RequestLost):
                self._on_lost(request, outcome)
            elif self._is_success(request, outcome):
                responses.append((request, outcome))
        return loop.peeked(), responses

    def retry(self, request: S3Request, failure: AwsFailure) -> None:
        """Repeat a failed request after a pause, or raise its named error."""
        request.failures += 1
        self._retry_policy.require_retry(failure, request.failures, request.doing())
        self._number += 1
        at = self._loop.now() + self._retry_policy.pause(request.failures)
        heapq.heappush(self._waiting, (at, self._number, request))

    def close(self) -> None:
        """Close all connections."""
        self._loop.close()

    def _on_lost(self, request: S3Request, lost: RequestLost) -> None:
        partial, failures = lost.partial, request.failures
        if partial is not None and partial.status in (200, 206):
            request.take_partial(partial)
            if lost.reason == "ReadTimeout" and len(partial.body) < LEAST_BYTES_PER_SECOND:
                # Not progress, or a server that sends a byte now and then would be asked for ever.
                request.failures = failures
        self.retry(request, AwsFailure(FailureKind.UNSURE, lost.reason, "the connection failed"))

    def _is_success(self, request: S3Request, response: Response) -> bool:
        failure = failure_of_s3_response(response)
        if failure is None:
            return True
        if self._signer.may_pass(failure, response.headers, request.generation):
            failure = replace(failure, kind=FailureKind.UNSURE)
        redirect = redirected_region(response, self._signer.bucket, self._signer.endpoint.region)
        known = redirect or request.expected(failure)
        if known is not None:
            raise known
        self.retry(request, failure)
        return False


def failure_of_content(error: Exception) -> AwsFailure:
    """Make the failure of a response whose content is not what was requested."""
    return AwsFailure(FailureKind.UNSURE, type(error).__name__, str(error))
