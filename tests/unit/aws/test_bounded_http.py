"""All reads of botocore's responses share their seconds. Time is a number that the tests set."""

from __future__ import annotations

import io

import pytest

from ddbload.aws.boto_clients import BoundedReader, Patience
from ddbload.aws.http_client.http1 import LEAST_BYTES_PER_SECOND


class Wire(io.RawIOBase):
    """Fake socket file: each read takes `seconds`, and gives `count` bytes."""

    def __init__(self, seconds: float, count: int = 1) -> None:
        super().__init__()
        self.now = 0.0
        self.seconds, self.count = seconds, count
        self.timeouts: list[float] = []

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self.now += self.seconds
        count = min(self.count, len(buffer))
        buffer[:count] = b"a" * count
        return count

    # As a socket.

    def gettimeout(self) -> float:
        return 15.0

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)


def reader_of(wire: Wire, seconds: float = 15.0) -> BoundedReader:
    reader = BoundedReader(wire, wire, Patience(seconds, lambda: wire.now))
    reader.most_bytes = float("inf")
    return reader


def test_reads_share_their_seconds_when_bytes_keep_coming():
    wire = Wire(seconds=0.2)
    with pytest.raises(TimeoutError):
        io.BufferedReader(reader_of(wire)).readline()
    assert 15 <= wire.now < 16
    assert wire.timeouts == sorted(wire.timeouts, reverse=True)


def test_body_has_more_seconds_for_each_byte():
    wire = Wire(seconds=1.0, count=2 * LEAST_BYTES_PER_SECOND)
    size = 100 * 2 * LEAST_BYTES_PER_SECOND
    assert len(io.BufferedReader(reader_of(wire)).read(size)) == size
    assert wire.now >= 100


def test_reader_does_not_count_the_time_of_its_caller():
    wire = Wire(seconds=0.2, count=10)
    reader = reader_of(wire)
    for _ in range(20):
        assert reader.read(10)
        wire.now += 3600


def test_reader_refuses_more_bytes_than_its_limit():
    reader = reader_of(Wire(seconds=0, count=10))
    reader.most_bytes = 25
    assert reader.read(20)
    assert reader.read(10)
    with pytest.raises(ConnectionError, match="too long"):
        reader.read(10)
