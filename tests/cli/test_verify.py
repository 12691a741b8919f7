"""`ddbload verify` finds every difference, and the commands that it prints mend them."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings
from ddbload.cli.terminal import Output
from ddbload.cli.verify_command import agree
from ddbload.context import reading_context
from ddbload.contracts.payload import Payload
from ddbload.errors import InvalidUsage, MaxCostReached
from ddbload.ledger.ledger import temporary_ledger
from ddbload.verification.verify import ReadEstimate, Verdict, Verification, VerifySettings
from tests.cli.console import PROGRAM, Console
from tests.cli.transcript import items, make_table
from tests.e2e.processes import started, until

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


def test_attributes_that_a_row_lacks_can_be_left_out_and_are_kept(console: Console, dynamodb: Any):
    """As after an update, which leaves alone what a cell without a value has in the table."""
    make_table(dynamodb, "partial", "id:N")
    for number in range(250):
        item = {"id": {"N": str(number)}, "note": {"S": "of old"}, "shelf": {"S": "A"}}
        dynamodb.put_item(TableName="partial", Item=item)
    lines = [f"{n},name {n},{'new' if n % 5 == 0 else ''}\n" for n in range(250)]
    console.write("u.csv", "id,name,note\n" + "".join(lines))
    assert console.ddbload("import", "u.csv", "partial", "--mode", "update", "--quiet").code == 0
    told = json.loads(console.ddbload("verify", "u.csv", "partial", "--json").out)
    assert counts(told) == [0, 0, 250, 0]
    assert told["attributes"] == {"note": 80, "shelf": 100}
    options = ("--ignore-extra-attributes", "--json")
    ended = console.ddbload("verify", "u.csv", "partial", *options)
    assert (ended.code, counts(json.loads(ended.out))) == (0, [250, 0, 0, 0])
    for number in (3, 5):
        item = {"id": {"N": str(number)}, "name": {"S": "wrong"}, "shelf": {"S": "B"}}
        dynamodb.put_item(TableName="partial", Item=item)
    ended = console.ddbload("verify", "u.csv", "partial", *options, "--out", "out")
    told = json.loads(ended.out)
    assert (ended.code, counts(told)) == (3, [248, 0, 2, 0])
    assert told["attributes"] == {"name": 2, "note": 1}
    (command,) = told["commands"]
    assert console.shell(f"{command} --quiet").code == 0
    assert console.ddbload("verify", "u.csv", "partial", *options).code == 0
    found = {item["id"]["N"]: item for item in items(dynamodb, "partial")}
    assert found["3"] == {"id": {"N": "3"}, "name": {"S": "name 3"}, "shelf": {"S": "B"}}
    assert found["5"]["note"] == {"S": "new"}


def test_interrupt_ends_a_comparison_at_once(console: Console, dynamodb: Any):
    """It waits for capacity that is not there, and leaves no files."""
    make_table(dynamodb, "slow", "id:N")
    console.write("s.csv", "id,text\n" + "".join(f"{n},{'x' * 3000}\n" for n in range(400)))
    console.ddbload("import", "s.csv", "slow", "--quiet")
    command = [PROGRAM, "verify", "s.csv", "slow", "--max-rcu", "1", "--out", "out", "--json"]
    with started(console, command) as running:
        until(lambda: b"read units" in running.err.read_bytes(), "nothing was said")
        time.sleep(0.5)
        running.ctrl_c()
        ended = running.ended()
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("ddbload: interrupted\n")
    assert list(console.path("out").iterdir()) == []


@pytest.fixture
def estimate() -> ReadEstimate:
    """Return an estimate of a dollar."""
    return ReadEstimate(10**8, 32 * 10**9, 8e6, 0.125, is_billed=True, units_per_second=None)


def test_price_that_is_not_small_is_asked_about(monkeypatch, capsys, estimate):
    asked = SimpleNamespace(estimate=estimate, table=SimpleNamespace(name="large"))
    with pytest.raises(InvalidUsage, match=r"\$1\.00 .*--yes"):
        agree(asked, VerifySettings(), Output(quiet=True), yes=False)
    agree(asked, VerifySettings(), Output(), yes=True)
    assert "about $1.00 by us-east-1's list price" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    for answer in (True, False):
        monkeypatch.setattr("click.confirm", lambda *_, answer=answer, **__: answer)
        with nullcontext() if answer else pytest.raises(InvalidUsage, match="declined"):
            agree(asked, VerifySettings(), Output(), yes=False)


def test_table_that_is_larger_than_was_said_is_not_read_to_the_end(
    monkeypatch, account, dynamodb, tmp_path
):
    make_table(dynamodb, "larger", "id:N")
    for number in range(30):
        item = {"id": {"N": str(number)}, "text": {"S": "x" * 100_000}}
        dynamodb.put_item(TableName="larger", Item=item)
    for name, value in account.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "small.csv"
    file.write_text("id\n1\n")
    payload = Payload.from_json({"source": {"path": str(file)}, "target": {"table": "larger"}})
    with temporary_ledger() as ledger:
        prepared = Verification(payload, VerifySettings(), ledger, reading_context(AwsSettings()))
        verdict = Verdict()
        with pytest.raises(MaxCostReached, match="larger than AWS last counted"):
            prepared.run(verdict, None, most_units=prepared.estimate.units * 2)
    assert 0 < verdict.table_items < 30
