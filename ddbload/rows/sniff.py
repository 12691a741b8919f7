"""Guesses a file's format and delimiter from its first bytes and its name.

A wrong guess must be noticed, so the choice is careful. A delimiter that misses a key column is
never preferred to one that has it, and one that splits nothing is never preferred to one that
splits. A first row that the rows after it contradict is doubted. What is then still read with a
wrong delimiter has rows with differing numbers of fields, which are rejected. The comma is the
default.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.source import CSV, JSON, PARQUET, TSV
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, PARQUET_SIGNATURE
from ddbload.rows.format_guess import GuessedFormat
from ddbload.rows.sniff_delimiter import DelimitedSample
from ddbload.rows.sniff_json import sniff_json

_EXTENSIONS = {
    ".csv": (CSV, ","),
    ".tsv": (TSV, "\t"),
    ".tab": (TSV, "\t"),
    ".psv": (CSV, "|"),
    ".json": (JSON, None),
    ".jsonl": (JSON, None),
    ".ndjson": (JSON, None),
    ".parquet": (PARQUET, None),
    ".pq": (PARQUET, None),
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
    """Guess a file's format from its first bytes, decompressed, without skipped lines.

    `whole` says that these bytes are all there is. `wanted` are the columns that the `header` must
    have. `count` is the number of columns, if known. `dialect` is what is known of the dialect; its
    delimiter is ignored. `format_` is csv or tsv if only the delimiter is unknown.
    """
    data = start.removeprefix(BYTE_ORDER_MARK)
    stem = _COMPRESSED.sub("", name)
    usual = _EXTENSIONS.get(stem[stem.rfind(".") :].lower())
    if format_ is not None:
        usual = _EXTENSIONS["." + format_]
    else:
        if data.startswith(PARQUET_SIGNATURE):
            return GuessedFormat(PARQUET, None, 1.0, "it begins as Parquet does")
        if header and count is None:
            found = sniff_json(data, whole, wanted)
            if found is not None:
                return found
        elif usual is not None and usual[1] is None:
            # Columns were named, or there is no header: only delimited text has either.
            usual = None
    preferred = "," if usual is None or usual[1] is None else usual[1]
    sample = DelimitedSample(data, whole, dialect or Dialect(), wanted, header, count)
    judged = sample.judge(preferred)
    if usual is not None and usual[1] is None and not sample.holds_wanted(judged.delimiter):
        # Named `.json` but not JSON: read it as JSON, so that each row is rejected with its reason.
        return GuessedFormat(
            usual[0], None, 0.5, f"its name says {usual[0]}, and its content does not"
        )
    return judged
