"""`ddbload ls`: what a bucket has."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ddbload.cli.options import aws_options
from ddbload.cli.output import EXIT_DONE, EXIT_FAILED, printable, tell
from ddbload.errors import InvalidUsage

if TYPE_CHECKING:
    from ddbload.source.s3_listing.list_page import ListedFolder, ListedObject

_AT_ONCE = 1000
"""Lines that are written together."""


@click.command("ls", short_help="List objects in S3, quickly.")
@click.argument("place")
@click.option("--long", "-l", "is_long", is_flag=True, help="Size, time and storage class as well.")
@click.option("--folders", is_flag=True, help="Only what is right under PLACE; folders end with /.")
@click.option("--after", metavar="KEY", help="Only keys beyond this one.")
@click.option("--count", "only_count", is_flag=True, help="Only how many, and their bytes in all.")
@click.option(
    "--requests",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Pages asked for at once; 1: one after the other.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines; with --count one object.")
@aws_options
def ls_command(
    place: str,
    is_long: bool,
    folders: bool,
    after: str | None,
    only_count: bool,
    requests: int,
    as_json: bool,
    **aws: Any,
) -> int:
    """List the objects under PLACE: s3://bucket, s3://bucket/prefix or s3://bucket/in/*.csv.

    One URI a line, in the order of keys, everything below the prefix. In a pattern * and ? stand
    for characters within one folder, ** for anything, [..] for one of several.
    """
    bucket, name = _parts(place)
    found = _found(bucket, name, folders, after, requests, aws)
    try:
        if only_count:
            click.echo(_counted(found, as_json))
        elif as_json:
            return _write(json.dumps(_object(each), ensure_ascii=False) for each in found)
        else:
            return _write(_lines(found, f"s3://{bucket}/", is_long))
    finally:
        found.close()
    return EXIT_DONE


def _parts(place: str) -> tuple[str, str]:
    bucket, _, name = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://") or not bucket:
        raise InvalidUsage(f"{place} is no place in S3: write s3://bucket or s3://bucket/prefix")
    return bucket, name


def _found(
    bucket: str, name: str, folders: bool, after: str | None, requests: int, aws: dict[str, Any]
) -> Generator[ListedObject | ListedFolder]:
    from ddbload.aws.boto_clients import AwsSettings
    from ddbload.aws.clients import Clients
    from ddbload.source.catalogs.globs import Glob, has_wildcards
    from ddbload.source.s3_listing.list_objects import list_level, list_objects

    glob = Glob(name) if has_wildcards(name) else None
    if folders and (glob is not None or after is not None):
        raise InvalidUsage("--folders goes with a prefix, and neither with a pattern nor --after")
    clients = Clients(AwsSettings(**aws))
    signer = clients.s3_signer(bucket)
    if folders:
        yield from list_level(clients.s3, bucket, name, signer=signer)
        return
    prefix = name if glob is None else glob.prefix
    objects = list_objects(
        clients.s3, bucket, prefix, signer=signer, after=after, requests=requests
    )
    try:
        if glob is None:
            yield from objects
        else:
            matches = glob.matches
            yield from (each for each in objects if matches(each.key))
    finally:
        objects.close()


def _counted(found: Iterable[ListedObject | ListedFolder], as_json: bool) -> str:
    objects = folders = size = 0
    for each in found:
        # A folder has but its prefix.
        if len(each) > 1:
            objects += 1
            size += each[1]
        else:
            folders += 1
    if as_json:
        return json.dumps({"objects": objects, "folders": folders, "bytes": size})
    counts = {"folder": folders, "object": objects, "byte": size}
    if not folders:
        del counts["folder"]
    return ", ".join(f"{n:,} {what}{'' if n == 1 else 's'}" for what, n in counts.items())


def _object(each: ListedObject | ListedFolder) -> dict[str, Any]:
    return each._asdict()


def _lines(
    found: Iterable[ListedObject | ListedFolder], start: str, is_long: bool
) -> Iterator[str]:
    # A pipe gets keys as they are.
    show = printable if sys.stdout.isatty() else str
    for each in found:
        uri = show(start + each[0])
        if not is_long:
            yield uri
        elif len(each) > 1:
            _, size, _, storage, modified = each
            yield f"{size:>15}  {show(modified):24}  {show(storage):12}  {uri}"
        else:
            yield f"{'folder':>15}  {'':24}  {'':12}  {uri}"


def _write(lines: Iterator[str]) -> int:
    """Write them; the exit status."""
    # The first line need not wait for others.
    size = 1
    while some := list(islice(lines, size)):
        try:
            sys.stdout.write("\n".join([*some, ""]))
            sys.stdout.flush()
        except OSError as error:
            # Nor may what is left in the buffer fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                tell(f"ddbload: standard output: {error.strerror}")
            return EXIT_FAILED
        size = _AT_ONCE
    return EXIT_DONE
