"""Guess how a file is read from its first bytes and its name: format, and reading of a text.

Every possible reading of a text, which is dialect, rows before the header, and header, gets one
score: the share of rows that have its width, how clean their cells are, how much its header looks
like one, and what has to be left out. A reading whose header lacks a key column is never preferred
to one that has it. The best reading is used if nothing speaks against it. Otherwise the two best
are shown to the user, who has to choose: a refusal is better than a wrong row. The default is the
comma. A file that is still read with a wrong delimiter has rows with differing numbers of fields,
which are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.source import CSV, DUMPS, JSON, PARQUET, TSV
from ddbload.rows.file_signatures import BYTE_ORDER_MARK, PARQUET_SIGNATURE, dump_program
from ddbload.rows.header_evidence import COMMENTS, header_evidence, is_units_row, odd_rows
from ddbload.rows.json_shape import refuse_text_below_json, sniff_json
from ddbload.rows.readings import Doubt, GuessedFormat, Reading
from ddbload.rows.sample_splits import (
    Marks,
    SampleTable,
    TextSample,
    aligned_reading,
)
from ddbload.rows.table_readings import (
    EXCEL_LINE,
    LEAST,
    WEAK_DELIMITERS,
    Candidate,
    TableReadings,
    head_factor,
)

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
COMMON_DELIMITERS = (",", ";", "\t", "|")
_RARE_DELIMITERS = ("^", "~", "\x1f", "\x01", "\x1e", "\u00a6", "\u00a7")
"""Delimiters that do not occur by chance: one that splits all rows alike is accepted."""
_MARKS = re.compile(r"[|~^;:,#$%*+=@!&\t]{2,4}")
"""Delimiters of several characters."""
_DECIMALS = re.compile(r" *[-+]?\d+,\d+ *")
_ALIKE = 0.05
"""Maximum difference in the share of clean cells at which two fitting delimiters count as equal."""
_KNOWN = 1.02
"""Factor by which another reading must be better than the usual one."""
_PREFERRED, _NAMED, _RARE = 1.02, 2.0, 1.4
"""Factors for the delimiter that is tried first, one that the file's name implies, and a rare
one."""
Judged = tuple[Reading, float, str, Doubt | None]
"""Best reading, its certainty, the reason, and a doubt unless it is clear."""
_OF_DUMP = r"has cells of \N, and other backslashes that may be escapes of a dump, or text"


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
    skipped: int = 0,
    several: bool = False,
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
        skipped: Lines before `start`.
        several: True if other files are read as this one.

    Raises `UnsupportedFormat` for a value of JSON above rows of other text.
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
            refuse_text_below_json(data, skipped)
            found = sniff_json(data, whole, wanted)
            if found is not None:
                return found
        elif usual is not None and usual[1] is None:
            # Named columns, or a missing header, mean delimited text.
            usual = None
    preferred = "," if usual is None or usual[1] is None else usual[1]
    keys = frozenset(wanted if header else ())
    sample = TextSample(data, whole, dialect or Dialect(), several=several)
    dump, is_certain = _judge_dump(sample, keys, header=header, count=count) or (None, False)
    if dump is not None and is_certain:
        return _guessed(dump)
    judge = Judge(sample, preferred=preferred, wanted=keys, header=header, count=count)
    judged = judge.judge()
    if usual is not None and usual[1] is None and not judge.holds_wanted:
        # Named `.json` but not JSON: read it as JSON, so that each row is rejected with its reason.
        return GuessedFormat(
            usual[0], None, 0.5, f"its name says {usual[0]}, and its content does not"
        )
    if dump is not None:
        shown = tuple(each[3].readings[0] if each[3] else each[0] for each in (dump, judged))
        judged = (*judged[:3], Doubt(_OF_DUMP, shown, has_best=False))
    return replace(_guessed(judged), warnings=tuple(_odd_rows(sample, judged, skipped)))


def _odd_rows(sample: TextSample, judged: Judged, skipped: int) -> Iterator[str]:
    """Return the warnings of rows that a reading without doubt takes for data; see `odd_rows`."""
    reading, _, _, doubt = judged
    table = sample.table(reading.delimiter, Marks(reading.quote, reading.escape, reading.comment))
    if doubt or table is None or not reading.header:
        return iter(())
    first = sum(line <= reading.skip_lines for line in table.lines) if reading.skip_lines else 0
    apart: list[int] = []
    if reading.width == 1 and b"" in sample.lines:
        lines = enumerate(table.lines[first:])
        apart = [n for n, line in lines if n and not sample.lines[line - 2]]
    return odd_rows(
        *(table.rows[first:], lambda n: skipped + table.line(first + n)),
        apart=apart,
        whole=table.whole,
    )


def _guessed(judged: Judged) -> GuessedFormat:
    return GuessedFormat(TSV if judged[0].delimiter == "\t" else CSV, *judged)


def _judge_dump(
    sample: TextSample, wanted: frozenset[str], *, header: bool, count: int | None
) -> tuple[Judged, bool] | None:
    """Judge a dump of a database, and return if it certainly is one; None for other text."""
    if sample.marks[:2] != (Dialect().quote, None):
        return None
    found = dump_program(sample.data, whole=sample.is_all)
    if found is None:
        return None
    program, is_certain = found
    marks: Mapping[str, Any] = DUMPS[program]
    dialect = replace(sample.dialect, **marks, program=program)
    mark = dialect.delimiter
    dump = TextSample(sample.data, sample.whole, dialect)
    table, plain = dump.table(mark), sample.table(mark)
    if table is None or plain is None:
        return None
    if table.agreeing(0, table.width) < plain.agreeing(0, plain.width):
        return None
    # No column is called \N.
    is_row = header and "\\N" in plain.header
    judge = Judge(dump, preferred=mark, wanted=wanted, header=header and not is_row, count=count)
    reading, sure, why, doubt = judge.judge()
    if reading.delimiter != mark or reading.width < 2:
        return None
    if is_row:
        doubt = Doubt(r"has \N, so it names no columns", (reading,))
    return (reading, sure, why, doubt), is_certain


class Judge:
    """Judge of a sample's readings."""

    def __init__(
        self,
        sample: TextSample,
        *,
        preferred: str,
        wanted: frozenset[str],
        header: bool,
        count: int | None,
    ) -> None:
        """`preferred`: delimiter by the name, or the comma. `wanted`: columns the header must have.

        `header`: the first row is a header. `count`: number of columns, if known.
        """
        self._data, self._sample = sample.data, sample
        self._preferred, self._header, self._count = preferred, header, count
        self._wanted = wanted
        others = COMMON_DELIMITERS if sample.dialect.program is None else ()
        possible = dict.fromkeys((preferred, *others))
        self._tables = [table for each in possible if (table := sample.table(each)) is not None]

    @property
    def holds_wanted(self) -> bool:
        """True if the header has the wanted columns; valid after `judge`."""
        return bool(self._wanted)

    def judge(self) -> Judged:
        """Judge the readings."""
        tables = self._possible()
        if not tables:
            usual = Reading(self._preferred, *self._sample.marks, header=self._header)
            return usual, 0.0, "no delimiter makes rows of it", None
        wanted = self._wanted if self._holds(tables[0]) else frozenset()
        lacks_keys = wanted != self._wanted
        self._wanted = wanted
        plain, table = max(
            ((self._plain(each), each) for each in tables), key=lambda pair: pair[0].score
        )
        sure, why = self._certainty(table, tables, lacks_keys)
        if self._count:
            return plain.reading, sure, why, None
        readings = TableReadings(
            self._sample, table.delimiter, wanted, header=self._header, lacks_keys=lacks_keys
        )
        found = [plain]
        if not self._is_perfect(plain, table):
            found += self._others(table, readings, lacks_keys=lacks_keys)
        best = max(found, key=lambda each: each.score)
        is_usual = best.reading.options() == plain.reading.options()
        if is_usual or best.score <= plain.score * _KNOWN:
            return plain.reading, sure, why, None if wanted else self._ambiguity(table)
        if best.clear:
            return best.reading, sure, why, None
        shown = best.reading, self._second(best, plain, found)
        if best.is_best or table.columns == 1:
            same = (each for each in self._tables if each.delimiter == best.reading.delimiter)
            plain = self._plain(next(same, table))
        # Only a dialect makes a missing value of it.
        has_null = rb"\N" in self._data and self._sample.dialect.program is None
        has_best = best.is_best and not has_null
        return plain.reading, sure, why, Doubt(best.why, shown, has_best=has_best)

    def _possible(self) -> list[SampleTable]:
        """Split the sample by each delimiter that may be the right one, with the usual marks.

        If the header has the wanted columns with some delimiters, only these.
        """
        others = map(self._sample.table, self._rare())
        fitting = [table for table in others if table is not None and self._fits(table)]
        marks = [each.delimiter for each in fitting if len(set(each.delimiter) - {" "}) > 1]
        # A part of a mark that fits would leave its other characters in the cells.
        parts = set("".join(marks))
        able = [each for each in (*self._tables, *fitting) if each.delimiter not in parts]
        weak = [self._sample.table(each) for each in WEAK_DELIMITERS if self._wanted]
        fitting_weak = [table for table in weak if table is not None and table.fits]
        for tables in (able, fitting_weak):
            if having := [each for each in tables if self._holds(each)]:
                return having
        return [each for each in able if self._has_count(each)] or able

    def _fits(self, table: SampleTable) -> bool:
        """Return whether all rows fit, or most if marks of several characters delimit the fields.

        These do not occur by chance.
        """
        least = LEAST if len(table.delimiter.strip()) > 1 else 1.0
        return table.columns > 1 and table.fit(0, table.columns) >= least

    def _has_count(self, table: SampleTable) -> bool:
        """Return whether most rows have the known number of fields, perhaps before a delimiter."""
        if not any(table.rows):
            return False
        is_ended = not any(table.last_cells)
        return self._count in (table.columns, table.width, table.width - is_ended)

    def _holds(self, table: SampleTable) -> bool:
        return bool(self._wanted) and self._wanted <= set(table.header)

    def _rare(self) -> Iterator[str]:
        """Yield rare delimiters, and marks of several characters, found in the first line.

        Also common ones with a space, if quotes follow the space.
        """
        line = b"".join(self._sample.top[:1])[:4096].decode(errors="replace")
        yield from (each for each in _RARE_DELIMITERS if each in line)
        marks = dict.fromkeys(_MARKS.findall(line))
        # Between two commas or semicolons, a name is missing.
        yield from (each for each in marks if set(each) - {",", ";"})
        yield from (f"{each} " for each in COMMON_DELIMITERS if f'{each} "'.encode() in self._data)

    def _plain(self, table: SampleTable) -> Candidate:
        """Return the reading of the first row as header, or as first row of data."""
        delimiter, width, header = table.delimiter, table.columns, table.header
        rows = tuple(row for row in table.first[bool(header) :] if len(row) == width)
        evidence = header_evidence(header, rows) if self._header else None
        is_data = evidence is not None and evidence.looks_like_data
        reading = Reading(
            delimiter,
            *self._sample.marks,
            header=self._header,
            names=None if is_data or not self._header else header,
            width=width,
            rows=rows if self._header else table.first,
        )
        below = table.first[1:] if delimiter == ";" and width == 1 else ()
        is_text = "," not in table.first[0][0] if below else False
        if is_text and all(_DECIMALS.fullmatch(row[0]) for row in below):
            # The delimiter leaves decimal commas in their cells.
            return Candidate(reading, 1.0, "")
        score = self._sample.score(table, 0, width) * self._prior(delimiter, width)
        factors = {
            0.5: self._header and not header,
            0.8: table.has_lone_quote,
            0.95: self._header and not all(header),
        }
        for factor, holds in factors.items():
            score *= factor if holds else 1.0
        if evidence is not None and not self._wanted:
            score *= head_factor(evidence)
            score *= 0.6 if rows and is_units_row(rows[0], rows[1:]) else 1.0
        return Candidate(reading, score, "")

    def _prior(self, delimiter: str, width: int) -> float:
        """Return how likely a delimiter is before the rows are looked at."""
        if delimiter == self._preferred:
            return _NAMED if delimiter != "," and width > 1 else _PREFERRED
        return 1.0 if delimiter in (*COMMON_DELIMITERS, *WEAK_DELIMITERS) else _RARE

    def _is_perfect(self, plain: Candidate, table: SampleTable) -> bool:
        """Return whether no other reading can be better, so that none is tried."""
        names, rows = plain.reading.names or (), plain.reading.rows
        return plain.score == 1.0 or (
            table.fits
            and len(table.rows) > 1
            and (not self._header or bool(names and all(names)))
            and not any(name[:1] in ("'", *COMMENTS) for name in names)
            and not EXCEL_LINE.match(self._data)
            and (self._preferred in (",", table.delimiter) or len(self._tables[0].header) < 2)
            and not self._sample.swallows(table)
            and self._sample.bare_comment is None
            and not (rows and is_units_row(rows[0], rows[1:]))
        )

    def _others(
        self, usual: SampleTable, readings: TableReadings, *, lacks_keys: bool
    ) -> Iterator[Candidate]:
        """Yield the other readings."""
        if EXCEL_LINE.match(self._data) and self._header:
            yield from readings.below_excel_line()
            return
        is_single = self._header and usual.columns == 1 and not self._wanted
        weak = WEAK_DELIMITERS if is_single else ()
        able = [table.delimiter for table in self._tables]
        for marks in self._marks():
            for delimiter in dict.fromkeys((usual.delimiter, *able, *weak)):
                is_odd = delimiter in weak and marks != self._sample.marks
                table = None if is_odd else self._sample.table(delimiter, marks)
                if table is not None and any(table.rows):
                    yield from readings.of_table(table, self._prior(delimiter, table.width))
        if is_single:
            aligned = aligned_reading(self._data, header=self._header)
            if aligned is not None:
                why = "has columns that are aligned by blanks"
                rows = (aligned.names or (), *aligned.rows)[not aligned.header :]
                fits = all(len(row) == aligned.width for row in rows)
                yield Candidate(aligned, 1.0, why, False, is_best=fits)
            evidence = header_evidence(usual.header, usual.first[1:])
            if evidence.looks_like_data and not lacks_keys:
                why = f"looks like data and not like a name: {evidence.why}"
                reading = Reading(usual.delimiter, *usual.marks, header=False, rows=usual.first)
                yield Candidate(reading, 0.8 * self._sample.score(usual, 0, 1), why, False)
            yield from readings.below_comment(able)

    def _marks(self) -> Iterator[Marks]:
        """Yield quote, escape and comment mark of each dialect to try, the usual one first."""
        dialect, data = self._sample.dialect, self._data
        usual = self._sample.marks
        quotings = [usual]
        if dialect.quote == Dialect().quote and dialect.escape is None:
            if b"'" in data:
                quotings.append(usual._replace(quote="'"))
            if b'"' in data:
                quotings.append(usual._replace(quote=None))
            if b'\\"' in data:
                quotings.append(usual._replace(escape="\\"))
        comments = [dialect.comment]
        if dialect.comment is None:
            lines = [line.lstrip() for line in self._sample.lines]
            comments += [
                mark for mark in COMMENTS if any(line.startswith(mark.encode()) for line in lines)
            ]
        for quoting in quotings:
            for comment in comments:
                yield quoting._replace(comment=comment)

    def _second(self, best: Candidate, plain: Candidate, found: Sequence[Candidate]) -> Reading:
        """Return the reading to show beside the best one: the next best, or the usual one."""
        others = [each for each in found if each.reading.options() != best.reading.options()]
        second = max(others, key=lambda each: each.score, default=plain).reading
        if second.width == 1 and second.delimiter.encode() in self._data:
            # One column is read by any delimiter that does not occur.
            free = ("\t", "|", "\x1f")
            unused = next((each for each in free if each.encode() not in self._data), "\x01")
            second = replace(second, delimiter=unused)
        return second

    def _ambiguity(self, own: SampleTable) -> Doubt | None:
        """Return a doubt if another delimiter fits all rows as well, with equally clean cells."""
        is_named = own.delimiter == self._preferred != ","
        if not own.fits or len(own.rows) < 2 or not self._header or is_named:
            return None
        for table in self._tables:
            if table.delimiter in own.delimiter or not table.fits:
                continue
            if table.clean_share > own.clean_share - _ALIKE:
                readings = self._plain(own).reading, self._plain(table).reading
                return Doubt("can be read in two ways", readings, has_best=False)
        return None

    def _certainty(
        self, chosen: SampleTable, tables: Sequence[SampleTable], lacks_keys: bool
    ) -> tuple[float, str]:
        """Return how certain the delimiter is, and why."""
        count = len(chosen.rows)
        agreeing = chosen.agreeing(0, chosen.columns)
        share = round(agreeing / count, 2) if count else 0.0
        columns = "1 column" if chosen.columns == 1 else f"{chosen.columns} columns"
        why = f"{agreeing} of {count} rows at its start have {columns}"
        if self._wanted and len(tables) == 1:
            return share, f"under it alone the header has {_shown(self._wanted)}; {why}"
        # With rivals, or without rows to compare, several answers may be right.
        has_rivals = any(table.fits for table in tables if table is not chosen)
        is_unsure = has_rivals or count < 2 or chosen.columns == 1
        if lacks_keys:
            return min(share, 0.3), "under no delimiter does the header have the key columns"
        return min(share, 0.5 if is_unsure else 0.9), why


def _shown(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 60 else name[:57] + "...") for name in sorted(names)]
    return " and ".join(shown)
