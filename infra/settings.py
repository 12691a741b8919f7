"""The knobs in cdk.json's context, read strictly before anything is made of them.

No CDK here: a knob is JSON from cdk.json, or text from `cdk -c name=value`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from infra.errors import (
    AmbiguousUpload,
    BucketNotListed,
    InvalidSetting,
    TableElsewhere,
    TableNotListed,
    UnknownSetting,
)

FUNCTIONS = ("preflight", "import_chunk", "report", "on_upload")
RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
ARCHITECTURES = ("arm64", "x86_64")
LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""The only numbers that CloudWatch Logs takes."""
MEMORY_MB = range(128, 10241)
TIMEOUT_SECONDS = range(2, 901)
"""Lambda's limit, and so below the tasks' TimeoutSeconds in the state machine."""

SOURCE_FIELDS = ("format", "delimiter", "quote", "header", "columns", "encoding")
OPTION_FIELDS = (
    *("mode", "engine", "workers", "concurrency", "chunk_bytes", "max_wcu"),
    *("max_rejects", "max_row_bytes"),
)
"""What `source` and `options` of an upload may say; a test compares them with the contracts."""

_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_DEFAULT_MEMORY = {"preflight": 1769, "import_chunk": 1769, "report": 1769, "on_upload": 512}
"""1,769 MB is where Lambda gives one whole core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What becomes of objects whose key begins with `prefix`."""

    prefix: str
    table: str
    bucket: str | None = None
    """None is the stack's own inbox."""
    types: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, bucket: str) -> dict[str, Any]:
        """As on_upload reads it, with what was left out left out."""
        optional = {"types": self.types, "source": self.source, "options": self.options}
        return {"bucket": bucket, "prefix": self.prefix, "table": self.table} | {
            name: dict(value) for name, value in optional.items() if value
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every knob. The defaults are cdk.json's, which a test holds to."""

    stack_name: str = "ddbload"
    source_buckets: tuple[str, ...] = ()
    """Names of buckets besides the inbox that may be read."""
    tables: tuple[str, ...] = ()
    """Names of tables that may be written. They exist already."""
    uploads: tuple[Upload, ...] = ()
    runtime: str = "python3.13"
    architecture: str = "arm64"
    memory_mb: Mapping[str, int] = field(default_factory=lambda: dict(_DEFAULT_MEMORY))
    timeout_seconds: int = 900
    """Of preflight and import_chunk, which go on in a further invocation."""
    reserve_seconds: int = 30
    """How long before its timeout such a function stops, to hand on its cursor."""
    log_retention_days: int = 30
    retain_runs_days: int = 90

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Settings:
        """Read the app's whole context, in which others have keys too.

        Raises an error of `infra.errors` for the first knob that is wrong.
        """
        _refuse_misspelt(context)
        given = {name: context[name] for name in _KNOBS if context.get(name) is not None}
        tables = tuple(_tables(given.get("tables", ())))
        buckets = tuple(_buckets(given.get("source_buckets", ())))
        timeout = _whole("timeout_seconds", given.get("timeout_seconds", 900), TIMEOUT_SECONDS)
        return cls(
            stack_name=_matching("stack_name", given.get("stack_name", "ddbload"), _STACK_NAME),
            source_buckets=buckets,
            tables=tables,
            uploads=_uploads(given.get("uploads", ()), tables, buckets),
            runtime=_one_of("runtime", given.get("runtime", "python3.13"), RUNTIMES),
            architecture=_one_of("architecture", given.get("architecture", "arm64"), ARCHITECTURES),
            memory_mb=_memory(given.get("memory_mb", {})),
            timeout_seconds=timeout,
            reserve_seconds=_whole(
                "reserve_seconds", given.get("reserve_seconds", 30), range(1, timeout)
            ),
            log_retention_days=int(
                _one_of(
                    "log_retention_days",
                    str(given.get("log_retention_days", 30)),
                    [str(days) for days in LOG_RETENTION_DAYS],
                )
            ),
            retain_runs_days=_whole(
                "retain_runs_days", given.get("retain_runs_days", 90), range(1, 36501)
            ),
        )


_KNOBS = tuple(each.name for each in fields(Settings))


def _wrong(where: str, value: object, wanted: str) -> InvalidSetting:
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return InvalidSetting(
        f"{where} is {shown}, and must be {wanted}: set it in cdk.json's context,"
        f" or with -c {where.partition('[')[0].partition('.')[0]}=..."
    )


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    """`-c table=books` would deploy something that may write nothing.

    Keys that resemble no knob are other tools' and, in ~/.cdk.json, other apps'.
    """
    for key in context:
        if key in _KNOBS or ":" in key or "/" in key:
            continue
        if meant := difflib.get_close_matches(key.replace("-", "_").lower(), _KNOBS, 1, 0.8):
            raise UnknownSetting(f"there is no setting '{key}': '{meant[0]}' is meant?")


def _matching(where: str, value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(where, value, f"text like {pattern.pattern}")
    return value


def _one_of(where: str, value: object, choices: Collection[str]) -> str:
    if value not in choices:
        raise _wrong(where, value, f"one of {', '.join(choices)}")
    return str(value)


def _whole(where: str, value: object, allowed: range) -> int:
    number = value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        number = int(value)
    if isinstance(number, float) and number.is_integer():
        # JavaScript, through which the context comes, has one kind of number.
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise _wrong(where, value, f"a whole number from {allowed.start} to {allowed.stop - 1}")
    return number


def _texts(where: str, value: object) -> list[str]:
    """A list of texts, or comma separated text; each of them once."""
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",") if each.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise _wrong(where, value, "a list of names, or names separated by commas")
    return list(dict.fromkeys(value))


def _tables(value: object) -> Iterable[str]:
    for name in _texts("tables", value):
        yield _table("tables", name)


def _table(where: str, name: object) -> str:
    if isinstance(name, str) and name.startswith("arn:"):
        raise TableElsewhere(
            f"{where} has the ARN '{name}': tables of other accounts or regions are not"
            " supported. Name a table of the account and region that you deploy to,"
            f" like '{name.rpartition('/')[2]}'"
        )
    return _matching(where, name, _TABLE)


def _buckets(value: object) -> Iterable[str]:
    for name in _texts("source_buckets", value):
        yield _bucket("source_buckets", name)


def _bucket(where: str, name: object) -> str:
    if not isinstance(name, str) or not _BUCKET.fullmatch(name):
        raise _wrong(where, name, "a bucket's name, without s3://, arn: or a prefix")
    return name


def _memory(value: object) -> dict[str, int]:
    """One number for all functions, or an object with some of them."""
    value = _decoded("memory_mb", value)
    if not isinstance(value, Mapping):
        return dict.fromkeys(FUNCTIONS, _whole("memory_mb", value, MEMORY_MB))
    for name in value:
        _one_of("memory_mb", name, FUNCTIONS)
    return {
        name: _whole(f"memory_mb.{name}", value.get(name, _DEFAULT_MEMORY[name]), MEMORY_MB)
        for name in FUNCTIONS
    }


def _uploads(
    value: object, tables: tuple[str, ...], buckets: tuple[str, ...]
) -> tuple[Upload, ...]:
    value = _decoded("uploads", value)
    if not isinstance(value, list | tuple):
        raise _wrong("uploads", value, 'a list like [{"prefix": "books/", "table": "books"}]')
    found: dict[tuple[str | None, str], str] = {}
    uploads = []
    for number, each in enumerate(value):
        where = f"uploads[{number}]"
        upload = _upload(where, each)
        if upload.table not in tables:
            raise TableNotListed(
                f"{where} goes to the table '{upload.table}', which is not in tables: add it there"
            )
        if upload.bucket is not None and upload.bucket not in buckets:
            raise BucketNotListed(
                f"{where} comes from the bucket '{upload.bucket}', which is not in"
                " source_buckets: add it there, or leave bucket out to mean the stack's own inbox"
            )
        place = (upload.bucket, upload.prefix)
        if place in found:
            raise AmbiguousUpload(
                f"{where} and {found[place]} have the same bucket and prefix: keep one of them"
            )
        found[place] = where
        uploads.append(upload)
    return tuple(uploads)


def _upload(where: str, value: object) -> Upload:
    names = [each.name for each in fields(Upload)]
    if not isinstance(value, Mapping):
        raise _wrong(where, value, f"an object with {', '.join(names)}")
    _refuse_others(where, value, names)
    prefix = value.get("prefix")
    if not isinstance(prefix, str) or "*" in prefix:
        raise _wrong(f"{where}.prefix", prefix, "plain text that keys begin with ('' for all)")
    source = _object(f"{where}.source", value.get("source"))
    options = _object(f"{where}.options", value.get("options"))
    _refuse_others(f"{where}.source", source, SOURCE_FIELDS)
    _refuse_others(f"{where}.options", options, OPTION_FIELDS)
    types = _object(f"{where}.types", value.get("types"))
    for column, name in types.items():
        if not isinstance(name, str):
            raise _wrong(f"{where}.types.{column}", name, "the name of a type, like N")
    bucket = value.get("bucket")
    return Upload(
        prefix=prefix,
        table=_table(f"{where}.table", value.get("table")),
        bucket=None if bucket is None else _bucket(f"{where}.bucket", bucket),
        types=types,
        source=source,
        options=options,
    )


def _object(where: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(where, value, "an object")
    return value


def _refuse_others(where: str, value: Mapping[str, Any], names: Collection[str]) -> None:
    for name in value:
        if name not in names:
            raise InvalidSetting(f"{where} has a field '{name}'; it may have {', '.join(names)}")


def _decoded(where: str, value: object) -> object:
    """JSON text, as `-c` gives it, decoded; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "[]")
    except ValueError as error:
        raise InvalidSetting(f"{where} is no JSON ({error}): quote it for your shell") from None
