"""`ddbload import --create-table` makes a table once it is agreed to, and never another one."""

from __future__ import annotations

import pytest

from tests.cli.transcript import delete_table

BOOKS = "isbn,year\na,1\nb,2\n"


@pytest.fixture
def books(console, dynamodb):
    console.write("books.csv", BOOKS)
    yield console
    for name in dynamodb.list_tables()["TableNames"]:
        if name.startswith("made"):
            delete_table(dynamodb, name)


def test_missing_table_is_made_and_loaded(books, dynamodb):
    keys = ("--create-table", "isbn:S,year:N")
    ended = books.ddbload("import", "books.csv", "made1", *keys, "--yes", "--json")
    assert ended.code == 0, ended.err
    assert (
        "making table made1 in us-east-1, on demand, with the key isbn (S), year (N)" in ended.err
    )
    described = dynamodb.describe_table(TableName="made1")["Table"]
    assert described["KeySchema"] == [
        {"AttributeName": "isbn", "KeyType": "HASH"},
        {"AttributeName": "year", "KeyType": "RANGE"},
    ]
    assert dynamodb.scan(TableName="made1")["Count"] == 2
    # It exists now: nothing is asked or made.
    again = books.ddbload("import", "books.csv", "made1", *keys)
    assert again.code == 0
    assert "making" not in again.err


def test_table_with_other_keys_is_left_alone(books, dynamodb):
    words = ("import", "books.csv", "made2", "--yes", "--create-table")
    assert books.ddbload(*words, "isbn:S").code == 0
    ended = books.ddbload(*words, "year:N")
    assert ended.code == 2
    assert "table made2 exists, with the key isbn (S) and not year (N)" in ended.err
    assert dynamodb.scan(TableName="made2")["Count"] == 2


def test_without_a_terminal_it_is_not_made(books, dynamodb):
    ended = books.ddbload("import", "books.csv", "made3", "--create-table", "isbn:S")
    assert ended.code == 2
    assert "without a terminal to ask on, give --yes" in ended.err
    assert "made3" not in dynamodb.list_tables()["TableNames"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no.csv", "made6", "--create-table", "isbn:S"), "SourceNotFound"),
        (("books.csv", "made6", "--create-table", "id:S"), "KeyColumnMissing"),
        (("books.csv", "made6", "--create-table", "isbn:S", "--types", "no=N"), "UnknownColumn"),
    ],
)
def test_no_table_is_made_for_a_source_that_does_not_fit(books, dynamodb, words, said):
    ended = books.ddbload("import", *words, "--yes")
    assert ended.code == 2
    assert f"no table was made: {said}" in ended.err
    assert "made6" not in dynamodb.list_tables()["TableNames"]


def test_keys_are_checked_first(books, dynamodb):
    ended = books.ddbload("import", "books.csv", "made4", "--create-table", "isbn:X", "--yes")
    assert ended.code == 2
    assert "'isbn:X' is not of the form key:S, key:N or key:B" in ended.err
    assert "made4" not in dynamodb.list_tables()["TableNames"]


def test_missing_table_names_the_option(books):
    # A name that is like no other: else the message names that one.
    ended = books.ddbload("import", "books.csv", "unlike-any-other")
    assert "ddbload import --create-table KEY:TYPE makes it" in ended.err
