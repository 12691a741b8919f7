"""Sources that Python gives: paths, URIs, open files, and dicts."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from ddbload.contracts.source import source_fields
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import InvalidUsage, SourceUnreadable
from ddbload.items.python_values import attributes_of
from ddbload.source.local_file import (
    OPEN_FILE_PREFIX,
    PIPE_PREFIX,
    ROWS_PREFIX,
    is_pipe,
    spool_to_disk,
)

Location = str | os.PathLike[str]
SourceOfRows = Location | BinaryIO | Iterable[Any]
"""A path, an s3:// URI, a list of these, an open binary file, or dicts."""


def place_of(source: Location | Iterable[Location]) -> dict[str, Any]:
    """Return the fields of `source` for paths and s3:// URIs.

    Raises `InvalidPayload`, and `InvalidUsage` if one of several is neither.
    """
    if isinstance(source, str | os.PathLike):
        return dict(source_fields(os.fspath(source)))
    try:
        names = [os.fsdecode(each) for each in source]
    except TypeError as error:
        raise InvalidUsage(f"a list of sources has paths and URIs alone: {error}") from None
    for name in names:
        source_fields(name)
    return {"sources": names}


@contextmanager
def located(source: SourceOfRows) -> Generator[tuple[dict[str, Any], bool]]:
    """Yield the place of a source, and whether it is a stream, which is copied meanwhile."""
    copy = None
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if is_pipe(path):
            with Path(path).open("rb") as stream:
                copy = spool_to_disk(stream, prefix=PIPE_PREFIX)
        place = place_of(source)
    elif not hasattr(source, "read") and not hasattr(source, "__iter__"):
        raise InvalidUsage("a source is a path, a URI, a list of these, an open file, or dicts")
    elif isinstance(source, io.TextIOBase):
        raise InvalidUsage("the source is a file opened as text: open it in mode 'rb'")
    elif hasattr(source, "read"):
        copy, place = spool_to_disk(cast("BinaryIO", source), prefix=OPEN_FILE_PREFIX), {}
    else:
        members = iter(source)
        first = next(members, None)
        if isinstance(first, str | os.PathLike):
            place = place_of(chain([first], members))
        else:
            copy, place = _write_rows([] if first is None else chain([first], members)), {}
            place = {"format": "dynamodb-json"}
    try:
        yield ({**place, "path": copy}, True) if copy is not None else (place, False)
    finally:
        if copy is not None:
            Path(copy).unlink(missing_ok=True)


def _write_rows(rows: Iterable[Any]) -> str:
    """Write dicts to a temporary file, as lines of DynamoDB JSON; return its path."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=ROWS_PREFIX, delete=False, encoding="utf-8"
    ) as file:
        try:
            for number, row in enumerate(rows, 1):
                try:
                    item = attributes_of(row, floats=True)
                    file.write(json.dumps({"Item": item}) + "\n")
                except BadValue as bad:
                    where = "" if bad.column is None else f", {bad.column!r}"
                    raise SourceUnreadable(f"row {number:,}{where}: {bad}") from None
            file.flush()
        except BaseException as error:
            Path(file.name).unlink()
            if isinstance(error, OSError):
                raise SourceUnreadable(f"the rows: {error.strerror}") from None
            raise
    return file.name
