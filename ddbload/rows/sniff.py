"""Guess a file's format and delimiter from its first bytes and its name.

A wrong guess must be noticed, so the choice is careful. A delimiter that misses a key column is
never preferred to one that has it, and one that splits nothing never to one that splits. A first
row that the rows after it contradict is doubted. A file that is still read with a wrong delimiter
has rows with differing numbers of fields, which are rejected. The default is the comma.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.source import CSV, JSON, PARQUET, TSV
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, PARQUET_SIGNATURE
from ddbload.rows.json_shape import sniff_json
from ddbload.rows.judge import WEAK_DELIMITERS, Judge
from ddbload.rows.readings import Doubt, GuessedFormat, Reading
from ddbload.rows.sample_splits import NO_SPLIT, SampleSplits, Split

_DELIMITERS = (",", ";", "\t", "|")
_OUTDONE = 0.5
"""Share of agreeing rows below which a delimiter loses to one under which all rows agree."""
_UNUSUAL = 0.9
"""Share of agreeing rows at which the preferred delimiter is kept, however well others fit."""
_RARE_DELIMITERS = ("^", "~", "\x1f", "\x01", "\x1e", "\u00a6", "\u00a7")
"""Delimiters that do not occur by chance: one that splits all rows alike is accepted."""
_MARKS = re.compile(r"[|~^;:,#$%*+=@!&]{2,4}")
"""Delimiters of several characters."""
_CLEANER = 0.15
"""Minimum difference in the share of clean cells to prefer one of two fitting delimiters."""
_DECIMALS = re.compile(r"\s*[-+]?\d+,\d+\s*")


class DelimitedSample:
    """First rows of a text file, split by each possible delimiter."""

    def __init__(
        self,
        data: bytes,
        whole: bool,
        dialect: Dialect,
        wanted: Collection[str],
        header: bool,
        count: int | None,
    ) -> None:
        self._data = data
        self._is_named = False
        self._whole = whole
        self._sample = SampleSplits(data, whole, dialect, count)
        self._wanted = frozenset(wanted if header else ())
        self._header = header
        self._count = count

    def judge(self, preferred: str) -> GuessedFormat:
        """Return the best delimiter: the preferred one unless the rows contradict it."""
        if not self._data.strip():
            return _sniffed(self._usual(preferred), 0.0, "there is nothing in it")
        possible = dict.fromkeys((preferred, *_DELIMITERS))
        able = [each for each in possible if self._sample.by(each) is not NO_SPLIT]
        if not able:
            return _sniffed(self._usual(preferred), 0.0, "no delimiter makes rows of it")
        having = [each for each in able if self.holds_wanted(each)]
        if self._wanted and not having:
            having = [each for each in WEAK_DELIMITERS if self._splits_well(each)]
        self._is_named = preferred != ","
        chosen = self._doubled(self._best(having or able, preferred))
        if not having and self._count is None:
            chosen = self._better(chosen, able, preferred)
        sure, why = self._sure(chosen, able, having), self._why(chosen, having)
        if self._wanted and not having:
            if self._sample.by(chosen).columns == 1 and not self._sample.by(preferred).header:
                # Report the fault in the header, not that a column is missing.
                chosen = preferred
            sure = min(0.3, sure)
            why = f"under no delimiter does the header have {_names(self._wanted)}"
        reading, doubt = self._judged(chosen, able)
        return _sniffed(reading, sure, why, doubt)

    def holds_wanted(self, delimiter: str | None) -> bool:
        """Return whether the header has all key columns under a delimiter."""
        if delimiter is None or not self._wanted:
            return False
        return self._wanted <= set(self._sample.by(delimiter).header)

    def _better(self, chosen: str, able: list[str], preferred: str) -> str:
        """Return a delimiter with cleaner cells than the chosen one, or the chosen one.

        The chosen one gives consistent numbers of fields, but so may commas in texts.
        """
        longer = next((each for each in self._rare() if self._has_no_other(each, chosen)), None)
        if longer is not None:
            return longer
        cleanest = self._cleanest([*self._rare(), *self._spaced(chosen)], chosen, least=0.0)
        if cleanest is not None:
            return cleanest
        # The name is evidence, and so is a key column.
        if self._is_named and chosen == preferred:
            return chosen
        cleanest = self._cleanest([each for each in able if each != chosen], chosen, _CLEANER)
        if cleanest is not None:
            return cleanest
        is_single = chosen == "," and self._sample.by(chosen).columns == 1
        return ";" if is_single and self._has_decimals_only() else chosen

    def _cleanest(self, rivals: list[str], chosen: str, least: float) -> str | None:
        """Return the rival that fits all rows with the cleanest cells; None if none does."""
        own = self._sample.by(chosen)
        bar = own.clean_share + least if own.columns > 1 else 0.0
        fitting = [
            (split.clean_share, split.columns, each)
            for each in rivals
            if (split := self._sample.by(each)).fits
        ]
        best = max(fitting, default=None)
        return best[2] if best is not None and best[0] > bar else None

    def _rare(self) -> Iterator[str]:
        """Yield rare delimiters, and marks of several characters, found in the first line."""
        first = self._data.lstrip()[:4096].splitlines()[:1]
        line = first[0].decode(errors="replace") if first else ""
        yield from (each for each in _RARE_DELIMITERS if each in line)
        yield from dict.fromkeys(_MARKS.findall(line))

    def _has_no_other(self, mark: str, chosen: str) -> bool:
        """Return whether the chosen delimiter occurs only as part of a mark."""
        if chosen not in mark[:-1] or not set(mark) - {",", ";"}:
            return False
        split = self._sample.by(mark)
        return split.fits and not any(chosen in cell for row in split.first for cell in row)

    def _spaced(self, chosen: str) -> Iterator[str]:
        """Yield the delimiter followed by a space, if quotes follow the space."""
        if f'{chosen} "'.encode() in self._data:
            yield f"{chosen} "

    def _has_decimals_only(self) -> bool:
        """Return whether a single column holds only numbers with a decimal comma."""
        split = self._sample.by(";")
        if split.share < 1 or split.columns > 1 or split.rows < 2:
            return False
        return all(_DECIMALS.fullmatch(row[0]) for row in split.first[1:])

    def _splits_well(self, delimiter: str) -> bool:
        split = self._sample.by(delimiter)
        return split.share == 1 and self.holds_wanted(delimiter)

    def _best(self, able: list[str], preferred: str) -> str:
        first = preferred if preferred in able else able[0]
        own = self._sample.by(first)
        if self._count is not None and own.columns == self._count and own.agreement == 1:
            return first
        # A delimiter that does not split the header is probably wrong. If it does, a better one
        # must fit every row and give more columns.
        is_unsplit = own.columns == 1
        enough = 0.5 if self._header and is_unsplit else 1.0

        def is_better(split: Split) -> bool:
            may_split = is_unsplit and self._header and split.splits
            if split.agreement < enough and not may_split:
                return False
            if split.columns > own.columns and (is_unsplit or own.agreement < _UNUSUAL):
                return True
            # A delimiter with few rows like the header loses to one that fits all rows.
            return split.columns > 1 and (
                not own.own
                or (own.agreement < _OUTDONE and split.agreement == 1)
                or (own.has_lone_quote and not split.has_lone_quote)
            )

        splits = {each: self._sample.by(each) for each in able}
        better = [each for each, split in splits.items() if is_better(split)]
        if self._count is not None:
            same = [each for each, split in splits.items() if split.columns == self._count]
            better = same or better
        if not better:
            return first
        return max(better, key=lambda each: (bool(splits[each].header), splits[each].agreement))

    def _usual(self, delimiter: str) -> Reading:
        return Reading(delimiter, *self._sample.marks, header=self._header)

    def _judged(self, chosen: str, able: list[str]) -> tuple[Reading, Doubt | None]:
        """Return the best reading, by all of the dialect and the rows before the header."""
        split = self._sample.by(chosen)
        if split is NO_SPLIT or self._count or (chosen == ";" and self._has_decimals_only()):
            return self._usual(chosen), None
        judge = Judge(
            self._data, self._sample, header=self._header, named=self._is_named, whole=self._whole
        )
        wanted = self._wanted if self.holds_wanted(chosen) else frozenset()
        lacks_keys = bool(self._wanted) and not wanted
        return judge.judge(chosen, able, wanted, lacks_keys=lacks_keys)

    def _doubled(self, delimiter: str) -> str:
        """Return the doubled delimiter if every second column would otherwise lack a name."""
        # Doubled commas or semicolons are no delimiters: there, a name is missing.
        if delimiter in (",", ";"):
            return delimiter
        split = self._sample.by(delimiter)
        if not self._header or len(split.header) < 3 or any(split.header[1::2]):
            return delimiter
        twice = self._sample.by(2 * delimiter)
        if twice.share < 1 or twice.header != split.header[::2]:
            return delimiter
        return 2 * delimiter

    def _sure(self, chosen: str, able: list[str], having: list[str]) -> float:
        split = self._sample.by(chosen)
        if len(having) == 1:
            return round(split.share, 2)
        others = [self._sample.by(each) for each in able if each != chosen]
        has_rivals = any(each.columns > 1 and each.agreement == 1 for each in others)
        # With rivals, or without rows to compare, several answers may be right.
        is_unsure = has_rivals or split.rows < 2 or split.columns == 1
        return round(min(split.share, 0.5 if is_unsure else 0.9), 2)

    def _why(self, chosen: str, having: list[str]) -> str:
        split = self._sample.by(chosen)
        agreeing = round(split.share * split.rows)
        columns = "1 column" if split.columns == 1 else f"{split.columns} columns"
        told = f"{agreeing} of {split.rows} rows at its start have {columns}"
        if len(having) != 1:
            return told
        return f"under it alone the header has {_names(self._wanted)}; {told}"


def _sniffed(reading: Reading, sure: float, why: str, doubt: Doubt | None = None) -> GuessedFormat:
    return GuessedFormat(TSV if reading.delimiter == "\t" else CSV, reading, sure, why, doubt)


def _names(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 60 else name[:57] + "...") for name in sorted(names)]
    return " and ".join(shown)


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
    sample = DelimitedSample(data, whole, dialect or Dialect(), wanted, header, count)
    judged = sample.judge(preferred)
    if usual is not None and usual[1] is None and not sample.holds_wanted(judged.delimiter):
        # Named `.json` but not JSON: read it as JSON, so that each row is rejected with its reason.
        return GuessedFormat(
            usual[0], None, 0.5, f"its name says {usual[0]}, and its content does not"
        )
    return judged
