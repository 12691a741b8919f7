"""Plain JSON of items."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddbload.dynamodb.scalar_text import BadValue, parse_number
from ddbload.items.plain_json import json_number, plain_object


def test_each_type_has_its_json():
    item = {
        "text": {"S": 'Zoë "q"\n'},
        "number": {"N": "1.50"},
        "yes": {"BOOL": True},
        "no": {"BOOL": False},
        "nothing": {"NULL": True},
        "bytes": {"B": "AAE="},
        "texts": {"SS": ["b", "a"]},
        "numbers": {"NS": ["01", "2"]},
        "many bytes": {"BS": ["AA=="]},
        "list": {"L": [{"N": "1"}, {"L": []}, {"M": {"a": {"S": ""}}}]},
        "map": {"M": {}},
    }
    assert plain_object(item) == (
        '{"text":"Zoë \\"q\\"\\n","number":1.50,"yes":true,"no":false,"nothing":null,'
        '"bytes":"AAE=","texts":["b","a"],"numbers":[1,2],"many bytes":["AA=="],'
        '"list":[1,[],{"a":""}],"map":{}}'
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("007", "7"),
        ("-0.50", "-0.50"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("00", "0"),
        ("1e5", "1e5"),
        ("01.E+3", "1E+3"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
    ],
)
def test_numbers_are_written_as_json_writes_them(text, written):
    assert json_number(text) == written


@given(st.from_regex(r"-?([0-9]{0,40})(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_no_digit_of_a_number_is_lost(text):
    try:
        number = parse_number(text).text
    except BadValue:
        return
    read = json.loads(json_number(number), parse_float=Decimal, parse_int=Decimal)
    assert read == Decimal(text)
