"""The commands that a plan ends with are true: they mean what the plan says."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click
import pytest

from ddbload.aws.clients import Clients
from ddbload.cli.commands import commands, run
from ddbload.cli.payload import build_payload
from ddbload.contracts.source import AUTO
from ddbload.errors import AwsConfiguration
from tests.fakes.dynamodb import FakeDynamoDB

KEY = {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
BOOKS = (
    b"id,year,price,ok,zip,mixed,none,cost\n"
    b"1,1999,1.5,true,01234,1,,2.50\n2,2000,2,false,20500,x,,3\n"
)


@pytest.fixture
def table(tmp_path, monkeypatch) -> FakeDynamoDB:
    dynamodb = FakeDynamoDB()
    dynamodb.create_table(
        TableName="books",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        **KEY,
    )

    def refuse(_: Clients, service: str, **__: object) -> None:
        raise AwsConfiguration(f"no {service} here")

    monkeypatch.setattr(Clients, "dynamodb", property(lambda _: dynamodb))
    monkeypatch.setattr(Clients, "service", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books.csv").write_bytes(BOOKS)
    (tmp_path / "odd names.csv").write_bytes(b'id;"a,b";"c=d:e";it\'s;two words\n1;2;3;4;x\n')
    return dynamodb


def planned(capfd: Any, *words: str) -> dict[str, Any]:
    """Return the plan of a command line."""
    run(["plan", *words, "--json"], lambda: False)
    return dict(json.loads(capfd.readouterr().out))


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the payload of a command line, by click's parser."""
    group: click.Group = commands
    command = group.commands[words[0]]
    given = command.make_context(words[0], words[1:]).params
    return build_payload(given["sources"], given["table"], None, AUTO, given)


LINES: list[tuple[list[str], dict[str, str]]] = [
    (["books.csv", "books"], {"year": "N", "price": "N", "ok": "BOOL"}),
    (["books.csv", "books", "--types", "year=S"], {"price": "N", "ok": "BOOL", "year": "S"}),
    (
        ["books.csv", "books", "--infer-types"],
        {"year": "N", "price": "N", "ok": "BOOL", "cost": "N"},
    ),
    (
        ["books.csv", "books", "--drop", "ok", "--rename", "year=the year", "--set", "k=a {id}"],
        {"the year": "N", "price": "N"},
    ),
    (
        ["books.csv", "books", "--max-wcu", "50%", "--mode", "insert", "--concurrency", "3"],
        {"year": "N", "price": "N", "ok": "BOOL"},
    ),
    (
        ["books.csv", "books", "--max-rejects", "7", "--max-cost", "1.25", "--null", "x y"],
        {"year": "N", "price": "N", "ok": "BOOL"},
    ),
    (
        ["odd names.csv", "books", "--delimiter", ";", "--quote", '"'],
        {"a,b": "N", "c=d:e": "N", "it's": "N"},
    ),
    (
        ["books.csv", "books", "--header", "--sample", "1"],
        {"year": "N", "price": "N", "ok": "BOOL"},
    ),
]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("words", "types"), LINES, ids=[" ".join(words) for words, _ in LINES])
def test_command_of_a_plan_is_the_import_with_the_types_found(capfd, words, types):
    plan = planned(capfd, *words)
    program, *line = shlex.split(plan["command"])
    assert (program, line[0]) == ("ddbload", "import")
    bare = [each for each in words if each != "--infer-types"]
    if "--sample" in bare:
        del bare[bare.index("--sample") : bare.index("--sample") + 2]
    wanted = parsed(["import", *bare])
    assert parsed(line) == {**wanted, "types": types}


@pytest.mark.usefixtures("table")
def test_types_of_the_command_reject_no_row_that_the_plan_accepts(capfd):
    first = planned(capfd, "books.csv", "books")
    words = shlex.split(first["command"])[2:]
    second = planned(capfd, *words)
    assert (second["status"], second["rows"]) == ("FINE", first["rows"])
    assert second["command"] == first["command"]


@pytest.mark.usefixtures("table")
def test_command_makes_the_table_that_the_plan_is_for(capfd):
    plan = planned(capfd, "books.csv", "new", "--create-table", "id:S,year:N")
    assert plan["status"] == "FINE"
    assert plan["command"] == (
        "ddbload import books.csv new --create-table id:S,year:N --types price=N,ok=BOOL"
    )


@pytest.mark.usefixtures("table")
def test_table_that_exists_is_warned_of(capfd):
    plan = planned(capfd, "books.csv", "books", "--create-table", "other:S")
    assert "table_exists" in [each["code"] for each in plan["warnings"]]


@pytest.mark.usefixtures("table")
def test_importers_of_aws_are_compared_possible_ones_first(capfd, tmp_path):
    (tmp_path / "small.csv").write_bytes(b"id\n" + b"".join(b"k%d\n" % n for n in range(1000)))
    new = planned(capfd, "small.csv", "new", "--create-table", "id:S")["alternatives"]
    # DynamoDB JSON at $0.15 a GB, and 1,000 write units at $0.625 a million.
    assert [(each["tool"], each["dollars"], each["possible"]) for each in new] == [
        ("ddbload", pytest.approx(1000 * 0.625e-6), True),
        ("ImportTable", pytest.approx((5890 + 24 * 1000) * 0.15e-9), True),
        ("StartBulkPutItems", None, True),
    ]
    assert "ddbload convert" in new[1]["needs"][0]
    known = planned(capfd, "small.csv", "books")["alternatives"]
    assert [(each["tool"], each["possible"]) for each in known] == [
        ("ddbload", True),
        ("StartBulkPutItems", True),
        ("ImportTable", False),
    ]
