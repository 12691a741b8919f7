"""Measure how fast ddbload reads many small objects, beside one boto3 client with ten threads.

    python -m bench.objects [--objects 100000] [--latency 20] [--rounds 3]

Each variant runs in a new process. Measured are clock and CPU seconds from the first request to the
last body, and the growth of memory after the first tenth of the objects. Slow variants read fewer
objects, so compare rates. A variant that misses a byte ends the run with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.bucket import BUCKET, bucket_keys
from bench.listing import bucket_server, control, run_in_process

BYTES = 1024
SHAPE = "hashed"


def read_with_boto3(pinned: list[dict[str, Any]]) -> Iterator[bytes]:
    """Read objects with one boto3 client shared by ten threads, as boto3's manual recommends."""
    import boto3

    client = boto3.client("s3")

    def read(each: dict[str, Any]) -> bytes:
        answer = client.get_object(Bucket=each["bucket"], Key=each["key"])
        return bytes(answer["Body"].read())

    yield b""
    with ThreadPoolExecutor(10) as pool:
        yield from pool.map(read, pinned)


def read_with_threads(pinned: list[dict[str, Any]]) -> Iterator[bytes]:
    """Read objects with `ddbload.source.small_objects` through a botocore client."""
    from ddbload.aws.clients import Clients
    from ddbload.contracts.options import DEFAULT_READ_CONCURRENCY
    from ddbload.source.small_objects import read_objects

    client = Clients(connections=DEFAULT_READ_CONCURRENCY).s3
    yield b""
    for _, data in read_objects(pinned, client):
        yield data


def read_with_event_loop(pinned: list[dict[str, Any]]) -> Iterator[bytes]:
    """Read objects with `ddbload.source.small_objects` through ddbload's HTTP client."""
    from ddbload.aws.clients import Clients
    from ddbload.source.small_objects import read_objects

    clients = Clients()
    clients.s3_signer(BUCKET)
    yield b""
    for _, data in read_objects(pinned, clients.s3, signers=clients.s3_signer):
        yield data


VARIANTS = {
    "boto3, 10 threads": (read_with_boto3, 0.05),
    "ddbload, threads": (read_with_threads, 0.05),
    "ddbload, async": (read_with_event_loop, 1.0),
}


def measure_reading(name: str, count: int, etag: str) -> dict[str, Any]:
    """Measure one variant in this process."""
    variant = VARIANTS[name][0]
    pinned = [
        {"bucket": BUCKET, "key": key, "version_id": None, "etag": etag, "size": BYTES}
        for key in bucket_keys(SHAPE, count)
    ]
    bodies = variant(pinned)
    next(bodies)
    read = size = early = 0
    began, used = time.perf_counter(), time.process_time()
    for data in bodies:
        read += 1
        size += len(data)
        if read == count // 10:
            early = _peak()
    return {
        "objects": read,
        "bytes": size,
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - used,
        "grown": (_peak() - early) / 1e6,
    }


def _peak() -> int:
    """Return the peak memory of this process in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Measure all variants, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how fast many small objects are read.")
    parser.add_argument("--objects", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--latency", type=float, default=20.0, help="milliseconds per object")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, count, etag = options.one
        print(json.dumps(measure_reading(name, int(count), etag)))
        return
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(
        f"{python}, {platform.machine()}, {os.cpu_count()} cores, {options.latency:g} ms per object"
    )
    heads = f"{'objects':>9}{'objects/s':>10}{'CPU us each':>13}{'MB grown':>10}{'faster':>8}"
    print(f"{'variant':20}{heads}")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    names = list(VARIANTS)
    with bucket_server() as endpoint:
        for turn in range(options.rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found[name].append(run_round(endpoint, name, options))
    plain = 0.0
    for name in names:
        each = found[name]
        rate = statistics.median(one["objects"] / one["seconds"] for one in each)
        cpu = statistics.median(one["cpu"] / one["objects"] for one in each)
        grown = max(one["grown"] for one in each)
        plain = plain or rate
        count = each[0]["objects"]
        print(f"{name:20}{count:9}{rate:10.0f}{cpu * 1e6:13.0f}{grown:10.1f}{rate / plain:8.1f}")


def run_round(endpoint: str, name: str, options: Any) -> dict[str, Any]:
    """Run one round of a variant."""
    count = max(100, int(options.objects * VARIANTS[name][1]))
    settings = {"shape": SHAPE, "objects": count, "bytes": BYTES, "latency": options.latency / 1000}
    control(endpoint, "/reset", settings)
    etag = control(endpoint, "/etag")["etag"]
    result = run_in_process("bench.objects", name, endpoint, str(count), etag)
    if (result["objects"], result["bytes"]) != (count, count * BYTES):
        sys.exit(f"refused: {name} did not get every byte")
    return result


if __name__ == "__main__":
    main()
