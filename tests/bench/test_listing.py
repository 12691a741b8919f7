"""Benchmarks of listings and of small objects find every key and every byte."""

from __future__ import annotations

import sys

import pytest

from bench import listing
from bench.bucket import SHAPES, Bucket, bucket_keys
from bench.clients import MADE_UP_SETTINGS
from bench.http_server import Answer, Request
from bench.listing import bucket_server, control
from bench.objects import measure_reading


@pytest.mark.parametrize("shape", SHAPES)
def test_bucket_keys_are_distinct_and_sorted(shape):
    keys = bucket_keys(shape, 500)
    assert len(set(keys)) == 500
    assert keys == sorted(keys, key=str.encode)


def test_bucket_answers_signed_requests_only():
    bucket = Bucket()
    bucket.reset({"objects": 3, "bytes": 5})

    def answer(target: str, head: bytes = b"authorization: AWS4-HMAC-SHA256 x") -> Answer:
        return bucket.serve(Request("GET", target, head, b""))

    assert answer("/bench?list-type=2", b"").status == 403
    assert answer("/bench?list-type=2").body.count(b"<Key>") == 3
    after = "/bench?list-type=2&prefix=in/&start-after=in/part-000000.csv"
    assert answer(after).body.count(b"<Key>") == 2
    assert answer("/bench/in/part-000002.csv").body == b"xxxxx"
    assert answer("/bench/in/part-000003.csv").status == 404
    assert {"pages": 2, "objects": 2, "puts": 0}.items() <= bucket.counters().items()


def test_listing_measures_every_variant(capsys, monkeypatch):
    words = "listing --objects 2500 --latency 1 --rounds 1 --shapes hashed"
    monkeypatch.setattr(sys, "argv", words.split())
    listing.main()
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line[10:34].strip() for line in lines] == list(listing.VARIANTS)


def test_no_proxy_stands_before_the_bucket(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with bucket_server() as endpoint:
        assert control(endpoint, "/counters")["pages"] == 0


def test_listing_refuses_a_variant_with_other_keys(monkeypatch):
    words = "listing --objects 10 --latency 0 --rounds 1 --shapes plain"
    monkeypatch.setattr(sys, "argv", words.split())
    monkeypatch.setattr(listing, "run_in_process", lambda *_: {"digest": "another"})
    with pytest.raises(SystemExit, match="refused: boto3 paginator lists other keys"):
        listing.main()


def test_objects_reads_every_byte(monkeypatch):
    for name, value in MADE_UP_SETTINGS.items():
        monkeypatch.setenv(name, value)
    with bucket_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        control(endpoint, "/reset", {"shape": "hashed", "objects": 50, "bytes": 1024})
        found = measure_reading("ddbload, async", 50, control(endpoint, "/etag")["etag"])
        assert (found["objects"], found["bytes"]) == (50, 50 * 1024)
        assert control(endpoint, "/counters")["objects"] == 50
