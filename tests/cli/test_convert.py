"""`ddbload convert` writes the items of an import, and leaves nothing when it fails."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
from typing import Any

import pytest

from tests.cli.console import PROGRAM, SECONDS, Console
from tests.cli.transcript import items, make_table

ROWS = "".join(f'{n},"name ""{n}"", é",{"" if n % 3 else n}\n' for n in range(3000))
TEXT = f"id,name,n\n{ROWS}x,bad,1\n"
TYPES = ("--types", "n=N")


def sorted_items(found: Any) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in found)


@pytest.fixture
def objects(s3: Any) -> Any:
    """Read the objects below a prefix, by key."""
    s3.create_bucket(Bucket="convert")

    def read(prefix: str) -> dict[str, bytes]:
        page = s3.list_objects_v2(Bucket="convert", Prefix=prefix)
        return {
            each["Key"]: s3.get_object(Bucket="convert", Key=each["Key"])["Body"].read()
            for each in page.get("Contents", ())
        }

    return read


def test_convert_writes_parts_to_s3_with_the_items_of_an_import(
    console: Console, dynamodb, s3, objects
):
    make_table(dynamodb, "converted", "id:N")
    console.write("a.csv", TEXT)
    assert console.ddbload("import", "a.csv", "converted", *TYPES).code == 3
    command = ("convert", "a.csv", "s3://convert/out/", *TYPES, "--table", "converted", "--json")
    ended = console.ddbload(*command)
    assert (ended.code, ended.err) == (3, "")
    told = json.loads(ended.out)
    assert told["rows"] == {
        "read": 3001,
        "written": 3000,
        "rejected": 1,
        "superseded": 0,
        "skipped": 0,
        "filtered": 0,
    }
    assert told["causes"] == [{"cause": "not_a_number", "column": "id", "rows": 1}]
    found = objects("out/")
    assert list(found) == ["out/part-00000.json.gz"]
    assert told["out_bytes"] == sum(map(len, found.values()))
    lines = gzip.decompress(found["out/part-00000.json.gz"]).decode().splitlines()
    converted = [json.loads(line)["Item"] for line in lines]
    assert sorted_items(converted) == sorted_items(items(dynamodb, "converted"))
    # In another order than the file's, as what is told to importers.
    assert [item["id"]["N"] for item in converted] != [str(n) for n in range(3000)]
    uploads = s3.list_multipart_uploads(Bucket="convert").get("Uploads", ())
    assert list(uploads) == []
    # What is written is read again as it was.
    make_table(dynamodb, "again", "id:N")
    assert console.ddbload("import", "s3://convert/out/", "again", "--quiet").code == 0
    assert sorted_items(items(dynamodb, "again")) == sorted_items(converted)
    # A second time there would be twice as many.
    again = console.ddbload(*command)
    assert again.code == 1
    assert json.loads(again.out)["error"]["name"] == "OutputUnwritable"
    assert objects("out/") == found


def test_convert_leaves_no_objects_when_it_fails(console: Console, s3, objects):
    console.write("a.csv", TEXT)
    ended = console.ddbload(
        "convert", "a.csv", "s3://convert/failed/", "--types", "id=N", "--max-rejects", "0"
    )
    assert (ended.code, "TooManyRejects" in ended.err) == (1, True)
    assert objects("failed/") == {}
    assert console.ddbload("convert", "a.csv", "s3://no-such-bucket-here/x/").code == 1


def test_interrupt_ends_all_processes_of_a_conversion(console: Console):
    # Three spans, and more than a pipe holds: the workers wait for a reader.
    console.write("a.csv", "id,text\n" + "".join(f"{n},{'x' * 1000}\n" for n in range(7000)))
    process = subprocess.Popen(
        [PROGRAM, "convert", "a.csv", "-", "--processes", "2"],
        bufsize=0,
        cwd=console.folder,
        env=console.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    first = process.stdout.read(1)
    # As a terminal does, which the workers belong to as well.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, b"\nddbload: interrupted\n")
    assert (first + out).startswith(b'{"Item":{"id":{"S":"0"},')
    assert out.endswith(b'{"incomplete": ')
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
