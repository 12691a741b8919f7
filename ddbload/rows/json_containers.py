"""Find the arrays of rows within JSON objects: pages of a scan, write requests, models, and others.

Some of these say which table each array of rows is for.
"""

from __future__ import annotations

import json
import re
from collections import Counter

from ddbload.errors import InvalidJson
from ddbload.rows.blocks import repeated

LARGEST_CONTAINER_START = 4 * 1024 * 1024
"""Bytes of a file within which the first value must begin. No item is as large."""
MAX_CONTAINER_BYTES = 1024 * 1024
"""Maximum bytes of an object after the array of rows that it holds."""
STRING = rb'"[^"\\\x00-\x1f]*+' + repeated(rb'\\[^\x00-\x1f][^"\\\x00-\x1f]*+') + rb'"'
BY_TABLE = frozenset(("RequestItems", "UnprocessedItems", "Responses"))
"""Members of batch-write-item's and batch-get-item's JSON that hold rows by table."""
_ITEMS, _MODEL, _ROWS_OF_MODEL = "Items", "DataModel", ["DataModel", None, "TableData"]
_NAME_IN_MODEL = ["DataModel", None, "TableName"]
_NOT_ROWS = ("UnprocessedKeys", "ConsumedCapacity", "ItemCollectionMetrics")
PAGE = {
    *("$metadata", "Items", "Count", "ScannedCount", "ConsumedCapacity", "LastEvaluatedKey"),
    *("NextToken", "ResponseMetadata"),
}
"""Members of a Scan or Query response printed by the AWS CLI and the SDKs.

`$metadata` is added by the SDK for JavaScript.
"""
AROUND_TABLES = {
    *("$metadata", "ResponseMetadata", "UnprocessedKeys", "ConsumedCapacity"),
    *("ItemCollectionMetrics", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"),
}
"""Members beside rows by table in requests and responses."""
PAGES, _TABLES, _OTHER = range(3)
"""Kinds of outermost objects, of which a file has one: the last is of any other program."""
_OPEN_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET, _QUOTE, _COMMA = b'{[]",'
# The quote alone is a string that is not complete.
_TOKEN = re.compile(STRING + rb'|[\[{}\]",]')
_OBJECTS_BEGIN = re.compile(rb"\[[ \t\r\n]*+(?=\{)")
_OBJECT_IN_LIST = re.compile(STRING + rb"|([\[,]\s*+\{)")
_EMPTY = re.compile(rb"\[\s*+\]")
_REQUESTS_BEGIN = re.compile(rb'\[\s*+\{\s*+"(?:Put|Delete)Request"\s*+:')
_TABLES_BEGIN = re.compile(
    rb'\[\s*+\{\s*+"(?:Table(?:Name|Data|Facets)|(?:Non)?KeyAttributes)"\s*+:'
)
_UNDECIDED = re.compile(rb'\[\s*+(?:\{\s*+(?:"\w*"?\s*)?)?\Z')


class ContainerScanner:
    """Scanner of the text around arrays of rows: all text but the rows is fed to it."""

    def __init__(self, table: str | None = None) -> None:
        """`table`: table whose rows are to be found; None for the first that is named."""
        self.table = table
        self.kind: int | None = None
        """Kind of the outermost objects; None until an array of rows was found."""
        self.has_rows = False
        """True once an array of rows, which may be empty, was found in the current object."""
        self.is_model = False
        """True in a NoSQL Workbench model, whose other tables may be left out."""
        self.others: Counter[str] = Counter()
        """Number of rows of other tables."""
        self.members: frozenset[str] = frozenset()
        """Non-empty members of the last object that has ended."""
        self.unread = 0
        """Bytes at the end of the text fed that are not decided, and are to be fed again."""
        self.is_known = True
        """False in an object whose beginning was not fed."""
        self.fault: InvalidJson | None = None
        """Error of text that begins as this layout does, once `scan_start` found it."""
        self._path: list[str | None] = []
        """Member in each open object, and None for each open array."""
        self._held = bytearray()
        self._at = 0
        self._model_table: str | None = None
        self._counted: tuple[int, str] | None = None
        self._expects_name = False
        # Offset in the source of the text held, and of the outermost object.
        self._byte = self._object_byte = 0
        # Outermost objects that ended, and offsets of those that are lost if others have rows.
        self._objects, self._rowless = 0, list[int]()

    @property
    def names_tables(self) -> bool:
        """True once an array of rows, in any table, was found by its table's name."""
        return self.kind == _TABLES

    def feed(self, data: bytes, byte: int = 0) -> int | None:
        """Scan text; return the offset in it at which rows begin, None if none do.

        `byte`: offset of the text in the source. Raises `InvalidJson`.
        """
        self._byte = byte - len(self._held)
        self._held += data
        self.unread = 0
        while (token := _TOKEN.search(self._held, self._at)) is not None:
            begin, end = token.span()
            mark = self._held[begin]
            if mark == _QUOTE:
                if end - begin == 1:
                    self._at = begin
                    return None
                self._read_string(self._held[begin:end])
            elif mark == _OPEN_BRACKET:
                if _UNDECIDED.match(self._held, begin):
                    self.unread = len(self._held) - begin
                    del self._held[begin:]
                    self._at = begin
                    return None
                rows = self._rows_at(begin)
                self._path.append(None)
                if rows is not None:
                    size = len(self._held)
                    del self._held[end:]
                    self._at = end
                    return len(data) - size + rows
            elif mark == _OPEN_BRACE:
                self._open_object(begin)
            elif mark == _COMMA:
                self._expects_name = bool(self._path) and self._path[-1] is not None
            elif self._close(mark):
                self._end_object(end)
                continue
            self._at = end
        self._at = len(self._held)
        return None

    def check_end(self) -> None:
        """Raise `InvalidJson` unless the last object has ended."""
        if self._path or self.unread or self._held.strip(b" \t\r\n"):
            raise invalid(f"{_NOT_JSON}: it is cut off, or more follows it")

    def _read_string(self, text: bytearray) -> None:
        if self._expects_name:
            self._path[-1] = json.loads(text)
            self._expects_name = False
        elif self._path == _NAME_IN_MODEL:
            self._model_table = json.loads(text)

    def _open_object(self, begin: int) -> None:
        if not self._path:
            if self._held[:begin].strip(b" \t\r\n\xef\xbb\xbf") or self.kind == _OTHER:
                raise self._invalid(f"{_NOT_JSON}: more follows it", begin)
            self._object_byte, self.has_rows = self._byte + begin, False
        counted = self._counted
        if counted is not None and len(self._path) == counted[0]:
            self.others[counted[1]] += 1
        if self._path == [_MODEL, None]:
            self._model_table = None
        self._path.append("")
        self._expects_name = True

    def _close(self, mark: int) -> bool:
        """Close an object or array; return true if it is the outermost. Raises `InvalidJson`."""
        if not self._path:
            raise invalid(f"{_NOT_JSON}: more follows it")
        if (self._path.pop() is None) != (mark == _CLOSE_BRACKET):
            raise invalid(_NOT_JSON)
        if self._counted is not None and len(self._path) < self._counted[0]:
            self._counted = None
        self._expects_name = False
        return not self._path

    def _rows_at(self, begin: int) -> int | None:
        """Return the offset in the text held of the rows of an array; None if it has none."""
        objects = _OBJECTS_BEGIN.match(self._held, begin)
        path, table = self._path, None
        if path == _ROWS_OF_MODEL:
            self.is_model = True
            if self._model_table is None:
                self.kind = _TABLES
                raise self._invalid("a table has its TableData before its TableName", begin)
            table = self._model_table
        elif len(path) == 2 and path[0] in BY_TABLE and path[1] is not None:
            table = path[1]
        elif (
            objects is None
            or not path
            or None in path
            or path[0] in _NOT_ROWS
            or (path == [_MODEL] and _TABLES_BEGIN.match(self._held, begin))
        ):
            return None
        elif len(path) == 1 and _REQUESTS_BEGIN.match(self._held, begin):
            table = path[0]
        kind = _TABLES if table is not None else PAGES if path == [_ITEMS] else _OTHER
        if self.kind not in (None, kind) or self.kind == _OTHER:
            raise self._invalid(_SEVERAL, begin)
        self.kind, self.has_rows = kind, True
        if table is not None:
            if self.table is None:
                self.table = table
            if objects is None and not _EMPTY.match(self._held, begin):
                raise self._invalid("the rows of a table are not objects", begin)
            if table != self.table:
                self._counted = len(path) + 1, table
                return None
        return None if objects is None else objects.end()

    def _invalid(self, what: str, at: int) -> InvalidJson:
        """Make the error for text at an offset in the text held."""
        return invalid(f"byte {self._byte + at}: {what}")

    def _end_object(self, end: int) -> None:
        """Check the object that has ended. Raises `InvalidJson`."""
        if self.is_known:
            value = _check_object(bytes(self._held[:end]), several=self.kind in (None, _TABLES))
            self.members = frozenset(name for name, member in value.items() if member)
            if self.kind is None and value.get(_ITEMS) == []:
                self.kind = PAGES
            if not self.has_rows and not _is_empty_answer(value, may_be_request=self.kind != PAGES):
                self._rowless.append(self._object_byte)
        self._objects += 1
        if self._rowless and self.kind is not None and self._objects > 1:
            raise invalid(
                f"byte {self._rowless[0]}: this object has no array of rows, and others in the file"
                " have: move it to a file of its own"
            )
        self.is_known = True
        del self._held[:end]
        self._byte += end
        self._at = 0


def scan_start(data: bytes, table: str | None) -> tuple[ContainerScanner, int | None]:
    """Scan a file's beginning; return the scanner, and the offset of the first row if any."""
    scanner = ContainerScanner(table)
    try:
        return scanner, scanner.feed(data)
    except InvalidJson as error:
        scanner.fault = None if scanner.kind is None else error
    except ValueError:
        pass
    return scanner, None


def invalid(what: str) -> InvalidJson:
    """Make the error for a file whose JSON is not valid."""
    return InvalidJson(f"{what}; mend the file, or write it again")


_NOT_JSON = "the object around the array of objects is not JSON"
_SEVERAL = "there are several arrays of objects, and rows come from only one kind of them"


def _check_object(text: bytes, *, several: bool) -> dict[str, object]:
    """Check the object around arrays of rows; return it without the rows.

    `several`: it may have further arrays of objects.
    """

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name stands twice in it")
        return found

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    try:
        value = json.loads(
            text.lstrip(b" \t\r\n\xef\xbb\xbf"),
            object_pairs_hook=members,
            parse_constant=refuse,
            parse_int=str,
            parse_float=str,
        )
    except (ValueError, RecursionError):
        raise invalid(
            f"{_NOT_JSON}: it is cut off, names a member twice, or more follows it"
        ) from None
    if not isinstance(value, dict):
        raise invalid(_NOT_JSON)
    if not several and any(found[1] for found in _OBJECT_IN_LIST.finditer(text)):
        raise invalid(_SEVERAL)
    return value


def _is_empty_answer(value: dict[str, object], *, may_be_request: bool) -> bool:
    """Return whether an object is a page, or requests or responses by table, without rows.

    `may_be_request`: requests by table may be in the file, so that each member names a table.
    """
    names = value.keys() & {_ITEMS, *BY_TABLE}
    if names and value.keys() <= PAGE | BY_TABLE | AROUND_TABLES:
        return all(value[name] in ([], {}) for name in names)
    return may_be_request and bool(value) and all(member == [] for member in value.values())
