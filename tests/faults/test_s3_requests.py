"""Objects and listings by ddbload's own requests, over real sockets with faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.aws.retry import RetryPolicy
from ddbload.aws.signing import signers as credentials
from ddbload.errors import AccessDenied, AwsConfiguration, ServiceUnavailable, SourceChanged
from ddbload.source import s3_requests
from ddbload.source.s3_listing.list_objects import list_objects
from ddbload.source.s3_requests import read_ranges, whole_object
from tests.faults.bucket import BUCKET, BucketServer

ODD = "in/a b+ü%&<'\"~\n/.//../c.csv"
OBJECTS = {
    **{f"in/{n:02d}.csv": random.Random(n).randbytes(97 * n) for n in range(24)},
    ODD: b"odd",
}
BROKEN = ["short", "reset", "reset_before", "chunked_short"]
PASSING = ["slow_down", "internal", "timeout", "html", "garbage", *BROKEN]


class Eager(random.Random):
    """Random numbers for retries without pauses."""

    def uniform(self, a: float, b: float) -> float:
        assert 0.0 == a <= b
        return 0.0


EAGER = RetryPolicy(sleep=lambda _: None, rng=Eager())


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with BucketServer(OBJECTS) as running:
        yield running


@pytest.fixture
def bucket(server) -> BucketServer:
    server.reset(OBJECTS)
    return server


@pytest.fixture(scope="module")
def clients(server) -> Iterator[Clients]:
    """Make the clients once, because botocore is slow at that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "first")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
        patch.delenv("AWS_PROFILE", raising=False)
        made = Clients(AwsSettings(region="us-east-1", endpoint_url=server.endpoint), 32)
        made.s3.list_objects_v2(Bucket=BUCKET)
        yield made
        made.s3.close()


def read(clients: Clients, pinned: Any, **how: Any) -> list[bytes]:
    how = {"signers": clients.s3_signer, "retry_policy": EAGER, **how}
    return list(read_ranges(map(whole_object, pinned), clients.s3, **how))


def keys(clients: Clients, prefix: str = "in/", **how: Any) -> list[str]:
    found = list_objects(
        clients.s3, BUCKET, prefix, signer=clients.s3_signer(BUCKET), retry_policy=EAGER, **how
    )
    return [each.key for each in found]


def test_read_objects_by_threads_returns_the_same(bucket, clients):
    assert read(clients, bucket.pinned(), signers=None) == list(OBJECTS.values())


def once(fault: str) -> Callable[[str], str | None]:
    """Make the first request for each target meet a fault."""
    asked: set[str] = set()

    def decide(target: str) -> str | None:
        is_new = target not in asked
        asked.add(target)
        return fault if is_new else None

    return decide


@pytest.mark.parametrize(
    ("fault", "way"),
    [
        *((fault, "async") for fault in (*PASSING, "chunked")),
        *((fault, "threads") for fault in ("slow_down", "short", "reset")),
    ],
)
def test_read_objects_repeats_after_a_transient_fault(bucket, clients, fault, way):
    bucket.decide = once(fault)
    signers = clients.s3_signer if way == "async" else None
    # On one connection, so that each offset meets the fault.
    found = read(clients, bucket.pinned(), signers=signers, concurrency=3)
    assert found == list(OBJECTS.values())


@pytest.mark.parametrize("fault", ["short", "reset", "chunked_short"])
def test_read_objects_continues_a_broken_body(bucket, clients, fault):
    data = bytes(range(250)) * 40
    bucket.objects = {"k": data}
    bucket.faults.extend([fault, fault])
    assert read(clients, bucket.pinned()) == [data]
    ranges = [headers.get("range") for _, headers in bucket.targets]
    assert ranges == [None, "bytes=5000-9999", "bytes=7500-9999"]
    assert all(headers["if-match"] for _, headers in bucket.targets)


def test_read_objects_splits_large_objects_into_ranges(bucket, clients, monkeypatch):
    monkeypatch.setattr(s3_requests, "RANGE_BYTES", 700)
    faults = ["ignores_range", "more", "ignores_range_short", "short", "reset", "no_if_match"]

    def now_and_then(_: str) -> str | None:
        turn = len(bucket.targets) % 12
        return faults[turn] if turn < len(faults) else None

    bucket.decide = now_and_then
    assert read(clients, bucket.pinned(), concurrency=2) == list(OBJECTS.values())
    assert len(bucket.targets) > 2 * len(OBJECTS)


@pytest.mark.parametrize("ahead", [0, 1, 500, 5000])
def test_read_objects_holds_no_more_than_its_limit(bucket, clients, ahead, monkeypatch):
    monkeypatch.setattr("ddbload.source.s3_requests.BYTES_AHEAD", ahead)
    read_ahead = []

    def watched() -> Iterator[dict[str, Any]]:
        for number, each in enumerate(bucket.pinned()):
            read_ahead.append((number, each["size"]))
            yield each

    found = read_ranges(map(whole_object, watched()), clients.s3, signers=clients.s3_signer)
    for number, data in enumerate(found):
        assert data == list(OBJECTS.values())[number]
        # The last object was taken from the iterator, but is not requested yet.
        begun = [size for place, size in read_ahead[:-1] if place > number]
        assert len(begun) <= 1 or sum(begun) <= ahead
        if ahead == 5000 and number < len(OBJECTS) - 3:
            assert begun


@pytest.mark.parametrize("way", ["async", "threads"])
@pytest.mark.parametrize("change", ["overwritten", "gone", "no_if_match", "longer"])
def test_read_objects_refuses_another_version(bucket, clients, change, way):
    pinned = bucket.pinned()
    match change:
        case "overwritten":
            bucket.objects["in/07.csv"] = b"new"
        case "gone":
            del bucket.objects["in/07.csv"]
        case "no_if_match":
            bucket.objects["in/07.csv"] = b"n" * 97 * 7
            bucket.decide = lambda _: "no_if_match"
        case "longer":
            bucket.objects["in/07.csv"] += b"more"
    signers = clients.s3_signer if way == "async" else None
    with pytest.raises(SourceChanged, match=f"s3://{BUCKET}/in/07.csv"):
        read(clients, pinned, signers=signers)


@pytest.mark.parametrize(
    "fault", [fault for fault in PASSING if fault not in ("short", "reset", "chunked_short")]
)
def test_read_objects_gives_up_after_all_attempts(bucket, clients, fault):
    """Broken bodies are left out, because each attempt makes progress."""
    bucket.decide = lambda target: fault if "07" in target else None
    with pytest.raises(ServiceUnavailable, match=r"reading s3://bucket/in/07.csv from byte \d+"):
        read(clients, bucket.pinned())


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("denied", AccessDenied, "not allowed: s3:GetObject"),
        ("moved", AwsConfiguration, "the bucket bucket is in eu-west-1, and not in us-east-1"),
        ("malformed", AwsConfiguration, "give --region eu-west-1"),
    ],
)
def test_refused_requests_are_reported(bucket, clients, fault, error, said):
    bucket.decide = lambda _: fault
    with pytest.raises(error, match=said):
        read(clients, bucket.pinned())
    with pytest.raises(error, match=said):
        keys(clients)


def test_expired_credentials_are_replaced(bucket, clients, monkeypatch):
    # Other tests must not share clients with replaced credentials.
    clients = Clients(clients._settings)
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.0)
    bucket.keys = {"first"}
    found = read_ranges(
        map(whole_object, bucket.pinned() * 3),
        clients.s3,
        signers=clients.s3_signer,
        concurrency=2,
        retry_policy=EAGER,
    )
    for number, data in enumerate(found):
        assert data == list(OBJECTS.values())[number % len(OBJECTS)]
        if number == 10:
            bucket.keys = {"second"}
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    signed_by = [headers["authorization"] for _, headers in bucket.targets]
    assert any("=first/" in each for each in signed_by)
    assert "=second/" in signed_by[-1]


# Listings


@pytest.mark.parametrize("fault", [*PASSING, "chunked"])
@pytest.mark.parametrize("requests", [1, 16])
def test_list_objects_repeats_a_page_after_a_transient_fault(bucket, clients, fault, requests):
    bucket.decide = once(fault)
    bucket.page = 2
    assert keys(clients, requests=requests) == sorted(OBJECTS)


def test_list_objects_agrees_with_botocore(bucket, clients):
    own = keys(clients)
    by_client = [each.key for each in list_objects(clients.s3, BUCKET, "in/")]
    assert own == by_client
