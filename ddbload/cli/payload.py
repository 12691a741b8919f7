"""Options that say what to load and how, and the payload they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ddbload import contracts, modes
from ddbload.cli.options import as_usage, character, names_list, types_map
from ddbload.contracts import format_of
from ddbload.errors import InvalidPayload, InvalidUsage
from ddbload.fields import is_text

F = TypeVar("F", bound=Callable[..., Any])

LIMITS = (
    *("engine", "concurrency", "chunk_bytes", "max_wcu", "mode", "position_attribute"),
    *("max_rejects", "max_row_bytes"),
)

_READING = (
    click.option(
        "--format",
        "format_",
        type=click.Choice(list(contracts.FORMATS)),
        help="[default: tsv for names that end in .tsv or .tab, otherwise csv]",
    ),
    click.option("--delimiter", metavar="CHAR", help=r"Between fields; \t for a tab."),
    click.option(
        "--quote", metavar="CHAR", default='"', help="'none' for none.", show_default=True
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first row names the columns. [default: yes, unless --columns does]",
    ),
    click.option(
        "--columns", metavar="A,B,...", help="Names; without a header, c1,c2,... otherwise."
    ),
    click.option(
        "--types", metavar="A=N,...", help="S, N or BOOL; keys are as the table has them."
    ),
    click.option(
        "--encoding", default="utf-8", show_default=True, help="UTF-8, with or without BOM."
    ),
)
_WRITING = (
    click.option(
        "--engine", type=click.Choice(contracts.ENGINES), default="async", show_default=True
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 256),
        default=contracts.DEFAULT_CONCURRENCY,
        show_default=True,
        help="Requests in flight in one process.",
    ),
)
_LIMITS = (
    click.option(
        "--chunk-bytes",
        type=click.IntRange(1),
        default=contracts.DEFAULT_CHUNK_BYTES,
        show_default=True,
        help="Size of a byte range; more where there would be over 20,000 of them.",
    ),
    click.option("--max-wcu", type=click.FloatRange(1.0), help="Write units a second, at most."),
    click.option(
        "--mode",
        type=click.Choice(modes.MODES),
        default=modes.PUT,
        show_default=True,
        help="put: write, whatever is there. insert: only where nothing is. last-wins: the last row"
        " of a key stays, over all runs. delete: the file lists keys.",
    ),
    click.option(
        "--position-attribute",
        metavar="NAME",
        help="For last-wins, where it keeps in each item where its row stands.",
    ),
    click.option(
        "--max-rejects",
        type=click.IntRange(0),
        default=contracts.DEFAULT_MAX_REJECTS,
        show_default=True,
        help="The run fails when more rows are rejected.",
    ),
    click.option(
        "--max-row-bytes",
        type=click.IntRange(1),
        default=contracts.DEFAULT_MAX_ROW_BYTES,
        show_default=True,
        help="The run fails at a longer row: most often a quote is not closed.",
    ),
)


def reading_options(command: F) -> F:
    """How the source is read, and by which engine it is written."""
    return source_options(_decorated(command, _WRITING))


def source_options(command: F) -> F:
    """How the source is read."""
    return _decorated(command, _READING)


def limit_options(command: F) -> F:
    """How large chunks are, and what a run may use up."""
    return _decorated(command, _LIMITS)


def payload_of(
    source: str, place: dict[str, str], table: str, run: str | None, workers: int, given: Any
) -> dict[str, Any]:
    """The payload of these options, checked. Raises `InvalidUsage`.

    `source`: as it was written; `place`: where that is; `given`: the options of this module.
    """
    delimiter, quote, columns = given["delimiter"], given["quote"], given["columns"]
    reading = {
        "format": given["format_"] or format_of(source),
        "delimiter": None if delimiter is None else character(delimiter),
        "quote": None if quote in ("", "none") else character(quote),
        "header": given["header"],
        "columns": None if columns is None else names_list(columns),
        "encoding": given["encoding"],
    }
    # A command that writes to no table has not all of them.
    limits = {name: given[name] for name in LIMITS if name in given}
    payload: dict[str, Any] = {
        "run": {"id": run},
        "source": {**reading, **place},
        "target": {"table": table},
        "types": {} if given["types"] is None else types_map(given["types"]),
        "options": {"workers": workers, **limits},
    }
    _check(payload)
    return payload


def object_named(source: str) -> dict[str, str]:
    """The bucket and key of s3://bucket/key. Raises `InvalidUsage`."""
    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise InvalidUsage(f"{source} names no object; write s3://bucket/key")
    if not is_text(source):
        raise InvalidUsage("that bucket and key are not text in UTF-8, so S3 has no such object")
    return {"bucket": bucket, "key": key}


def _check(payload: dict[str, Any]) -> None:
    from ddbload.rows.dialect import Dialect

    try:
        Dialect.of(contracts.Payload.from_json(payload).source)
    except InvalidPayload as error:
        raise as_usage(error) from None


def _decorated(command: F, options: tuple[Callable[[Any], Any], ...]) -> F:
    # The last decorator is the first in the help.
    for option in reversed(options):
        command = option(command)
    return command
