"""Read the header of a file, and match it with that of the first of several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from ddbload.contracts.column_mapping import ColumnChanges, Dialect, name_columns, shown
from ddbload.contracts.run_record import Cursor, Table
from ddbload.contracts.source import ARRAY, AUTO, BY_NAME, NUMBER, OBJECT, VALUES, Source
from ddbload.dynamodb.limits import MAX_COLUMNS
from ddbload.errors import (
    BadHeader,
    HeaderMismatch,
    TooManyColumns,
    UnsupportedFormat,
)
from ddbload.reading.open_sources import known_size
from ddbload.records import Record
from ddbload.rows.blocks import WHITE_SPACE, BlockSplitter, Defect
from ddbload.rows.columns import ParsedRow, ParsedRows, RowParser
from ddbload.rows.dialect_grammar import dialect_boundaries
from ddbload.rows.file_signatures import (
    BYTE_ORDER_MARK,
    LONGEST_SIGNATURE,
    refuse_binary_files,
    refuse_control_characters,
    refuse_other_texts,
)
from ddbload.rows.header_evidence import COMPARED_ROWS, HeaderEvidence, header_evidence
from ddbload.rows.json_containers import LARGEST_CONTAINER_START, scan_start
from ddbload.rows.json_framing import rows_begin
from ddbload.rows.json_shape import (
    LAYOUT_OF,
    OTHERS,
    begins_as_lines,
    is_undecided,
    json_layout,
    shape_of_json,
    sniff_framed,
)
from ddbload.rows.readings import Doubt, GuessedFormat
from ddbload.source.decoding.decoded_source import READ_BYTES, DecodedSource

HEADER_READ_BYTES = 256 * 1024
_ROW_PIECE_BYTES = 4 * 1024
"""Bytes that are parsed at a time for the first row: few, as there may be a million objects."""
_JSON_PIECE_BYTES = 64 * 1024
_JSON_BYTES = 256 * 1024
_LONG_LINE_BYTES = 4 * 1024 * 1024
"""Bytes of JSON that are searched for the end of the first line: more than an item takes."""
_LINE_END = re.compile(rb"\r\n?|\n")
_LONE_CR = re.compile(rb"\r(?!\n|\Z)")
_APART = "import it by itself"
_NAMED_COLUMNS = re.compile(r"(?i)\.[ct]sv(?:\.\w+)?\Z")
_DELETION = re.compile(rb'\s*\{\s*"DeleteRequest"')
_BEGINS_AS_JSON = re.compile(rb"(?m)^\s*+[{\[]")


class Header(Record):
    """Header of a file. `columns` is empty for a file without rows, and for lines of JSON."""

    columns: tuple[str, ...]
    data_start: Cursor
    empty: bool = False
    """True if the file has no row, not even a header."""
    unnamed: frozenset[int] = frozenset()
    """Places of the columns that the header gives no name, and that got one."""
    numbered: bool = False
    """True if columns had the same name, and got numbers."""
    lone_cr: int = 0
    """Line of a CR that ends a row where other lines end with LF; 0 without one."""
    first_rows: tuple[ParsedRow, ...] = ()
    """The row of names, as the file has it, and some rows below; empty without such a row."""

    @property
    def evidence(self) -> HeaderEvidence | None:
        """Evidence for and against the first row as a header; None if it is not taken for one."""
        first, *others = self.first_rows or ((),)
        if not first or isinstance(first, Defect):
            return None
        return header_evidence(first, [row for row in others if not isinstance(row, Defect)])


def read_header(
    file: DecodedSource,
    source: Source,
    max_row_bytes: int,
    *,
    keys: Collection[str] = (),
    doubt: Doubt | None = None,
    deletes: bool = False,
) -> Header:
    """Read the first row, and take the columns from it, or from the payload.

    `keys`: columns that the table's keys are made from. `doubt`: reason not to accept the first
    row as a header. `deletes`: the run's mode deletes items. Raises `BadHeader`, `RowTooLong`,
    `UnsupportedFormat` and as `DecodedSource.stream`.
    """
    start, is_end = _first_line(file, source.skip_lines, source)
    if not source.kind.has_columns:
        if is_end or source.kind.is_container:
            return Header((), start, is_end)
        if source.framed:
            return _framed_header(file, source, start, deletes=deletes)
        _refuse_other_json(file, start, keys)
        return Header((), start)
    rows = start if is_end else _first_rows(file, source, start, max_row_bytes)
    if isinstance(rows, Cursor):
        return Header(source.columns or (), Cursor(rows.byte, 1), empty=True)
    if not source.header and source.columns is not None:
        return Header(source.columns, start)
    record, at = rows.records[0], rows.position(0)
    where = f"at line {at.line}, byte {at.byte}"
    if isinstance(record, Defect):
        if record.cause == "bad_encoding" and source.encoding in (AUTO, "utf-8"):
            refuse_control_characters(next(iter(file.stream(0, None, HEADER_READ_BYTES)), b""))
        place = f", column {record.column + 1}" if isinstance(record.column, int) else ""
        what = "header" if source.header else "first row, which says how many columns there are,"
        raise BadHeader(
            f"the {what} {where}{place}: {record.detail} ({record.cause});"
            f" {_advice(record.cause, source.encoding)}"
        )
    if len(record) > MAX_COLUMNS:
        raise TooManyColumns(
            f"the first row, {where}, has more than {MAX_COLUMNS:,} fields, and no item holds as"
            " many attributes; check --delimiter"
        )
    if doubt is not None:
        raise doubt.error(where, source.skip_lines)
    if not source.header:
        return Header(tuple(f"c{place}" for place in range(1, len(record) + 1)), start)
    if any("\0" in name for name in record):
        raise BadHeader(
            "the header contains NUL characters: if it is UTF-16 without a"
            " byte order mark, say so (--encoding utf-16)"
        )
    if source.columns is not None and len(source.columns) != len(record):
        raise BadHeader(
            f"{len(source.columns)} columns are named, and the header has {len(record)}"
        )
    first_rows = tuple(rows.records[: COMPARED_ROWS + 1])
    if source.columns is not None:
        return Header(source.columns, rows.after(0), first_rows=first_rows)
    columns, unnamed, numbered = name_columns(
        _as_rows_end(record, rows.records[1:]), number=source.duplicate_columns == NUMBER, keys=keys
    )
    return Header(
        columns, rows.after(0), False, unnamed, numbered, _lone_cr(rows), first_rows=first_rows
    )


def cell_warnings(header: Header, markers: Collection[str]) -> Iterator[str]:
    r"""Yield warnings of the first rows: cells of `\N`, and CRs within lines that end with LF."""
    rows = [row for row in header.first_rows if isinstance(row, list)]
    if "\\N" not in markers and any("\\N" in row for row in rows):
        yield (
            r"some cells are \N, which databases write for a missing value, and they are read as"
            r" text: for missing values say --null '\N' (in a payload, nulls.markers), or for a"
            r" dump of MySQL, PostgreSQL or Hive --dialect mysql, postgres or hive"
        )
    if header.lone_cr:
        yield (
            f"line {header.lone_cr} has a CR without LF, which ends a row, and other lines end with"
            " LF: if it belongs to a cell, the cell must be quoted"
        )


def _lone_cr(rows: ParsedRows) -> int:
    """Return the line of the first CR that ends a row where others end with LF; 0 without one."""
    data = rows.block.data
    if b"\n" not in data or not _LONE_CR.search(data):
        return 0
    ends = (end for end in rows.ends.all(data) if data[end - 1 : end] == b"\r")
    lone = next(ends, 0)
    return rows.block.start.line + data.count(b"\n", 0, lone) if lone else 0


def _as_rows_end(names: list[str], rows: Sequence[ParsedRow]) -> list[str]:
    """Return the names with, or without, an empty last one, as the rows below end.

    Programs write a delimiter at the end of every row and not of the header, or the other way.
    """
    below = [row for row in rows if isinstance(row, list)]
    if below and all(len(row) == len(names) + 1 and not row[-1] for row in below):
        return [*names, ""]
    if len(names) > 1 and not names[-1] and below:
        return names[:-1] if all(len(row) == len(names) - 1 for row in below) else names
    return names


def _advice(cause: str, encoding: str) -> str:
    """Return the advice for a first row with this defect."""
    if cause == "bad_encoding" and encoding not in (AUTO, "utf-8"):
        return f"the file is not in {encoding}: leave out --encoding, or name another"
    if cause == "bad_encoding":
        return "name the file's encoding (--encoding)"
    return (
        "correct it; or say how the file is written: --quote none if it does not quote,"
        " --skip-lines N or --comment '#' if other lines come first, --delimiter"
    )


def detect_layout(file: DecodedSource, keys: Collection[str]) -> tuple[str, GuessedFormat] | None:
    """Detect the layout of a file of JSON, and its format; None for lines and what is refused."""
    start, is_end = _first_line(file, 0)
    sample = None if is_end else _json_sample(file, start, keys)
    found = None if sample is None else json_layout(sample[0], whole=sample[1], keys=keys)
    if sample is None or found is None:
        return None
    layout, shape = found
    return layout, sniff_framed(sample[0], layout, shape)


def _framed_header(file: DecodedSource, source: Source, start: Cursor, *, deletes: bool) -> Header:
    """Find the first value of JSON that is not one object a line. Lines then count values."""
    layout, data = source.layout, b""
    for piece in file.stream(start.byte, None, _JSON_PIECE_BYTES):
        data += piece
        begin = rows_begin(data, layout, source.table_of_rows)
        if begin is not None and begin < len(data):
            is_empty = layout != VALUES and data.startswith(b"]", begin)
            at = Cursor(start.byte + begin, 1)
            if layout == OBJECT:
                _check_tables(file, source, data, at, deletes=deletes)
            return Header((), at, is_empty)
        if len(data) >= LARGEST_CONTAINER_START:
            break
    if layout == OBJECT:
        _check_tables(file, source, data, None, deletes=deletes)
    if layout == VALUES and not data.strip(WHITE_SPACE.encode()):
        return Header((), start, empty=True)
    wanted = "a JSON array" if layout == ARRAY else "an object with an array of objects"
    raise UnsupportedFormat(
        f"byte {start.byte}: this is not {wanted} (--layout {layout}; in a payload, source.layout);"
        " leave the layout out, or import files of other layouts by themselves"
    )


def _json_sample(
    file: DecodedSource, start: Cursor, keys: Collection[str]
) -> tuple[bytes, bool] | None:
    """Read enough to detect the layout, and return whether it is all; None for JSON Lines."""
    data, most = b"", _JSON_BYTES
    for piece in file.stream(start.byte, None, _JSON_PIECE_BYTES):
        data += piece
        if begins_as_lines(data, keys):
            return None
        has_line = b"\n" in data.lstrip(WHITE_SPACE.encode())
        if has_line and len(data) >= most:
            if not is_undecided(data):
                return data, False
            # Looking again takes as long as all of it is.
            most = 2 * len(data)
        if len(data) >= _LONG_LINE_BYTES:
            return data, False
    return data, True


def _refuse_other_json(file: DecodedSource, start: Cursor, keys: Collection[str]) -> None:
    """Raise `UnsupportedFormat` for JSON that is not one object a line."""
    sample = _json_sample(file, start, keys)
    shape = None if sample is None else shape_of_json(sample[0], whole=sample[1], keys=keys)
    is_other = sample is not None and shape is None and not _BEGINS_AS_JSON.search(sample[0])
    if is_other and _NAMED_COLUMNS.search(file.name):
        raise UnsupportedFormat(
            "by its name it has columns, no line begins as JSON does, and the source is read as"
            f" JSON: {_APART}"
        )
    if shape is not None:
        place = f"line {start.line}, byte {start.byte}: this is {shape}"
        if shape == OTHERS:
            raise UnsupportedFormat(
                f'{place}, and a row is an object, such as {{"id": 1}}: write it as objects, or as'
                " CSV"
            )
        jq = "convert it: jq -c . FILE > FILE.jsonl (jq 1.7 or newer: older ones round numbers)"
        raise UnsupportedFormat(
            f"{place}, and JSON is read here with one object on each line;"
            f" {_APART if shape in LAYOUT_OF else jq}"
        )


def _first_line(
    file: DecodedSource, skip_lines: int, source: Source | None = None
) -> tuple[Cursor, bool]:
    """Find the first line after byte order mark and skipped lines; return it, and if the file ends.

    With `source`, refuse text that is not of its kind, unless lines are skipped.
    """
    first = read_start(file, LONGEST_SIGNATURE, HEADER_READ_BYTES)
    refuse_binary_files(first, is_member="member" in file.inner.pinned)
    if source is not None and source.header and not skip_lines:
        refuse_other_texts(first, has_columns=source.kind.has_columns)
    begin = len(BYTE_ORDER_MARK) if first.startswith(BYTE_ORDER_MARK) else 0
    if not skip_lines:
        return Cursor(begin, 1), len(first) == begin
    return _after_lines(file, begin, skip_lines)


def read_start(file: DecodedSource, size: int, piece_bytes: int) -> bytes:
    """Read the first bytes of a file's text: `size` or more, unless it has fewer."""
    start = b""
    for piece in file.stream(0, None, piece_bytes):
        start += piece
        if len(start) >= size:
            break
    return start


def _after_lines(file: DecodedSource, byte: int, skip_lines: int) -> tuple[Cursor, bool]:
    """Find the line after `skip_lines` others, piece by piece: each may be of any length."""
    line, within, after_cr = 1, False, False
    pieces = file.stream(byte, None, HEADER_READ_BYTES)
    for piece in pieces:
        at = 0
        if after_cr:
            # A LF at the beginning belongs to the CR before it.
            at, line, within, after_cr = int(piece.startswith(b"\n")), line + 1, False, False
        while line <= skip_lines:
            line_end = _LINE_END.search(piece, at)
            if line_end is None or (line_end.group() == b"\r" and line_end.end() == len(piece)):
                after_cr = line_end is not None
                within = within or at < len(piece)
                break
            at, line, within = line_end.end(), line + 1, False
        else:
            is_end = at == len(piece) and next(pieces, None) is None
            return Cursor(byte + at, line), is_end
        byte += len(piece)
    return Cursor(byte, line + within), True


def _first_rows(
    file: DecodedSource, source: Source, start: Cursor, max_row_bytes: int
) -> ParsedRows | Cursor:
    """Parse the first block with rows; the end of the file if it has no rows."""
    dialect = Dialect.of(source)
    ends = dialect_boundaries(dialect)
    parser = RowParser(dialect, ends)
    splitter = BlockSplitter(ends, start, max_row_bytes)
    size = min(_ROW_PIECE_BYTES, splitter.piece_bytes)
    # Without a look at the piece after it, which may be one more request for each object.
    pieces = chain(file.stream(start.byte, known_size(file), size), [None])
    for piece in pieces:
        block = splitter.feed(piece or b"", final=piece is None)
        if block is not None:
            rows = parser.parse(block)
            if rows.records:
                return rows
    return splitter.at


def wanted_columns(table: Table, changes: ColumnChanges) -> list[str]:
    """Return the columns that the table's keys are made from, before renames."""
    before = {new: old for old, new in changes.rename.items()}
    wanted: list[str] = []
    for key in table.keys:
        template = changes.templates.get(key.name)
        wanted += [before.get(key.name, key.name)] if template is None else template.names
    return wanted


def match_columns(
    header: Header, columns: Sequence[str], keys: Collection[str], source: Source, name: str
) -> tuple[int, ...] | None:
    """Return the place of each of an object's columns among those of the run.

    None if the object has the run's `columns` in their order. `keys`: columns that the table's keys
    are made from; no object may lack one. `name` is the object's. Raises `HeaderMismatch`.
    """
    own = header.columns
    if own == columns:
        return None
    is_named = source.header and source.columns is None
    if not is_named or source.match != BY_NAME:
        raise HeaderMismatch(
            f"{name} {_first_difference(own, columns, is_named=is_named)}: {_APART}"
            + ("; or match columns by name (--match name)" if is_named else "")
        )
    places = {column: place for place, column in enumerate(columns)}
    shared = [column for column in own if column in places]
    if not shared:
        # The first line may be a row: do not show it.
        raise HeaderMismatch(
            f"{name} has {_columns(own)} and none has the name of one of the first object's"
            f" {len(columns)}: its first row may be no header, or it has another delimiter;"
            f" {_APART}, or name the columns of all (--columns, with --no-header or --header)"
        )
    for key in keys:
        if key in places and key not in shared:
            raise HeaderMismatch(
                f"{name} has no column {shown(key)}, which the table's key is made from:"
                f" add it, leave the object out, or {_APART} with --rename"
            )
    # Where a file has no header, its names are cells: none of them is kept in messages.
    counts = Counter(own)
    twice = next((place for place, each in enumerate(own, 1) if counts[each] > 1), None)
    if twice is not None or header.numbered:
        column = "a column" if twice is None else f"column {twice}"
        raise HeaderMismatch(
            f"{name} has {column} twice, and its header differs from the first object's, so that"
            f" the two cannot be matched: {_APART}, with --columns"
        )
    for place, column in enumerate(own):
        is_unnamed = place in header.unnamed
        if column not in places or (is_unnamed and places[column] != place):
            what = ", which has no name" if is_unnamed else ""
            raise HeaderMismatch(
                f"{name} has a column that the first object has not, column {place + 1} of"
                f" {len(own)}{what}{_alike(column, columns)}: {_APART}; or name an object first"
                " that has every column (--manifest)"
            )
    return tuple(places[column] for column in own)


def _columns(names: Sequence[str]) -> str:
    return "1 column," if len(names) == 1 else f"{len(names)} columns,"


def _first_difference(own: Sequence[str], columns: Sequence[str], *, is_named: bool) -> str:
    """Return the rest of a sentence that begins with the object's name."""
    place = next(
        (place for place, pair in enumerate(zip(own, columns, strict=False)) if pair[0] != pair[1]),
        min(len(own), len(columns)),
    )
    if not is_named or place == len(columns) or not set(own) & set(columns):
        if len(own) == len(columns):
            return f"has {len(own)} columns with other names than the first object's"
        return f"has {_columns(own)} and the first object has {len(columns)}"
    if place == len(own):
        return f"ends before column {place + 1}, which is {shown(columns[place])} in the first"
    return (
        f"has another column {place + 1} than the first object, which has {shown(columns[place])}"
    )


def _alike(name: str, columns: Sequence[str]) -> str:
    folded = name.strip().casefold()
    alike = next((column for column in columns if column.strip().casefold() == folded), None)
    return "" if alike is None else f"; {shown(alike)} is one, and names are compared exactly"


def _check_tables(
    file: DecodedSource, source: Source, start: bytes, rows: Cursor | None, *, deletes: bool
) -> None:
    """Refuse a file with rows or requests that are not for this run, before it is loaded.

    A file that names tables is read to its end. Its other tables are left out if `from_table` says
    so, or if it is a model.

    Args:
        file: File to check.
        source: Source of the run.
        start: Beginning of the file.
        rows: Position of the first row; None if there are none for the run's table.
        deletes: True if the run's mode deletes items.

    Raises:
        UnsupportedFormat: With the number of such rows.
        InvalidJson: If the file is cut off, or an object in it has no rows, for example.
    """
    scanner, _ = scan_start(start, source.table_of_rows)
    if scanner.fault is not None:
        raise scanner.fault
    others = scanner.others
    if rows is not None and scanner.names_tables:
        deletions, rest = 0, b""
        for framed in file.stream_rows(rows.byte, None, READ_BYTES):
            *lines, rest = (rest + framed).split(b"\n")
            deletions += sum(_DELETION.match(line) is not None for line in lines)
        deletions += _DELETION.match(rest) is not None
        if deletions and not deletes:
            raise UnsupportedFormat(
                f"the file has {deletions:,} DeleteRequests, and only mode delete deletes items:"
                " remove them, and delete their items in a run of its own (--mode delete)"
            )
        others = file.others
    is_left_out = source.from_table is not None or (scanner.is_model and source.to_table)
    if others and not (rows is not None and is_left_out):
        listed = ", ".join(f"{shown(name)} ({count:,})" for name, count in others.items())
        raise UnsupportedFormat(
            f"the file has rows of other tables than {shown(scanner.table or '')}: {listed}; name"
            " the table whose rows are to be read (--from-table; in a payload, source.from_table)"
        )
