"""Guess a file's format and delimiter from its first bytes and its name.

A wrong guess must be noticed, so the choice is careful. A delimiter that misses a key column is
never preferred to one that has it, and one that splits nothing never to one that splits. A first
row that the rows after it contradict is doubted. A file that is still read with a wrong delimiter
has rows with differing numbers of fields, which are rejected. The default is the comma.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.source import CSV, JSON, PARQUET, TSV
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, PARQUET_SIGNATURE
from ddbload.rows.json_shape import sniff_json
from ddbload.rows.judge import Judge
from ddbload.rows.readings import GuessedFormat
from ddbload.rows.sample_splits import TextSample

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
_COMPRESSED = re.compile(r"\.(?:gz|gzip|bz2|xz|zst|zstd)\Z", re.IGNORECASE)


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
    """Guess a file's format from its first bytes, decompressed and without skipped lines.

    Args:
        start: First bytes of the file.
        name: Name of the file.
        whole: True if `start` is the whole file.
        wanted: Columns that the header must have.
        header: True if the file has a header.
        count: Number of columns, if known.
        dialect: Known parts of the dialect; its delimiter is ignored.
        format_: csv or tsv if only the delimiter is unknown.
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
            # Named columns, or a missing header, mean delimited text.
            usual = None
    preferred = "," if usual is None or usual[1] is None else usual[1]
    sample = TextSample(data, whole, dialect or Dialect())
    judge = Judge(
        data,
        sample,
        preferred=preferred,
        wanted=frozenset(wanted if header else ()),
        header=header,
        count=count,
        whole=whole,
    )
    reading, sure, why, doubt = judge.judge()
    if usual is not None and usual[1] is None and not judge.holds_wanted:
        # Named `.json` but not JSON: read it as JSON, so that each row is rejected with its reason.
        return GuessedFormat(
            usual[0], None, 0.5, f"its name says {usual[0]}, and its content does not"
        )
    return GuessedFormat(TSV if reading.delimiter == "\t" else CSV, reading, sure, why, doubt)
