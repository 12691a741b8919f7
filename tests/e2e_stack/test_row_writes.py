"""Updates and conditions on the deployed stack: by command and by upload."""

from __future__ import annotations

import json

from tests.e2e_stack.deployed import SOURCES
from tests.e2e_stack.files import MARKER
from tests.e2e_stack.upload_events import run_of


def put(stack, table, *items):
    for item in items:
        stack.cloud.dynamodb.put_item(TableName=table, Item=item)


def found(stack, table):
    return {item["id"]["S"]: item for item in stack.cloud.items(table)}


def test_start_updates_items(stack, console):
    table = stack.cloud.table()
    untouched = {"id": {"S": "a"}, "kept": {"S": "k"}, "gone": {"S": "g"}, "n": {"N": "0"}}
    changed = {"id": {"S": "b"}, "kept": {"S": "k"}, "gone": {"S": "g"}, "tags": {"SS": ["x"]}}
    put(stack, table, untouched, changed)
    rejected = f"d,{MARKER},,\n"
    key = stack.put(f'id,n,gone,tags\na,1,,\nb,2,,"[""y""]"\nc,3,,\n{rejected}')
    words = ("--mode", "update", "--types", "n=N,tags=SS", "--on-empty", "remove", "--add", "tags")
    words += ("--only-existing", "--condition", "attribute_not_exists(n) OR n > {n}")
    ended = console.ddbload("start", f"s3://{SOURCES}/{key}", table, "--json", *words)
    assert ended.code == 3, ended
    rows = json.loads(ended.out)["rows"]
    assert (rows["written"], rows["skipped"], rows["rejected"]) == (1, 2, 1)
    changed = {"id": {"S": "b"}, "kept": {"S": "k"}, "n": {"N": "2"}, "tags": {"SS": ["x", "y"]}}
    assert found(stack, table) == {"a": untouched, "b": changed}


def test_upload_updates_by_its_rule(stack):
    """Columns by name, one that only the condition uses, and rows that the rule leaves out."""
    table = stack.cloud.table(name="up-updated")
    item = {"id": {"S": "a"}, "kept": {"S": "k"}, "n": {"N": "5"}}
    other = {"id": {"S": "b"}, "n": {"N": "1"}}
    put(stack, table, item, other)
    key = "updated/a.csv"
    run = run_of(
        stack, stack.execution_of(key, stack.upload("n,id,old\n6,a,5\n2,b,7\n9,d,1\n", key))
    )
    assert run.ended.status == "SUCCEEDED", run.ended
    rows = run.json("report.json")["rows"]
    assert (rows["written"], rows["skipped"], rows["filtered"]) == (1, 1, 1)
    assert found(stack, table) == {"a": {**item, "n": {"N": "6"}}, "b": other}
