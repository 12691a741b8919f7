"""`ddbload ls`: list objects in S3."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Iterator
from itertools import islice

import click

from ddbload.aws.clients import AwsSettings, Clients
from ddbload.cli.options import GroupedCommand, aws_options, input_option, output_option
from ddbload.cli.output import EXIT_DONE, print_stdout, printable, report_stdout_error, stdout_error
from ddbload.errors import InvalidUsage
from ddbload.source.catalogs.globs import Glob, has_wildcards
from ddbload.source.s3_listing.list_objects import list_level, list_objects
from ddbload.source.s3_listing.list_page import ListedFolder, ListedObject

_LINES_PER_WRITE = 1000


@click.command(
    "ls",
    cls=GroupedCommand,
    examples=(
        "ddbload ls s3://my-bucket/books/",
        "ddbload ls s3://my-bucket --folders",
        "ddbload ls 's3://my-bucket/in/**/*.csv' --count",
    ),
)
@click.argument("place")
@input_option(
    "--folders",
    is_flag=True,
    help="List one level: objects and folders directly under PLACE; folders end with /.",
)
@input_option("--after", metavar="KEY", help="List only keys that sort after KEY.")
@input_option(
    "--requests",
    metavar="N",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="Concurrent requests for pages; 1 lists page by page.",
)
@output_option(
    "--long", "-l", "is_long", is_flag=True, help="Show size, time and storage class as well."
)
@output_option(
    "--count", "only_count", is_flag=True, help="Show only the number of objects and their bytes."
)
@output_option(
    "--json", "as_json", is_flag=True, help="Print JSON lines; with --count, one JSON object."
)
@aws_options
def ls_command(
    place: str,
    is_long: bool,
    folders: bool,
    after: str | None,
    only_count: bool,
    requests: int,
    as_json: bool,
    aws: AwsSettings,
) -> int:
    """List the objects under PLACE: s3://bucket, s3://bucket/prefix or s3://bucket/in/*.csv.

    Prints one URI a line, in key order, for everything below the prefix. In a pattern, * and ?
    match characters except /, ** matches any characters, [..] one of those listed.
    """
    bucket, name = _parse_place(place)
    found = _list(bucket, name, folders, after, requests, aws)
    try:
        if only_count:
            print_stdout(_count(found, as_json))
        elif as_json:
            return _write(json.dumps(each._asdict(), ensure_ascii=False) for each in found)
        else:
            return _write(_lines(found, f"s3://{bucket}/", is_long))
    finally:
        found.close()
    return EXIT_DONE


def _parse_place(place: str) -> tuple[str, str]:
    bucket, _, name = place.removeprefix("s3://").partition("/")
    if not place.startswith("s3://") or not bucket:
        raise InvalidUsage(f"{place} is not an S3 URI: write s3://bucket or s3://bucket/prefix")
    return bucket, name


def _list(
    bucket: str, name: str, folders: bool, after: str | None, requests: int, aws: AwsSettings
) -> Generator[ListedObject | ListedFolder]:

    glob = Glob(name) if has_wildcards(name) else None
    if folders and (glob is not None or after is not None):
        raise InvalidUsage(
            "--folders needs a prefix, and cannot be combined with a pattern or --after"
        )
    clients = Clients(aws)
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


def _count(found: Iterable[ListedObject | ListedFolder], as_json: bool) -> str:
    objects = folders = size = 0
    for each in found:
        # A folder is a tuple of its prefix alone.
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


def _lines(
    found: Iterable[ListedObject | ListedFolder], start: str, is_long: bool
) -> Iterator[str]:
    # A pipe gets keys unescaped.
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
    """Write lines on stdout; return the exit status."""
    # The first line is written at once.
    size = 1
    while some := list(islice(lines, size)):
        try:
            sys.stdout.write("\n".join([*some, ""]))
            sys.stdout.flush()
        except OSError as error:
            return report_stdout_error(stdout_error() or error)
        size = _LINES_PER_WRITE
    return EXIT_DONE
