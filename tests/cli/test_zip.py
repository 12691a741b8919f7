"""ZIP archives on the command line: the same as their files, unpacked."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import pytest

from tests.cli.console import Console
from tests.cli.transcript import items, make_table
from tests.unit.source.zip_files import archive

FILES = {
    f"in/{name}.csv": f"id,name,n\n{rows}".encode()
    for name, rows in (
        ("b", "".join(f'{n},"name ""{n}"" é",{n}\n' for n in range(3000))),
        ("a", "x,first\n"),
        ("empty", ""),
    )
}


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_conversion_is_that_of_the_files(console: Console, method: int):
    for name, data in FILES.items():
        path = console.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    data = archive({"in/": b"", **FILES, "__MACOSX/in/._a.csv": b"\0"}, method=method)
    (console.folder / "x.zip").write_bytes(data)
    unpacked = console.ddbload("convert", "in", "1.jsonl", "--rejects", "1.rejects")
    zipped = console.ddbload("convert", "x.zip", "2.jsonl", "--rejects", "2.rejects")
    assert (unpacked.code, zipped.code) == (3, 3)
    one, two = ((console.folder / f"{n}.jsonl").read_bytes() for n in (1, 2))
    assert one == two
    assert len(one.splitlines()) == 3000
    (reject,) = (console.folder / "2.rejects").read_text().splitlines()
    assert json.loads(reject)["source"].endswith("/x.zip!in/a.csv")
    piped = console.shell("ddbload convert - 3.jsonl < x.zip")
    assert piped.code == 3
    assert (console.folder / "3.jsonl").read_bytes() == one


def test_import_plan_and_verify_read_the_members(console: Console, dynamodb: Any):
    make_table(dynamodb, "zipped", "id:S")
    (console.folder / "x.zip").write_bytes(archive(FILES))
    plan = console.ddbload("plan", "x.zip", "zipped", "--json")
    told = json.loads(plan.out)
    assert (told["source"]["objects"], told["rows"]["read"]) == (3, 3001)
    imported = console.ddbload("import", "x.zip", "zipped", "--json", "--run-id", "one")
    assert imported.code == 3
    assert len(list(items(dynamodb, "zipped"))) == 3000
    again = console.ddbload("import", "x.zip", "zipped", "--json", "--run-id", "one")
    assert json.loads(again.out)["rows"] == json.loads(imported.out)["rows"]
    verified = console.ddbload("verify", "x.zip", "zipped", "--json")
    assert json.loads(verified.out)["equal"] == 3000
    once = console.ddbload("import", "x.zip", "zipped", "--json", "--once")
    assert json.loads(once.out)["status"] == "ALREADY_LOADED"
