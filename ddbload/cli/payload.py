"""Options that say what to load and how, and the payload they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ddbload.cli.options import (
    as_usage,
    character,
    names_list,
    names_map,
    names_set,
    refuse_contradictions,
    settings_map,
    types_map,
)
from ddbload.contracts.json_reader import is_text
from ddbload.contracts.payload import (
    AUTO,
    COMPRESSIONS,
    DEFAULT_CHUNK_BYTES,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_EXPANSION,
    DEFAULT_MAX_REJECTS,
    DEFAULT_MAX_ROW_BYTES,
    DELIMITERS,
    ENGINES,
    FORMATS,
    NULL_POLICIES,
    OMIT,
    TSV,
    TYPES,
    Payload,
)
from ddbload.dynamodb.write_modes import MODES, PUT
from ddbload.errors import InvalidPayload, InvalidUsage

F = TypeVar("F", bound=Callable[..., Any])

LIMITS = (
    *("engine", "concurrency", "chunk_bytes", "max_wcu", "mode", "position_attribute"),
    *("max_rejects", "max_row_bytes"),
)

_READING = (
    click.option(
        "--format",
        "format_",
        type=click.Choice([AUTO, *FORMATS]),
        default=AUTO,
        show_default=True,
        help="json: one object a line. auto: by the first bytes, and the name.",
    ),
    click.option(
        "--delimiter",
        metavar="TEXT",
        help=r"Between fields, of any length; \t for a tab. [default: found out; for tsv a tab]",
    ),
    click.option(
        "--quote", metavar="CHAR", default='"', help="'none' for none.", show_default=True
    ),
    click.option(
        "--escape",
        metavar="CHAR",
        help=r"Has the next character stand for itself, such as \. [default: none; quotes are"
        " doubled]",
    ),
    click.option("--comment", metavar="TEXT", help="What lines begin with that are no rows."),
    click.option(
        "--skip-lines", type=click.IntRange(0), default=0, help="Lines before the header."
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
        "--encoding",
        default=AUTO,
        show_default=True,
        help="UTF-8, UTF-16, Latin-1, ... auto: by the byte order mark, else UTF-8.",
    ),
    click.option(
        "--compression",
        type=click.Choice([AUTO, *COMPRESSIONS]),
        default=AUTO,
        show_default=True,
    ),
    click.option(
        "--max-expansion",
        type=click.IntRange(1),
        default=DEFAULT_MAX_EXPANSION,
        show_default=True,
        help="Bytes that one of compressed data may become, on the average, at most.",
    ),
    click.option(
        "--types",
        metavar="A=N,...",
        multiple=True,
        help=f"{', '.join(TYPES)}; keys are as the table has them. May be repeated.",
    ),
    click.option(
        "--infer-types",
        is_flag=True,
        help="Find out from the first rows which columns hold numbers or booleans.",
    ),
    click.option(
        "--rename",
        metavar="OLD=NEW,...",
        multiple=True,
        help="Columns' names, and attributes'; may be repeated.",
    ),
    click.option(
        "--drop",
        metavar="A,B,...",
        multiple=True,
        help="Columns that become no attributes; may be repeated.",
    ),
    click.option(
        "--set",
        "set_",
        metavar="NAME=TEXT",
        multiple=True,
        help="An attribute of its own, such as kind=book or pk=USER#{id}; may be repeated.",
    ),
    click.option(
        "--null",
        "nulls",
        metavar="TEXT",
        multiple=True,
        help=r"What stands for no value, such as \N, besides nothing at all; may be repeated.",
    ),
    click.option(
        "--null-policy",
        type=click.Choice(NULL_POLICIES),
        default=OMIT,
        show_default=True,
        help="No value: no attribute, one of type NULL, an empty string, or a reject.",
    ),
)
_WRITING = (
    click.option("--engine", type=click.Choice(ENGINES), default="async", show_default=True),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 256),
        default=DEFAULT_CONCURRENCY,
        show_default=True,
        help="Requests in flight in one process.",
    ),
)
_LIMITS = (
    click.option(
        "--chunk-bytes",
        type=click.IntRange(1),
        default=DEFAULT_CHUNK_BYTES,
        show_default=True,
        help="Size of a byte range; more where there would be over 20,000 of them.",
    ),
    click.option("--max-wcu", type=click.FloatRange(1.0), help="Write units a second, at most."),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        default=PUT,
        show_default=True,
        help="put: write, whatever is there. insert: only where nothing is. last-wins: the last row"
        " of a key stays, over all runs. delete: the file lists keys. plan: check all, and write"
        " nothing.",
    ),
    click.option(
        "--position-attribute",
        metavar="NAME",
        help="For last-wins, where it keeps in each item where its row stands.",
    ),
    click.option(
        "--max-rejects",
        type=click.IntRange(0),
        default=DEFAULT_MAX_REJECTS,
        show_default=True,
        help="The run fails when more rows are rejected.",
    ),
    click.option(
        "--max-row-bytes",
        type=click.IntRange(1),
        default=DEFAULT_MAX_ROW_BYTES,
        show_default=True,
        help="The run fails at a longer row: most often a quote is not closed.",
    ),
)


_OF_TEXT = {
    "delimiter": None,
    "quote": '"',
    "escape": None,
    "comment": None,
    "header": None,
    "columns": None,
}
"""Options that only delimited text knows, each as it is where nobody gives it."""


def reading_options(command: F) -> F:
    """How the source is read, and by which engine it is written."""
    return source_options(_decorated(command, _WRITING))


def source_options(command: F) -> F:
    """How the source is read."""
    return _decorated(command, _READING)


def manifest_option(command: F) -> F:
    """--manifest."""
    return click.option(
        "--manifest", is_flag=True, help="SOURCE lists what is to be read, a path or URI a line."
    )(command)


def limit_options(command: F) -> F:
    """How large chunks are, and what a run may use up."""
    return _decorated(command, _LIMITS)


def payload_of(
    place: dict[str, str], table: str, run: str | None, workers: int, given: Any
) -> dict[str, Any]:
    """The payload of these options, checked. Raises `InvalidUsage`.

    `place`: where the source is; `given`: the options of this module.
    """
    _refuse_unused(given)
    columns, encoding = given["columns"], given["encoding"]
    reading = {
        "format": given["format_"],
        "delimiter": _delimiter(given),
        "quote": None if given["quote"] in ("", "none") else character(given["quote"]),
        "escape": given["escape"] or None,
        "comment": given["comment"] or None,
        "skip_lines": given["skip_lines"],
        "header": given["header"],
        "columns": None if columns is None else names_list(columns),
        "encoding": AUTO if encoding.lower() == AUTO else encoding,
        "compression": given["compression"],
        "max_expansion": given["max_expansion"],
    }
    mapping: dict[str, Any] = {
        "rename": names_map(given["rename"], "--rename", "old=new"),
        "drop": names_set(given["drop"]),
        "set": settings_map(given["set_"]),
    }
    refuse_contradictions(mapping["rename"], mapping["drop"], mapping["set"])
    # A command that writes to no table has not all of them.
    limits = {name: given[name] for name in LIMITS if name in given}
    payload: dict[str, Any] = {
        "run": {"id": run},
        "source": {**reading, **place},
        "target": {"table": table},
        "types": types_map(given["types"]),
        "infer_types": given["infer_types"],
        "mapping": mapping,
        "nulls": {"policy": given["null_policy"], "markers": list(dict.fromkeys(given["nulls"]))},
        "options": {"workers": workers, **limits},
    }
    _check(payload)
    return payload


def place_named(source: str, *, manifest: bool = False) -> dict[str, str]:
    """Where a source is: an object, a prefix (its end is a slash), a glob, or a path.

    `manifest`: the source lists what is to be read. Raises `InvalidUsage`.
    """
    if manifest:
        return {"manifest": source}
    if not source.startswith("s3://"):
        return {"path": source}
    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not is_text(source):
        raise InvalidUsage("that bucket and key are not text in UTF-8, so S3 has no such object")
    if not bucket or (not key and not source.endswith("/")):
        raise InvalidUsage(
            f"{source} names no object; write s3://bucket/key, or s3://bucket/prefix/"
        )
    if key == "" or key.endswith("/"):
        return {"bucket": bucket, "prefix": key}
    if any(character in key for character in "*?["):
        return {"bucket": bucket, "glob": key}
    return {"bucket": bucket, "key": key}


def _refuse_unused(given: Any) -> None:
    """Raise `InvalidUsage` for options that the named format has no use for."""
    if given["format_"] in (AUTO, *DELIMITERS):
        return
    for name, unset in _OF_TEXT.items():
        if given[name] != unset:
            option = "--no-header" if given[name] is False else f"--{name.replace('_', '-')}"
            raise InvalidUsage(
                f"{option} is for delimited text, and the format is {given['format_']}"
            )


def _delimiter(given: Any) -> str | None:
    if given["delimiter"] is not None:
        return character(given["delimiter"])
    # What a format has is its own; otherwise it is found out.
    return DELIMITERS["tsv"] if given["format_"] == TSV else AUTO


def _check(payload: dict[str, Any]) -> None:
    from ddbload.contracts.column_mapping import column_changes
    from ddbload.contracts.dialect import check_dialect

    try:
        checked = Payload.from_json(payload)
        check_dialect(checked.source)
        column_changes(checked.mapping)
    except InvalidPayload as error:
        raise as_usage(error) from None


def _decorated(command: F, options: tuple[Callable[[Any], Any], ...]) -> F:
    # The last decorator is the first in the help.
    for option in reversed(options):
        command = option(command)
    return command
