"""Names in statements of PartiQL: quoted in one place, whatever they are."""

from __future__ import annotations

import pytest

from ddbload.dynamodb.modes import MAX_STATEMENT_BYTES, insert_statement, quoted_name
from tests.fakes.dynamodb_partiql import parsed_insert
from tests.unit.dynamodb.attribute_names import QUOTABLE

REFUSED = [
    "",
    "back\\slash",
    "end\\",
    "a\nb",
    "a\rb",
    "\t",
    "\0",
    "\x7f",
    "\u2028",
    "\u202e",
    "\ufeff",
]


@pytest.mark.parametrize("name", QUOTABLE)
def test_statement_gives_the_item_its_name(name):
    statement = insert_statement("a-Table_1.x", ["id", name, "z"])
    assert statement is not None
    values = [{"S": "1"}, {"S": "2"}, {"S": "3"}]
    table, item = parsed_insert(statement, values)
    assert table == "a-Table_1.x"
    assert list(item.items()) == [("id", values[0]), (name, values[1]), ("z", values[2])]


@pytest.mark.parametrize("name", REFUSED)
def test_name_is_in_no_statement_when_its_reading_is_not_documented(name):
    assert quoted_name(name) is None
    assert insert_statement("table", ["id", name]) is None


@pytest.mark.parametrize(("letter", "size"), [("n", 1), ("é", 2), ("漢", 3), ("'", 2)])
def test_statement_is_as_long_as_dynamodb_takes(letter, size):
    room = MAX_STATEMENT_BYTES - len("INSERT INTO \"t\" VALUE {'':?}")
    assert MAX_STATEMENT_BYTES == 8192
    statement = insert_statement("t", [letter * (room // size)])
    assert statement is not None
    assert len(statement.encode()) > MAX_STATEMENT_BYTES - size
    assert insert_statement("t", [letter * (room // size + 1)]) is None
