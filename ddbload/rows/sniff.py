"""What a file is, judged by its first bytes and its name: its format, and what delimits it.

A guess may be wrong, but not without notice: a delimiter that leaves out a column that is needed
is never preferred to one that has it, one that splits nothing is not preferred to one that splits,
and a first row that is unlike the rows after it is doubted. What is read later with a wrong one
has rows of differing lengths, which are rejected. Where there is nothing to choose by it is the
comma.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ddbload.rows.dialect import Dialect
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, PARQUET_SIGNATURE
from ddbload.rows.sniff_delimiter import DelimitedSample, GuessedFormat
from ddbload.rows.sniff_json import sniff_json

_EXTENSIONS = {
    ".csv": ("csv", ","),
    ".tsv": ("tsv", "\t"),
    ".tab": ("tsv", "\t"),
    ".psv": ("csv", "|"),
    ".json": ("json", None),
    ".jsonl": ("json", None),
    ".ndjson": ("json", None),
    ".parquet": ("parquet", None),
    ".pq": ("parquet", None),
}
_COMPRESSED = re.compile(r"\.(?:gz|gzip|zst|zstd)\Z", re.IGNORECASE)


def sniff(
    start: bytes,
    *,
    name: str,
    whole: bool,
    wanted: Collection[str] = (),
    header: bool = True,
    count: int | None = None,
    dialect: Dialect | None = None,
    format_: str | None = None,
) -> GuessedFormat:
    """Judge a file by its first bytes, decompressed, without the lines that are to be skipped.

    `whole`: whether that is all there is. `wanted`: the columns that must be there, as the
    header names them, if there is a `header`. `count`: how many columns there are, where that is
    known. `dialect`: what is known of it; its delimiter is not looked at. `format_`: csv or tsv
    where that is known, and only the delimiter is not.
    """
    data = start.removeprefix(BYTE_ORDER_MARK)
    stem = _COMPRESSED.sub("", name)
    usual = _EXTENSIONS.get(stem[stem.rfind(".") :].lower())
    if format_ is not None:
        usual = _EXTENSIONS["." + format_]
    else:
        if data.startswith(PARQUET_SIGNATURE):
            return GuessedFormat("parquet", None, 1.0, "it begins as Parquet does")
        if header and count is None:
            found = sniff_json(data, whole, wanted)
            if found is not None:
                return found
        elif usual is not None and usual[1] is None:
            # Only delimited text has columns to be named, or no header.
            usual = None
    preferred = "," if usual is None or usual[1] is None else usual[1]
    sample = DelimitedSample(data, whole, dialect or Dialect(), wanted, header, count)
    judged = sample.judge(preferred)
    if usual is not None and usual[1] is None and not sample.holds_wanted(judged.delimiter):
        # What should be JSON and is none is best rejected as such, row by row.
        return GuessedFormat(
            usual[0], None, 0.5, f"its name says {usual[0]}, and its content does not"
        )
    return judged
