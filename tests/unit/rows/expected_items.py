"""What DynamoDB's manual says of numbers, sizes and keys, worked out the slow way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

NUMERALS = frozenset("0123456789+-.eE")
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def decimal_of(text: str) -> Decimal | None:
    """The number a text writes, if any, DynamoDB's limits apart."""
    if not NUMERALS.issuperset(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def significant_digits(value: Decimal) -> str:
    """The digits without zeros before and after them."""
    return "".join(map(str, value.as_tuple().digits)).strip("0")


def fits(value: Decimal) -> bool:
    """38 digits; nothing nearer to zero than 1E-130, nothing farther than 9.9...E+125."""
    return not value or (
        len(significant_digits(value)) <= 38
        and Decimal("1E-130") <= value.copy_abs() < Decimal("1E+126")
    )


def number_bytes(value: Decimal) -> int:
    """A byte for two digits, counted off from the point; one for the exponent; one for a minus."""
    if not value:
        return 1
    integer, _, fraction = f"{value.copy_abs():f}".partition(".")
    integer = integer.zfill(len(integer) + len(integer) % 2)
    fraction = fraction.ljust(len(fraction) + len(fraction) % 2, "0")
    digits = integer + fraction
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    while pairs[0] == "00":
        pairs.pop(0)
    while pairs[-1] == "00":
        pairs.pop()
    return len(pairs) + 1 + (value < 0)


def value_bytes(kind: str, text: str) -> int:
    """What DynamoDB counts for a cell."""
    if kind == "S":
        return len(text.encode())
    return 1 if kind == "BOOL" else number_bytes(Decimal(text))


def causes(
    fields: Sequence[str],
    columns: Mapping[str, str],
    keys: Sequence[str],
    limits: Mapping[str, int],
) -> Iterator[tuple[str, int | None]]:
    """Every reason to reject a row, with its column. `limits`: bytes of a key attribute."""
    if len(fields) != len(columns):
        yield "field_count", None
        return
    for column, ((name, kind), text) in enumerate(zip(columns.items(), fields, strict=True)):
        if not text:
            if name in keys:
                yield "empty_key", column
            continue
        if kind == "S" and len(text.encode()) > limits.get(name, 2**40):
            yield "key_too_long", column
        if kind == "BOOL" and text.lower() not in BOOLEANS:
            yield "not_a_boolean", column
        if kind == "N":
            value = decimal_of(text)
            if value is None:
                yield "not_a_number", column
            elif value and len(significant_digits(value)) > 38:
                yield "number_too_long", column
            elif not fits(value):
                yield "number_out_of_range", column
