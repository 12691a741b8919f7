"""Guesses the delimiter of a text file by its first rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ddbload.contracts.dialect import Dialect
from ddbload.contracts.source import CSV, TSV
from ddbload.rows.format_guess import Doubt, GuessedFormat
from ddbload.rows.header_doubts import OUTDONE, WEAK_DELIMITERS, HeaderDoubts
from ddbload.rows.sample_splits import NUMBER_CELL, SampleSplits

_DELIMITERS = (",", ";", "\t", "|")
_UNUSUAL = 0.9
"""Agreement of rows from which the preferred delimiter is kept, however well another does."""
_RARE_DELIMITERS = ("^", "~", "\x1f", "\x01", "\x1e", "\u00a6", "\u00a7")
"""Delimiters that no text has by chance: one that splits all rows alike is believed."""
_MARKS = re.compile(r"[|~^;:,#$%*+=@!&]{2,4}")
"""Delimiters of several characters."""
_CLEANER = 0.15
"""Difference of clean cells from which the better one of two delimiters that fit is believed."""
_DECIMALS = re.compile(r"\s*[-+]?\d+,\d+\s*")


class DelimitedSample:
    """The first rows of a text file, split by each possible delimiter."""

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
        self._rival: str | None = None
        self._sample = SampleSplits(data, whole, dialect, count)
        self._wanted = frozenset(wanted if header else ())
        self._header = header
        self._count = count

    def judge(self, preferred: str) -> GuessedFormat:
        """Return the best delimiter: the preferred one unless the rows speak against it."""
        if not self._data.strip():
            return _sniffed(preferred, 0.0, "there is nothing in it")
        able = [each for each in dict.fromkeys((preferred, *_DELIMITERS)) if self._sample.by(each)]
        if not able:
            return _sniffed(preferred, 0.0, "no delimiter makes rows of it")
        having = [each for each in able if self.holds_wanted(each)]
        if self._wanted and not having:
            having = [each for each in WEAK_DELIMITERS if self._splits_well(each)]
        self._is_named = preferred != ","
        chosen = self._doubled(self._best(having or able, preferred))
        if not having and self._count is None:
            chosen = self._better(chosen, able, preferred)
        sure, why = self._sure(chosen, able, having), self._why(chosen, having)
        if self._wanted and not having:
            if self._columns(chosen) == 1 and not self._has_header(preferred):
                # Report what is wrong with the header, not that a column is missing.
                chosen = preferred
            sure = min(0.3, sure)
            why = f"under no delimiter does the header have {_names(self._wanted)}"
        doubt = self._doubt(chosen, able)
        return _sniffed(self._rival or chosen, sure, why, doubt)

    def holds_wanted(self, delimiter: str | None) -> bool:
        """Return whether the header has all key columns under a delimiter."""
        split = None if delimiter is None else self._sample.by(delimiter)
        return split is not None and bool(self._wanted) and self._wanted <= set(split.header)

    def _better(self, chosen: str, able: list[str], preferred: str) -> str:
        """Return a delimiter whose cells are cleaner than those of the chosen one, if there is one.

        The chosen one is right about numbers of fields. But commas in texts may do as well.
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
        for each in (*able, preferred):
            if self._needs_no_quotes(each, chosen):
                return each
        if self._columns(chosen) == 1:
            weak = next((each for each in WEAK_DELIMITERS if self._is_table(each)), None)
            if weak is not None:
                return weak
            if chosen == "," and self._has_decimals_only():
                return ";"
        return chosen

    def _cleanest(self, rivals: list[str], chosen: str, least: float) -> str | None:
        """Return the rival that fits all rows and has the cleanest cells; None if none has."""
        own = self._sample.by(chosen)
        bar = own.clean_share + least if own is not None and own.columns > 1 else 0.0
        fitting = [
            (split.clean_share, split.columns, each)
            for each in rivals
            if (split := self._sample.by(each)) is not None and split.fits
        ]
        best = max(fitting, default=None)
        return best[2] if best is not None and best[0] > bar else None

    def _rare(self) -> Iterator[str]:
        """Yield rare delimiters, and marks of several characters, that the first line has."""
        first = self._data.lstrip()[:4096].splitlines()[:1]
        line = first[0].decode(errors="replace") if first else ""
        yield from (each for each in _RARE_DELIMITERS if each in line)
        yield from dict.fromkeys(_MARKS.findall(line))

    def _has_no_other(self, mark: str, chosen: str) -> bool:
        """Return whether a mark is every occurrence of the chosen delimiter in the first rows."""
        split = self._sample.by(mark) if chosen in mark[:-1] and set(mark) - {",", ";"} else None
        return (
            split is not None
            and split.fits
            and not any(chosen in cell for row in split.first for cell in row)
        )

    def _spaced(self, chosen: str) -> Iterator[str]:
        """Yield the delimiter with a space behind, if quotes follow the space."""
        if f'{chosen} "'.encode() in self._data:
            yield f"{chosen} "

    def _needs_no_quotes(self, delimiter: str, chosen: str) -> bool:
        """Return whether a delimiter fits all rows once quotes are ordinary characters.

        A quote that opens a cell and is not closed swallows lines, so that other delimiters, whose
        cells begin elsewhere, seem to fit better.
        """
        own = self._sample.by(chosen)
        if delimiter == "," or self._sample.dialect.quote is None or self._fits(delimiter):
            return False
        split = self._sample.unquoted.by(delimiter)
        if own is None or split is None or not split.fits or split.rows < 3:
            return False
        return own.columns == 1 or split.clean_share > own.clean_share + _CLEANER

    def _fits(self, delimiter: str) -> bool:
        split = self._sample.by(delimiter)
        return split is not None and split.fits

    def _is_table(self, delimiter: str) -> bool:
        """Return whether a weak delimiter makes columns of numbers, and a header without any."""
        split = self._sample.by(delimiter)
        if split is None or not split.fits or split.columns < 3 or split.rows < 3:
            return False
        header, *rows = split.first
        numeric = [all(map(NUMBER_CELL.fullmatch, column)) for column in zip(*rows, strict=True)]
        return any(numeric) and all(header) and not any(map(NUMBER_CELL.fullmatch, header))

    def _has_decimals_only(self) -> bool:
        """Return whether all rows after a header of one column are numbers with a decimal comma."""
        split = self._sample.by(";")
        if split is None or split.share < 1 or split.columns > 1 or split.rows < 2:
            return False
        return all(_DECIMALS.fullmatch(row[0]) for row in split.first[1:])

    def _splits_well(self, delimiter: str) -> bool:
        split = self._sample.by(delimiter)
        return split is not None and split.share == 1 and self.holds_wanted(delimiter)

    def _best(self, able: list[str], preferred: str) -> str:
        first = preferred if preferred in able else able[0]
        columns, agreement = self._columns(first), self._agreement(first)
        if self._count is not None and columns == self._count and agreement == 1:
            return first
        has_lone_quote = self._has_lone_quote(first)
        # A delimiter that does not split the header is hardly right. If it does, a better one must
        # fit every row, and find more columns.
        is_unsplit = columns == 1
        # A delimiter with few rows like the header loses against one that fits all rows.
        is_alone = not self._own(first)
        is_outdone = agreement < OUTDONE
        enough = 0.5 if self._header and is_unsplit else 1.0
        better = [
            each
            for each in able
            if (self._agreement(each) >= enough or (is_unsplit and self._splits(each)))
            and (
                (self._columns(each) > columns and (is_unsplit or agreement < _UNUSUAL))
                or (is_alone and self._columns(each) > 1)
                or (is_outdone and self._columns(each) > 1 and self._agreement(each) == 1)
                or (has_lone_quote and self._columns(each) > 1 and not self._has_lone_quote(each))
            )
        ]
        if self._count is not None:
            better = [each for each in able if self._columns(each) == self._count] or better
        if not better:
            return first
        return max(better, key=lambda each: (self._has_header(each), self._agreement(each)))

    def _doubt(self, chosen: str, able: list[str]) -> Doubt | None:
        """Return why the rows contradict the first one, unless that names the key columns."""
        split = self._sample.by(chosen)
        if split is None or self._count or self.holds_wanted(chosen):
            return None
        if chosen == ";" and self._has_decimals_only():
            return None
        doubts = HeaderDoubts(self._data, self._sample, header=self._header, named=self._is_named)
        doubt = doubts.of_first_row(chosen, split, able)
        self._rival = doubts.rival
        return doubt

    def _doubled(self, delimiter: str) -> str:
        """Return the delimiter doubled where otherwise every second column would have no name."""
        # Nobody doubles commas or semicolons as a delimiter: there, a name is missing.
        if delimiter in (",", ";"):
            return delimiter
        split = self._sample.by(delimiter)
        if not self._header or split is None or len(split.header) < 3 or any(split.header[1::2]):
            return delimiter
        twice = self._sample.by(2 * delimiter)
        if twice is None or twice.share < 1 or twice.header != split.header[::2]:
            return delimiter
        return 2 * delimiter

    def _has_header(self, delimiter: str) -> bool:
        split = self._sample.by(delimiter)
        return split is not None and bool(split.header)

    def _columns(self, delimiter: str) -> int:
        split = self._sample.by(delimiter)
        return 0 if split is None else split.columns

    def _own(self, delimiter: str) -> int:
        """Count the rows after the first one that agree with it."""
        split = self._sample.by(delimiter)
        return 0 if split is None else split.own

    def _splits(self, delimiter: str) -> bool:
        """Return whether a delimiter splits most rows of a file with a header."""
        split = self._sample.by(delimiter)
        return split is not None and self._header and split.splits

    def _agreement(self, delimiter: str) -> float:
        split = self._sample.by(delimiter)
        return 0.0 if split is None else split.agreement

    def _has_lone_quote(self, delimiter: str) -> bool:
        split = self._sample.by(delimiter)
        return split is not None and split.has_lone_quote

    def _sure(self, chosen: str, able: list[str], having: list[str]) -> float:
        split = self._sample.by(chosen)
        sure = 0.0 if split is None else split.share
        if len(having) == 1:
            return round(sure, 2)
        rivals = [
            each
            for each in able
            if each != chosen and self._columns(each) > 1 and self._agreement(each) == 1
        ]
        if rivals or split is None or split.rows < 2 or split.columns == 1:
            # There is nothing to compare, or more than one right answer.
            return round(min(sure, 0.5), 2)
        return round(min(sure, 0.9), 2)

    def _why(self, chosen: str, having: list[str]) -> str:
        split = self._sample.by(chosen)
        assert split is not None, "only a delimiter that makes rows is chosen"  # noqa: S101
        agreeing = round(split.share * split.rows)
        columns = "1 column" if split.columns == 1 else f"{split.columns} columns"
        told = f"{agreeing} of {split.rows} rows at its start have {columns}"
        if len(having) != 1:
            return told
        return f"under it alone the header has {_names(self._wanted)}; {told}"


def _sniffed(delimiter: str, sure: float, why: str, doubt: Doubt | None = None) -> GuessedFormat:
    return GuessedFormat(TSV if delimiter == "\t" else CSV, delimiter, sure, why, doubt)


def _names(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 60 else name[:57] + "...") for name in sorted(names)]
    return " and ".join(shown)
