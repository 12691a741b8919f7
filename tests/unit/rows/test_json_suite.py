"""Values in an array of objects by the rules of JSONTestSuite: y_ is accepted, and n_ is not.

These are the cases of its `test_parsing` put into arrays of objects, and broken arrays of them.
Python's `json`, with its constants refused, is the oracle.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pytest

from ddbload.dynamodb.scalar_text import BadValue
from ddbload.errors import InvalidJson
from ddbload.items.json_values import parse
from ddbload.rows.json_framing import JsonFramer, rows_begin
from ddbload.rows.json_shape import json_layout

VALUES = [
    *(rb'"\u0060\u012a"', rb'"\"\\\/\b\f\n\r\t"', b"-0", b"1E+2", b'"\x7f"', b'"\xe2\x80\xa8"'),
    *(b"[[]   ]", b"null", b"123456789.1e-3", rb'"\u0000"', b'"\xf0\x9f\x98\x80"', b"{}", b'""'),
    *(b"01", b"+1", b".5", b"1.", b"0x1", b"NaN", b"Infinity", b"tru", b'"\t"', b'"\n"', b'"\x00"'),
    *(rb'"\x00"', rb'"\u00A"', rb'"\uD800\u1"', rb'"\uqqqq"', b'"\xff"', b'"\xe9"', b"[1", b"{]"),
    *(b'"x', b'"\\', b"-", b"1e", b"1 000", b"\xc2\xa01", b"--1", b"1eE2", b'"a",,"b":1', b'"a"}'),
    *(b"1e1\xe5", b'"\\\xf0\x9f"', b"1,", b"[1,,2]", b"[1,]", b"{1:1}", b"{'a':1}", b'{"a":1,}'),
    *(b'{"x"::1}', b'{"x", null}', b"*", b"[,1]", b"1/**/", b"<null>", b"\xef\xbb\xbf1", b"1:2"),
]
ARRAYS = [
    *(b"[%s]", b" [ %s ]\r\n", b"[%s,%s]", b"[%s\n,\t%s\n]", b"[%s", b"[%s,]", b"[,%s]", b"[%s%s]"),
    *(
        b"[%s]]",
        b"[%s],",
        b"[%s]x",
        b"[%s;%s]",
        b"[%s:1]",
        b"[%s/**/]",
        b"[%s\x0c]",
        b"[%s}",
        b"[%s#]",
    ),
    *(b"\xef\xbb[%s]", b"[\xe2\x81\xa0%s]", b"[*%s]", b'["",%s,', b"[%s ,,%s]", b"%s]", b"[%s]%s"),
]
FILES = [b'[{"a":%b}, {"b":1}]' % value for value in VALUES]
FILES += [text.replace(b"%s", b'{"a":1}') for text in ARRAYS]


def refuse(name: str) -> NoReturn:
    raise ValueError(name)


def rows_of(data: bytes) -> list[Any] | None:
    """Read the rows of a file; None if it is refused, or one of them is rejected."""
    found = json_layout(data, whole=True, keys=())
    begin = None if found is None else rows_begin(data, found[0])
    if found is None or begin is None:
        return None
    try:
        framer = JsonFramer(found[0], begin, lambda: data)
        text = framer.feed(data[begin:]) + framer.finish()
        rows = [parse(line.decode()) for line in text.split(b"\n") if line.strip()]
    except (InvalidJson, BadValue, UnicodeDecodeError):
        return None
    return rows if all(isinstance(row, tuple) for row in rows) else None


@pytest.mark.parametrize("number", range(len(FILES)))
def test_file_is_accepted_if_it_is_an_array_of_objects(number: int) -> None:
    data = FILES[number]
    try:
        wanted: list[Any] | None = json.loads(data, parse_constant=refuse)
    except ValueError:
        wanted = None
    rows = rows_of(data)
    assert (rows is None) == (wanted is None), data
    assert rows is None or len(rows) == len(wanted or ())
