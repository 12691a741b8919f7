"""Options that make up a payload: what to read, how to map it, and how to write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ddbload.cli.hints import FORMAT_HINTS, MODE_HINTS
from ddbload.cli.options import (
    DOLLARS,
    HintedChoice,
    MaxRejectsType,
    MaxWcuType,
    decorate,
    input_option,
    run_option,
    types_option,
    writing_option,
)
from ddbload.contracts.options import (
    ASYNC,
    DEFAULT_CHUNK_BYTES,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_REJECTS,
    ENGINES,
    ON_EMPTY,
    SCANS,
)
from ddbload.contracts.payload import NULL_POLICIES, OMIT, TYPES
from ddbload.contracts.source import (
    AUTO,
    BY_NAME,
    COMPRESSIONS,
    DEFAULT_MAX_EXPANSION,
    DUPLICATES,
    FORMATS,
    LAYOUTS,
    MATCHES,
    REFUSE,
)
from ddbload.dynamodb.write_modes import PUT, WRITING_MODES

_F = TypeVar("_F", bound=Callable[..., Any])

_MAX_REJECTS = run_option(
    "--max-rejects",
    metavar="N|N%",
    type=MaxRejectsType(),
    default=DEFAULT_MAX_REJECTS,
    show_default=True,
    help="Fail when more than N rows are rejected, or more than N percent of all rows.",
)
_SOURCE = (
    input_option(
        "--manifest", is_flag=True, help="Read the files or URIs that SOURCE lists, one a line."
    ),
    input_option(
        "--format",
        "format_",
        type=HintedChoice([AUTO, *FORMATS], FORMAT_HINTS),
        default=AUTO,
        show_default=True,
        help="Format of the source; json is one object a line, or as --layout says. auto detects it"
        " from the first bytes and the name.",
    ),
    input_option(
        "--layout",
        type=click.Choice([AUTO, *LAYOUTS]),
        default=AUTO,
        show_default=True,
        help="How the objects of JSON are written: one a line, in an array, in an array within an"
        " object (such as the output of a scan), or as values over several lines.",
    ),
    input_option(
        "--delimiter",
        metavar="TEXT",
        help="Field delimiter: tab, comma, pipe, semicolon, space, or one or more characters; a"
        r" control character as \x01.",
        show_default="detected; a tab with --format tsv",
    ),
    input_option(
        "--quote",
        metavar="CHAR",
        default='"',
        help="Quote character; 'none' if the file has none.",
        show_default=True,
    ),
    input_option(
        "--escape",
        metavar="CHAR",
        help=r"Escape character, such as \: the character after it is taken as it is.",
        show_default="none; quotes are doubled",
    ),
    input_option("--comment", metavar="TEXT", help="Skip lines that begin with TEXT, such as #."),
    input_option(
        "--skip-lines",
        metavar="N",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Skip N lines before the header.",
    ),
    input_option(
        "--header/--no-header",
        default=None,
        help="Take the first row as column names, or as data.",
        show_default="--header; --no-header with --columns",
    ),
    input_option(
        "--columns",
        metavar="A,B,...",
        help="Column names, in the order of the file.",
        show_default="the header; without one c1,c2,...",
    ),
    input_option(
        "--match",
        type=click.Choice(MATCHES),
        default=BY_NAME,
        show_default=True,
        help="Several files with headers: match columns with the first file's by name, in any order"
        " and without those that a file lacks, or by position, where every header must be equal.",
    ),
    input_option(
        "--duplicate-columns",
        type=click.Choice(DUPLICATES),
        default=REFUSE,
        show_default=True,
        help="For columns with the same name: refuse the file, or number them (name, name_2).",
    ),
    input_option(
        "--encoding",
        metavar="NAME",
        default=AUTO,
        show_default=True,
        help="Character encoding, such as utf-16 or latin-1. auto uses the byte order mark;"
        " without one, UTF-8.",
    ),
    input_option(
        "--compression",
        type=click.Choice([AUTO, *COMPRESSIONS]),
        default=AUTO,
        show_default=True,
        help="Compression of the source. auto detects it from the first bytes.",
    ),
    input_option(
        "--max-expansion",
        metavar="N",
        type=click.IntRange(1),
        default=DEFAULT_MAX_EXPANSION,
        show_default=True,
        help="Refuse compressed data that expands more than N times.",
    ),
    input_option(
        "--max-row-bytes",
        metavar="N",
        type=click.IntRange(1),
        show_default="16777216; 1048576 with --scan edges",
        help="Fail at a row longer than N bytes; usually a quote is not closed.",
    ),
    types_option(
        "--types",
        metavar="A=TYPE,...",
        multiple=True,
        help=f"Column types, such as year=N,ok=BOOL or year:number: {', '.join(TYPES)}, or their"
        " usual names. Key attributes take the table's types, other columns are S. May be"
        " repeated.",
    ),
    types_option(
        "--infer-types",
        is_flag=True,
        help="Detect from the first rows which columns hold numbers or booleans.",
    ),
    types_option(
        "--rename",
        metavar="OLD=NEW,...",
        multiple=True,
        help="Rename columns: column OLD becomes attribute NEW. May be repeated.",
    ),
    types_option(
        "--drop", metavar="A,B,...", multiple=True, help="Leave columns out. May be repeated."
    ),
    types_option(
        "--set",
        "set_",
        metavar="NAME=TEXT",
        multiple=True,
        help="Add an attribute, such as kind=book, or pk=USER#{id} with the value of column id;"
        " {id|trim|lower} passes it through filters: trim, lower, upper, hmac. May be repeated.",
    ),
    types_option(
        "--where",
        metavar="COMPARISON",
        multiple=True,
        help="Take only rows that match, such as country=DE, or year>=2000 with --types year=N:"
        " = != < <= > >=, by the column's type. country= is true without a value. May be"
        " repeated; all must match.",
    ),
    types_option(
        "--null",
        "nulls",
        metavar="TEXT",
        multiple=True,
        help=r"Text that means no value, such as \N. An empty field always does. May be repeated.",
    ),
    types_option(
        "--null-policy",
        type=click.Choice(NULL_POLICIES),
        default=OMIT,
        show_default=True,
        help="For a field without a value: omit the attribute, write type NULL, write an empty"
        " string, or reject the row.",
    ),
)
_WRITING = (
    writing_option(
        "--mode",
        type=HintedChoice(WRITING_MODES, MODE_HINTS),
        default=PUT,
        show_default=True,
        help="put: write each row, replacing the item with its key. insert: skip rows whose key the"
        " table has. last-wins: keep the last row of each key, across runs. update: set the row's"
        " attributes and leave the item's others. delete: delete the listed keys.",
    ),
    writing_option(
        "--on-empty",
        type=click.Choice(ON_EMPTY),
        help="With update: keep the attribute of an empty field, or remove it from the item.",
        show_default="keep",
    ),
    writing_option(
        "--add",
        metavar="A,B,...",
        multiple=True,
        help="With update: add to these sets (SS, NS, BS) instead of replacing them. May be"
        " repeated.",
    ),
    writing_option(
        "--only-existing",
        is_flag=True,
        help="With update: skip rows whose item the table does not have.",
    ),
    writing_option(
        "--condition",
        metavar="EXPR",
        help="With put, update and delete: skip rows for whose item this DynamoDB condition is"
        " false. {column} is the row's value, #name an attribute whose name is a reserved word:"
        " 'attribute_not_exists(pk) OR #version < {version}'.",
    ),
    writing_option(
        "--position-attribute",
        metavar="NAME",
        help="With last-wins: attribute that stores each row's position.",
    ),
    writing_option(
        "--max-wcu",
        metavar="N|N%",
        type=MaxWcuType(),
        help="Use at most N write capacity units a second, index writes included, or N percent of"
        " the table's capacity.",
        show_default="as many as the table accepts",
    ),
    writing_option(
        "--max-cost",
        metavar="DOLLARS",
        type=DOLLARS,
        help="Stop before the write units of the run cost more.",
        show_default="no limit",
    ),
    writing_option(
        "--unit-price",
        metavar="DOLLARS",
        type=DOLLARS,
        help="Price of a million write units, for --max-cost and the report.",
        show_default="us-east-1's list price",
    ),
    writing_option(
        "--prewarm",
        metavar="N",
        type=click.IntRange(1),
        help="First raise an on-demand table's warm throughput to N write units a second, paid once"
        " and asked about; plan shows the price.",
    ),
    writing_option(
        "--require-backup",
        is_flag=True,
        help="Refuse a table without point-in-time recovery.",
    ),
    writing_option(
        "--concurrency",
        metavar="N",
        type=click.IntRange(1, 256),
        default=DEFAULT_CONCURRENCY,
        show_default=True,
        help="Requests in flight per process.",
    ),
    writing_option(
        "--engine",
        type=click.Choice(ENGINES),
        default=ASYNC,
        show_default=True,
        help="HTTP engine. async needs the least CPU; sync sends one request at a time.",
    ),
    run_option(
        "--chunk-bytes",
        metavar="N",
        type=click.IntRange(1),
        default=DEFAULT_CHUNK_BYTES,
        show_default=True,
        help="Size of the chunks that are imported in parallel; raised if there would be more than"
        " 20,000.",
    ),
    run_option(
        "--scan",
        type=click.Choice([AUTO, *SCANS]),
        default=AUTO,
        show_default=True,
        help="Before the first write, read all of the source (whole), or only windows around the"
        " places where it is cut (edges). With edges, rows may be written before a broken row"
        " is found; the run fails all the same. auto reads sources up to 2 GiB as a whole.",
    ),
    _MAX_REJECTS,
)


def source_options(command: _F) -> _F:
    """Add the options for reading and mapping the source."""
    return decorate(command, _SOURCE)


def import_options(command: _F) -> _F:
    """Add the options for reading, mapping and writing."""
    return decorate(command, (*_SOURCE, *_WRITING))


def max_rejects_option(command: _F) -> _F:
    """Add --max-rejects to a command without the other options for writing."""
    return decorate(command, (_MAX_REJECTS,))
