"""Measure how fast ddbload lists a prefix, beside boto3's paginator.

    python -m bench.listing [--objects 100000] [--latency 30] [--rounds 3] [--shapes numbered,...]

Each listing runs in a new process. Measured are CPU and clock seconds from the first request to the
last key, without start-up. A listing with other keys, or in another order, ends the run with an
error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.bucket import BUCKET, PREFIX, SHAPES, bucket_keys
from bench.clients import ROOT, isolated_environment
from localaws.processes import end_process

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opener that no proxy of the environment stands before."""


def list_with_ddbload(requests: int) -> Iterator[str]:
    """List keys with `ddbload.source.s3_listing.list_objects`."""
    from ddbload.aws.clients import Clients
    from ddbload.source.s3_listing.list_objects import list_objects

    clients = Clients()
    signer = clients.s3_signer(BUCKET)
    found = list_objects(clients.s3, BUCKET, PREFIX, signer=signer, requests=requests)
    yield ""
    for each in found:
        yield each.key


def list_with_paginator(_: int) -> Iterator[str]:
    """List keys with boto3's paginator."""
    import boto3

    client = boto3.client("s3")
    yield ""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=PREFIX):
        for each in page.get("Contents", ()):
            yield each["Key"]


VARIANTS = {
    "boto3 paginator": (list_with_paginator, 1),
    "ddbload, page by page": (list_with_ddbload, 1),
    "ddbload": (list_with_ddbload, 16),
}


def measure_listing(name: str) -> dict[str, Any]:
    """Measure one listing in this process."""
    variant, requests = VARIANTS[name]
    keys = variant(requests)
    next(keys)
    digest = hashlib.sha256()
    count = 0
    began, used = time.perf_counter(), time.process_time()
    for key in keys:
        digest.update(key.encode() + b"\n")
        count += 1
    return {
        "keys": count,
        "digest": digest.hexdigest(),
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - used,
    }


@contextmanager
def bucket_server(module: str = "bench.bucket") -> Iterator[str]:
    """Start a bucket's process, yield its URL, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None  # noqa: S101 - for type checkers
        yield json.loads(process.stdout.readline())["endpoint"]
    finally:
        end_process(process)


def control(endpoint: str, path: str, settings: dict[str, Any] | None = None) -> Any:
    """Send a control request to the bucket."""
    data = None if settings is None else json.dumps(settings).encode()
    request = urllib.request.Request(f"{endpoint}{path}", data)  # noqa: S310 - our own process's
    with DIRECT.open(request) as answer:
        return json.load(answer)


def run_in_process(module: str, name: str, endpoint: str, *more: str) -> dict[str, Any]:
    """Measure a variant in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--one", name, *more],
        cwd=ROOT,
        env={**isolated_environment(), "PYTHONPATH": str(ROOT), "AWS_ENDPOINT_URL_S3": endpoint},
        stdout=subprocess.PIPE,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure all variants, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how fast a prefix is listed.")
    parser.add_argument("--objects", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--latency", type=float, default=30.0, help="milliseconds per page")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="default: %(default)s")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure_listing(options.one)))
        return
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(
        f"{python}, {platform.machine()}, {os.cpu_count()} cores, {options.latency:g} ms per page"
    )
    print(
        f"{'shape':10}{'variant':24}{'s':>8}{'CPU s':>8}{'pages':>7}{'faster':>8}{'less CPU':>10}"
    )
    with bucket_server() as endpoint:
        for shape in options.shapes.split(","):
            compare(endpoint, shape, options)


def compare(endpoint: str, shape: str, options: Any) -> None:
    """Run all variants in rotated order, and print their medians."""
    keys = bucket_keys(shape, options.objects)
    right = hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    names = list(VARIANTS)
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            settings = {
                "shape": shape,
                "objects": options.objects,
                "latency": options.latency / 1000,
            }
            control(endpoint, "/reset", settings)
            one = run_in_process("bench.listing", name, endpoint)
            if one["digest"] != right:
                sys.exit(f"refused: {name} lists other keys, or another order, for {shape}")
            found[name].append({**one, "pages": control(endpoint, "/counters")["pages"]})
    plain = {
        what: statistics.median(each[what] for each in found[names[0]])
        for what in ("seconds", "cpu")
    }
    for name in names:
        wall, cpu, pages = (
            statistics.median(each[what] for each in found[name])
            for what in ("seconds", "cpu", "pages")
        )
        ratios = f"{plain['seconds'] / wall:8.1f}{plain['cpu'] / cpu:10.1f}"
        print(f"{shape:10}{name:24}{wall:8.2f}{cpu:8.2f}{pages:7.0f}{ratios}")


if __name__ == "__main__":
    main()
