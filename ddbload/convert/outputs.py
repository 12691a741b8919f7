"""Which sink it is that an output names."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddbload.convert.sinks import FileSink, Sink, StreamSink
from ddbload.errors import OutputUnwritable
from ddbload.pipeline.context import Context

if TYPE_CHECKING:
    from ddbload.convert.shard_targets import ShardTarget


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is to be written, and how."""

    out: str
    """`-`, a file, a folder (one that is there, or with a slash at its end), or s3://bucket/prefix/."""
    compression: str | None
    """One of `sinks.COMPRESSIONS`. None: as a file's name says; gzip for parts."""
    part_bytes: int
    seed: int


def open_sink(wanted: OutputOptions, context: Context) -> Sink:
    """A sink to write to. Raises `OutputUnwritable`, `ExtraMissing` and AWS's errors."""
    out = wanted.out
    if out == "-":
        return StreamSink(sys.stdout.buffer, "standard output")
    if out.startswith("s3://") or out.endswith("/") or Path(out).is_dir():
        from ddbload.convert.sharded_sink import ShardedSink

        return ShardedSink(
            _target(out, context),
            compression=wanted.compression or "gzip",
            seed=wanted.seed,
            part_bytes=wanted.part_bytes,
        )
    if _is_special(out):
        try:
            # Where a shell has it append to a file, what the file has is to stay.
            return StreamSink(Path(out).open("ab"), out, own=True)
        except OSError as error:
            raise OutputUnwritable(f"{out}: {error.strerror}") from None
    return FileSink(out, wanted.compression)


def _target(out: str, context: Context) -> ShardTarget:
    from ddbload.convert.shard_targets import BucketShards, FolderShards

    if not out.startswith("s3://"):
        return FolderShards(out)
    bucket, _, prefix = out.removeprefix("s3://").partition("/")
    return BucketShards(context.clients.s3, bucket, prefix, retry_policy=context.retry_policy)


def _is_special(path: str) -> bool:
    """Whether something is there that cannot, or should not, be replaced by a file."""
    if path.startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
