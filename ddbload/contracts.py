"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self, cast

from ddbload.errors import InvalidPayload, TableNotAllowed
from ddbload.fields import Fields
from ddbload.modes import INSERT, LAST_WINS, MODES, PUT

AUTO = "auto"
"""In place of a format, a delimiter, an encoding or a compression: found out from the source."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The formats of delimited text, and each one's usual delimiter."""
CSV, TSV, JSON, DYNAMODB_JSON, DYNAMODB_EXPORT, PARQUET = FORMATS = (
    *("csv", "tsv", "json", "dynamodb-json", "dynamodb-export", "parquet"),
)
"""The formats that this version reads. `json`: a JSON object a line."""
COMPRESSIONS = ("none", "gzip", "zstd")
ENGINES = ("sync", "threads", "async")
TYPES = ("S", "N", "BOOL", "B", "SS", "NS", "BS", "M", "L", "NULL", "epoch")
NULL_POLICIES = OMIT, NULL, EMPTY, REJECT = ("omit", "null", "empty", "reject")
DEFAULT_MAX_EXPANSION = 200

STATUSES = SUCCEEDED, SUCCEEDED_WITH_REJECTS, FAILED, INTERRUPTED, CANCELLED = (
    *("SUCCEEDED", "SUCCEEDED_WITH_REJECTS", "FAILED", "INTERRUPTED", "CANCELLED"),
)
"""The outcomes of a run. A run that is not over has none of them."""
DONE = frozenset((SUCCEEDED, SUCCEEDED_WITH_REJECTS))
"""The outcomes of a run that has nothing left to do."""

MAX_CAUSE = 2000
"""Characters of a cause that are kept: a Fail state takes 32,768, a run's record need not."""

LEDGER_VERSION = 2
"""Version of new ledgers. In version 1, segments do not carry run id and configuration, and there
are no attempts."""

DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_REJECTS = 1000
DEFAULT_WORKERS = 10
DEFAULT_CONCURRENCY = 16
MAX_CONCURRENCY = 256

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)


def run_id(text: str) -> str:
    """A run's id as given, or `InvalidPayload`: it becomes a folder's name."""
    if not _RUN_ID.fullmatch(text):
        raise InvalidPayload(
            "a run id has 1 to 80 letters, digits, '.', '_' or '-', and begins with a letter"
            " or digit"
        )
    return text


class Message:
    """What all messages share. They are plain data: JSON of the same shape, and back."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The message as JSON."""
        return asdict(cast("Any", self))


class WholeNumbers(Message):
    """A message whose fields are whole numbers: offsets, numbers of chunks, lines from 1."""

    __slots__ = ()

    LATER: ClassVar[frozenset[str]] = frozenset()
    """Fields that messages of earlier versions lack, where they are 0."""

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        """Read it strictly."""
        with Fields(value, cls.__name__.lower() if path is None else path) as f:
            names = [each.name for each in fields(cast("Any", cls))]
            absent = {name: 0 if name in cls.LATER else None for name in names}
            return cls(*(f.whole(name, absent[name], least=int("line" in name)) for name in names))


@dataclass(frozen=True, slots=True)
class Cursor(WholeNumbers):
    """The first row that is not settled: its byte offset and its line."""

    byte: int
    line: int


@dataclass(frozen=True, slots=True)
class Source(Message):
    """What to read, and how.

    One of: `bucket` and `key`, an object; `bucket` and `prefix` or `glob`, objects; `path`, a file
    or folder of this machine or a glob of such; `manifest`, a path or s3:// URI of a list.
    """

    format: str = CSV
    delimiter: str = ","
    """`AUTO`, or of any length."""
    quote: str | None = '"'
    escape: str | None = None
    """None: a quote inside a quoted field is doubled."""
    comment: str | None = None
    """What lines begin with that are no rows."""
    skip_lines: int = 0
    """Lines before the header."""
    header: bool = True
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    compression: str = AUTO
    max_expansion: int = DEFAULT_MAX_EXPANSION
    """Bytes that one of compressed data may become, at most, in a source of some size."""
    bucket: str | None = None
    key: str | None = None
    version_id: str | None = None
    etag: str | None = None
    prefix: str | None = None
    glob: str | None = None
    path: str | None = None
    manifest: str | None = None

    @property
    def uri(self) -> str:
        """The source as people write it."""
        named = self.path if self.path is not None else self.manifest
        if named is not None:
            return named
        return f"s3://{self.bucket}/{self.key or self.prefix or self.glob or ''}"

    @property
    def place(self) -> tuple[str | None, ...]:
        """Where it is: equal for sources that name the same."""
        return tuple(getattr(self, name) for name in _PLACES)

    @property
    def delimited(self) -> bool:
        """Whether it is delimited text, with columns; not so before `AUTO` is resolved."""
        return self.format in DELIMITERS

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["columns"] = None if self.columns is None else list(self.columns)
        absent = [name for name in _PLACES if value[name] is None]
        if self.key is None:
            absent += ["version_id", "etag"]
        return {name: v for name, v in value.items() if name not in absent}

    @classmethod
    def from_json(cls, value: object, path: str = "source") -> Self:
        with Fields(value, path) as f:
            file_format = f.choice("format", (*FORMATS, AUTO), CSV)
            columns = f.texts("columns") if f.has("columns") else f.raw("columns")
            if columns == ():
                raise f.wrong("columns", [], "a list of at least one name")
            quote = f.raw("quote", '"')
            if quote is not None and not isinstance(quote, str):
                raise f.wrong("quote", quote, "one character, or null for none")
            place = _place(f)
            return cls(
                format=file_format,
                delimiter=f.text("delimiter", DELIMITERS.get(file_format, AUTO)),
                quote=quote or None,
                escape=f.optional_text("escape"),
                comment=f.optional_text("comment"),
                skip_lines=f.whole("skip_lines", 0),
                # Names given and nothing said of a header: the file has none.
                header=f.flag("header", columns is None),
                columns=columns,
                encoding=_encoding(f),
                compression=f.choice("compression", (*COMPRESSIONS, AUTO), AUTO),
                max_expansion=f.whole("max_expansion", DEFAULT_MAX_EXPANSION, least=1),
                **place,
            )


_PLACES = ("bucket", "key", "prefix", "glob", "path", "manifest")


def _place(f: Fields) -> dict[str, str | None]:
    """Where the source is: exactly one of the ways to say it."""
    local = f.optional_path("path")
    place = {name: f.optional_text(name) for name in ("bucket", "key", "glob", "manifest")}
    # All objects of a bucket have the prefix "".
    prefix = f.raw("prefix")
    if prefix is not None and prefix != "":
        prefix = f.text("prefix")
    version = {name: f.optional_text(name) for name in ("version_id", "etag")}
    place |= {"path": local, "prefix": prefix}
    given = [name for name in _PLACES[1:] if place[name] is not None]
    if local and any(version.values()):
        raise f.wrong("path", local, "an object's bucket and key: files have no versions")
    if len(given) > 1:
        raise InvalidPayload(
            f"{f.path(given[0])!r} and {f.path(given[1])!r} are two sources; give one"
        )
    in_bucket = not given or given[0] in ("key", "prefix", "glob")
    if in_bucket:
        f.text("bucket")
        if not given:
            f.text("key")
    elif place["bucket"] is not None:
        raise InvalidPayload(
            f"{f.path('bucket')!r} and {f.path(given[0])!r} are two sources; give one"
        )
    if given != ["key"] and any(version.values()):
        named = "version_id" if version["version_id"] else "etag"
        raise f.wrong(named, version[named], "left out: only one object has a version")
    return place | version


def _encoding(f: Fields) -> str:
    name = f.text("encoding", "utf-8")
    plain = name.lower().replace("_", "-")
    return "utf-8" if plain in ("utf8", "utf-8", "utf-8-sig") else plain


@dataclass(frozen=True, slots=True)
class ColumnMapping(Message):
    """Which attributes columns become."""

    rename: Mapping[str, str] = field(default_factory=dict)
    """The names of columns, and those of their attributes."""
    drop: tuple[str, ...] = ()
    """Columns that become none."""
    set: Mapping[str, str] = field(default_factory=dict)
    """Attributes of their own: constants, or composed (`USER#{id}`)."""

    def to_json(self) -> dict[str, Any]:
        return {"rename": dict(self.rename), "drop": list(self.drop), "set": dict(self.set)}

    @classmethod
    def from_json(cls, value: object, path: str = "mapping") -> Self:
        with Fields(value, path) as f:
            drop = f.texts("drop") if f.has("drop") else ()
            f.raw("drop")
            return cls(f.text_map("rename"), drop, f.text_map("set"))

    def __bool__(self) -> bool:
        return bool(self.rename or self.drop or self.set)


@dataclass(frozen=True, slots=True)
class Nulls(Message):
    """What is no value, and what becomes of it."""

    policy: str = OMIT
    """`omit`: no attribute. `null`: one of type NULL. `empty`: an empty string. `reject`."""
    markers: tuple[str, ...] = ()
    """Texts that stand for no value, besides the empty one."""

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "markers": list(self.markers)}

    @classmethod
    def from_json(cls, value: object, path: str = "nulls") -> Self:
        with Fields(value, path) as f:
            markers = f.texts("markers") if f.has("markers") else ()
            f.raw("markers")
            return cls(f.choice("policy", NULL_POLICIES, OMIT), markers)

    def __bool__(self) -> bool:
        return self != Nulls()


@dataclass(frozen=True, slots=True)
class Options(Message):
    """Limits and knobs of a run. But for the first two, none of them changes what the items are."""

    mode: str = PUT
    position_attribute: str | None = None
    """Where `last-wins` keeps each item's position. No other mode has one."""
    engine: str = "async"
    workers: int = DEFAULT_WORKERS
    concurrency: int = DEFAULT_CONCURRENCY
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    max_wcu: float | None = None
    max_rejects: int = DEFAULT_MAX_REJECTS
    max_row_bytes: int = DEFAULT_MAX_ROW_BYTES

    @classmethod
    def from_json(cls, value: object, path: str = "options") -> Self:
        with Fields(value, path) as f:
            mode = f.choice("mode", MODES, PUT)
            return cls(
                mode=mode,
                position_attribute=_position_attribute(f, mode),
                engine=f.choice("engine", ENGINES, "async"),
                workers=f.whole("workers", DEFAULT_WORKERS, least=1, most=10_000),
                concurrency=f.whole(
                    "concurrency", DEFAULT_CONCURRENCY, least=1, most=MAX_CONCURRENCY
                ),
                chunk_bytes=f.whole("chunk_bytes", DEFAULT_CHUNK_BYTES, least=1),
                max_wcu=f.optional_number("max_wcu", least=1.0),
                max_rejects=f.whole("max_rejects", DEFAULT_MAX_REJECTS),
                max_row_bytes=f.whole("max_row_bytes", DEFAULT_MAX_ROW_BYTES, least=1),
            )


def _position_attribute(f: Fields, mode: str) -> str | None:
    name = f.optional_text("position_attribute")
    if mode == LAST_WINS and name is None:
        raise InvalidPayload(
            f"{f.path('position_attribute')!r} is missing: mode {LAST_WINS} keeps there, in each"
            " item, where its row stands; name an attribute that nothing else uses"
        )
    if mode != LAST_WINS and name is not None:
        raise InvalidPayload(
            f"{f.path('position_attribute')!r} is for mode {LAST_WINS}, and the mode is {mode}"
        )
    return name


@dataclass(frozen=True, slots=True)
class Payload(Message):
    """The execution's input: what to load into which table."""

    source: Source
    table: str
    types: Mapping[str, str] = field(default_factory=dict)
    """Of attributes, so of columns after the mapping."""
    options: Options = field(default_factory=Options)
    run: str | None = None
    infer_types: bool = False
    """Whether attributes without a declared type get one from the first rows."""
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    nulls: Nulls = field(default_factory=Nulls)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": {"id": self.run, "resume_of": None, "force": False},
            "source": self.source.to_json(),
            "target": {"table": self.table},
            "types": dict(self.types),
            "infer_types": self.infer_types,
            "mapping": self.mapping.to_json(),
            "nulls": self.nulls.to_json(),
            "options": self.options.to_json(),
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        with Fields(value) as f:
            with f.nested("run") as run:
                given = run.optional_text("id")
                _refuse_force(run)
                if run.raw("resume_of") is not None:
                    raise InvalidPayload(
                        "'run.resume_of' is for the deployed state machine; here the run's own id"
                        " continues it"
                    )
            with Fields(f.required("target"), "target") as target:
                table = target.text("table")
                if table.startswith("arn:"):
                    raise TableNotAllowed(
                        f"{table}: name the table; ddbload writes tables of its own account and"
                        " region, and no other's"
                    )
                if not _TABLE.fullmatch(table):
                    raise target.wrong(
                        "table",
                        table,
                        "the name of a table in this account and region: 3 to 255 letters,"
                        " digits, '.', '_' or '-'",
                    )
            types = f.text_map("types")
            mapping, nulls, options = (f.raw(name) for name in ("mapping", "nulls", "options"))
            for column, kind in types.items():
                if kind not in TYPES:
                    shown = f"types.{column}"
                    raise InvalidPayload(f"{shown!r} must be one of {', '.join(TYPES)}")
            return cls(
                source=Source.from_json(f.required("source")),
                table=table,
                types=types,
                infer_types=f.flag("infer_types", default=False),
                mapping=ColumnMapping.from_json({} if mapping is None else mapping),
                nulls=Nulls.from_json({} if nulls is None else nulls),
                options=Options.from_json({} if options is None else options),
                run=None if given is None else run_id(given),
            )


def _refuse_force(run: Fields) -> None:
    if run.raw("force") not in (None, False):
        raise InvalidPayload(
            "'run.force' is not supported by this version; to load a source again, give another"
            " run id"
        )


_WHAT = ("source", "target", "types", "infer_types", "mapping", "nulls")


@dataclass(frozen=True, slots=True)
class Resume:
    """An execution's input that takes up an earlier run, which says what to load."""

    run: str
    options: Mapping[str, Any]
    """Those that are to differ from the earlier run's."""

    @classmethod
    def asked_for(cls, value: object) -> Self | None:
        """None when the input names no earlier run. Raises `InvalidPayload`."""
        run = value.get("run") if isinstance(value, Mapping) else None
        if not isinstance(run, Mapping) or run.get("resume_of") is None:
            return None
        with Fields(value) as f:
            with f.nested("run") as fields_of_run:
                earlier = run_id(fields_of_run.text("resume_of"))
                given = fields_of_run.optional_text("id")
                _refuse_force(fields_of_run)
            more = [name for name in _WHAT if f.raw(name)]
            if more or given not in (None, earlier):
                named = repr(more[0] if more else "run.id")
                raise InvalidPayload(
                    f"{named} cannot be given with 'run.resume_of': the earlier run says what to"
                    " load, under its own id; only 'options' may differ"
                )
            options = f.mapping("options") if f.has("options") else f.raw("options") or {}
            return cls(earlier, options)

    def payload(self, record: RunRecord) -> Payload:
        """What to load: the version that the run is pinned to, with these options' changes."""
        earlier, pinned = record.payload, record.pinned
        options = Options.from_json({**earlier.options.to_json(), **self.options})
        source = earlier.source
        if source.key is not None:
            source = replace(source, version_id=pinned.get("version_id"), etag=pinned.get("etag"))
        elif source.path is not None and record.objects is None:
            # The path may have been given relative to another folder.
            source = replace(source, path=str(pinned["path"]))
        return replace(earlier, source=source, options=options)


@dataclass(frozen=True, slots=True)
class KeyAttribute(Message):
    """An attribute that a key, of the table or of an index, is made of."""

    name: str
    type: str
    max_bytes: int
    """DynamoDB's limit for a string in this place."""

    @classmethod
    def from_json(cls, value: object, path: str = "key") -> Self:
        with Fields(value, path) as f:
            return cls(f.text("name"), f.text("type"), f.whole("max_bytes", least=1))


@dataclass(frozen=True, slots=True)
class Table(Message):
    """The table as it was described when the run began."""

    name: str
    id: str
    """Tells a table from another of the same name that was made later."""
    keys: tuple[KeyAttribute, ...]
    """Partition key, then the sort key where there is one."""
    index_keys: tuple[KeyAttribute, ...] = ()

    @classmethod
    def from_json(cls, value: object, path: str = "table") -> Self:
        with Fields(value, path) as f:
            return cls(
                name=f.text("name"),
                id=f.text("id"),
                keys=tuple(KeyAttribute.from_json(k) for k in f.items("keys")),
                index_keys=tuple(KeyAttribute.from_json(k) for k in f.items("index_keys")),
            )


@dataclass(frozen=True, slots=True)
class RunRecord(Message):
    """`run.json`: everything that the workers of one run share."""

    run: str
    payload: Payload
    pinned: Mapping[str, Any]
    """The source's version: what `source` needs to notice another one."""
    size: int | None
    """Bytes that are read; None where only reading says how many they are."""
    data_start: Cursor
    """Where the rows begin: after the byte order mark and the header. Of several objects only
    their rows count, so that these begin at 0."""
    columns: tuple[str, ...]
    """Of delimited text; JSON has none."""
    types: tuple[str, ...]
    """One type an attribute that the columns become, the table's key types included."""
    table: Table
    chunk_bytes: int
    """As asked for, or more: a run has at most 20,000 chunks."""
    workers: int
    """Chunks imported at once."""
    created: float
    """Seconds since the epoch."""
    objects: int | None = None
    """How many there are, where the source is several; None: it is one."""
    listing: str | None = None
    """The name of their listing in the ledger."""
    ledger_version: int = LEDGER_VERSION
    """The ledger's version, fixed when the run begins."""

    @property
    def configuration(self) -> str:
        """A hash of what determines the items, and of nothing else (SHA-256, hexadecimal)."""
        payload = self.payload
        source = payload.source
        decisive: dict[str, Any] = {
            "source": dict(self.pinned),
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "header": source.header,
            "encoding": source.encoding,
            "columns": list(self.columns),
            "types": list(self.types),
            "mode": payload.options.mode,
            "table": self.table.id,
        }
        # Left out where there is none: runs that began before it was known keep their hashes.
        later: dict[str, Any] = {
            "position_attribute": payload.options.position_attribute,
            "escape": source.escape,
            "comment": source.comment,
            "skip_lines": source.skip_lines,
            "mapping": payload.mapping.to_json() if payload.mapping else None,
            "nulls": payload.nulls.to_json() if payload.nulls else None,
            "declared": None if source.delimited else dict(payload.types),
        }
        decisive |= {name: value for name, value in later.items() if value}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def with_options(self, later: RunRecord) -> Self:
        """The same run, under the limits of a later call."""
        payload = replace(self.payload, options=later.payload.options)
        return replace(self, payload=payload, workers=later.workers)

    @property
    def keeps_attempts(self) -> bool:
        """Invocations record in the ledger how far they may have sent rows."""
        return self.payload.options.mode == INSERT and self.ledger_version >= LEDGER_VERSION

    @property
    def stamp(self) -> dict[str, str]:
        """The run id and configuration that each segment and manifest part carries.

        Empty in ledgers of version 1.
        """
        if self.ledger_version < LEDGER_VERSION:
            return {}
        return {"run": self.run, "configuration": self.configuration}

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "payload": self.payload.to_json(),
            "pinned": dict(self.pinned),
            "size": self.size,
            "data_start": self.data_start.to_json(),
            "columns": list(self.columns),
            "types": list(self.types),
            "table": self.table.to_json(),
            "chunk_bytes": self.chunk_bytes,
            "workers": self.workers,
            "created": self.created,
            "objects": self.objects,
            "listing": self.listing,
            "ledger_version": self.ledger_version,
            "configuration": self.configuration,
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        with Fields(value, "run") as f:
            configuration = f.text("configuration")
            record = cls(
                run=f.text("run"),
                payload=Payload.from_json(f.required("payload")),
                pinned=f.mapping("pinned"),
                size=f.optional_whole("size"),
                data_start=Cursor.from_json(f.required("data_start")),
                columns=f.texts("columns"),
                types=f.texts("types"),
                table=Table.from_json(f.required("table")),
                chunk_bytes=f.whole("chunk_bytes", least=1),
                workers=f.whole("workers", least=1),
                created=f.number("created"),
                objects=f.optional_whole("objects"),
                listing=f.optional_text("listing"),
                ledger_version=f.whole("ledger_version", 1, least=1, most=LEDGER_VERSION),
            )
            if record.configuration != configuration:
                raise f.wrong("configuration", configuration, "that of this record")
            return record


@dataclass(frozen=True, slots=True)
class Part(Message):
    """An object, or the whole source, as a chunk reads it."""

    pinned: Mapping[str, Any]
    base: int
    """Where its first row begins, among the rows of all objects."""
    skip: int
    """Bytes of it before that row: byte order mark, skipped lines, header."""
    line: int
    """That row's line."""
    size: int
    """Bytes of its rows."""

    @property
    def end(self) -> int:
        """Where its rows end, among the rows of all objects."""
        return self.base + self.size

    @classmethod
    def from_json(cls, value: object, path: str = "part") -> Self:
        with Fields(value, path) as f:
            return cls(
                pinned=f.mapping("pinned"),
                base=f.whole("base"),
                skip=f.whole("skip"),
                line=f.whole("line", least=1),
                size=f.whole("size"),
            )


@dataclass(frozen=True, slots=True)
class Chunk(WholeNumbers):
    """A byte range of whole rows: `start` inclusive, `end` exclusive."""

    chunk: int
    start: int
    end: int
    first_line: int


@dataclass(frozen=True, slots=True)
class Counts(WholeNumbers):
    """What became of rows. The law: read = written + rejected + superseded + skipped."""

    read: int = 0
    written: int = 0
    rejected: int = 0
    superseded: int = 0
    skipped: int = 0

    @property
    def conserved(self) -> bool:
        """Whether the conservation law holds."""
        return self.read == self.written + self.rejected + self.superseded + self.skipped

    @property
    def all_rejected(self) -> bool:
        """At least one row was read, and every row was rejected."""
        return 0 < self.read == self.rejected

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Work(Message):
    """What writing took."""

    requests: int = 0
    throttled: int = 0
    """Requests that DynamoDB refused, or returned items of, for want of capacity."""
    retries: int = 0
    """Requests that carried a row which had been sent before."""
    consumed_wcu: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    @classmethod
    def from_json(cls, value: object, path: str = "work") -> Self:
        with Fields(value, path) as f:
            return cls(
                requests=f.whole("requests"),
                throttled=f.whole("throttled"),
                retries=f.whole("retries"),
                consumed_wcu=f.number("consumed_wcu"),
            )


def _planned(f: Fields) -> Planned | None:
    value = f.raw("planned")
    return None if value is None else Planned.from_json(value, "planned")


def _without_null(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Without fields that earlier versions do not know, where they say nothing."""
    return {key: each for key, each in value.items() if key not in names or each is not None}


def _values(message: Counts | Work) -> list[Any]:
    return [getattr(message, each.name) for each in fields(message)]


@dataclass(frozen=True, slots=True)
class Planned(WholeNumbers):
    """What rows would come to that mode `plan` did not send."""

    items: int = 0
    item_bytes: int = 0
    write_units: int = 0
    """Of the table, without its indexes."""
    largest_item: int = 0
    """Bytes."""

    def __add__(self, other: Planned) -> Planned:
        return Planned(
            self.items + other.items,
            self.item_bytes + other.item_bytes,
            self.write_units + other.write_units,
            max(self.largest_item, other.largest_item),
        )


@dataclass(frozen=True, slots=True)
class Segment(Message):
    """One invocation's work on a chunk: the rows from `start` up to, not with, `end`."""

    chunk: int
    start: Cursor
    end: Cursor
    proven: bool
    """The chunk's last byte was reached, and it ended a row."""
    rows: Counts
    work: Work
    rejects: str | None
    """The ledger's name of this segment's rejects, where there are any."""
    planned: Planned | None = None
    """What the rows would come to, where nothing was sent."""
    identical: int | None = None
    """Skipped rows that found an identical item; None if not known."""

    def to_json(self) -> dict[str, Any]:
        return _without_null(asdict(self), "planned", "identical")

    @classmethod
    def from_json(cls, value: object, path: str = "segment") -> Self:
        with Fields(value, path) as f:
            return cls(
                chunk=f.whole("chunk"),
                start=Cursor.from_json(f.required("start"), "start"),
                end=Cursor.from_json(f.required("end"), "end"),
                proven=f.flag("proven"),
                rows=Counts.from_json(f.required("rows")),
                work=Work.from_json(f.required("work")),
                rejects=f.optional_text("rejects"),
                planned=_planned(f),
                identical=f.optional_whole("identical"),
            )


@dataclass(frozen=True, slots=True)
class PreflightCursor(WholeNumbers):
    """Where a scan goes on: the first row of the next chunk, and that chunk's number."""

    LATER = frozenset({"object", "base"})

    byte: int
    line: int
    chunk: int
    object: int = 0
    """Which of several objects the row stands in, counted from 0."""
    base: int = 0
    """Where that object's rows begin, among the rows of all."""


@dataclass(frozen=True, slots=True)
class PreflightTask:
    """What the Preflight state gets: the user's input whole, a run id, and where to go on."""

    input: object
    run: str
    cursor: PreflightCursor | None = None
    execution: str | None = None
    """The execution's ARN, where a state machine runs this."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The state: as `Begin` makes it, and later as Preflight itself left it."""
        with Fields(value, "state") as f:
            cursor = f.raw("cursor")
            for name in ("manifest", "chunks", "workers"):
                f.raw(name)
            return cls(
                input=f.raw("input"),
                # Checked where it is used: the name of an execution may be no run's.
                run=f.text("run"),
                cursor=None if cursor is None else PreflightCursor.from_json(cursor, "cursor"),
                execution=f.optional_text("execution"),
            )


@dataclass(frozen=True, slots=True)
class PreflightResult(Message):
    """`cursor` null: the manifest is whole, and lies at `manifest` in the ledger's store."""

    run: str
    cursor: PreflightCursor | None
    manifest: str
    chunks: int
    workers: int


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """Why something failed: an error's name and its message, without row data."""

    name: str
    message: str
    chunk: int | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "error") -> Self:
        with Fields(value, path) as f:
            return cls(f.text("name"), f.text("message"), f.optional_whole("chunk"))

    @classmethod
    def caught(cls, value: object) -> Self:
        """What the state machine caught. A function's own error stands in its Cause as JSON."""
        with Fields(value, "error") as f:
            name, message = f.text("Error", "UnknownError"), str(f.raw("Cause") or "")
        try:
            message = str(json.loads(message)["errorMessage"])
        except (ValueError, LookupError, TypeError):
            pass
        return cls(name, message[:MAX_CAUSE] or "no cause was given")

    def to_end_by(self) -> Self:
        """The same by a name that a Fail state may end by.

        Those that begin with `States.` the Amazon States Language keeps for itself.
        """
        return replace(self, name=self.name.removeprefix("States."))


@dataclass(frozen=True, slots=True)
class ImportTask:
    """What the ImportChunk state gets. `stalled`: continuations in a row that settled nothing."""

    run: str
    chunk: Chunk
    cursor: Cursor | None = None
    stalled: int = 0
    error: Failure | None = None
    """What the state machine caught: the step failed for good, and word of it is to be left."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        with Fields(value, "state") as f:
            cursor, error = f.raw("cursor"), f.raw("error")
            return cls(
                run=run_id(f.text("run")),
                chunk=Chunk.from_json(f.required("chunk")),
                cursor=None if cursor is None else Cursor.from_json(cursor),
                stalled=f.whole("stalled", 0),
                error=None if error is None else Failure.caught(error).to_end_by(),
            )


@dataclass(frozen=True, slots=True)
class ImportResult(Message):
    """`cursor` null: the chunk is imported, to its last byte."""

    run: str
    chunk: Chunk
    cursor: Cursor | None
    stalled: int
    segment: Segment | None
    """The segment that counts: written by this step, or adopted; null when nothing settled."""
    adopted: bool = False
    error: Failure | None = None
    """What the step had failed of; null unless that is all that was to be noted."""

    def to_json(self) -> dict[str, Any]:
        """The next state: an `ImportTask`. The segment stays out of it: the ledger has it."""
        value: dict[str, Any] = {
            "run": self.run,
            "chunk": self.chunk.to_json(),
            "cursor": None if self.cursor is None else self.cursor.to_json(),
            "stalled": self.stalled,
        }
        return value if self.error is None else {**value, "error": self.error.to_json()}


@dataclass(frozen=True, slots=True)
class ReportTask:
    """What the Report state gets: the state as it stands when all chunks are through, or none."""

    run: str
    input: object = None
    """The user's, where Preflight never answered."""
    error: Failure | None = None
    """What the state machine caught."""
    planned: bool = True
    """Whether Preflight came to its end, so that what was caught was not its error."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        with Fields(value, "state") as f:
            error = f.raw("error")
            for name in ("execution", "chunks", "workers"):
                f.raw(name)
            caught = Failure.caught(error).to_end_by() if error else None
            planned = f.raw("cursor") is None and f.raw("manifest") is not None
            return cls(f.text("run"), f.raw("input"), caught, planned)

    def asked_for(self) -> str:
        """The run that the user's input names, as far as it can be read; else the execution's."""
        run = self.input.get("run") if isinstance(self.input, Mapping) else None
        named = (run.get("id") or run.get("resume_of")) if isinstance(run, Mapping) else None
        return named if isinstance(named, str) else self.run


@dataclass(frozen=True, slots=True)
class Outcome(Message):
    """What an execution came to: its output, or, by way of `error`, how it fails."""

    run: str
    status: str
    """SUCCEEDED, SUCCEEDED_WITH_REJECTS or FAILED."""
    rows: Counts
    chunks: int
    chunks_done: int
    rejects: str | None
    error: Failure | None


@dataclass(frozen=True, slots=True)
class Report(Message):
    """`report.json`: the run, reconciled from its ledger."""

    run: str
    status: str
    """One of `STATUSES`. Reports of earlier versions say SUCCEEDED, rejects or not."""
    rows: Counts
    work: Work
    bytes: int
    """Of the source, settled: its header, and the rows that are."""
    size: int
    chunks: int
    chunks_done: int
    seconds: float
    """From the run's record to this report."""
    rejects: str | None
    """Where the rejects lie, where there are any."""
    error: Failure | None
    failures: tuple[Failure, ...] = ()
    """Every chunk that is not imported and left word why."""
    planned: Planned | None = None
    """What the rows would come to, where mode `plan` sent none."""
    identical: int | None = None
    """Skipped rows that found an identical item; None if not known."""

    def to_json(self) -> dict[str, Any]:
        return _without_null(asdict(self), "planned", "identical")

    @classmethod
    def from_json(cls, value: object) -> Self:
        with Fields(value, "report") as f:
            return cls(
                run=f.text("run"),
                status=f.text("status"),
                rows=Counts.from_json(f.required("rows")),
                work=Work.from_json(f.required("work")),
                bytes=f.whole("bytes"),
                size=f.whole("size"),
                chunks=f.whole("chunks"),
                chunks_done=f.whole("chunks_done"),
                seconds=f.number("seconds"),
                rejects=f.optional_text("rejects"),
                error=Failure.from_json(f.raw("error")) if f.has("error") else f.raw("error"),
                failures=tuple(Failure.from_json(each) for each in f.items("failures")),
                planned=_planned(f),
                identical=f.optional_whole("identical"),
            )


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """`progress.json`: a local run's sign of life, and how far it is."""

    state: str
    """`running`, and at a graceful end `ended`."""
    step: str
    """`spool`, `preflight` or `import`."""
    host: str
    boot: str
    """The host's boot and namespace of process ids; empty where the system does not tell."""
    pid: int
    at: float
    """Seconds since the epoch."""
    every: float
    """Seconds to the next one."""
    rows: Counts
    """Settled ones, also those of chunks that are being imported."""
    bytes: int
    size: int

    @classmethod
    def from_json(cls, value: object, path: str = "progress") -> Self:
        with Fields(value, path) as f:
            return cls(
                state=f.text("state"),
                step=f.text("step"),
                host=f.text("host"),
                boot=f.raw("boot") or "",
                pid=f.whole("pid"),
                at=f.number("at"),
                every=f.number("every"),
                rows=Counts.from_json(f.required("rows")),
                bytes=f.whole("bytes"),
                size=f.whole("size"),
            )
