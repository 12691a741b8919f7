"""Options of the command line that describe an import, and the payload built from them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import click

from ddbload.cli.hints import FORMAT_HINTS, MODE_HINTS, refuse_foreign_source
from ddbload.cli.options import (
    DOLLARS,
    MAX_REJECTS,
    MAX_WCU,
    Gathered,
    GroupedOption,
    input_option,
    writing_option,
)
from ddbload.contracts.column_mapping import check_dialect, column_changes
from ddbload.contracts.messages import (
    INPUT,
    MAX_WHOLE,
    TYPES_AND_MAPPING,
    JsonRule,
    Option,
    declared,
    typed_fields,
)
from ddbload.contracts.options import Options
from ddbload.contracts.payload import (
    PAYLOAD_PARTS,
    TABLE_NAME,
    Payload,
    canonical_type,
    named_options,
    payload_of,
)
from ddbload.contracts.source import AUTO, DELIMITERS, Source
from ddbload.errors import DuplicateColumn, InvalidPayload, InvalidUsage
from ddbload.rows.file_signatures import compression_by_name
from ddbload.runs.python_source import place_of
from ddbload.source.local_file import is_pipe

_TYPES: Mapping[str, Any] = {
    "max_wcu": MAX_WCU,
    "max_cost": DOLLARS,
    "unit_price": DOLLARS,
    "max_rejects": MAX_REJECTS,
}
_HINTS = {"format": FORMAT_HINTS, "mode": MODE_HINTS}
_FORMED_TYPE = re.compile(r"(.+?)[=:]((?:date|epoch):.*%.*)", re.IGNORECASE | re.DOTALL)
"""A column, and a type with a format of times, which may have signs of its own."""
_HEXADECIMAL = re.compile(r"\\x[0-9a-fA-F]{2}")
r"""Character given by its code, such as the `\x01` between fields of Hive."""
_DATA_SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet")
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "pipe": "|", "semicolon": ";", "space": " "}


def _click_option(each: Option, hint: Any, rule: JsonRule) -> Any:
    """Make the command-line option that a payload field declares."""
    kinds = get_args(hint) or (hint,)
    choices = each.choices or rule.choices
    settings: dict[str, Any] = {}
    if choices:
        # `auto` is listed first.
        listed = sorted(choices, key=lambda choice: choice != AUTO)
        settings["type"] = click.Choice(listed)
    elif each.field in _TYPES:
        settings["type"] = _TYPES[each.field]
    elif int in kinds:
        most = None if rule.most == MAX_WHOLE else rule.most
        settings["type"] = click.IntRange(rule.least, most)
    elif hint is bool and "/" not in each.flag:
        settings["is_flag"] = True
    # A list or a map of texts. The names of --columns go in one text.
    if get_origin(hint) in (tuple, Mapping):
        settings["multiple"] = True
    else:
        settings["default"] = each.typed
        settings["show_default"] = each.default_text or (
            each.typed is not None and each.typed is not False
        )
    return lambda name: GroupedOption(
        [each.flag, name],
        group=each.group,
        common=each.common,
        hints=_HINTS.get(each.field),
        help=each.help,
        metavar=each.metavar,
        **settings,
    )


def _declare_options(kind: Any, named: Callable[[Option], bool] = bool) -> dict[str, Any]:
    """Declare options for the fields of a message class, by parameter name."""
    found = {each.field: each for each in declared(kind)}
    return {
        found[field.name].name: _click_option(found[field.name], hint, rule)
        for field, hint, rule in typed_fields(kind)
        if field.name in found and named(found[field.name])
    }


_SOURCE = {
    "manifest": input_option(is_flag=True, help="Read the files that SOURCE lists, one a line."),
    **{
        name: each
        for kind in PAYLOAD_PARTS.values()
        for name, each in _declare_options(
            kind, lambda each: each.group in (INPUT, TYPES_AND_MAPPING)
        ).items()
    },
}
source_options: Any = Gathered(dict, _SOURCE)
"""Options for reading and mapping the source."""
import_options: Any = Gathered(
    dict,
    {
        **_SOURCE,
        **_declare_options(Options, lambda each: each.group != INPUT),
        "prewarm": writing_option(
            metavar="N",
            common=False,
            type=click.IntRange(1),
            help="First raise an on-demand table's warm throughput to N write units a second, paid"
            " once and asked about; plan shows the price.",
        ),
    },
)
"""Options for reading, mapping and writing."""
max_rejects_option = _declare_options(Options)["max_rejects"]


def build_payload(
    sources: Sequence[str],
    table: str,
    run: str | None,
    workers: int | str,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Build a checked payload from SOURCE..., TABLE and options.

    Args:
        sources: SOURCE... as typed.
        table: Name of the table.
        run: Run id; None to leave it out.
        workers: Chunks to import at once, or `auto`.
        given: Values of `import_options`, by parameter name.

    Raises:
        InvalidUsage: If options are wrong or contradict each other.
    """
    place = _parse_sources(sources, manifest=given["manifest"])
    _refuse_unused(given)
    # Without these there is the dialect's, or what is usual.
    unset = {name for name in ("delimiter", "quote", "escape") if given[name] is None}
    named = {
        name: _PARSERS.get(name, lambda value: value)(given[name])
        for name in named_options()
        if name in given and name not in unset
    }
    payload = payload_of(place, table, named, run=run, workers=workers)
    _check(payload)
    return payload


def _parse_sources(sources: Sequence[str], *, manifest: bool) -> dict[str, Any]:
    """Parse SOURCE... into fields of the payload's `source`. Raises `InvalidUsage`.

    With `manifest`, SOURCE names a file that lists the sources.
    """
    for source in sources:
        refuse_foreign_source(source)
    if manifest:
        if len(sources) > 1:
            raise InvalidUsage("--manifest reads one list of sources: give one SOURCE")
        return {"manifest": sources[0]}
    for name in sources if len(sources) > 1 else ():
        if name == "-" or is_pipe(name):
            raise InvalidUsage(
                f"{name} is a stream, which is imported by itself: give it as the only SOURCE, or"
                " write it to a file first"
            )
    try:
        return place_of(sources[0] if len(sources) == 1 else sources)
    except InvalidPayload as error:
        raise InvalidUsage(error.message) from None


def check_order(sources: Sequence[str], table: str) -> None:
    """Raise `InvalidUsage` if the last argument, which should be the table, is a file."""
    is_file = table.startswith("s3://") or "/" in table
    has_suffix = is_data_file(table)
    first = sources[0]
    is_source = first == "-" or first.startswith("s3://") or Path(first).exists()
    if (is_file or has_suffix) and not is_source and TABLE_NAME.fullmatch(first):
        raise InvalidUsage(
            f"the arguments are swapped: {table} is a file, and SOURCE comes before TABLE: give"
            f" {table} {first}"
        )
    if table.startswith("s3://") or (has_suffix and Path(table).is_file()):
        raise InvalidUsage(
            f"TABLE is missing: the last argument, {table}, is a file; end with the table's name"
        )
    for name in sources[1:]:
        if TABLE_NAME.fullmatch(name) and not is_data_file(name) and not Path(name).exists():
            raise InvalidUsage(
                f"{name} is neither a file nor the last argument, which is the table: a command"
                " loads one table, and ddbload run a job file with several"
            )


def is_data_file(name: str) -> bool:
    """Return whether a name has the suffix of a data file."""
    return compression_by_name(name) is not None or name.lower().endswith(_DATA_SUFFIXES)


def _refuse_unused(given: Mapping[str, Any]) -> None:
    """Raise `InvalidUsage` for options that do not apply to the format."""
    if given["format"] in (AUTO, *DELIMITERS):
        return
    for each in declared(Source):
        if each.delimited and given[each.name] != each.typed:
            option = "--no-header" if given[each.name] is False else each.flag
            raise InvalidUsage(
                f"{option} is for delimited text, and the format is {given['format']}"
            )


def _character(text: str) -> str:
    r"""Parse a delimiter or quote; `\t` and `tab` mean a tab, `\x01` that character."""
    if _HEXADECIMAL.fullmatch(text):
        return chr(int(text[-2:], 16))
    return "\t" if text in ("\\t", "tab") else text


def _parse_names(text: str) -> list[str]:
    """Parse `a,b`. Names that contain a comma, quote or line end are quoted as in CSV."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InvalidUsage(f"{text!r} is not a list of names: {error}") from None
    if len(rows) > 1:
        raise InvalidUsage(f"{text!r} is not a list of names: it has {len(rows)} lines")
    return rows[0] if rows else []


def _entries(texts: Sequence[str]) -> list[str]:
    """Split the values of a repeatable option, each of which may hold several entries."""
    return [entry for text in texts for entry in _parse_names(text)]


_Pair = tuple[str, str, str]
"""Name, sign and value of an entry. An entry without a sign is refused."""


def _parse_pairs(
    option: str, form: str, entries: Iterable[str], split: Callable[[str], _Pair]
) -> dict[str, str]:
    """Parse the `a=b` entries of a repeatable option into a dict.

    `option` and `form` are used in errors. Raises `InvalidUsage`.
    """
    found: dict[str, str] = {}
    for entry in entries:
        name, sign, value = split(entry)
        if not sign or not name:
            raise InvalidUsage(f"{option}: {entry!r} is not of the form {form}")
        if found.setdefault(name, value) != value:
            raise InvalidUsage(
                f"{option} names {name!r} twice, with {found[name]!r} and with {value!r}: give one"
            )
    return found


def _split_pair(entry: str, sign: str = "=") -> _Pair:
    """Split `old=new`. Both sides must have text."""
    name, found, value = entry.rpartition(sign)
    return name, found if value else "", value


def _split_type(entry: str) -> _Pair:
    """Split `year=N` or `year:N`. The column's name may contain the other sign."""
    formed = _FORMED_TYPE.fullmatch(entry)
    if formed is not None:
        return formed[1], "=", formed[2]
    name, sign, kind = _split_pair(entry, "=" if "=" in entry else ":")
    # A format of times without a directive is refused with the payload.
    return name, sign, kind if ":" in kind else canonical_type(kind) or kind


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "delimiter": lambda text: text and (DELIMITER_NAMES.get(text.lower()) or _character(text)),
    "quote": lambda text: None if text in (None, "", "none") else _character(text),
    "escape": lambda text: None if text in (None, "", "none") else text,
    "comment": lambda text: text or None,
    "columns": lambda text: None if text is None else _parse_names(text),
    "encoding": lambda name: AUTO if name.lower() == AUTO else name,
    "types": lambda texts: _parse_pairs(
        "--types", "column=TYPE, such as year=N or year:number", _entries(texts), _split_type
    ),
    "rename": lambda texts: _parse_pairs("--rename", "old=new", _entries(texts), _split_pair),
    "drop": lambda texts: list(dict.fromkeys(_entries(texts))),
    # The text of an attribute may have commas and signs.
    "set": lambda texts: _parse_pairs(
        "--set", "attribute=text", texts, lambda each: each.partition("=")
    ),
    "where": list,
    "null": lambda texts: list(dict.fromkeys(texts)),
    "add": lambda texts: list(dict.fromkeys(_entries(texts))),
}
"""Functions that parse an option's text, by parameter name."""
_PLACES = {
    "source.path": "'SOURCE'",
    "source.manifest": "'--manifest'",
    "source.sources": "'SOURCE...'",
    **dict.fromkeys(
        ("source.bucket", "source.key", "source.prefix", "source.glob"),
        "the bucket or key of 'SOURCE'",
    ),
    "target.table": "'TABLE'",
    "run.id": "'--run-id'",
    "options.workers": "'--workers'",
}
"""Names by which users give the other payload fields, for errors."""
_FIELD = re.compile(r"'([a-z_.]+)'")


def _check(payload: dict[str, Any]) -> None:
    """Check a payload before anything is read. Raises `InvalidUsage`."""
    try:
        checked = Payload.from_json(payload)
        check_dialect(checked.source)
    except InvalidPayload as error:
        raise _as_usage(error) from None
    try:
        column_changes(checked.mapping)
    except (InvalidPayload, DuplicateColumn) as error:
        raise InvalidUsage(error.message) from None


def _as_usage(error: InvalidPayload) -> InvalidUsage:
    """Replace names of payload fields in an error by names of options."""
    names = {
        f"{path}.{each.field}".lstrip("."): f"'{each.flag.partition('/')[0]}'"
        for path, each in named_options().values()
    } | _PLACES
    message = error.message.replace("'types.", "'--types ")
    return InvalidUsage(_FIELD.sub(lambda field: names.get(field[1], field[0]), message))
