"""What listings and small objects are measured with: a bucket, and who finds all of it."""

from __future__ import annotations

import sys

import pytest

from bench import listing
from bench.bucket import SHAPES, Bucket, keys_of
from bench.listing import SETTINGS, ask, bucket_server
from bench.objects import measured


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_have_keys_of_their_own(shape):
    keys = keys_of(shape, 500)
    assert len(set(keys)) == 500
    assert keys == sorted(keys, key=str.encode)


def test_a_bucket_answers_whom_it_knows():
    bucket = Bucket()
    bucket.reset({"objects": 3, "bytes": 5})
    signed = b"authorization: AWS4-HMAC-SHA256 x"
    assert bucket.answer("/bench?list-type=2", b"")[0] == 403
    assert bucket.answer("/bench?list-type=2", signed)[2].count(b"<Key>") == 3
    after = "/bench?list-type=2&prefix=in/&start-after=in/part-000000.csv"
    assert bucket.answer(after, signed)[2].count(b"<Key>") == 2
    assert bucket.answer("/bench/in/part-000002.csv", signed)[2] == b"xxxxx"
    assert bucket.answer("/bench/in/part-000003.csv", signed)[0] == 404
    assert bucket.asked == {"pages": 2, "objects": 2}


def test_all_list_the_same(capsys, monkeypatch):
    words = "listing --objects 2500 --latency 1 --rounds 1 --shapes hashed"
    monkeypatch.setattr(sys, "argv", words.split())
    listing.main()
    _, _, *lines = capsys.readouterr().out.splitlines()
    assert [line[10:34].strip() for line in lines] == list(listing.VARIANTS)


def test_who_lists_something_else_is_refused(monkeypatch):
    words = "listing --objects 10 --latency 0 --rounds 1 --shapes plain"
    monkeypatch.setattr(sys, "argv", words.split())
    monkeypatch.setattr(listing, "run_in_process", lambda *_: {"digest": "another"})
    with pytest.raises(SystemExit, match="refused: boto3 paginator lists other keys"):
        listing.main()


def test_every_byte_is_read(monkeypatch):
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with bucket_server() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        ask(endpoint, "/reset", {"shape": "hashed", "objects": 50, "bytes": 1024})
        found = measured("ddbload, async", 50, ask(endpoint, "/etag")["etag"])
        assert (found["objects"], found["bytes"]) == (50, 50 * 1024)
        assert ask(endpoint, "/counters")["objects"] == 50
