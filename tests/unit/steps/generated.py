"""Files with keys, types and every kind of bad row, for property tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from ddbload.contracts.column_mapping import Dialect
from ddbload.dynamodb import limits
from ddbload.ledger import ledger as ledger_module
from ddbload.rows import blocks
from ddbload.rows.file_signatures import BYTE_ORDER_MARK
from ddbload.source import s3_object
from ddbload.write.scheduler.scheduler import Scheduler
from tests.property.rows_files import LINE_ENDS, NOT_UTF8, TEXTS, all_dialects, marks_of
from tests.unit.steps.expected import Outcome, ends_within_quotes, outcome
from tests.unit.steps.world import World

NAMES = ("id", "b", 'c,"\n', "é")
NUMBERS = [b"1", b"1.0", b"+1", b"-0", b"1e5", b"9" * 39, b"1E126", b"x", b"0x1", "٣".encode()]
BOOLEANS = [b"true", b"FALSE", b"1", b"no", b"maybe", b" true"]


@dataclass(frozen=True)
class Case:
    """A file, and what is said of it."""

    data: bytes
    dialect: Dialect
    keys: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    named: bool
    """True if the payload names the columns, not the file."""
    header: bool
    types: dict[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """Outcome of the file by the oracle."""
        return outcome(
            self.data,
            columns=self.columns,
            header=self.header,
            keys=[name for name, _ in self.keys],
            types={**dict(self.keys), **self.types},
            marks=marks_of(self.dialect),
        )

    @property
    def has_unique_keys(self) -> bool:
        """True if no two items have the same key."""
        found = self.outcome
        return len(found.last_of_each_key) == len(found.items)

    def world(self, chunk_bytes: int, mode: Mapping[str, Any] | None = None, **more: Any) -> World:
        """A world with this file in it, in which each request takes a second.

        `mode`: the options that say what is done with its rows.
        """
        source: dict[str, Any] = {
            **{name: value for name, value in asdict(self.dialect).items() if name != "program"},
            "header": self.header,
        }
        if self.named:
            source["columns"] = list(self.columns)
        options = {"chunk_bytes": chunk_bytes, "max_rejects": 10**6, **(mode or {})}
        return World(
            self.data,
            self.keys,
            source=source,
            types=self.types,
            options=options,
            request_seconds=1.0,
            **more,
        )


def recipes(least: int = 0) -> st.SearchStrategy[bytes]:
    """Bytes to decide by. One draw: hypothesis makes longer files of few draws than of many."""
    # Left to itself, binary() seldom draws more than ten bytes.
    return st.integers(least, least + 120).flatmap(lambda n: st.binary(min_size=n, max_size=n))


def cases() -> st.SearchStrategy[Case]:
    """Mostly rows that are items, with a few equal keys, and all that can be wrong with a row."""
    return open_cases().map(closed)


def open_cases() -> st.SearchStrategy[Case]:
    """The same; but the file may end within quotes."""
    return st.builds(case, all_dialects(), recipes(8))


def closed(case: Case) -> Case:
    """The same file, with a quote at its end where it lacks one."""
    data, marks = case.data, marks_of(case.dialect)
    while ends_within_quotes(data, *marks):
        data += (case.dialect.quote or "").encode(case.dialect.encoding)
    return replace(case, data=data)


def case(dialect: Dialect, recipe: bytes) -> Case:
    """A file, written by a recipe of at least eight bytes."""
    shape, recipe = recipe[:8], recipe[8:]
    width = 1 + shape[0] % len(NAMES)
    # Names in the file must be readable, whatever the dialect.
    named = dialect != Dialect() or shape[1] % 2 == 1
    header = not named or shape[2] % 2 == 1
    kinds = [("S", "S", "N", "BOOL")[code % 4] for code in shape[3:6]]
    first = ("S", "S", "N")[shape[6] % 3]
    marked, equal_keys, sorted_by = shape[7] & 1, shape[7] & 2, shape[7] & 4
    keys: tuple[tuple[str, str], ...] = (("id", first),)
    if sorted_by and width > 1 and kinds[0] != "BOOL":
        keys = (("id", first), (NAMES[1], kinds[0]))
    types = dict(zip(NAMES[1:width], kinds, strict=False))
    writer = _Writer(dialect, [first, *types.values()], recipe, equal_keys=bool(equal_keys))
    data = writer.rows()
    if header:
        some = b"y" if "x" in dialect.delimiter else b"x"
        row = [some] * width if named else [name.encode() for name in NAMES[:width]]
        data = writer.row(row, quoted=not named) + b"\n" + data
    if marked:
        data = BYTE_ORDER_MARK + data
    return Case(data, dialect, keys, NAMES[:width], named, header, types)


class _Writer:
    """Reads a recipe as rows: a draw of bytes is far faster than a draw for each cell."""

    def __init__(
        self, dialect: Dialect, kinds: Sequence[str], recipe: bytes, *, equal_keys: bool
    ) -> None:
        encoding = dialect.encoding
        self._delimiter = dialect.delimiter.encode(encoding)
        self._quote = None if dialect.quote is None else dialect.quote.encode(encoding)
        self._escape = (dialect.escape or "").encode(encoding)
        self._comment = (dialect.comment or "").encode(encoding)
        self._kinds = kinds
        self._codes = iter(recipe)
        self._equal_keys = equal_keys
        self._number = 0

    def rows(self) -> bytes:
        written = []
        for code in self._codes:
            written.append(self._line(code))
            written.append(LINE_ENDS[self._next() % 3])
        if written and self._next() % 2:
            written.pop()
        return b"".join(written)

    def row(self, cells: Sequence[bytes], *, quoted: bool = False) -> bytes:
        return self._delimiter.join(
            self._quoted(cell) if quoted else self._cell(cell) for cell in cells
        )

    def _next(self) -> int:
        return next(self._codes, 0)

    def _line(self, code: int) -> bytes:
        kind = code % 16
        if kind == 0:
            return b""
        if kind == 1:
            return self._scraps()
        if kind == 5 and self._comment:
            return self._comment + (self._quote or b"")
        cells = [self._value(place, of) for place, of in enumerate(self._kinds)]
        if kind == 2:
            cells = cells[1:] if code < 128 else [*cells, b"more"]
        elif kind == 3:
            cells[code % len(cells)] = NOT_UTF8[code % len(NOT_UTF8)]
        elif kind == 4:
            cells[-1] = b"long" * (code // 4)
        return self.row(cells)

    def _value(self, place: int, kind: str) -> bytes:
        if place == 0:
            self._number += 1
            number = self._next() % 3 if self._equal_keys else self._number
            return b"%d" % number if kind == "N" else b"k%d" % number
        code = self._next()
        if kind == "N":
            return NUMBERS[code % len(NUMBERS)] if code % 4 == 0 else b"%d" % code
        if kind == "BOOL":
            return BOOLEANS[code % len(BOOLEANS)]
        return [b"", b"a\nb", b"x", self._delimiter, b"\r\n", *TEXTS][code % (5 + len(TEXTS))]

    def _cell(self, content: bytes) -> bytes:
        special = (self._delimiter, self._quote or b"\n", b"\n", b"\r")
        if any(mark in content for mark in special) or self._next() % 8 == 0:
            return self._quoted(content)
        return content

    def _quoted(self, content: bytes) -> bytes:
        if self._quote is None:
            return content
        if self._escape:
            content = content.replace(self._escape, self._escape * 2)
        by = self._escape if self._escape and self._next() % 2 else self._quote
        return self._quote + content.replace(self._quote, by + self._quote) + self._quote

    def _scraps(self) -> bytes:
        quote = self._quote or b'"'
        symbols = [quote, quote * 2, self._delimiter, *LINE_ENDS, *TEXTS, *NOT_UTF8]
        symbols += [
            self._escape,
            self._escape + b"\n",
            b"\n" + self._comment,
            self._comment + quote,
        ]
        return b"".join(symbols[self._next() % len(symbols)] for _ in range(self._next() % 9))


def chunk_sizes() -> st.SearchStrategy[int]:
    return st.sampled_from([1, 20, 60, 200, 10**6, 10**6])


def seconds() -> st.SearchStrategy[float]:
    """Seconds of an invocation; each request takes one."""
    return st.sampled_from([0.5, 1.5, 2.5, float("inf")])


@dataclass(frozen=True)
class Sizes:
    """Sizes of reads and requests: small, so that a short file takes many steps."""

    block_bytes: int
    range_bytes: int
    batch_rows: int
    ready_rows: int
    spread_rows: int
    attempt_rows: int = ledger_module.AHEAD_ROWS

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with (
            mock.patch.object(blocks, "BLOCK_BYTES", self.block_bytes),
            mock.patch.object(s3_object, "RANGE_BYTES", self.range_bytes),
            mock.patch.object(limits, "MAX_BATCH_ROWS", self.batch_rows),
            mock.patch.object(Scheduler, "READY_ROWS", self.ready_rows),
            mock.patch.object(Scheduler, "SPREAD_ROWS", self.spread_rows),
            mock.patch.object(ledger_module, "AHEAD_ROWS", self.attempt_rows),
        ):
            yield


def sizes() -> st.SearchStrategy[Sizes]:
    return st.builds(
        Sizes,
        st.sampled_from([3, 16, 50, 2**20]),
        st.sampled_from([7, 64, 2**23]),
        st.sampled_from([1, 2, 4, 25]),
        st.sampled_from([1, 5, 2000]),
        st.sampled_from([1, 10, 2000]),
    )
