"""`ddbload verify` finds every difference, and the commands that it prints mend them."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.console import Console
from tests.cli.transcript import items, make_table

ROWS = 3000
TEXT = "id,name,price,note\n" + "".join(
    f'{n},"name ""{n}"" é",{n}.50,{"" if n % 3 else "n"}\n' for n in range(ROWS)
)
OPTIONS = ("--types", "price=N", "--json", "--quiet")


def verify(console: Console, *arguments: str) -> tuple[int, dict[str, Any]]:
    ended = console.ddbload("verify", *arguments, *OPTIONS)
    assert ended.out, ended.err
    told = json.loads(ended.out)
    assert isinstance(told, dict)
    return ended.code, told


def counts(told: dict[str, Any]) -> list[Any]:
    return [told[kind] for kind in ("equal", "missing", "different", "extra")]


def test_commands_that_verify_prints_mend_the_table(console: Console, dynamodb: Any):
    make_table(dynamodb, "mended", "id:N")
    console.write("a.csv", TEXT)
    console.ddbload("import", "a.csv", "mended", "--types", "price=N", "--quiet")
    code, told = verify(console, "a.csv", "mended")
    assert (code, told["status"], counts(told)) == (0, "EQUAL", [ROWS, 0, 0, 0])
    for number in (7, 70, 700):
        dynamodb.delete_item(TableName="mended", Key={"id": {"N": str(number)}})
    for number in (5, 50):
        other = {"id": {"N": str(number)}, "name": {"S": "other"}}
        dynamodb.put_item(TableName="mended", Item=other)
    for number in (9000, 9001, 9002, 9003):
        item = {"id": {"N": str(number)}, "raw": {"B": b"\0\xff"}, "set": {"NS": ["1", "2"]}}
        dynamodb.put_item(TableName="mended", Item=item)
    before = list(items(dynamodb, "mended"))
    ended = console.ddbload("verify", "a.csv", "mended", *OPTIONS[:2], "--out", "it's")
    assert ended.code == 3, ended
    assert list(items(dynamodb, "mended")) == before
    heading, *commands = ended.out.splitlines()[-4:]
    assert heading == "Commands that would mend the table:"
    written = {
        kind: console.path(f"it's/{kind}.jsonl").read_text().splitlines()
        for kind in ("missing", "different", "extra")
    }
    assert {kind: len(lines) for kind, lines in written.items()} == {
        "missing": 3,
        "different": 2,
        "extra": 4,
    }
    assert json.loads(written["extra"][0])["Item"]["raw"] == {"B": "AP8="}
    for command in commands:
        assert console.shell(f"{command} --quiet").code == 0
    code, told = verify(console, "a.csv", "mended")
    assert (code, counts(told)) == (0, [ROWS, 0, 0, 0])
