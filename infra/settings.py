"""The knobs in cdk.json's context, read strictly before anything is made of them.

No CDK here: a knob is JSON from cdk.json, or text from `cdk -c name=value`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from infra import mapped
from infra.errors import (
    AmbiguousUpload,
    BucketNotListed,
    TableElsewhere,
    TableNotListed,
    UnknownSetting,
)
from infra.mapped_columns import columns
from infra.mapped_source import source
from infra.values import (
    decoded,
    matching,
    one_of,
    refuse_others,
    true_or_false,
    whole,
    wrong,
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

_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_LAYER = re.compile(
    r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+", re.ASCII
)
MOST_LAYERS = 5
"""Lambda's limit."""
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
    infer_types: bool = False
    mapping: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, bucket: str) -> dict[str, Any]:
        """As on_upload reads it, with what was left out left out."""
        optional = ("types", "source", "options", "mapping", "nulls")
        given = {name: dict(value) for name in optional if (value := getattr(self, name))}
        inferred = {"infer_types": True} if self.infer_types else {}
        return {"bucket": bucket, "prefix": self.prefix, "table": self.table, **given, **inferred}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every knob. The defaults are cdk.json's, which a test holds to."""

    stack_name: str = "ddbload"
    source_buckets: tuple[str, ...] = ()
    """Names of buckets besides the inbox that may be read."""
    tables: tuple[str, ...] = ()
    """Names of tables that may be written. They exist already."""
    uploads: tuple[Upload, ...] = ()
    layers: tuple[str, ...] = ()
    """ARNs of layers' versions, with what Parquet and Zstandard are read with."""
    runtime: str = "python3.13"
    architecture: str = "arm64"
    memory_mb: Mapping[str, int] = field(default_factory=lambda: dict(_DEFAULT_MEMORY))
    timeout_seconds: int = 900
    """Of preflight and import_chunk, which go on in a further invocation."""
    reserve_seconds: int = 30
    """How long before its timeout such a function stops, to hand on its cursor."""
    log_retention_days: int = 30
    log_key: bool = False
    """Encrypt log groups with a KMS key of the stack, in place of CloudWatch Logs' own."""
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
        timeout = whole("timeout_seconds", given.get("timeout_seconds", 900), TIMEOUT_SECONDS)
        return cls(
            stack_name=matching("stack_name", given.get("stack_name", "ddbload"), _STACK_NAME),
            source_buckets=buckets,
            tables=tables,
            uploads=_uploads(given.get("uploads", ()), tables, buckets),
            layers=tuple(_layers(given.get("layers", ()))),
            runtime=one_of("runtime", given.get("runtime", "python3.13"), RUNTIMES),
            architecture=one_of("architecture", given.get("architecture", "arm64"), ARCHITECTURES),
            memory_mb=_memory(given.get("memory_mb", {})),
            timeout_seconds=timeout,
            reserve_seconds=whole(
                "reserve_seconds", given.get("reserve_seconds", 30), range(1, timeout)
            ),
            log_retention_days=int(
                one_of(
                    "log_retention_days",
                    str(given.get("log_retention_days", 30)),
                    [str(days) for days in LOG_RETENTION_DAYS],
                )
            ),
            log_key=true_or_false("log_key", given.get("log_key", False)),
            retain_runs_days=whole(
                "retain_runs_days", given.get("retain_runs_days", 90), range(1, 36501)
            ),
        )


_KNOBS = tuple(each.name for each in fields(Settings))


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    """`-c table=books` would deploy something that may write nothing.

    Keys that resemble no knob are other tools' and, in ~/.cdk.json, other apps'.
    """
    for key in context:
        if key in _KNOBS or ":" in key or "/" in key:
            continue
        if meant := difflib.get_close_matches(key.replace("-", "_").lower(), _KNOBS, 1, 0.8):
            raise UnknownSetting(f"there is no setting '{key}': '{meant[0]}' is meant?")


def _texts(where: str, value: object) -> list[str]:
    """A list of texts, or comma separated text; each of them once."""
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",") if each.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise wrong(where, value, "a list of names, or names separated by commas")
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
    return matching(where, name, _TABLE)


def _buckets(value: object) -> Iterable[str]:
    for name in _texts("source_buckets", value):
        yield _bucket("source_buckets", name)


def _bucket(where: str, name: object) -> str:
    if not isinstance(name, str) or not _BUCKET.fullmatch(name):
        raise wrong(where, name, "a bucket's name, without s3://, arn: or a prefix")
    return name


def _layers(value: object) -> Iterable[str]:
    names = _texts("layers", value)
    if len(names) > MOST_LAYERS:
        raise wrong("layers", value, f"at most {MOST_LAYERS}, which is Lambda's limit")
    for name in names:
        if not _LAYER.fullmatch(name):
            raise wrong(
                "layers", name, "the ARN of a layer's version, arn:aws:lambda:...:layer:NAME:1"
            )
        yield name


def _memory(value: object) -> dict[str, int]:
    """One number for all functions, or an object with some of them."""
    value = decoded("memory_mb", value)
    if not isinstance(value, Mapping):
        return dict.fromkeys(FUNCTIONS, whole("memory_mb", value, MEMORY_MB))
    for name in value:
        one_of("memory_mb", name, FUNCTIONS)
    return {
        name: whole(f"memory_mb.{name}", value.get(name, _DEFAULT_MEMORY[name]), MEMORY_MB)
        for name in FUNCTIONS
    }


def _uploads(
    value: object, tables: tuple[str, ...], buckets: tuple[str, ...]
) -> tuple[Upload, ...]:
    value = decoded("uploads", value)
    if not isinstance(value, list | tuple):
        raise wrong("uploads", value, 'a list like [{"prefix": "books/", "table": "books"}]')
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
        raise wrong(where, value, f"an object with {', '.join(names)}")
    refuse_others(where, value, names)
    prefix = value.get("prefix")
    if not isinstance(prefix, str) or "*" in prefix:
        raise wrong(f"{where}.prefix", prefix, "plain text that keys begin with ('' for all)")
    bucket = value.get("bucket")
    return Upload(
        prefix=prefix,
        table=_table(f"{where}.table", value.get("table")),
        bucket=None if bucket is None else _bucket(f"{where}.bucket", bucket),
        types=mapped.types(f"{where}.types", value.get("types")),
        source=source(f"{where}.source", value.get("source")),
        options=mapped.options(f"{where}.options", value.get("options")),
        infer_types=mapped.infer_types(f"{where}.infer_types", value.get("infer_types")),
        mapping=columns(f"{where}.mapping", value.get("mapping")),
        nulls=mapped.nulls(f"{where}.nulls", value.get("nulls")),
    )
