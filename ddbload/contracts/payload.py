"""Every message that crosses an edge: between states, processes, and runs.

Each is a frozen dataclass with `to_json` and a strict `from_json` (unknown fields are
`InvalidPayload`). Field names are whole words and changes are additive, because executions
in flight span deployments. Byte offsets are absolute in the source, lines count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ddbload.contracts.json_reader import JsonObjectReader
from ddbload.contracts.messages import Message
from ddbload.dynamodb.write_modes import LAST_WINS, MODES, PUT
from ddbload.errors import InvalidPayload, TableNotAllowed

AUTO = "auto"
"""In place of a format, a delimiter, an encoding or a compression: found out from the source."""
DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The formats of delimited text, and each one's usual delimiter."""
CSV, TSV, JSON, DYNAMODB_JSON, DYNAMODB_EXPORT, PARQUET = FORMATS = (
    *("csv", "tsv", "json", "dynamodb-json", "dynamodb-export", "parquet"),
)
"""The formats that this version reads. `json`: a JSON object a line."""
EXPORT_SUMMARY = "manifest-summary.json"
EXPORT_FILES = "manifest-files.json"
EXPORT_STARTED = "_started"
"""Names of a table export's manifests, and of the empty object that DynamoDB writes first."""
COMPRESSIONS = ("none", "gzip", "zstd")
ENGINES = ("sync", "threads", "async")
TYPES = ("S", "N", "BOOL", "B", "SS", "NS", "BS", "M", "L", "NULL", "epoch")
NULL_POLICIES = OMIT, NULL, EMPTY, REJECT = ("omit", "null", "empty", "reject")
DEFAULT_MAX_EXPANSION = 200
DEFAULT_CHUNK_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_ROW_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_REJECTS = 1000
DEFAULT_WORKERS = 10
DEFAULT_CONCURRENCY = 16
MAX_CONCURRENCY = 256
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)


def check_run_id(text: str) -> str:
    """A run's id as given, or `InvalidPayload`: it becomes a folder's name."""
    if not _RUN_ID.fullmatch(text):
        raise InvalidPayload(
            "a run id has 1 to 80 letters, digits, '.', '_' or '-', and begins with a letter"
            " or digit"
        )
    return text


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
        with JsonObjectReader(value, path) as f:
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


def _place(f: JsonObjectReader) -> dict[str, str | None]:
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


def _encoding(f: JsonObjectReader) -> str:
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
        with JsonObjectReader(value, path) as f:
            drop = f.texts("drop") if f.has("drop") else ()
            f.raw("drop")
            return cls(f.text_map("rename"), drop, f.text_map("set"))

    def __bool__(self) -> bool:
        return bool(self.rename or self.drop or self.set)


@dataclass(frozen=True, slots=True)
class NullHandling(Message):
    """What is no value, and what becomes of it."""

    policy: str = OMIT
    """`omit`: no attribute. `null`: one of type NULL. `empty`: an empty string. `reject`."""
    markers: tuple[str, ...] = ()
    """Texts that stand for no value, besides the empty one."""

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.policy, "markers": list(self.markers)}

    @classmethod
    def from_json(cls, value: object, path: str = "nulls") -> Self:
        with JsonObjectReader(value, path) as f:
            markers = f.texts("markers") if f.has("markers") else ()
            f.raw("markers")
            return cls(f.choice("policy", NULL_POLICIES, OMIT), markers)

    def __bool__(self) -> bool:
        return self != NullHandling()


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
        with JsonObjectReader(value, path) as f:
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


def _position_attribute(f: JsonObjectReader, mode: str) -> str | None:
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
    nulls: NullHandling = field(default_factory=NullHandling)

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
        with JsonObjectReader(value) as f:
            with f.nested("run") as run:
                given = run.optional_text("id")
                refuse_force(run)
                if run.raw("resume_of") is not None:
                    raise InvalidPayload(
                        "'run.resume_of' is for the deployed state machine; here the run's own id"
                        " continues it"
                    )
            with JsonObjectReader(f.required("target"), "target") as target:
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
                nulls=NullHandling.from_json({} if nulls is None else nulls),
                options=Options.from_json({} if options is None else options),
                run=None if given is None else check_run_id(given),
            )


def refuse_force(run: JsonObjectReader) -> None:
    if run.raw("force") not in (None, False):
        raise InvalidPayload(
            "'run.force' is not supported by this version; to load a source again, give another"
            " run id"
        )
