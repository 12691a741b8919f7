"""A strict table behind faults: nothing is missing or complete that DynamoDB did not answer for."""

from __future__ import annotations

import json
import random
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.failures import ChecksumMismatch
from ddbload.aws.retry import RetryPolicy
from ddbload.dynamodb.item_equality import ItemDigests
from ddbload.errors import ServiceUnavailable
from ddbload.verification.table_reader import BATCH_KEYS, TableReader, raw_reads

PAGE = 7
"""Items of a page at most, as if they were large."""
Fault = Callable[[str, dict[str, Any]], bytes | None]


def refusal(code: str) -> ClientError:
    metadata: Any = {"HTTPStatusCode": 400, "RequestId": "r"}
    error: Any = {"Error": {"Code": code, "Message": "text"}, "ResponseMetadata": metadata}
    return ClientError(error, "Scan")


class StrictTable:
    """Table of items `id` 0 to `count` - 1 that answers as DynamoDB does, in JSON."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.items = {str(n): {"id": {"N": str(n)}, "a": {"S": f"text {n}"}} for n in range(count)}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault | Exception] = []
        self.clock = 0.0
        self.spent: list[tuple[float, float]] = []
        self._rng, self._lock = random.Random(seed), threading.Lock()

    def __call__(self, operation: str, params: Mapping[str, Any]) -> bytes:
        with self._lock:
            given = json.loads(json.dumps(params))
            self.calls.append((operation, given))
            fault = self.faults.pop(0) if self.faults else None
            if isinstance(fault, Exception):
                raise fault
            answer = fault(operation, given) if fault else None
            if answer is not None:
                return answer
            made = self._scan(given) if operation == "Scan" else self._batch(given)
            return json.dumps(made).encode()

    def _scan(self, params: dict[str, Any]) -> dict[str, Any]:
        segment, segments = params["Segment"], params["TotalSegments"]
        keys = [key for key in self.items if int(key) % segments == segment]
        if "ExclusiveStartKey" in params:
            assert params["ExclusiveStartKey"].keys() == {"id"}
            start = int(params["ExclusiveStartKey"]["id"]["N"])
            keys = [key for key in keys if int(key) > start]
        most = min(PAGE, params["Limit"])
        page = [self.items[key] for key in keys[:most]]
        units = 0.5 * len(page)
        self.spent.append((self.clock, units))
        last = {"LastEvaluatedKey": {"id": page[-1]["id"]}} if len(keys) > most else {}
        return {
            "Items": page,
            "Count": len(page),
            "ScannedCount": len(page),
            "ConsumedCapacity": {"TableName": "t", "CapacityUnits": units},
            **last,
        }

    def _batch(self, params: dict[str, Any]) -> dict[str, Any]:
        keys = [key["id"]["N"] for key in params["RequestItems"]["t"]["Keys"]]
        assert 0 < len(keys) == len(set(keys)) <= BATCH_KEYS
        # DynamoDB answers in any order, for as many as it likes.
        self._rng.shuffle(keys)
        done = keys[: self._rng.randrange(len(keys) + 1)]
        left = [{"id": {"N": f"{key}.0"}} for key in keys[len(done) :]]
        return {
            "Responses": {"t": [self.items[key] for key in done if key in self.items]},
            "UnprocessedKeys": {"t": {"Keys": left}} if left else {},
            "ConsumedCapacity": [{"TableName": "t", "CapacityUnits": float(len(done))}],
        }

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.clock += seconds


def reader_of(table: StrictTable, rate: float | None = None) -> TableReader:
    return TableReader(
        table,
        "t",
        ItemDigests(("id",), b""),
        consistent=True,
        units_per_second=rate,
        item_bytes=2048.0,
        policy=RetryPolicy(sleep=table.sleep, rng=random.Random(1)),
        clock=lambda: table.clock,
    )


def numbers(pages: Any) -> Counter[int]:
    return Counter(int(item["id"]["N"]) for page in pages for item in page)


LOST: tuple[Exception, ...] = (
    ConnectionClosedError(endpoint_url="http://t"),
    ReadTimeoutError(endpoint_url="http://t"),
    refusal("InternalServerError"),
    refusal("ThrottlingException"),
    refusal("ProvisionedThroughputExceededException"),
)
FALSE_ANSWERS = (
    b"{}",
    b"",
    b"<html>busy</html>",
    b'{"Items":[],"Count":3,"ScannedCount":3}',
    b'{"Responses":{}}',
    b'{"Responses":{"t":[]},"UnprocessedKeys":{"t":{"Keys":[{"id":{"N":"-1"}}]}}}',
    b'{"Responses":{"t":[{"id":{"N":"-1"}}]},"UnprocessedKeys":{}}',
)


def works(_operation: str, _params: dict[str, Any]) -> None:
    """Let a call work."""


def faults(rounds: int) -> list[Any]:
    """Return every fault, with calls that work between them."""
    false = [lambda *_, a=answer: a for answer in FALSE_ANSWERS]
    return [each for fault in (*LOST, *false) for each in (fault, works)] * rounds


@pytest.mark.parametrize("segments", [1, 3, 20])
def test_scan_yields_each_item_once_despite_faults(segments):
    table = StrictTable(200)
    table.faults = faults(2)
    reader = reader_of(table)
    assert numbers(reader.scan(segments)) == Counter(range(200))
    assert reader.usage.units == 100.0
    assert reader.usage.throttled == 4
    assert {call[1]["TotalSegments"] for call in table.calls} == {segments}


def test_scan_with_a_dead_segment_fails():
    """A segment that ends early must not look like the end of the table."""
    table = StrictTable(60)

    def dead(_operation: str, params: dict[str, Any]) -> bytes | None:
        if params["Segment"] == 1 and "ExclusiveStartKey" in params:
            raise ConnectionClosedError(endpoint_url="http://t")
        return None

    table.faults = [dead] * 500
    with pytest.raises(ServiceUnavailable, match="reading table t"):
        numbers(reader_of(table).scan(3))


def test_answer_that_would_repeat_a_page_forever_is_refused():
    table = StrictTable(50)
    again = b'{"Items":[],"Count":0,"LastEvaluatedKey":{"id":{"N":"6"}}}'
    table.faults = [works, *[lambda *_: again] * 100]
    with pytest.raises(ServiceUnavailable, match="not from DynamoDB"):
        numbers(reader_of(table).scan(1))


@pytest.mark.parametrize("seed", range(4))
def test_unprocessed_key_is_asked_for_again_and_not_missing(seed):
    table = StrictTable(450, seed)
    table.faults = faults(1)
    wanted = [{"id": {"N": str(n)}} for n in range(0, 900, 2)]
    reader = reader_of(table)
    assert numbers(reader.get(wanted)) == Counter(range(0, 450, 2))
    assert reader.usage.units == len(wanted)


@pytest.mark.parametrize("rate", [2.0, 20.0, 300.0])
def test_rate_is_kept(rate):
    table = StrictTable(400)
    assert numbers(reader_of(table, rate).scan(4)) == Counter(range(400))
    assert table.clock >= 200 / rate - 2
    for start, _ in table.spent:
        spent = sum(units for at, units in table.spent if start <= at < start + 5)
        # One page of 3.5 units may overdraw, and one of the page before it.
        assert spent <= 5 * rate + 8


def response(url: str, status: int, body: bytes, crc: int) -> AWSResponse:
    headers = {"x-amz-crc32": str(crc), "content-length": str(len(body))}
    made = AWSResponse(url, status, headers, None)
    made._content = body
    return made


def test_raw_reads_return_checked_bodies(monkeypatch):
    """botocore parses nothing, and a damaged answer or an error is still one."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    client = Clients(AwsSettings(region="us-east-1")).dynamodb
    body = b'{"Items":[{"id":{"B":"AP8="}}],"Count":1}'
    error = b'{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"m"}'
    answers = [
        response("http://t", 200, body, zlib.crc32(body)),
        response("http://t", 200, body, 5),
        response("http://t", 400, error, zlib.crc32(error)),
    ]
    client.meta.events.register("before-send.dynamodb", lambda **_: answers.pop(0))
    call = raw_reads(client)
    params = {"TableName": "t", "ExclusiveStartKey": {"id": {"B": b"\0\xff"}}}
    assert call("Scan", params) == body
    with pytest.raises(ChecksumMismatch):
        call("BatchGetItem", {"RequestItems": {}})
    with pytest.raises(ClientError, match="ThrottlingException"):
        call("Scan", params)
