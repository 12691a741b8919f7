"""Decides the types of columns from a sample of their cells.

A column becomes a number only if DynamoDB keeps each cell exactly, and if its spelling carries no
more than its value. So zip codes, phone numbers, long ids and mixed columns stay text. Each type
has a reason for people to check.

The AWS console writes documents to CSV in DynamoDB JSON: a list as `[{"S":"a"},{"N":"1"}]` and a
map as `{"k":{"S":"v"}}`. Read as plain JSON, these would become maps of maps. So `settle_cells`
decides by its first cells which of the two a column of lists or maps has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, Self

from ddbload.contracts.column_mapping import shown
from ddbload.dynamodb.scalar_text import BadValue, TimeFormat, plain_number
from ddbload.items.json_values import parse
from ddbload.items.row_attributes import PLAIN_TYPES, TEXT_READERS, TYPED_TYPES, ItemLayout
from ddbload.rows.blocks import repeated
from ddbload.rows.columns import NO_OCTET, Columns, with_ones

EXAMPLES = 3
LONGEST_ID = 18
"""Most digits of a whole number that is surely a quantity; a longer one may be an id."""
LONGEST_NUMBER = 38
"""Most characters of a number, so that it has no more digits than DynamoDB keeps."""

_SIGNED = r"(?!-0(?:\.0+)?(?![^\xff]))-?"
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_SHAPES = {
    "whole": rf"{_SIGNED}(?:0|[1-9][0-9]*)",
    "point_zero": rf"{_SIGNED}(?:0|[1-9][0-9]*)\.0",
    "exact": rf"{_SIGNED}(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?",
    "plain": rf"{_SIGNED}(?:0|[1-9][0-9]*)(?:\.[0-9]+)?",
    "unpadded": rf"[+-]?(?!0[0-9]){_DIGITS}(?:[eE][+-]?[0-9]+)?",
    "without_exponent": rf"[+-]?{_DIGITS}",
    "numeric": rf"[+-]?{_DIGITS}(?:[eE][+-]?[0-9]+)?",
    "boolean": r"(?i:true|false)",
    "yes_no": r"(?i:yes|no|y|n|t|f|on|off)",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.]{5,}(?:[Zz]|[+-][0-9:]{2,6})?)?",
    "json": r"[\[{][^\xff]*[\]}]",
}
"""Patterns that all cells of a column may match, the stricter ones before others."""
_ALL = {
    shape: re.compile(f"(?:{pattern})" + repeated(f"{NO_OCTET}(?:{pattern})"))
    for shape, pattern in _SHAPES.items()
}
"""Patterns of several cells, with a byte between them that octets do not have."""
_NUMERIC = ("unpadded", "without_exponent", "numeric")
_IMPLIED = {
    "whole": ("exact", "plain", *_NUMERIC),
    "point_zero": ("plain", *_NUMERIC),
    "exact": ("plain", *_NUMERIC),
    "plain": _NUMERIC,
}
"""Patterns that all texts match that match another."""
_WHOLE = ["whole", *_IMPLIED["whole"]]
"""Patterns that match all cells of a column of whole numbers, as far as they have been seen."""
DATE_FORMATS = tuple(
    day.format(sign) + time
    for day in ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d", "%d{0}%b{0}%Y")
    for sign in "/.- "
    for time in ("", " %H:%M", " %H:%M:%S")
)
"""Formats of times that are distinguished. Others have to be declared."""
_TYPED_CELL = re.compile(
    r"\s*(?:\[|\{\s*\"[^\"]*\"\s*:)\s*\{\s*\"(?:S|N|B|BOOL|NULL|[SNB]S|L|M)\"\s*:"
)
"""Beginning of a list or map in DynamoDB JSON."""
_NOTHING = ("null", "none", "na", "n/a", "nan", "nil", "-", "\\n", "#n/a", "undefined")
_MARKERS = frozenset(
    written
    for word in _NOTHING
    for written in (word, word.upper(), word.capitalize(), word.title())
) | {"NaN"}
_MARKER_LENGTHS = set(map(len, _MARKERS))
_SKIPPED = {"", *_MARKERS}


class InferredType(NamedTuple):
    """A type, and the reason for it."""

    type: str
    why: str


class TypeGuess:
    """Guess at a column's type from its cells, block by block.

    A shape that a cell refutes is not tried again.
    """

    def __init__(self, signs: str = "", formats: Sequence[str] = ()) -> None:
        """Take the signs of `plain_number`, and formats of times to distinguish: `DATE_FORMATS`."""
        self._signs = signs
        self.formats = tuple(formats)
        """Formats of times that fit all cells."""
        self.filled = 0
        """Number of cells that are not empty."""
        self.empty = 0
        self.longest = 0
        """Bytes of the longest cell."""
        self.examples: list[str] = []
        """The first few distinct cells, in octets."""
        self.has_markers = False
        """Whether a text often stands for null, such as `N/A`."""
        self._open = list(_SHAPES)

    def add(self, cells: Sequence[str]) -> None:
        """Examine cells in octets, in the file's order."""
        is_whole = self._open == _WHOLE
        texts: Collection[str] = cells
        if self.formats or (self._open and not is_whole):
            # Shapes ask about zeros, but not about other digits; formats of times ask about all.
            texts = set(cells if self.formats else with_ones(cells))
        lengths = set(map(len, texts))
        empty = cells.count("") if 0 in lengths else 0
        self.empty += empty
        self.filled += len(cells) - empty
        self.longest = max(self.longest, 0, *lengths)
        if len(self.examples) < EXAMPLES:
            first = islice(filter(None, cells), 200)
            self.examples = list(dict.fromkeys([*self.examples, *first]))[:EXAMPLES]
        if is_whole and not empty and _are_digits(texts):
            return
        if not lengths.isdisjoint(_MARKER_LENGTHS):
            self.has_markers = self.has_markers or not _MARKERS.isdisjoint(texts)
        if not self._open and not self.formats:
            return
        texts = set(texts) - _SKIPPED
        self.formats = tuple(
            each for each in self.formats if all(map(TimeFormat.of(each).pattern.fullmatch, texts))
        )
        if self._signs:
            texts = {_plain(text, self._signs) for text in texts}
        implied, joined = set[str](), NO_OCTET.join(texts)
        for shape in [*self._open] if texts else ():
            if shape not in implied:
                if _ALL[shape].fullmatch(joined):
                    implied.update(_IMPLIED.get(shape, ()))
                else:
                    self._open.remove(shape)

    def merge(self, other: Self) -> None:
        """Add what was found in the cells that follow."""
        self.filled += other.filled
        self.empty += other.empty
        self.longest = max(self.longest, other.longest)
        self.examples = list(dict.fromkeys(self.examples + other.examples))[:EXAMPLES]
        self.has_markers = self.has_markers or other.has_markers
        self._open = [shape for shape in self._open if shape in other._open]
        self.formats = tuple(each for each in self.formats if each in other.formats)

    def looks(self, shape: str) -> bool:
        """Return whether all cells so far match a pattern of `_SHAPES`, such as whole or date."""
        return shape in self._open

    def inferred(self) -> InferredType:
        """Return the type that fits all cells so far."""
        if not self.filled:
            return InferredType("S", "no cell has anything")
        if self.has_markers:
            return InferredType("S", "texts that may stand for nothing are among the cells")
        if self.looks("numeric"):
            return self._number()
        if self.looks("boolean"):
            return InferredType("BOOL", "true and false only")
        if self.looks("date"):
            return InferredType(
                "S", "dates (ISO 8601); declare epoch if DynamoDB's TTL is to see them"
            )
        if len(self.formats) == 1:
            return InferredType(f"date:{self.formats[0]}", "dates of one form, or epoch: for TTL")
        if self.formats:
            types = " or ".join(f"date:{each}" for each in self.formats)
            return InferredType("S", f"dates, and no day above 12 shows the order: declare {types}")
        if self.looks("yes_no"):
            return InferredType("S", "yes and no or the like; declare BOOL if meant so")
        if self.looks("json"):
            if all(map(_TYPED_CELL.match, self.examples)):
                return InferredType("S", "DynamoDB JSON, as the console writes it; declare M or L")
            return InferredType("S", "JSON; declare M or L if it is meant so")
        return InferredType("S", "text")

    @property
    def proposed(self) -> str:
        """Inferred type, but S for numbers that DynamoDB would return in another spelling."""
        kind = self.inferred().type
        return "S" if kind == "N" and not self.looks("exact") else kind

    def _number(self) -> InferredType:
        if not self.looks("unpadded"):
            return InferredType("S", "digits with leading zeros: kept as text")
        if self.looks("whole"):
            if self.longest > LONGEST_ID:
                return InferredType(
                    "S", f"whole numbers of more than {LONGEST_ID} digits: kept as text"
                )
            return InferredType("N", "whole numbers")
        if self.looks("point_zero") and self.longest <= LONGEST_ID + len(".0"):
            return InferredType("N", "numbers that all end in .0")
        if self.looks("plain") and self.longest <= LONGEST_NUMBER:
            return InferredType("N", "numbers")
        if not self.looks("without_exponent"):
            return InferredType("S", "numbers, some with an exponent: kept as text")
        if self.looks("plain"):
            return InferredType("S", f"numbers of more than {LONGEST_NUMBER} digits: kept as text")
        return InferredType("S", "numbers in several spellings: kept as text")


def _are_digits(cells: Collection[str]) -> bool:
    """Return whether all cells, of which none is empty, are digits without a leading zero."""
    data = f"{NO_OCTET}{NO_OCTET.join(cells)}".encode("latin-1")
    return data.translate(None, b"\xff").isdigit() and b"\xff0" not in data


def _plain(text: str, signs: str) -> str:
    """Return a number without these signs, and other text so that it is none without them."""
    try:
        return plain_number(text, signs)
    except BadValue:
        return f"'{text}" if _ALL["numeric"].fullmatch(text) else text


def infer_types(
    layout: ItemLayout, sample: Iterable[Columns], signs: str = ""
) -> dict[str, TypeGuess]:
    """Return a guess for each attribute that is a column of the file, from a sample of rows.

    Composed attributes are text, and have no guess.
    """
    guesses = {
        place: TypeGuess(signs=signs)
        for place, origin in enumerate(layout.origins)
        if isinstance(origin, int)
    }
    for columns in sample:
        cells = layout.apply(columns).cells
        for place, guess in guesses.items():
            guess.add(cells[place])
    return {layout.attributes[place]: guess for place, guess in guesses.items()}


def inferred_column_types(guesses: dict[str, TypeGuess]) -> dict[str, str]:
    """Return the types of the attributes that are numbers or booleans."""
    found = {name: guess.inferred().type for name, guess in guesses.items()}
    return {name: kind for name, kind in found.items() if kind in ("N", "BOOL")}


MAX_CELLS = 1000
"""Cells of a column that are looked at."""


class SettledCells(NamedTuple):
    """Types of attributes, with those of recognized columns replaced."""

    types: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """The decision, with the option that decides otherwise."""
    numbers: tuple[str, ...] = ()
    """Attributes without a declared type that look like numbers, and become strings."""


def settle_cells(
    layout: ItemLayout, types: Sequence[str], sample: Iterable[Columns]
) -> SettledCells:
    """Decide for each column declared `M` or `L` whether its cells are DynamoDB JSON."""
    counts = {place: [0, 0] for place, kind in enumerate(types) if kind in TYPED_TYPES}
    waiting = set(counts)
    for columns in sample:
        cells = layout.apply(columns).cells
        for place in [*waiting]:
            typed = [_is_typed(text, types[place]) for text in cells[place][:MAX_CELLS] if text]
            counts[place][0] += typed.count(True)
            counts[place][1] += typed.count(False)
            if sum(counts[place]) >= MAX_CELLS:
                waiting.discard(place)
        if not waiting:
            break
    found, notices = list(types), []
    for place, (typed_cells, other_cells) in counts.items():
        name, kind = layout.attributes[place], types[place]
        if typed_cells and not other_cells:
            found[place] = TYPED_TYPES[kind]
            notices.append(
                f"column {shown(name)} is in DynamoDB JSON, as the AWS console writes it, and is"
                f" read as {kind} (as plain JSON: --types {name}={PLAIN_TYPES[kind]})"
            )
        elif typed_cells:
            notices.append(
                f"column {shown(name)} is read as plain JSON, although {typed_cells:,} of its first"
                f" {typed_cells + other_cells:,} cells are in DynamoDB JSON; say which it is"
                f" (--types {name}={TYPED_TYPES[kind]} or {name}={PLAIN_TYPES[kind]})"
            )
    return SettledCells(tuple(found), tuple(notices))


def _is_typed(text: str, kind: str) -> bool | None:
    """Return whether a cell is DynamoDB JSON; None for an empty list or map, and for a defect."""
    try:
        value = parse(text)
        if not value or not isinstance(value, tuple | list):
            return None
        TEXT_READERS[kind](text)
    except BadValue:
        # A list in its envelope is an object, and no plain list.
        return _reads(text, kind) or None
    return _reads(text, kind)


def _reads(text: str, kind: str) -> bool:
    try:
        TEXT_READERS[TYPED_TYPES[kind]](text)
    except BadValue:
        return False
    return True
