"""Check files that name tables: requests of batch-write-item, and models of NoSQL Workbench."""

from __future__ import annotations

import re

from ddbload.contracts.column_mapping import shown
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.source import Source
from ddbload.errors import UnsupportedFormat
from ddbload.rows.json_containers import scan_start
from ddbload.source.decoding.decoded_source import READ_BYTES, DecodedSource

_DELETION = re.compile(rb'\s*\{\s*"DeleteRequest"')


def check_tables(
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
