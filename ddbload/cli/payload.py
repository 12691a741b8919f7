"""Build a payload from the options of `payload_options`."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ddbload.cli.foreign_addresses import refuse_foreign_source
from ddbload.contracts.payload import TABLE_NAME, Payload, canonical_type
from ddbload.contracts.source import AUTO, BY_NAME, DELIMITERS, REFUSE, TSV, source_fields
from ddbload.errors import InvalidPayload, InvalidUsage

_HEXADECIMAL = re.compile(r"\\x[0-9a-fA-F]{2}")
"""A character by its code, such as the `\\x01` between fields of Hive."""
_FIELD = re.compile(r"'(?:options|source)\.(\w+)'")
_PAYLOAD_OPTIONS = (
    *("engine", "concurrency", "chunk_bytes", "max_wcu", "mode", "position_attribute"),
    *("max_rejects", "max_row_bytes", "max_cost", "unit_price", "require_backup"),
    *("scan", "on_empty", "only_existing", "condition"),
)
"""Options that become fields of the payload's `options` under the same name."""
_DATA_SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet")
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "pipe": "|", "semicolon": ";", "space": " "}
_DELIMITED_ONLY = {
    "delimiter": None,
    "quote": '"',
    "escape": None,
    "comment": None,
    "header": None,
    "columns": None,
    "match": BY_NAME,
    "duplicate_columns": REFUSE,
}
"""Options that apply to delimited text alone, with their defaults."""


def build_payload(
    sources: Sequence[str],
    table: str,
    run: str | None,
    workers: int | str,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Build a checked payload from SOURCE..., TABLE and options.

    Args:
        sources: SOURCE... as it was typed.
        table: Name of the table.
        run: Run id, if it is known by now.
        workers: Chunks to import at once, or `auto`.
        given: Values of the options of `payload_options`, by parameter name.

    Raises:
        InvalidUsage: If options are wrong or contradict each other.
    """
    place = _parse_sources(sources, manifest=given["manifest"])
    _refuse_unused(given)
    columns, encoding = given["columns"], given["encoding"]
    reading = {
        "format": given["format_"],
        "delimiter": _delimiter(given),
        "quote": None if given["quote"] in ("", "none") else _character(given["quote"]),
        "escape": given["escape"] or None,
        "comment": given["comment"] or None,
        "skip_lines": given["skip_lines"],
        "header": given["header"],
        "columns": None if columns is None else _parse_names(columns),
        "encoding": AUTO if encoding.lower() == AUTO else encoding,
        "compression": given["compression"],
        "max_expansion": given["max_expansion"],
        "match": given["match"],
        "duplicate_columns": given["duplicate_columns"],
        "layout": given["layout"],
    }
    mapping: dict[str, Any] = {
        "rename": _parse_map(given["rename"], "--rename", "old=new"),
        "drop": _parse_name_set(given["drop"]),
        "set": _parse_settings(given["set_"]),
    }
    _refuse_contradictions(mapping["rename"], mapping["drop"], mapping["set"])
    # convert has no options for writing.
    options = {name: given[name] for name in _PAYLOAD_OPTIONS if name in given}
    options["add"] = _parse_name_set(given.get("add", ()))
    payload: dict[str, Any] = {
        "run": {"id": run},
        "source": {**reading, **place},
        "target": {"table": table},
        "types": _parse_types(given["types"]),
        "infer_types": given["infer_types"],
        "mapping": mapping,
        "nulls": {"policy": given["null_policy"], "markers": list(dict.fromkeys(given["nulls"]))},
        "options": {"workers": workers, **options},
    }
    if given["where"]:
        payload["where"] = list(given["where"])
    _check(payload)
    return payload


def _parse_sources(sources: Sequence[str], *, manifest: bool) -> dict[str, Any]:
    """Parse SOURCE... into fields of the payload's `source`. Raises `InvalidUsage`.

    With `manifest`, SOURCE names a list of sources.
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
        if len(sources) > 1:
            for name in sources:
                source_fields(name)
            return {"sources": list(sources)}
        return source_fields(sources[0])
    except InvalidPayload as error:
        raise InvalidUsage(error.message) from None


def is_pipe(path: str) -> bool:
    """Tell whether a path names a pipe or a device, which can be read only once."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call for all kinds
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def check_order(sources: Sequence[str], table: str) -> None:
    """Raise `InvalidUsage` if the last argument is a file where the table's name should be."""
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


def is_data_file(name: str) -> bool:
    """Tell whether a name ends like those of files with rows."""
    base = name.lower().removesuffix(".gz").removesuffix(".zst")
    return base != name.lower() or base.endswith(_DATA_SUFFIXES)


def _refuse_unused(given: Mapping[str, Any]) -> None:
    """Raise `InvalidUsage` for options that do not apply to the format."""
    if given["format_"] in (AUTO, *DELIMITERS):
        return
    for name, default in _DELIMITED_ONLY.items():
        if given[name] != default:
            option = "--no-header" if given[name] is False else f"--{name.replace('_', '-')}"
            raise InvalidUsage(
                f"{option} is for delimited text, and the format is {given['format_']}"
            )


def _delimiter(given: Mapping[str, Any]) -> str | None:
    delimiter = given["delimiter"]
    if delimiter is not None:
        return DELIMITER_NAMES.get(delimiter.lower()) or _character(delimiter)
    return DELIMITERS["tsv"] if given["format_"] == TSV else AUTO


def _character(text: str) -> str:
    r"""Return a delimiter or quote, with `\t` and `tab` read as a tab, `\x01` as that character."""
    if _HEXADECIMAL.fullmatch(text):
        return chr(int(text[-2:], 16))
    return "\t" if text in ("\\t", "tab") else text


def _parse_names(text: str) -> list[str]:
    """Parse `a,b`; a name with a comma, quote or line end is quoted as in CSV."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InvalidUsage(f"{text!r} is not a list of names: {error}") from None
    if len(rows) > 1:
        raise InvalidUsage(f"{text!r} is not a list of names: it has {len(rows)} lines")
    return rows[0] if rows else []


def _parse_name_set(texts: Sequence[str]) -> list[str]:
    """Parse the `a,b` of a repeatable option, each name once."""
    return list(dict.fromkeys(name for text in texts for name in _parse_names(text)))


def _parse_types(texts: Sequence[str]) -> dict[str, str]:
    """Parse `year=N,ok=BOOL`, or `year:N`; a column's name may have the other sign in it."""
    found: dict[str, str] = {}
    for entry in _entries(texts):
        name, sign, kind = entry.rpartition("=" if "=" in entry else ":")
        if not sign or not name or not kind:
            raise InvalidUsage(
                f"--types: {entry!r} is not of the form column=TYPE, such as year=N or year:number"
            )
        _add_entry(found, name, canonical_type(kind) or kind, "--types")
    return found


def _entries(texts: Sequence[str]) -> list[str]:
    """Return the entries of a repeatable option whose values have several each."""
    return [entry for text in texts for entry in _parse_names(text)]


def _parse_map(texts: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Parse the `a=b,c=d` of a repeatable option; `option` and `form` go into errors."""
    found: dict[str, str] = {}
    for entry in _entries(texts):
        name, equals, value = entry.rpartition("=")
        if not equals or not name or not value:
            raise InvalidUsage(f"{option}: {entry!r} is not of the form {form}")
        _add_entry(found, name, value, option)
    return found


def _parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Parse the `pk=USER#{id}` of --set; the text may have commas."""
    found: dict[str, str] = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InvalidUsage(f"--set: {each!r} is not of the form attribute=text")
        _add_entry(found, name, value, "--set")
    return found


def _add_entry(found: dict[str, str], name: str, value: str, option: str) -> None:
    """Add an entry to a map. Raises `InvalidUsage` if it contradicts an earlier one."""
    if found.setdefault(name, value) != value:
        raise InvalidUsage(
            f"{option} names {name!r} twice, with {found[name]!r} and with {value!r}: give one"
        )


def _refuse_contradictions(
    rename: Mapping[str, str], drop: Collection[str], settings: Mapping[str, str]
) -> None:
    """Raise `InvalidUsage` if --rename, --drop and --set contradict each other."""
    sources: dict[str, str] = {}
    for old, new in rename.items():
        if old in drop:
            raise InvalidUsage(f"--rename and --drop both name column {old!r}: give one")
        if new in sources:
            raise InvalidUsage(
                f"--rename gives both {sources[new]!r} and {old!r} the name {new!r}; one would"
                " overwrite the other"
            )
        if new in settings:
            raise InvalidUsage(
                f"--rename gives {old!r} the name {new!r}, which --set sets, too; one would"
                " overwrite the other: drop the column, or set another attribute"
            )
        sources[new] = old


def _check(payload: dict[str, Any]) -> None:
    """Check a payload, before anything is read. Raises `InvalidUsage`."""
    from ddbload.contracts.column_mapping import column_changes
    from ddbload.contracts.dialect import check_dialect

    try:
        checked = Payload.from_json(payload)
        check_dialect(checked.source)
        column_changes(checked.mapping)
    except InvalidPayload as error:
        raise _as_usage(error) from None


def _as_usage(error: InvalidPayload) -> InvalidUsage:
    """Replace names of payload fields by names of options in an error."""
    message = error.message.replace("'source.path'", "'SOURCE'").replace(
        "'source.sources'", "'SOURCE...'"
    )
    message = message.replace("'target.table'", "'TABLE'").replace("'run.id'", "'--run-id'")
    message = message.replace("'types.", "'--types ").replace("'where'", "'--where'")
    for part in ("bucket", "key", "prefix", "glob"):
        message = message.replace(f"'source.{part}'", "the bucket or key of 'SOURCE'")
    message = message.replace("'nulls.policy'", "'--null-policy'")
    return InvalidUsage(_FIELD.sub(lambda field: f"'--{field[1].replace('_', '-')}'", message))
