"""The source of a run: where it is, how to read it, and its encoding."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Self

from ddbload.contracts.messages import INPUT, JsonObjectReader, JsonRule, Message, is_text, option
from ddbload.contracts.text_encodings import UTF_8, is_single_byte
from ddbload.errors import InvalidPayload
from ddbload.records import Record

source_option = partial(option, group=INPUT, decisive=True)

AUTO = "auto"
"""Format, delimiter, encoding or compression that preflight detects from the source."""
CSV, TSV, JSON, DYNAMODB_JSON, DYNAMODB_EXPORT, MONGO_JSON, PARQUET = FORMATS = (
    *("csv", "tsv", "json", "dynamodb-json", "dynamodb-export", "mongo-json", "parquet"),
)
"""Supported formats. The rows of `json`, `dynamodb-json` and `mongo-json` are JSON objects, see
`LAYOUTS`."""


class Format(Record):
    """Facts of a format, by which steps treat its files and rows."""

    delimiter: str | None = None
    """Usual delimiter of text whose rows are cells of columns; None if rows are objects."""
    has_layouts: bool = False
    """True if its objects may be other than one a line."""
    is_container: bool = False
    """True if a file is read by row groups, as lines of DynamoDB JSON."""
    is_native: bool = False
    """True if rows are items as DynamoDB writes them: encoded as they are, and read by its own
    importers."""
    is_export: bool = False
    """True if a source is a table export, whose manifest lists the files."""
    is_open: bool = False
    """True until the format is detected."""
    set_type: str = "SS"
    """Type to which UPDATE adds a value that is a list in the file."""

    @property
    def has_columns(self) -> bool:
        """True if rows are cells of columns; false if they are objects that name attributes."""
        return self.delimiter is not None

    @property
    def may_be_export(self) -> bool:
        """True if a source is a table export, or may be one."""
        return self.is_export or self.is_open

    @property
    def retry_format(self) -> str | None:
        """Format of its rejected rows, if that is another."""
        return DYNAMODB_JSON if self.is_container else None

    def least_row_bytes(self, columns: int) -> int:
        """Return the bytes of the shortest row: a delimiter or end for each cell, or one key."""
        return max(1, columns) if self.has_columns else len('{"k":1}')


KINDS = {
    CSV: Format(","),
    TSV: Format("\t"),
    JSON: Format(has_layouts=True, set_type="L"),
    DYNAMODB_JSON: Format(has_layouts=True, is_native=True),
    MONGO_JSON: Format(has_layouts=True, set_type="L"),
    DYNAMODB_EXPORT: Format(is_native=True, is_export=True),
    PARQUET: Format(is_container=True),
    AUTO: Format(has_layouts=True, is_open=True),
}
"""Facts of each format."""
DELIMITERS = {name: kind.delimiter for name, kind in KINDS.items() if kind.delimiter is not None}
"""Formats of delimited text, each with its usual delimiter."""
LAYOUTS = LINES, ARRAY, OBJECT, VALUES = ("lines", "array", "object", "values")
"""Layouts of JSON objects in a file: one a line, in an array, in an array of objects within an
object, and one after the other over several lines."""
EXPORT_SUMMARY = "manifest-summary.json"
EXPORT_FILES = "manifest-files.json"
EXPORT_STARTED = "_started"
"""Names of a table export's manifests, and of the empty object that DynamoDB writes first."""


def is_export_manifest(location: str) -> bool:
    """Return whether a path or URI has the name of an export's manifest."""
    return posixpath.basename(location) in (EXPORT_SUMMARY, EXPORT_FILES)


COMPRESSIONS = UNCOMPRESSED, GZIP, ZSTD, BZIP2, XZ = ("none", "gzip", "zstd", "bzip2", "xz")
ZIP = "zip"
"""Kind of an archive, whose members are objects of a source."""


def is_archive(pinned: Mapping[str, Any]) -> bool:
    """Return whether an object has the name of a ZIP archive, and is not a member of one."""
    name = str(pinned.get("path") or pinned.get("key"))
    return "member" not in pinned and name.lower().endswith(f".{ZIP}")


MATCHES = BY_NAME, BY_POSITION = ("name", "position")
"""Ways to match columns of several objects with those of the first."""
DUPLICATES = REFUSE, NUMBER = ("refuse", "number")
"""Ways to treat columns with the same name."""
DEFAULT_MAX_EXPANSION = 200
MAX_SOURCES = 10_000
"""Paths and URIs that a run may name; a manifest lists more."""
_SHOWN_SOURCES = 3


_BARE_TEXT = {"delimiter": "\t", "quote": None, "escape": "\\"}
DUMPS: Mapping[str, Mapping[str, str | None]] = {
    "mysql": _BARE_TEXT,
    "postgres": _BARE_TEXT,
    "hive": {"delimiter": "\x01", "quote": None},
}
r"""Marks of the text that databases write, in which `\N` is null."""
PRESETS = {"excel": {"delimiter": ","}, **DUMPS, "unix": {"delimiter": ","}}
"""Fields that a dialect gives, where they are not given themselves."""


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
    return "" if f.raw("prefix") == "" else f.optional("prefix", JsonObjectReader.text)


def _read_path(f: JsonObjectReader) -> str | None:
    # Bytes of a file name that are not UTF-8 are surrogates in Python, and allowed here.
    path = f.raw("path")
    if path is not None and (not isinstance(path, str) or not path):
        raise f.wrong("path", path, "a string that is not empty")
    return path


def _read_sources(f: JsonObjectReader) -> tuple[str, ...] | None:
    if not f.has("sources"):
        return None
    named = f.items("sources")
    if not named or not all(isinstance(each, str) and each for each in named):
        raise f.wrong("sources", named, "a list of at least one path or s3:// URI")
    if len(named) > MAX_SOURCES:
        raise InvalidPayload(
            f"{f.path('sources')!r} has {len(named):,} names, and may have {MAX_SOURCES:,}: list"
            " them in a file, and give that as a manifest"
        )
    known: set[str] = set()
    for each in named:
        source_fields(each)
        if each in known:
            raise InvalidPayload(f"{each} is given twice as a source; give it once")
        known.add(each)
    return tuple(named)


def source_fields(source: str) -> dict[str, str]:
    """Parse a path or an s3:// URI into the fields of a source.

    An S3 key that ends with a slash is a prefix, one with `*`, `?` or `[` is a glob. Raises
    `InvalidPayload`.
    """
    if not source.startswith("s3://"):
        return {"path": source}
    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not is_text(source):
        raise InvalidPayload("the bucket and key are not valid UTF-8, so S3 has no such object")
    if not bucket or (not key and not source.endswith("/")):
        raise InvalidPayload(
            f"{source} names no object; write s3://{bucket or 'bucket'}/ for all objects of the"
            " bucket, or s3://bucket/key, or s3://bucket/prefix/"
        )
    if key == "" or key.endswith("/"):
        return {"bucket": bucket, "prefix": key}
    if any(character in key for character in "*?["):
        return {"bucket": bucket, "glob": key}
    return {"bucket": bucket, "key": key}


class Source(Message):
    """The source of a run, and how to read it.

    It is one of: `bucket` and `key`, an object; `bucket` and `prefix` or `glob`, several objects;
    `path`, a local file, folder or glob; `manifest`, a path or s3:// URI of a list of objects;
    `sources`, several of these, each a path or an s3:// URI.
    """

    WRITTEN_BY_USERS = True

    format: Annotated[str, JsonRule(choices=(*FORMATS, AUTO))] = source_option(
        CSV,
        f"Format of the source: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}. auto detects it.",
        metavar="FORMAT",
        typed=AUTO,
        common=True,
    )
    layout: Annotated[str, JsonRule(choices=(*LAYOUTS, AUTO), sparse=True)] = source_option(
        AUTO,
        "How the objects of JSON are written: one a line, in an array, in an array within an object"
        " (such as the output of a scan), or as values over several lines.",
    )
    from_table: Annotated[str | None, JsonRule(sparse=True)] = source_option(
        None,
        "Table whose rows are read from a file that names tables: requests of batch-write-item, or"
        " a model of NoSQL Workbench.",
        metavar="NAME",
        default_text="the table that is written",
    )
    delimiter: Annotated[str, JsonRule(read=_read_delimiter)] = source_option(
        ",",
        "Field delimiter: tab, comma, pipe, semicolon, space, or characters; a control character as"
        r" \x01.",
        metavar="TEXT",
        typed=None,
        default_text="detected; a tab with --format tsv",
        common=True,
        delimited=True,
    )
    dialect: Annotated[str | None, JsonRule(choices=tuple(PRESETS), sparse=True)] = source_option(
        None,
        "Read the text that a program writes: delimiter, quote, escape with its letters, and null."
        " Options for these come first.",
        delimited=True,
    )
    quote: Annotated[str | None, JsonRule(read=_read_quote)] = source_option(
        '"',
        "Quote character; 'none' if the file has none.",
        metavar="CHAR",
        typed=None,
        default_text='"',
        common=True,
        delimited=True,
    )
    escape: str | None = source_option(
        None,
        r"Escape character, such as \: the character after it is taken as it is.",
        metavar="CHAR",
        default_text="none; quotes are doubled",
        delimited=True,
    )
    comment: str | None = source_option(
        None, "Skip lines that begin with TEXT, such as #.", metavar="TEXT", delimited=True
    )
    skip_lines: int = source_option(0, "Skip N lines before the header.", metavar="N", common=True)
    header: Annotated[bool, JsonRule(read=_read_header)] = source_option(
        True,
        "Take the first row as column names, or as data.",
        flag="--header/--no-header",
        typed=None,
        default_text="--header; --no-header with --columns",
        common=True,
        delimited=True,
    )
    columns: Annotated[tuple[str, ...] | None, JsonRule(read=_read_columns)] = source_option(
        None,
        "Column names, in the order of the file.",
        metavar="A,B,...",
        default_text="the header; without one c1,c2,...",
        common=True,
        delimited=True,
    )
    match: Annotated[str, JsonRule(choices=MATCHES, sparse=True)] = source_option(
        BY_NAME,
        "Several files with headers: match columns with the first file's by name, in any order and"
        " without those that a file lacks, or by position, where every header must be equal.",
        delimited=True,
    )
    duplicate_columns: Annotated[str, JsonRule(choices=DUPLICATES, sparse=True)] = source_option(
        REFUSE,
        "For columns with the same name: refuse the file, or number them (name, name_2).",
        delimited=True,
    )
    decimal: Annotated[str, JsonRule(choices=(".", ","), sparse=True)] = source_option(
        ".", "Decimal sign of the numbers in columns of type N.", delimited=True
    )
    thousands: Annotated[str | None, JsonRule(choices=(".", ",", "'", " "), sparse=True)] = (
        source_option(
            None,
            "Sign between the thousands of these numbers; a blank is also a no-break space.",
            delimited=True,
        )
    )
    encoding: Annotated[str, JsonRule(read=_read_encoding)] = source_option(
        "utf-8",
        "Character encoding, such as utf-16 or latin-1. auto uses the byte order mark; without one,"
        " UTF-8.",
        metavar="NAME",
        typed=AUTO,
        common=True,
    )
    compression: Annotated[str, JsonRule(choices=(*COMPRESSIONS, AUTO))] = source_option(
        AUTO, "Compression of the source. auto detects it from the first bytes."
    )
    max_expansion: Annotated[int, JsonRule(least=1)] = source_option(
        DEFAULT_MAX_EXPANSION,
        "Refuse compressed data that expands more than N times.",
        metavar="N",
        decisive=False,
    )
    bucket: Annotated[str | None, JsonRule(sparse=True)] = None
    key: Annotated[str | None, JsonRule(sparse=True)] = None
    version_id: Annotated[str | None, JsonRule(sparse=True)] = None
    etag: Annotated[str | None, JsonRule(sparse=True)] = None
    sequencer: Annotated[str | None, JsonRule(sparse=True)] = None
    """Hexadecimal number by which S3 orders the uploads to a key; None if the source was not
    uploaded."""
    prefix: Annotated[str | None, JsonRule(read=_read_prefix, sparse=True)] = None
    glob: Annotated[str | None, JsonRule(sparse=True)] = None
    path: Annotated[str | None, JsonRule(read=_read_path, sparse=True)] = None
    manifest: Annotated[str | None, JsonRule(sparse=True)] = None
    sources: Annotated[tuple[str, ...] | None, JsonRule(read=_read_sources, sparse=True)] = None
    to_table: Annotated[str | None, JsonRule(sparse=True)] = None
    """Table that is written, once a file was found whose objects hold arrays of rows."""
    within: Annotated[str | None, JsonRule(sparse=True)] = None
    """`bucket/prefix` that all objects of the run must have; None for no limit. An upload's rule
    sets it, because the uploaded file may be a manifest that names others' objects."""

    @property
    def uri(self) -> str:
        """The source as users write it: a path or an s3:// URI."""
        local = self.path if self.path is not None else self.manifest
        if local is not None:
            return local
        if self.sources is not None:
            shown = self.sources[:_SHOWN_SOURCES]
            more = len(self.sources) - len(shown)
            return ", ".join(shown) + (f" and {more:,} more" if more else "")
        return f"s3://{self.bucket}/{self.key or self.prefix or self.glob or ''}"

    @property
    def names(self) -> tuple[str, ...]:
        """All sources as users write them."""
        return (self.uri,) if self.sources is None else self.sources

    @property
    def parts(self) -> tuple[Source, ...]:
        """Each of the sources by itself. Raises `InvalidPayload`."""
        # Any: all fields of a location are text.
        fields: list[dict[str, Any]] = [dict(source_fields(each)) for each in self.sources or ()]
        return tuple(replace(self, sources=None, **each) for each in fields)

    @property
    def location(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """The fields that locate the source; equal for two sources of the same objects."""
        return tuple(getattr(self, name) for name in _LOCATION)

    def beside(self, join: Callable[[str], str]) -> Source:
        """Return the source with each local path passed through `join`; URIs stay."""

        def moved(name: str) -> str:
            return name if name.startswith("s3://") else join(name)

        return replace(
            self,
            path=None if self.path is None else join(self.path),
            manifest=None if self.manifest is None else moved(self.manifest),
            sources=None if self.sources is None else tuple(map(moved, self.sources)),
        )

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        if isinstance(value, Mapping) and (preset := PRESETS.get(str(value.get("dialect")))):
            given = {k: v for k, v in value.items() if v is not None or k in ("quote", "escape")}
            value = {**preset, **given}
        return super().from_json(value, path)

    def cell_type(self, kind: str) -> str:
        """Return the type by which cells are read: a number's has the form of the source's."""
        return kind if kind != "N" or not self.number_signs else f"N:{self.number_signs}"

    @property
    def number_signs(self) -> str:
        """Decimal sign and separator of the numbers in cells; empty for a point and none."""
        signs = f"{self.decimal}{self.thousands or ''}"
        return "" if signs == "." else signs

    @property
    def framed(self) -> bool:
        """True if JSON objects are not one a line, so that rows begin at values."""
        return self.layout not in (AUTO, LINES)

    @property
    def table_of_rows(self) -> str | None:
        """Table whose rows are read from a file that names tables; None for the first named."""
        return self.from_table or self.to_table

    @property
    def kind(self) -> Format:
        """Facts of the format."""
        return KINDS[self.format]

    @property
    def names_object(self) -> bool:
        """True if the source is one S3 object of rows; for others it depends on what is found."""
        is_export = self.kind.may_be_export and is_export_manifest(self.key or "")
        return self.key is not None and not is_export

    @property
    def is_bytewise(self) -> bool:
        """True if the text can be decoded from any byte at which a character begins."""
        return self.encoding == UTF_8 or is_single_byte(self.encoding)

    @property
    def is_ranged(self) -> bool:
        """True if a byte range can be read by itself, not from the object's beginning.

        With `auto` each of several objects may be compressed, which is known once it is opened.
        """
        is_plain = self.compression in (UNCOMPRESSED, AUTO)
        return not self.kind.is_container and is_plain and self.is_bytewise

    @property
    def has_cuts(self) -> bool:
        """True if a window of the source shows where a row ends: not where rows are not lines."""
        return self.is_ranged and not self.framed

    @property
    def layout_of_lines(self) -> str:
        """Layout of the same rows when each is written as one line."""
        return LINES if self.framed else self.layout

    def to_json(self) -> dict[str, Any]:
        names = ("version_id", "etag") if self.key is not None else ()
        return {**Message.to_json(self), **{name: getattr(self, name) for name in names}}

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` unless exactly one kind of source is given."""
        if self.bucket is not None and ("/" in self.bucket or self.bucket.startswith("arn:")):
            name = self.bucket.partition("://")[2].partition("/")[0] or "books-bucket"
            raise f.wrong("bucket", self.bucket, f"the name of a bucket alone, such as {name}")
        if self.key is not None and self.key.startswith("s3://"):
            raise f.wrong("key", self.key, "a key within the bucket, without s3:// and the bucket")
        if self.decimal == self.thousands:
            raise f.wrong("thousands", self.thousands, "another sign than 'source.decimal'")
        if self.framed and (not self.kind.has_layouts or self.skip_lines):
            raise f.wrong("layout", self.layout, "left out: it is of JSON, without skip_lines")
        for name in ("version_id", "etag"):
            value = getattr(self, name)
            if value is not None and not _HEADER_TEXT.fullmatch(value):
                raise f.wrong(name, value, "as S3 gives it: visible characters of ASCII")
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


# Characters that a request's header may have; S3's version ids have up to 1,024 bytes.
_HEADER_TEXT = re.compile(r"[!-~]{1,1024}")
_LOCATION = ("bucket", "key", "prefix", "glob", "path", "manifest", "sources")
_OF_A_VERSION = ("version_id", "etag", "sequencer")
LOCATION_FIELDS = (*_LOCATION, *_OF_A_VERSION, "within", "to_table")
"""Fields that say where a source is, or that a run sets; all others say how to read it."""
_IN_BUCKET = ("key", "prefix", "glob")


def _two_sources(f: JsonObjectReader, one: str, other: str) -> InvalidPayload:
    return InvalidPayload(f"{f.path(one)!r} and {f.path(other)!r} are two sources; give one")
