"""Requests of one's own to S3, side by side: each until it is answered, or given up."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_s3_response, redirected_region
from ddbload.aws.http_client.exchange import RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.aws.retry import RetryPolicy

if TYPE_CHECKING:
    from ddbload.aws.signing.s3_signer import S3Signer


POLL_SECONDS = 0.2
"""How long to wait for the network without asking whether to give up."""


class S3Request(ABC):
    """Something to be got, by one request or several, one after the other."""

    __slots__ = ("failures", "generation")

    glances: ClassVar[bool] = False
    """Whether `glance` is wanted."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.generation = 0

    @abstractmethod
    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """The next request, signed now."""

    @abstractmethod
    def doing(self) -> str:
        """For people: "reading s3://b/k"."""

    @abstractmethod
    def expected(self, meant: AwsFailure) -> Exception | None:
        """The named error for a failure that means something here; None for others."""

    def glance(self, part: Response) -> Any:
        """What is to be found in an answer's beginning, as soon as it has come; else None."""
        del part
        return None

    def take_part(self, part: Response) -> None:  # noqa: B027 - most have no use for it
        """Take what came of an answer before it was lost. Raises `SourceChanged`."""


class S3RequestLoop:
    """Sends jobs' requests. Time is the loop's own: retries wait between its waits."""

    def __init__(self, signer: S3Signer, connections: int, retry_policy: RetryPolicy) -> None:
        """Raises `AwsConfiguration`."""
        self._identity, self._retry_policy = signer, retry_policy
        self._loop = signer.connect(connections)
        # Those that wait to be sent again, by when.
        self._waiting: list[tuple[float, int, S3Request]] = []
        self._number = 0

    def free(self) -> int:
        """How many more requests may be sent now."""
        return self._loop.free() - len(self._waiting)

    def send(self, job: S3Request) -> None:
        """Send a job's next request."""
        request, job.generation = job.request(self._identity)
        self._loop.send(job, request, job.glance if job.glances else None)

    def wait(self) -> tuple[list[tuple[S3Request, Any]], list[tuple[S3Request, Response]]]:
        """What was found in answers' beginnings, and whole answers that are to be read.

        Both may be empty after a while. Raises what ends a job.
        """
        loop, waiting = self._loop, self._waiting
        pause = POLL_SECONDS
        if waiting:
            now = loop.now()
            while waiting and waiting[0][0] <= now:
                self.send(heapq.heappop(waiting)[2])
            if waiting:
                pause = min(pause, waiting[0][0] - now)
        answers: list[tuple[S3Request, Response]] = []
        for job, outcome in loop.wait(pause):
            if isinstance(outcome, RequestLost):
                self._lost(job, outcome)
            elif self._is_answer(job, outcome):
                answers.append((job, outcome))
        return loop.glimpses(), answers

    def again(self, job: S3Request, meant: AwsFailure) -> None:
        """Have a job's request sent once more, after a while. Raises a named error instead."""
        job.failures += 1
        self._retry_policy.require_retry(meant, job.failures, job.doing())
        self._number += 1
        at = self._loop.now() + self._retry_policy.pause(job.failures)
        heapq.heappush(self._waiting, (at, self._number, job))

    def close(self) -> None:
        """Close all connections."""
        self._loop.close()

    def _lost(self, job: S3Request, lost: RequestLost) -> None:
        if lost.part is not None and lost.part.status in (200, 206):
            job.take_part(lost.part)
        self.again(job, AwsFailure(FailureKind.UNSURE, lost.reason, "the connection failed"))

    def _is_answer(self, job: S3Request, outcome: Response) -> bool:
        meant = failure_of_s3_response(outcome)
        if meant is None:
            return True
        if self._identity.may_pass(meant, outcome.headers, job.generation):
            meant = replace(meant, kind=FailureKind.UNSURE)
        elsewhere = redirected_region(
            outcome, self._identity.bucket, self._identity.endpoint.region
        )
        known = elsewhere or job.expected(meant)
        if known is not None:
            raise known
        self.again(job, meant)
        return False


def broken(error: Exception) -> AwsFailure:
    """The meaning of an answer that is not what was asked for."""
    return AwsFailure(FailureKind.UNSURE, type(error).__name__, str(error))
