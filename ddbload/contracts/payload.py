"""The input of a run: its source, table, types, column mapping, null handling and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message
from ddbload.contracts.write_price import GIVEN, GIVEN_SOURCES
from ddbload.dynamodb.write_modes import LAST_WINS, MODES, PUT
from ddbload.errors import InvalidPayload, TableNotAllowed

AUTO = "auto"
"""Format, delimiter, encoding or compression that preflight detects from the source."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
"""Formats of delimited text, each with its usual delimiter."""
CSV, TSV, JSON, DYNAMODB_JSON, DYNAMODB_EXPORT, PARQUET = FORMATS = (
    *("csv", "tsv", "json", "dynamodb-json", "dynamodb-export", "parquet"),
)
"""Supported formats. `json` is one JSON object per line."""
EXPORT_SUMMARY = "manifest-summary.json"
EXPORT_FILES = "manifest-files.json"
EXPORT_STARTED = "_started"
"""Names of a table export's manifests, and of the empty object that DynamoDB writes first."""
COMPRESSIONS = UNCOMPRESSED, GZIP, ZSTD = ("none", "gzip", "zstd")
ENGINES = SYNC, THREADS, ASYNC = ("sync", "threads", "async")
TYPES = ("S", "N", "BOOL", "B", "SS", "NS", "BS", "M", "L", "NULL", "epoch")
NULL_POLICIES = OMIT, NULL, EMPTY, REJECT = ("omit", "null", "empty", "reject")
DEFAULT_MAX_EXPANSION = 200
DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_INDEX_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
EDGES_MAX_ROW_BYTES = 1024 * 1024
"""Default of `max_row_bytes` for a scan by edges, whose windows are that long."""
SCANS = WHOLE, EDGES = ("whole", "edges")
DEFAULT_MAX_REJECTS = 1000
DEFAULT_CONCURRENCY = 16
MAX_CONCURRENCY = 256
MAX_WORKERS = 10_000
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)


def is_run_id(text: str) -> bool:
    """Tell whether a text can be a run id, which is also a folder's name."""
    return _RUN_ID.fullmatch(text) is not None


def check_run_id(text: str) -> str:
    """Return the run id if it is one. Raises `InvalidPayload`."""
    if not is_run_id(text):
        raise InvalidPayload(
            "a run id has 1 to 80 letters, digits, '.', '_' or '-', and begins with a letter"
            " or digit"
        )
    return text


def _read_delimiter(f: JsonObjectReader) -> str:
    return f.text("delimiter", DELIMITERS.get(f.raw("format") or CSV, AUTO))


def _read_quote(f: JsonObjectReader) -> str | None:
    quote = f.raw("quote", '"')
    if quote is not None and not isinstance(quote, str):
        raise f.wrong("quote", quote, "one character, or null for none")
    return quote or None


def _read_header(f: JsonObjectReader) -> bool:
    # A file whose columns are named in the payload has no header, unless the payload says so.
    return f.flag("header", f.raw("columns") is None)


def _read_columns(f: JsonObjectReader) -> tuple[str, ...] | None:
    columns = f.texts("columns") if f.has("columns") else f.raw("columns")
    if columns == ():
        raise f.wrong("columns", [], "a list of at least one name")
    return columns


def _read_encoding(f: JsonObjectReader) -> str:
    name = f.text("encoding", "utf-8").lower().replace("_", "-")
    return "utf-8" if name in ("utf8", "utf-8", "utf-8-sig") else name


def _read_prefix(f: JsonObjectReader) -> str | None:
    # The prefix "" names all objects of a bucket.
    return "" if f.raw("prefix") == "" else f.optional_text("prefix")


def _read_path(f: JsonObjectReader) -> str | None:
    return f.optional_path("path")


@dataclass(frozen=True, slots=True)
class Source(Message):
    """The source of a run, and how to read it.

    It is one of: `bucket` and `key`, an object; `bucket` and `prefix` or `glob`, several objects;
    `path`, a local file, folder or glob; `manifest`, a path or s3:// URI of a list of objects.
    """

    WRITTEN_BY_USERS = True

    format: Annotated[str, JsonRule(choices=(*FORMATS, AUTO))] = CSV
    delimiter: Annotated[str, JsonRule(read=_read_delimiter)] = ","
    """One or more characters, or `AUTO`."""
    quote: Annotated[str | None, JsonRule(read=_read_quote)] = '"'
    escape: str | None = None
    """Escape character; None if quotes are only escaped by doubling them."""
    comment: str | None = None
    """Text that lines to be skipped begin with."""
    skip_lines: int = 0
    """Number of lines before the header."""
    header: Annotated[bool, JsonRule(read=_read_header)] = True
    columns: Annotated[tuple[str, ...] | None, JsonRule(read=_read_columns)] = None
    encoding: Annotated[str, JsonRule(read=_read_encoding)] = "utf-8"
    compression: Annotated[str, JsonRule(choices=(*COMPRESSIONS, AUTO))] = AUTO
    max_expansion: Annotated[int, JsonRule(least=1)] = DEFAULT_MAX_EXPANSION
    """Largest allowed ratio of decompressed to compressed bytes."""
    bucket: str | None = None
    key: str | None = None
    version_id: str | None = None
    etag: str | None = None
    sequencer: str | None = None
    """Hexadecimal number by which S3 orders the uploads to a key; None if the source was not
    uploaded."""
    prefix: Annotated[str | None, JsonRule(read=_read_prefix)] = None
    glob: str | None = None
    path: Annotated[str | None, JsonRule(read=_read_path)] = None
    manifest: str | None = None
    within: str | None = None
    """`bucket/prefix` that all objects of the run must have; None for no limit. An upload's rule
    sets it, because the uploaded file may be a manifest that names others' objects."""

    @property
    def uri(self) -> str:
        """The source as users write it: a path or an s3:// URI."""
        local = self.path if self.path is not None else self.manifest
        if local is not None:
            return local
        return f"s3://{self.bucket}/{self.key or self.prefix or self.glob or ''}"

    @property
    def location(self) -> tuple[str | None, ...]:
        """The fields that locate the source; equal for two sources of the same objects."""
        return tuple(getattr(self, name) for name in _LOCATION)

    @property
    def delimited(self) -> bool:
        """True for delimited text with columns; false while the format is `AUTO`."""
        return self.format in DELIMITERS

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["columns"] = None if self.columns is None else list(self.columns)
        absent = [name for name in _LOCATION if value[name] is None]
        if self.key is None:
            absent += ["version_id", "etag"]
        if self.within is None:
            absent.append("within")
        if self.sequencer is None:
            absent.append("sequencer")
        return {name: v for name, v in value.items() if name not in absent}

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` unless exactly one kind of source is given."""
        versions = [name for name in _OF_A_VERSION if getattr(self, name) is not None]
        given = [name for name in _LOCATION[1:] if getattr(self, name) is not None]
        if self.path and versions:
            raise f.wrong("path", self.path, "an object's bucket and key: files have no versions")
        if len(given) > 1:
            raise _two_sources(f, given[0], given[1])
        if not given or given[0] in _IN_BUCKET:
            f.required("bucket")
            if not given:
                f.required("key")
        elif self.bucket is not None:
            raise _two_sources(f, "bucket", given[0])
        if versions and given != ["key"]:
            name = versions[0]
            raise f.wrong(name, getattr(self, name), "left out: only one object has a version")


_LOCATION = ("bucket", "key", "prefix", "glob", "path", "manifest")
_OF_A_VERSION = ("version_id", "etag", "sequencer")
LOCATION_FIELDS = (*_LOCATION, *_OF_A_VERSION, "within")
"""Fields that say where a source is; all others say how to read it."""
_IN_BUCKET = ("key", "prefix", "glob")


def _two_sources(f: JsonObjectReader, one: str, other: str) -> InvalidPayload:
    return InvalidPayload(f"{f.path(one)!r} and {f.path(other)!r} are two sources; give one")


@dataclass(frozen=True, slots=True)
class ColumnMapping(Message):
    """Mapping of columns to attributes."""

    PATH = "mapping"
    WRITTEN_BY_USERS = True

    rename: Mapping[str, str] = field(default_factory=dict)
    """Attribute names by column name."""
    drop: tuple[str, ...] = ()
    """Columns that are left out."""
    set: Mapping[str, str] = field(default_factory=dict)
    """Additional attributes: constants, or templates over columns such as `USER#{id}`."""

    def to_json(self) -> dict[str, Any]:
        return {"rename": dict(self.rename), "drop": list(self.drop), "set": dict(self.set)}

    def __bool__(self) -> bool:
        return bool(self.rename or self.drop or self.set)


@dataclass(frozen=True, slots=True)
class NullHandling(Message):
    """Cells that are null, and the attribute that a null becomes."""

    PATH = "nulls"
    WRITTEN_BY_USERS = True

    policy: Annotated[str, JsonRule(choices=NULL_POLICIES)] = OMIT
    """`omit` leaves the attribute out, `null` writes type NULL, `empty` an empty string, and
    `reject` rejects the row."""
    markers: tuple[str, ...] = ()
    """Texts that are null, besides the empty text."""

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "markers": list(self.markers)}

    def __bool__(self) -> bool:
        return self != NullHandling()


_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", re.ASCII)


def parse_percent(text: str) -> float | None:
    """Return the number of a text such as `50%`, from above 0 to 100; None for other text."""
    found = _PERCENT.fullmatch(text)
    percent = float(found[1]) if found else 0.0
    return percent if 0 < percent <= 100 else None


def _read_max_wcu(f: JsonObjectReader) -> float | None:
    given = f.raw("max_wcu")
    if isinstance(given, str):
        if parse_percent(given) is None:
            raise f.wrong("max_wcu", given, "a number, or a share of the table such as '50%'")
        return None
    return f.optional_number("max_wcu", least=1)


def _read_max_wcu_percent(f: JsonObjectReader) -> float | None:
    given = f.raw("max_wcu")
    return parse_percent(given) if isinstance(given, str) else None


def _read_workers(f: JsonObjectReader) -> int | None:
    if f.raw("workers") in (None, AUTO):
        return None
    try:
        return f.whole("workers", least=1, most=MAX_WORKERS)
    except InvalidPayload:
        wanted = f"a whole number from 1 to {MAX_WORKERS}, or '{AUTO}'"
        raise f.wrong("workers", f.raw("workers"), wanted) from None


def _read_max_cost(f: JsonObjectReader) -> float | None:
    return _positive(f, "max_cost")


def _read_unit_price(f: JsonObjectReader) -> float | None:
    return _positive(f, "unit_price")


def _positive(f: JsonObjectReader, name: str) -> float | None:
    value = f.optional_number(name)
    if value == 0:
        raise f.wrong(name, value, "a number above 0")
    return value


@dataclass(frozen=True, slots=True)
class Options(Message):
    """Limits and settings of a run. Only the first two determine what the items are."""

    WRITTEN_BY_USERS = True

    mode: Annotated[str, JsonRule(choices=MODES)] = PUT
    position_attribute: str | None = None
    """Attribute in which mode `last-wins` stores each row's position; None in other modes."""
    engine: Annotated[str, JsonRule(choices=ENGINES)] = ASYNC
    workers: Annotated[int | None, JsonRule(read=_read_workers)] = None
    """Chunks that are imported at once; None for `auto`, by which preflight chooses a number."""
    concurrency: Annotated[int, JsonRule(least=1, most=MAX_CONCURRENCY)] = DEFAULT_CONCURRENCY
    chunk_bytes: Annotated[int, JsonRule(least=1)] = DEFAULT_CHUNK_BYTES
    max_wcu: Annotated[float | None, JsonRule(read=_read_max_wcu)] = None
    """Write units a second of all workers together; None without a limit."""
    max_rejects: int = DEFAULT_MAX_REJECTS
    max_row_bytes: Annotated[int | None, JsonRule(least=1)] = None
    """Bytes of the longest allowed row; None for the default, which preflight replaces by a
    number. See `row_limit`."""
    max_wcu_percent: Annotated[float | None, JsonRule(read=_read_max_wcu_percent)] = None
    """`max_wcu` as a share of the table's capacity. Preflight replaces it by a number, which the
    run's record keeps."""
    max_cost: Annotated[float | None, JsonRule(read=_read_max_cost)] = None
    """Dollars of write units of the whole run; None without a limit."""
    unit_price: Annotated[float | None, JsonRule(read=_read_unit_price)] = None
    """Dollars for a million write units; None for the list price."""
    unit_price_source: Annotated[str, JsonRule(choices=GIVEN_SOURCES)] = GIVEN
    """Origin of `unit_price`: its user, or AWS's price list, in which the command looked it up."""
    require_backup: bool = False
    """Refuse a table without point-in-time recovery."""
    index_bytes: int = DEFAULT_INDEX_BYTES
    """Size above which a compressed object is cut into chunks, if it can be and there are fewer
    objects than workers."""
    scan: Annotated[str, JsonRule(choices=(AUTO, *SCANS))] = AUTO
    """`whole` has preflight read every byte, `edges` only windows around the places where it cuts.
    `auto` chooses by size; the record of a run that reads everything keeps it."""

    @property
    def row_limit(self) -> int:
        """Bytes of the longest allowed row."""
        if self.max_row_bytes is not None:
            return self.max_row_bytes
        return EDGES_MAX_ROW_BYTES if self.scan == EDGES else DEFAULT_MAX_ROW_BYTES

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        percent = value.pop("max_wcu_percent")
        if percent is not None:
            value["max_wcu"] = f"{percent:g}%"
        value["workers"] = AUTO if self.workers is None else self.workers
        # Later options are left out if unset, so that earlier versions can read the message.
        unset = Options()
        later = ("max_cost", "unit_price", "unit_price_source", "require_backup", "index_bytes")
        for name in (*later, "scan"):
            if value[name] == getattr(unset, name):
                del value[name]
        return value

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` unless exactly mode `last-wins` has a position attribute."""
        name = f.path("position_attribute")
        if self.mode == LAST_WINS and self.position_attribute is None:
            raise InvalidPayload(
                f"{name!r} is missing: mode {LAST_WINS} stores each row's position in this"
                " attribute; name one that nothing else uses"
            )
        if self.mode != LAST_WINS and self.position_attribute is not None:
            raise InvalidPayload(f"{name!r} is for mode {LAST_WINS}, and the mode is {self.mode}")


def _read_run(f: JsonObjectReader) -> str | None:
    with f.nested("run") as run:
        given = run.optional_text("id")
        for name in _RUN_FIELDS:
            run.raw(name)
        if run.raw("resume_of") is not None:
            raise InvalidPayload(
                f"{run.path('resume_of')!r} is for the deployed state machine; here the run's own"
                " id continues it"
            )
    return None if given is None else check_run_id(given)


_RUN_FIELDS = ("force", "once", "retry_of")
"""Fields of `run` that `Payload` has beside the id."""


def _read_force(f: JsonObjectReader) -> bool:
    run = f.nested("run")
    force = run.flag("force", False)
    if force and run.flag("once", False):
        raise InvalidPayload(
            f"{run.path('once')!r} refuses what was loaded before, and {run.path('force')!r} loads"
            " it again: give one"
        )
    return force


def _read_once(f: JsonObjectReader) -> bool:
    return f.nested("run").flag("once", False)


def _read_retry_of(f: JsonObjectReader) -> str | None:
    run = f.nested("run").optional_text("retry_of")
    return None if run is None else check_run_id(run)


def _read_table(f: JsonObjectReader) -> str:
    with JsonObjectReader(f.required("target"), f.path("target")) as target:
        table = target.text("table")
        if table.startswith("arn:"):
            raise TableNotAllowed(
                f"{table}: name the table; ddbload writes only tables of its own account and region"
            )
        if not TABLE_NAME.fullmatch(table):
            raise target.wrong(
                "table",
                table,
                "the name of a table in this account and region: 3 to 255 letters,"
                " digits, '.', '_' or '-'",
            )
    return table


def _read_types(f: JsonObjectReader) -> dict[str, str]:
    types = f.text_map("types")
    for name, kind in types.items():
        if kind not in TYPES:
            shown = f"{f.path('types')}.{name}"
            raise InvalidPayload(f"{shown!r} must be one of {', '.join(TYPES)}")
    return types


@dataclass(frozen=True, slots=True)
class Payload(Message):
    """The input of an execution: what to load, and into which table."""

    PATH = ""
    WRITTEN_BY_USERS = True

    source: Source
    table: Annotated[str, JsonRule(read=_read_table)]
    types: Annotated[Mapping[str, str], JsonRule(read=_read_types)] = field(default_factory=dict)
    """Types by attribute name, after the mapping."""
    options: Options = field(default_factory=Options)
    run: Annotated[str | None, JsonRule(read=_read_run)] = None
    once: Annotated[bool, JsonRule(read=_read_once)] = False
    """Refuse a source of which the table has loaded an object version before."""
    force: Annotated[bool, JsonRule(read=_read_force)] = False
    """Load the source again: under a new id if the run is done, and over a newer upload."""
    retry_of: Annotated[str | None, JsonRule(read=_read_retry_of)] = None
    """Run whose corrected rejects are the source."""
    infer_types: bool = False
    """Infer the types of undeclared attributes from the first rows."""
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    nulls: NullHandling = field(default_factory=NullHandling)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self._run_json(),
            "source": self.source.to_json(),
            "target": {"table": self.table},
            "types": dict(self.types),
            "infer_types": self.infer_types,
            "mapping": self.mapping.to_json(),
            "nulls": self.nulls.to_json(),
            "options": self.options.to_json(),
        }

    def _run_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"id": self.run, "resume_of": None, "force": self.force}
        if self.once:
            value["once"] = True
        if self.retry_of is not None:
            value["retry_of"] = self.retry_of
        return value
