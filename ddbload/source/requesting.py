"""Requests of one's own to S3, side by side: each until it is answered, or given up."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ddbload.aws_http.backoff import full_jitter
from ddbload.aws_http.calls import ATTEMPTS
from ddbload.aws_http.exchange import Lost
from ddbload.aws_http.failures import Kind, Meaning, named
from ddbload.aws_http.http1 import Response
from ddbload.aws_http.s3_failures import moved, of_s3_response

if TYPE_CHECKING:
    from ddbload.aws_http.s3_identity import S3Identity

POLL_SECONDS = 0.2
"""How long to wait for the network without asking whether to give up."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How long what failed waits, and until when."""

    sleep: Callable[[float], None]
    rng: random.Random
    give_up: Callable[[], bool]

    def pause(self, failures: int) -> float:
        """Seconds before the next try."""
        return full_jitter(failures, self.rng, base=0.1, cap=5.0)


class Job(ABC):
    """Something to be got, by one request or several, one after the other."""

    __slots__ = ("failures", "generation")

    glances: ClassVar[bool] = False
    """Whether `glance` is wanted."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self.generation = 0

    @abstractmethod
    def request(self, identity: S3Identity) -> tuple[bytes, int]:
        """The next request, signed now."""

    @abstractmethod
    def doing(self) -> str:
        """For people: "reading s3://b/k"."""

    @abstractmethod
    def expected(self, meant: Meaning) -> Exception | None:
        """The named error for a failure that means something here; None for others."""

    def glance(self, part: Response) -> Any:
        """What is to be found in an answer's beginning, as soon as it has come; else None."""
        del part
        return None

    def take_part(self, part: Response) -> None:  # noqa: B027 - most have no use for it
        """Take what came of an answer before it was lost. Raises `SourceChanged`."""


class Requesting:
    """Sends jobs' requests. Time is the loop's own: retries wait between its waits."""

    def __init__(self, identity: S3Identity, connections: int, retries: Retries) -> None:
        """Raises `AwsConfiguration`."""
        self._identity, self._retries = identity, retries
        self._loop = identity.connect(connections)
        # Those that wait to be sent again, by when.
        self._waiting: list[tuple[float, int, Job]] = []
        self._number = 0

    def free(self) -> int:
        """How many more requests may be sent now."""
        return self._loop.free() - len(self._waiting)

    def send(self, job: Job) -> None:
        """Send a job's next request."""
        request, job.generation = job.request(self._identity)
        self._loop.send(job, request, job.glance if job.glances else None)

    def wait(self) -> tuple[list[tuple[Job, Any]], list[tuple[Job, Response]]]:
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
        answers: list[tuple[Job, Response]] = []
        for job, outcome in loop.wait(pause):
            if isinstance(outcome, Lost):
                self._lost(job, outcome)
            elif self._is_answer(job, outcome):
                answers.append((job, outcome))
        return loop.glimpses(), answers

    def again(self, job: Job, meant: Meaning) -> None:
        """Have a job's request sent once more, after a while. Raises a named error instead."""
        job.failures += 1
        again = meant.kind in (Kind.THROTTLED, Kind.UNSURE) and job.failures < ATTEMPTS
        if not again or self._retries.give_up():
            raise named(meant, job.doing())
        self._number += 1
        at = self._loop.now() + self._retries.pause(job.failures)
        heapq.heappush(self._waiting, (at, self._number, job))

    def close(self) -> None:
        """Close all connections."""
        self._loop.close()

    def _lost(self, job: Job, lost: Lost) -> None:
        if lost.part is not None and lost.part.status in (200, 206):
            job.take_part(lost.part)
        self.again(job, Meaning(Kind.UNSURE, lost.reason, "the connection failed"))

    def _is_answer(self, job: Job, outcome: Response) -> bool:
        meant = of_s3_response(outcome)
        if meant is None:
            return True
        if self._identity.may_pass(meant, outcome.headers, job.generation):
            meant = replace(meant, kind=Kind.UNSURE)
        elsewhere = moved(outcome, self._identity.bucket, self._identity.endpoint.region)
        known = elsewhere or job.expected(meant)
        if known is not None:
            raise known
        self.again(job, meant)
        return False


def broken(error: Exception) -> Meaning:
    """The meaning of an answer that is not what was asked for."""
    return Meaning(Kind.UNSURE, type(error).__name__, str(error))
