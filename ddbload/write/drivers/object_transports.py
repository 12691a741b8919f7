"""Transports that write rows as objects of S3: by botocore, and by ddbload's own HTTP client."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ddbload.aws.failures import (
    classify_failure,
    failure_of_s3_response,
    redirected_region,
)
from ddbload.aws.http_client.event_loop import HttpLoop, RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.write.drivers.driver import FollowUp
from ddbload.write.object_requests import (
    ROW_METADATA,
    RUN_METADATA,
    ObjectRequest,
    ObjectRequests,
    ObjectRow,
    ObjectWrite,
)
from ddbload.write.scheduler.messages import Answer, Fatal, Unsure

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from ddbload.aws.signing.s3_signer import S3Signer
    from ddbload.write.requests import SentItems

_CONDITIONS = {"if-none-match": "IfNoneMatch", "if-match": "IfMatch"}
MAX_DRAINED_BYTES = 64 * 1024
"""Longest body that is read for the sake of its connection; objects of others may be longer."""
_NOT_S3 = "an answer that is not S3's"


class BotoObjectTransport:
    """Writes objects through a client of botocore. Thread-safe."""

    def __init__(self, client: S3Client, requests: ObjectRequests) -> None:
        self._client = client
        self._requests = requests

    def send(self, items: Sequence[ObjectRow]) -> Answer:
        """Write the object of one row, with as many requests as it takes."""
        (row,) = items
        write = ObjectWrite(self._requests, row)
        while True:
            failure, headers = None, {}
            try:
                headers = self._call(write.request)
            except (AttributeError, LookupError, TypeError, ValueError):
                return Unsure(_NOT_S3)
            except Exception as error:
                failure = classify_failure(error)
                if failure is None:
                    raise
            answer = write.answered(failure, headers)
            if answer is not None:
                return answer

    def _call(self, request: ObjectRequest) -> dict[str, str]:
        """Send a request; return the answer's headers that matter."""
        place: Any = {"Bucket": self._requests.target.bucket, "Key": request.key}
        if request.body is None:
            return self._look(place)
        headers = request.headers
        more: Any = {_CONDITIONS[name]: headers[name] for name in _CONDITIONS if name in headers}
        metadata = {name: headers[f"x-amz-meta-{name}"] for name in (RUN_METADATA, ROW_METADATA)}
        answer: Any = self._client.put_object(
            **place,
            Body=request.body,
            ContentType=headers["content-type"],
            Metadata=metadata,
            **more,
        )
        return {"etag": str(answer.get("ETag") or "")}

    def _look(self, place: Any) -> dict[str, str]:
        """Return the headers of an object.

        By GET, and not by HEAD: Python's HTTP client takes headers that were cut short for whole
        ones. Another row's object would look like a foreign one, and be replaced. Where a byte of
        the body arrives, all headers have.
        """
        found: Any = self._client.get_object(**place)
        with closing(found["Body"]) as body:
            length = int(found["ContentLength"])
            if length and not body.read(1):
                raise ConnectionError("the answer ends before its body")
            if length <= MAX_DRAINED_BYTES:
                # The connection can be used again.
                body.read()
        names = {f"x-amz-meta-{name}": text for name, text in found["Metadata"].items()}
        return {"etag": str(found.get("ETag") or ""), **names}


class RawObjectTransport:
    """Signs requests for one bucket and interprets their answers; `EventLoopDriver` sends them."""

    def __init__(self, signer: S3Signer, requests: ObjectRequests) -> None:
        self._signer = signer
        self._requests = requests

    def connect(self, connections: int) -> HttpLoop:
        """Open an event loop with this many connections. The caller closes it."""
        return self._signer.connect(connections)

    def request(self, content: Sequence[ObjectRow], rows: int) -> tuple[bytes, Any]:  # noqa: ARG002
        """Sign the first request for a row; return it with the state that `answer` takes."""
        (row,) = content
        return self._sign(ObjectWrite(self._requests, row))

    def answer(
        self,
        outcome: Response | RequestLost,
        state: tuple[ObjectWrite, int],
        rows: int,  # noqa: ARG002 - protocol
        items: SentItems,  # noqa: ARG002
    ) -> Answer | FollowUp:
        """Interpret the outcome of a request; the next request of the row if there is one."""
        write, generation = state
        if isinstance(outcome, RequestLost):
            return Unsure(outcome.reason)
        failure = failure_of_s3_response(outcome)
        if failure is not None:
            signer = self._signer
            moved = redirected_region(outcome, signer.bucket, signer.endpoint.region)
            if moved is not None:
                return Fatal(moved)
            if signer.may_pass(failure, outcome.headers, generation):
                return Unsure(failure.code, refused=True)
        answer = write.answered(failure, outcome.headers)
        return FollowUp(*self._sign(write)) if answer is None else answer

    def _sign(self, write: ObjectWrite) -> tuple[bytes, tuple[ObjectWrite, int]]:
        request = write.request
        signed, generation = self._signer.write(request.key, request.body, request.headers)
        return signed, (write, generation)
