"""Rows whose documents are alike, made requests of an attribute at a time.

`DocumentBuilder` says what the item of a row is, one value after the other. Here the same is
found out for rows together: each attribute is a form, in which only some texts differ. Rows of
which that cannot be seen are left to the builder, so that there is one place for rules and reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from json.encoder import encode_basestring as quoted
from typing import TypeVar

from ddbload.dynamodb.attribute_values import AttributeValue, value_size
from ddbload.dynamodb.limits import WRITE_UNIT_BYTES
from ddbload.dynamodb.scalar_text import BadValue
from ddbload.items.documents.document_builder import DocumentBuilder, identity
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.column_encoders import (
    CELL_ENCODERS,
    CellForm,
    key_identities,
)
from ddbload.items.encode.request_json import (
    DELETE_BEGIN,
    DELETE_END,
    PUT_BEGIN,
    PUT_END,
    compact_json,
)
from ddbload.rows.columns import FILLER, to_octets

FEW_ROWS = 4
"""Below this many rows of one shape, encoding row by row is faster than by column."""
LONGEST_PUT = 200_000
"""JSON of a row in octets. Written in ASCII it is three times as long at most."""


@dataclass(slots=True)
class AttributeTemplate:
    """What an attribute of some rows is made of."""

    name: str
    form: str
    """JSON of its name and its value, in octets, with a `%s` for each column; percents doubled."""
    columns: list[Sequence[str]] = field(default_factory=list)
    size: int = 0
    """Bytes that DynamoDB counts for it, beyond those of the columns' cells, at most."""
    optional: bool = False
    """Whether the cells of its one column are all there is, name and value, or nothing."""
    kind: str | None = None
    """Its type, where it is a text of type S, N or B; or None."""
    texts: Sequence[str] = ()
    """These, in octets."""
    identities: Sequence[Hashable] = ()
    """Those that were found out already."""


_Row = TypeVar("_Row")


def encode_one_by_one(
    rows: Sequence[_Row],
    encoded: Callable[[_Row], tuple[str, tuple[Hashable, ...]]],
    uncounted: Callable[[_Row], int],
) -> EncodedRows:
    """The requests of some rows, one by one.

    `encoded`: a row's request and key, or no request, or `BadValue` or `UnicodeEncodeError`, for
    what only the builder understands. `uncounted`: what is to be added to a request's length to
    have bytes that DynamoDB counts, or more.
    """
    made = EncodedRows([], [], None, 0)
    units: list[int] = []
    for place, row in enumerate(rows):
        try:
            put, key = encoded(row)
        except (BadValue, UnicodeEncodeError):
            put, key = "", ()
        if not put or len(put) > LONGEST_PUT:
            made.odd.add(place)
        made.puts.append(put)
        made.keys.append(key)
        units.append(max(1, -(-(len(put) + uncounted(row)) // WRITE_UNIT_BYTES)))
    made.units = units if max(units, default=1) > 1 else None
    return made


def escaped(text: str) -> str:
    """A text as a part of a form."""
    return text.replace("%", "%%")


def template_name(name: str) -> str:
    """A name as a part of a form, with its colon."""
    return f"{escaped(to_octets(quoted(name)))}:"


def string_template(name: str, column: Sequence[str], left: set[int]) -> AttributeTemplate:
    """An attribute of type S."""
    texts = in_octets(column, left)
    before, cells, after = written_strings(texts, left)
    form = f'{template_name(name)}{{"S":{before}%s{after}}}'
    return AttributeTemplate(name, form, [cells], len(to_octets(name)), kind="S", texts=texts)


def written_strings(texts: Sequence[str], left: set[int]) -> tuple[str, Sequence[str], str]:
    """Texts as JSON has them, and what stands before and after each."""
    cells, form = CELL_ENCODERS["S"](texts, left, plain=False, short=False)
    return ('"', cells, '"') if form is CellForm.BARE else ("", cells, "")


def number_template(name: str, texts: Sequence[str], left: set[int]) -> AttributeTemplate:
    """An attribute of type N."""
    cells = written_numbers(texts, left)
    form = f'{template_name(name)}{{"N":"%s"}}'
    # A number of one digit counts for two bytes.
    return AttributeTemplate(name, form, [cells], len(to_octets(name)) + 1, kind="N", texts=cells)


def written_numbers(texts: Sequence[str], left: set[int]) -> Sequence[str]:
    """Numbers as they are sent."""
    if not all(texts):
        left.update(place for place, text in enumerate(texts) if not text)
        texts = [text or FILLER for text in texts]
    cells, _ = CELL_ENCODERS["N"](texts, left, plain=False, short=False)
    return cells


def constant_template(name: str, value: AttributeValue) -> AttributeTemplate:
    """An attribute that is the same in all rows."""
    return AttributeTemplate(
        name,
        template_name(name) + escaped(to_octets(compact_json(value))),
        size=len(to_octets(name)) + value_size(value),
    )


def value_template(
    builder: DocumentBuilder, name: str, values: Sequence[AttributeValue | None]
) -> AttributeTemplate:
    """An attribute of any type, or none. Raises nothing: the values are good, or left out."""
    before = to_octets(quoted(name)) + ":"
    cells = ["" if value is None else before + to_octets(compact_json(value)) for value in values]
    part = AttributeTemplate(name, "%s", [cells], optional=True)
    if name in builder.key_names:
        part.identities = [None if value is None else identity(value) for value in values]
        # The cells of keys are all there, or the rows are not.
        part.optional = not all(cells)
    return part


def in_octets(column: Sequence[str], left: set[int]) -> Sequence[str]:
    """Texts as octets."""
    joined = "".join(column)
    if joined.isascii():
        return column
    try:
        joined.encode()
    except UnicodeEncodeError:
        return [_octets_or_left(text, place, left) for place, text in enumerate(column)]
    return list(map(to_octets, column))


def _octets_or_left(text: str, place: int, left: set[int]) -> str:
    try:
        return to_octets(text)
    except UnicodeEncodeError:
        left.add(place)
        return FILLER


def expanded(
    part: AttributeTemplate, places: Sequence[int], count: int, absent: str
) -> AttributeTemplate:
    """A part of only some of `count` rows, as one of all: the others have `absent`, or nothing."""
    cells = [absent] * count
    rows = zip(*part.columns, strict=True) if part.columns else repeat((), len(places))
    for place, row in zip(places, rows, strict=True):
        cells[place] = part.form % row
    identities: list[Hashable] = [None] * count
    for place, found in zip(places, identities_of(part), strict=False):
        identities[place] = found
    return AttributeTemplate(
        part.name, "%s", [cells], part.size, optional=not all(cells), identities=identities
    )


def fits_keys(builder: DocumentBuilder, part: AttributeTemplate, left: set[int]) -> bool:
    """Whether a part can be what its attribute is a key of; adds rows that cannot to `left`."""
    for key in builder.checked_keys:
        if key.name == part.name:
            if part.kind != key.type:
                return False
            _check_key(part, key.max_bytes, left)
    return True


def _check_key(part: AttributeTemplate, most: int, left: set[int]) -> None:
    if part.kind == "N":
        return
    texts = part.texts
    if not all(texts):
        left.update(place for place, text in enumerate(texts) if not text)
    # Base64 is longer than what it stands for.
    if max(map(len, texts), default=0) > most:
        left.update(place for place, text in enumerate(texts) if len(text) > most)


def encode_requests(
    builder: DocumentBuilder,
    parts: Sequence[AttributeTemplate],
    count: int,
    left: set[int],
    *,
    deleted: bool,
) -> EncodedRows:
    """The requests of `count` rows that are made of these parts."""
    by_name = {part.name: part for part in parts}
    if any(name not in by_name for name in builder.key_names):
        return all_to_builder(count)
    begin, end = (DELETE_BEGIN, DELETE_END) if deleted else (PUT_BEGIN, PUT_END)
    attributes, is_loose = _form(parts)
    form = f"{begin}{attributes}{end}"
    columns = [column for part in parts for column in part.columns]
    rows = zip(*columns, strict=True) if columns else repeat((), count)
    puts = [form % row for row in rows]
    if is_loose:
        last = f",{end}"
        puts = [f"{put[: -len(last)]}{end}" if put.endswith(last) else put for put in puts]
    size = sum(part.size for part in parts) - len(form) + 2 * len(columns) + form.count("%%")
    key_cells = [identities_of(by_name[name]) for name in builder.key_names]
    keys: list[tuple[Hashable, ...]] = list(zip(*key_cells, strict=True)) or [()] * count
    return EncodedRows(puts, keys, _units(puts, size, left), 0, left)


def all_to_builder(count: int) -> EncodedRows:
    """Rows of which none is understood."""
    return EncodedRows([""] * count, [()] * count, None, 0, set(range(count)))


def identities_of(part: AttributeTemplate) -> Sequence[Hashable]:
    """Of a part that is a key: the same for values that are one key to DynamoDB."""
    if part.identities:
        return part.identities
    return key_identities(part.texts, short=False) if part.kind == "N" else part.texts


def _form(parts: Sequence[AttributeTemplate]) -> tuple[str, bool]:
    """The form of all attributes, and whether a comma too many may stand at its end.

    Gives the cells of optional attributes their commas: on the side towards one that is always
    there.
    """
    anchor = next((place for place, part in enumerate(parts) if not part.optional), len(parts))
    forms: list[str] = []
    for place, part in enumerate(parts):
        before, after = "," if place > anchor else "", "," if place < anchor else ""
        if part.optional:
            (cells,) = part.columns
            part.columns = [[f"{before}{cell}{after}" if cell else "" for cell in cells]]
            before = after = ""
        forms.append(f"{before}{part.form}{after}")
    return "".join(forms), anchor == len(parts)


def _units(puts: Sequence[str], size: int, left: set[int]) -> list[int] | None:
    """Write units of each, or more. `size`: what is to be added to a request's length for that."""
    longest = max(map(len, puts), default=0)
    if longest > LONGEST_PUT:
        left.update(place for place, put in enumerate(puts) if len(put) > LONGEST_PUT)
    if longest + size <= WRITE_UNIT_BYTES:
        return None
    return [max(1, -(-(len(put) + size) // WRITE_UNIT_BYTES)) for put in puts]


def value_or_left(
    builder: DocumentBuilder,
    name: str,
    place: int,
    read: Callable[[], AttributeValue | None],
    left: set[int],
) -> AttributeValue | None:
    """A row's attribute, by the builder; the row is left where it is none."""
    try:
        found = read()
        if found is not None:
            builder.check_key(name, found)
    except BadValue:
        found = None
    else:
        if found is not None or name not in builder.key_names:
            return found
    left.add(place)
    return found
