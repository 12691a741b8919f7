"""Encodes attributes of rows with the same shape: each one a template with columns to fill in.

`DocumentBuilder` makes the item of one row, value by value, with every rule and every reason. The
functions here make the same attribute for many rows at once. Rows that cannot be shown to be right
that way are added to `odd` and left to the builder, so that rules and reasons have one home.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
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
    PUT_BEGIN,
    PUT_END,
    compact_json,
)
from ddbload.items.json_values import Json, attribute_json
from ddbload.rows.columns import FILLER, to_octets

MIN_COLUMN_ROWS = 4
"""Fewest rows of one shape that are encoded by column: fewer are faster row by row."""
LONGEST_PUT = 200_000
"""Most bytes of JSON for a row. Written in ASCII it would take three times as many at most."""


@dataclass(slots=True)
class AttributeTemplate:
    """An attribute of several rows: JSON with a placeholder for each column."""

    name: str
    form: str
    """JSON of name and value, in octets, with `%s` for each column; percent signs are doubled."""
    columns: list[Sequence[str]] = field(default_factory=list)
    size: int = 0
    """Upper bound for the bytes that DynamoDB counts, the cells of columns aside."""
    optional: bool = False
    """True if the form is one `%s` whose cells hold name and value, or nothing."""
    kind: str | None = None
    """S or N if all values are strings or all are numbers, otherwise None."""
    texts: Sequence[str] = ()
    """These strings or numbers, in octets."""
    identities: Sequence[Hashable] = ()
    """Identities of the values as keys, if they are known already."""


_Row = TypeVar("_Row")

EncodedRow = tuple[str, tuple[Hashable, ...], int]
"""Request for a row, its key, and what to add to the request's length for an upper bound of the
bytes that DynamoDB counts."""
FOR_BUILDER: EncodedRow = ("", (), 0)
"""Result for a row that only the builder can judge."""


def encode_rows(rows: Iterable[_Row], encode: Callable[[_Row], EncodedRow]) -> EncodedRows:
    """Encode rows one by one.

    A row is odd where `encode` returns `FOR_BUILDER`, or raises `BadValue` or `UnicodeEncodeError`.
    """
    puts: list[str] = []
    keys: list[tuple[Hashable, ...]] = []
    units: list[int] = []
    odd: set[int] = set()
    for place, row in enumerate(rows):
        try:
            put, key, uncounted = encode(row)
        except (BadValue, UnicodeEncodeError):
            put, key, uncounted = FOR_BUILDER
        if not put or len(put) > LONGEST_PUT:
            odd.add(place)
        puts.append(put)
        keys.append(key)
        units.append(max(1, -(-(len(put) + uncounted) // WRITE_UNIT_BYTES)))
    return EncodedRows(puts, keys, units if max(units, default=1) > 1 else None, 0, odd)


def _escape_percents(text: str) -> str:
    """Escape a text for use in a `%` template."""
    return text.replace("%", "%%")


def _name_form(name: str) -> str:
    """Return an attribute's name and colon for use in a `%` template."""
    return f"{_escape_percents(to_octets(quoted(name)))}:"


def string_template(name: str, column: Sequence[str], odd: set[int]) -> AttributeTemplate:
    """Encode an attribute of type S."""
    texts = _octets_or_odd(column, odd)
    cells, cell_form = CELL_ENCODERS["S"](texts, odd, plain=False, short=False)
    slot = '"%s"' if cell_form is CellForm.BARE else "%s"
    form = f'{_name_form(name)}{{"S":{slot}}}'
    return AttributeTemplate(name, form, [cells], len(to_octets(name)), kind="S", texts=texts)


def number_template(name: str, texts: Sequence[str], odd: set[int]) -> AttributeTemplate:
    """Encode an attribute of type N."""
    if not all(texts):
        odd.update(place for place, text in enumerate(texts) if not text)
        texts = [text or FILLER for text in texts]
    cells, _ = CELL_ENCODERS["N"](texts, odd, plain=False, short=False)
    form = f'{_name_form(name)}{{"N":"%s"}}'
    # DynamoDB counts two bytes for a number of one digit.
    return AttributeTemplate(name, form, [cells], len(to_octets(name)) + 1, kind="N", texts=cells)


def constant_template(name: str, value: AttributeValue) -> AttributeTemplate:
    """Encode an attribute with the same value in all rows."""
    return AttributeTemplate(
        name,
        _name_form(name) + _escape_percents(to_octets(compact_json(value))),
        size=len(to_octets(name)) + value_size(value),
    )


def value_template(
    builder: DocumentBuilder, name: str, values: Sequence[AttributeValue | None]
) -> AttributeTemplate:
    """Encode an attribute from values of any type, checked before; None for rows without it."""
    before = to_octets(quoted(name)) + ":"
    cells = ["" if value is None else before + to_octets(compact_json(value)) for value in values]
    template = AttributeTemplate(name, "%s", [cells], optional=True)
    if name in builder.key_names:
        template.identities = [None if value is None else identity(value) for value in values]
        # A key is in every row that is sent.
        template.optional = not all(cells)
    return template


def nested_template(name: str, values: Sequence[Json], odd: set[int]) -> AttributeTemplate:
    """Encode an attribute whose values are lists and maps, and which is no key."""
    before = to_octets(quoted(name)) + ":"
    cells: list[str] = []
    for place, value in enumerate(values):
        try:
            cells.append(before + to_octets(attribute_json(value)))
        except (BadValue, UnicodeEncodeError):
            odd.add(place)
            cells.append("")
    return AttributeTemplate(name, "%s", [cells], optional=True)


def _octets_or_odd(column: Sequence[str], odd: set[int]) -> Sequence[str]:
    """Return text as octets, with a filler where a lone surrogate has no UTF-8."""
    joined = "".join(column)
    if joined.isascii():
        return column
    try:
        joined.encode()
    except UnicodeEncodeError:
        return [_one_octets_or_odd(text, place, odd) for place, text in enumerate(column)]
    return list(map(to_octets, column))


def _one_octets_or_odd(text: str, place: int, odd: set[int]) -> str:
    try:
        return to_octets(text)
    except UnicodeEncodeError:
        odd.add(place)
        return FILLER


def spread_template(
    template: AttributeTemplate, places: Sequence[int], count: int, absent: str
) -> AttributeTemplate:
    """Spread a template of some rows over `count` rows: the others get `absent`, or nothing."""
    cells = [absent] * count
    rows = zip(*template.columns, strict=True) if template.columns else repeat((), len(places))
    for place, row in zip(places, rows, strict=True):
        cells[place] = template.form % row
    identities: list[Hashable] = [None] * count
    for place, found in zip(places, _key_identities_of(template), strict=False):
        identities[place] = found
    return AttributeTemplate(
        template.name, "%s", [cells], template.size, optional=not all(cells), identities=identities
    )


def check_keys(builder: DocumentBuilder, template: AttributeTemplate, odd: set[int]) -> bool:
    """Return whether a template fits the key that its attribute is, if it is one.

    Rows whose value is empty or too long for the key are added to `odd`.
    """
    for key in builder.checked_keys:
        if key.name == template.name:
            if template.kind != key.type:
                return False
            _check_key(template, key.max_bytes, odd)
    return True


def _check_key(template: AttributeTemplate, most: int, odd: set[int]) -> None:
    if template.kind == "N":
        return
    texts = template.texts
    if not all(texts):
        odd.update(place for place, text in enumerate(texts) if not text)
    if max(map(len, texts), default=0) > most:
        odd.update(place for place, text in enumerate(texts) if len(text) > most)


def encode_requests(
    builder: DocumentBuilder,
    templates: Sequence[AttributeTemplate],
    count: int,
    odd: set[int],
) -> EncodedRows:
    """Join the templates of all attributes to the requests of `count` rows."""
    by_name = {template.name: template for template in templates}
    if any(name not in by_name for name in builder.key_names):
        return all_to_builder(count)
    attributes, may_end_in_comma = _form(templates)
    form = f"{PUT_BEGIN}{attributes}{PUT_END}"
    columns = [column for template in templates for column in template.columns]
    rows = zip(*columns, strict=True) if columns else repeat((), count)
    puts = [form % row for row in rows]
    if may_end_in_comma:
        last = f",{PUT_END}"
        puts = [f"{put[: -len(last)]}{PUT_END}" if put.endswith(last) else put for put in puts]
    size = (
        sum(template.size for template in templates)
        - len(form)
        + 2 * len(columns)
        + form.count("%%")
    )
    key_cells = [_key_identities_of(by_name[name]) for name in builder.key_names]
    keys: list[tuple[Hashable, ...]] = list(zip(*key_cells, strict=True)) or [()] * count
    return EncodedRows(puts, keys, _units(puts, size, odd), 0, odd)


def all_to_builder(count: int) -> EncodedRows:
    """Return requests of rows that are all for the builder."""
    return EncodedRows([""] * count, [()] * count, None, 0, set(range(count)))


def _key_identities_of(template: AttributeTemplate) -> Sequence[Hashable]:
    """Return identities of a key's values, equal for equal keys."""
    if template.identities:
        return template.identities
    return key_identities(template.texts, short=False) if template.kind == "N" else template.texts


def _form(templates: Sequence[AttributeTemplate]) -> tuple[str, bool]:
    """Join the forms of all attributes; tell whether one comma too many may stand at the end.

    The cells of an optional attribute bring their comma, on the side of an attribute that every row
    has.
    """
    anchor = next(
        (place for place, template in enumerate(templates) if not template.optional), len(templates)
    )
    forms: list[str] = []
    for place, template in enumerate(templates):
        before, after = "," if place > anchor else "", "," if place < anchor else ""
        if template.optional:
            (cells,) = template.columns
            template.columns = [[f"{before}{cell}{after}" if cell else "" for cell in cells]]
            before = after = ""
        forms.append(f"{before}{template.form}{after}")
    return "".join(forms), anchor == len(templates)


def _units(puts: Sequence[str], size: int, odd: set[int]) -> list[int] | None:
    """Return write units of each request, or an upper bound; None if each takes one.

    `size` is added to a request's length for an upper bound of the bytes that DynamoDB counts.
    """
    longest = max(map(len, puts), default=0)
    if longest > LONGEST_PUT:
        odd.update(place for place, put in enumerate(puts) if len(put) > LONGEST_PUT)
    if longest + size <= WRITE_UNIT_BYTES:
        return None
    return [max(1, -(-(len(put) + size) // WRITE_UNIT_BYTES)) for put in puts]


def value_or_odd(
    builder: DocumentBuilder,
    name: str,
    place: int,
    read: Callable[[], AttributeValue | None],
    odd: set[int],
) -> AttributeValue | None:
    """Read an attribute of one row by the builder. Without a good value, the row is odd."""
    try:
        found = read()
        if found is not None:
            builder.check_key(name, found)
    except BadValue:
        found = None
    else:
        if found is not None or name not in builder.key_names:
            return found
    odd.add(place)
    return found
