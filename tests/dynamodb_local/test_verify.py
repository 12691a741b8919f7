"""`ddbload verify` against DynamoDB Local, whose answers are closest to AWS's."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

ROWS = 4000


def run(endpoint: str, command: str, *words: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ddbload", command, *words, "--json"),
            *("--endpoint-url", endpoint, "--region", "us-east-1"),
        ],
        capture_output=True,
        check=False,
    )
    assert done.stdout, done.stderr.decode()[-2000:]
    return done.returncode, json.loads(done.stdout)


def counts(told: dict[str, Any]) -> list[Any]:
    return [told[kind] for kind in ("equal", "missing", "different", "extra")]


def row(number: int) -> dict[str, Any]:
    """Make an item of every type, with numbers and sets that DynamoDB writes in another way."""
    encoded = base64.b64encode(number.to_bytes(2)).decode()
    return {
        "pk": {"B": encoded},
        "sk": {"N": f"{number}.50"},
        "n": {"N": f"-{number}e-3"},
        "ns": {"NS": ["10.0", "9", f"{number}.5"]},
        "ss": {"SS": ["b", "a", "\u00e9"]},
        "bs": {"BS": ["Yg==", "YQ=="]},
        "l": {"L": [{"N": "1.0"}, {"M": {"x": {"N": "1E2"}, "\u00e9": {"NULL": True}}}]},
        "b": {"BOOL": number % 2 == 0},
        "text": {"S": "x" * (number % 700)},
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "rows.jsonl"
    made.write_text("".join(json.dumps({"Item": row(n)}) + "\n" for n in range(ROWS)))
    return made


def test_every_type_is_equal_after_an_import_and_differences_are_found(
    endpoint, local, make_table, file, tmp_path
):
    table = make_table(local, "B", "N")
    words = (str(file), table, "--format", "dynamodb-json")
    # An empty table answers BatchGetItem without any item.
    code, told = run(endpoint, "verify", *words, "--sample", "250")
    assert (code, counts(told)) == (3, [0, 250, 0, None])
    assert run(endpoint, "import", *words)[0] == 0
    for more in ((), ("--sample", "20%"), ("--no-consistent-read",)):
        code, told = run(endpoint, "verify", *words, *more)
        assert (code, told["equal"]) == (0, told["compared"]), told
    for number in (3, 300):
        key = {"pk": number.to_bytes(2), "sk": f"{number}.5"}
        local.delete_item(TableName=table, Key={"pk": {"B": key["pk"]}, "sk": {"N": key["sk"]}})
    for number, n in ((5, "1"), (9999, "0")):
        other = {"pk": {"B": number.to_bytes(2)}, "sk": {"N": f"{number}.5"}, "n": {"N": n}}
        local.put_item(TableName=table, Item=other)
    code, told = run(endpoint, "verify", *words, "--out", str(tmp_path / "out"))
    assert (code, counts(told)) == (3, [ROWS - 3, 2, 1, 1])
    assert set(told["attributes"]) == {"n", "ns", "ss", "bs", "l", "b", "text"}
    for command in told["commands"]:
        subprocess.run([sys.executable, "-m", *shlex.split(command)], check=True, stderr=DEVNULL)
    code, told = run(endpoint, "verify", *words)
    assert (code, counts(told)) == (0, [ROWS, 0, 0, 0])
