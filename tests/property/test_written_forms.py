"""Laws of numbers and times in the forms of other programs, by Python's own readers of them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.scalar_text import BadValue, TimeFormat, parse_number, plain_number
from ddbload.items.batch_encoder import BatchEncoder
from ddbload.items.item_requests import ItemBuilder, put_request
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, to_octets

SEPARATORS = st.sampled_from([".", ",", "'", " ", ""])
_NO_BREAK = "\u00a0\u202f"


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15
    ).filter(lambda value: len(value.as_tuple().digits) <= MAX_DIGITS),
    st.sampled_from([".", ","]),
    SEPARATORS,
    st.booleans(),
)
def test_grouped_number_keeps_its_value(
    value: Decimal, decimal: str, separator: str, no_break: bool
) -> None:
    if decimal == separator:
        separator = ""
    # Python groups by commas; the format has no more digits than the value.
    written = f"{value:,f}".replace(",", "_").replace(".", decimal)
    sign = _NO_BREAK[len(written) % 2] if no_break and separator == " " else separator
    plain = plain_number(written.replace("_", sign), decimal + separator)
    assert Decimal(parse_number(plain).text if value else plain) == value


def _expected(text: str) -> Decimal | None:
    """Read a number with a decimal comma and points between thousands, part by part."""
    whole, comma, fraction = text.removeprefix("-").partition(",")
    first, *groups = whole.split(".")
    is_grouped = not groups or (0 < len(first) < 4 and all(len(each) == 3 for each in groups))
    digits = "".join([first, *groups])
    if not is_grouped or not (digits + fraction).isdigit() or (comma and "," in fraction):
        return None
    return Decimal(f"{'-' * text.startswith('-')}{digits or 0}.{fraction or 0}")


def test_groups_are_checked_in_every_text() -> None:
    for length in range(1, 9):
        for letters in itertools.product("1.,", repeat=length):
            for text in ("".join(letters), f"-{''.join(letters)}"):
                expected = _expected(text)
                if expected is not None:
                    assert Decimal(parse_number(plain_number(text, ",.")).text) == expected
                    continue
                with pytest.raises(BadValue) as caught:
                    parse_number(plain_number(text, ",."))
                assert caught.value.cause == "not_a_number"


FORMATS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%d%m%y", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S.%f"),
    *("%d %b %Y", "%B %d, %Y", "%m/%d/%Y %I:%M:%S %p", "%y-%m-%d%%", "%Y-%m-%d %H:%M:%S %z"),
)


def _moment(text: str, form: str) -> datetime | None:
    try:
        found = datetime.strptime(text, form)  # noqa: DTZ007 - its zone is that of the format
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28))  # noqa: DTZ001


@given(_moments, st.sampled_from(FORMATS), st.integers(-1439, 1439))
def test_written_time_is_read_as_strptime_reads_it(at: datetime, form: str, offset: int) -> None:
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    # The C library does not pad years.
    text = at.strftime(form.replace("%Y", f"{at.year:04}").replace("%z", zone))
    expected = _moment(text, form)
    assert expected is not None
    time = TimeFormat.of(form)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert time.seconds(text) == (expected - epoch) // timedelta(seconds=1)
    utc = expected.astimezone(UTC)
    has_time = "%H" in form or "%I" in form
    iso = time.iso_text(text)
    assert iso.endswith("Z") is has_time
    assert (datetime.fromisoformat(iso) == utc) if has_time else (iso == utc.date().isoformat())


NO_TIMES = {
    "%d/%m/%Y %H:%M:%S": ("31/12/2016 23:59:60", "31/12/2016 24:00:00", "31/12/2016 0:0"),
    "%d/%m/%Y %I %p": ("31/12/2016 0 AM", "31/12/2016 13 PM"),
    "%d/%m/%Y": (" 31/12/2016", "٣١/12/2016", "29/02/2023", "29/02/1900", "0/1/2024", "1/13/2024"),
    "%d.%m.%Y": ("31.04.2024", "01.01.0000", "1.1.99", "1.1.20240", "001.1.2024", "1.1.2024\n"),
    "%d%m%Y": ("1122016",),
    "%d %b %Y": ("1 Dez 2016",),
    "%Y-%m-%d %z": ("0001-01-01 +01:00", "2016-01-01 +24:00"),
}


def test_other_text_is_not_a_time() -> None:
    for form, text in ((form, text) for form, texts in NO_TIMES.items() for text in texts):
        with pytest.raises(BadValue) as caught:
            TimeFormat.of(form).iso_text(text)
        assert caught.value.cause == "not_a_time"
        assert text not in caught.value.detail


_cells = {
    "N:,.": st.sampled_from(["1.234,50", "-1,5", "12", "0", "1.000", "7,", "1.5", "1,000.5", ""]),
    "N:. ": st.sampled_from(["1\u00a0234.5", "1\u202f000", "1 000", "1000", "12 34", "-", ""]),
    "date:%d/%m/%Y": st.sampled_from(["1/2/2024", "29/02/2023", "31/12/9999", "x", ""]),
    "epoch:%Y%m%d %H:%M %z": st.sampled_from(["20240229 23:59 +02:00", "20240101 00:00", ""]),
    "BOOL": st.sampled_from(["t", "F", "y", "N", "on", "OFF", "True", "1", "0", "maybe", ""]),
}
_kinds = {"N:,.": "N", "N:. ": "N", "date:%d/%m/%Y": "S", "epoch:%Y%m%d %H:%M %z": "N"}


@given(st.data(), st.sampled_from([*_kinds]), st.sampled_from(["omit", "null", "empty", "reject"]))
def test_rows_encoded_together_are_those_built_one_by_one(
    data: st.DataObject, key: str, nulls: str
) -> None:
    kinds = [key, *_cells]
    rows = data.draw(st.lists(st.tuples(*(_cells[kind] for kind in kinds)), min_size=1, max_size=9))
    names = [f"a{place}" for place in range(len(kinds))]
    table = Table("table", "id", (KeyAttribute("a0", _kinds[key], 1024),))
    encoder = BatchEncoder(names, kinds, table, nulls)
    cells = [[*map(to_octets, column)] for column in zip(*rows, strict=True)]
    encoded = encoder.encode(Columns(len(rows), [*cells]))
    builder = ItemBuilder(names, kinds, table, nulls)
    for place, row in enumerate(rows):
        built = builder.build(row)
        if isinstance(built, Defect):
            assert place in encoded.odd
        elif place not in encoded.odd:
            assert encoded.puts[place] == put_request(built.attributes)
            assert encoded.keys[place] == built.key
