"""What transports send for an object, and how they read the answers."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from ddbload.aws.http_client.connection import Endpoint
from ddbload.aws.http_client.event_loop import RequestLost
from ddbload.aws.http_client.http1 import Response
from ddbload.errors import AwsConfiguration
from ddbload.write.drivers.driver import FollowUp
from ddbload.write.drivers.object_transports import BotoObjectTransport, RawObjectTransport
from ddbload.write.object_requests import ObjectRequests, ObjectRow
from ddbload.write.requests import EndpointFeatures
from ddbload.write.scheduler.messages import Accepted, Fatal, Refused, Unsure
from tests.unit.write.object_records import object_record

ROW = ObjectRow("p/1", b'{"id":"1"}', 100)


def requests() -> ObjectRequests:
    return ObjectRequests(object_record(), EndpointFeatures(proven_condition=True))


def client_error(code: str, status: int) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "PutObject")


class Client:
    """Client of botocore whose calls are answered by a script."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def put_object(self, **parameters: Any) -> Any:
        return self._call("put", parameters)

    def get_object(self, **parameters: Any) -> Any:
        return self._call("get", parameters)

    def _call(self, kind: str, parameters: dict[str, Any]) -> Any:
        self.calls.append((kind, parameters))
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def found(run: str, row: str, etag: str = '"e"', body: bytes = b"{}", length: int = 2) -> Any:
    """Return the answer to GetObject, whose body may be cut short."""
    metadata = {"ddbload-run": run, "ddbload-row": row}
    return {"ETag": etag, "Metadata": metadata, "Body": BytesIO(body), "ContentLength": length}


def test_botocore_does_not_believe_headers_without_a_body():
    owner = requests()
    exists = client_error("PreconditionFailed", 412)
    for run, row in (("run-1/cut", "100"), (owner.run, "100"), (owner.run, "1")):
        client = Client(exists, found(run, row, body=b""))
        transport = BotoObjectTransport(client, owner)  # type: ignore[arg-type]
        assert transport.send([ROW]) == Unsure("ConnectionError")
        assert [kind for kind, _ in client.calls] == ["put", "get"]
    # The objects of others may be empty; a row's is not.
    empty = found("another", "100", body=b"", length=0)
    transport = BotoObjectTransport(Client(exists, empty, {"ETag": '"new"'}), owner)  # type: ignore[arg-type]
    assert transport.send([ROW]) == Accepted()


def test_botocore_puts_replaces_and_looks_with_conditions():
    owner = requests()
    foreign = found("another", "100", '"old"')
    client = Client(client_error("PreconditionFailed", 412), foreign, {"ETag": '"new"'})
    transport = BotoObjectTransport(client, owner)  # type: ignore[arg-type]
    assert transport.send([ROW]) == Accepted()
    place = {"Bucket": "shop", "Key": "p/1"}
    content = {
        "Body": ROW.body,
        "ContentType": "application/json",
        "Metadata": {"ddbload-run": owner.run, "ddbload-row": "100"},
    }
    assert client.calls == [
        ("put", {**place, **content, "IfNoneMatch": "*"}),
        ("get", place),
        ("put", {**place, **content, "IfMatch": '"old"'}),
    ]


def test_botocore_tells_whose_an_object_is():
    owner = requests()
    exists = client_error("PreconditionFailed", 412)
    for position, answer in (("100", Accepted), ("7", Refused)):
        client = Client(exists, found(owner.run, position))
        transport = BotoObjectTransport(client, owner)  # type: ignore[arg-type]
        assert isinstance(transport.send([ROW]), answer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ReadTimeoutError(endpoint_url="http://x"), "ReadTimeoutError"),
        ({"ETag": None}, "an answer that is not S3's"),
        (None, "an answer that is not S3's"),
    ],
)
def test_botocore_is_not_sure_without_a_credible_answer(answer, reason):
    transport = BotoObjectTransport(Client(answer), requests())  # type: ignore[arg-type]
    assert transport.send([ROW]) == Unsure(reason)


class Signer:
    """Signer that shows what it is given."""

    bucket = "shop"
    endpoint = Endpoint("https", "shop.s3.example", 443, "eu-west-1")
    passes = False

    def write(self, key: str, body: bytes | None, headers: Any) -> tuple[bytes, int]:
        return repr((key, body, dict(headers))).encode(), 4

    def may_pass(self, *_: Any) -> bool:
        return self.passes


def response(status: int, code: str = "", **headers: str) -> Response:
    body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, body, keep_alive=True)


def raw() -> tuple[RawObjectTransport, Signer, bytes, Any]:
    signer = Signer()
    transport = RawObjectTransport(signer, requests())  # type: ignore[arg-type]
    return transport, signer, *transport.request([ROW], 1)


def test_loop_sends_what_answers_make_necessary():
    transport, _, first, state = raw()
    assert b"'if-none-match': '*'" in first
    answer = transport.answer(response(412, "PreconditionFailed"), state, 1, list)
    assert isinstance(answer, FollowUp)
    assert answer.request == repr(("p/1", None, {})).encode()
    answer = transport.answer(response(200, etag='"old"'), answer.state, 1, list)
    assert isinstance(answer, FollowUp)
    assert b"'if-match': '\"old\"'" in answer.request
    assert transport.answer(response(200, etag='"new"'), answer.state, 1, list) == Accepted()


def test_loop_is_not_sure_of_lost_requests_and_expired_credentials():
    transport, signer, _, state = raw()
    lost = transport.answer(RequestLost("ConnectionReset"), state, 1, list)
    assert lost == Unsure("ConnectionReset")
    signer.passes = True
    expired = transport.answer(response(400, "ExpiredToken"), state, 1, list)
    assert expired == Unsure("ExpiredToken", refused=True)


def test_loop_names_the_region_of_the_bucket():
    transport, _, _, state = raw()
    moved = response(301, "PermanentRedirect", x_amz_bucket_region="us-west-2")
    answer = transport.answer(moved, state, 1, list)
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, AwsConfiguration)
    assert "--region us-west-2" in answer.error.message
