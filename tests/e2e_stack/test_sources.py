"""Sources other than one text file: many objects, compressed ones, JSON, exports; and runs
that write nothing.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from tests.e2e.expected import by_key, expected, read_rejects
from tests.e2e_stack import exports
from tests.e2e_stack.deployed import SOURCES, Stack
from tests.e2e_stack.files import MARKER, odd, plain
from tests.e2e_stack.runs import Run, assert_conserved
from tests.e2e_stack.upload_events import run_of
from tests.oracle.csv_machine import read_rows
from tests.unit.source.zip_files import archive

OBJECTS = 120
ROWS_EACH = 3
"""Together some 150 bytes, of which a chunk holds many."""
DOCUMENTS = (
    f'{{"id": "{MARKER}-1", "n": 1.50, "of": {{"l": [1, null, "{MARKER}", {{}}], "b": true}}}}\n'
    "\n"
    f'{{"id": "{MARKER}-2", "n": 12345678901234567890123456789012345678, "none": null}}\n'
    f'{{"id": "{MARKER}-3", "n": NaN}}\n'
    f'{{"id": 4}}\n["{MARKER}"]\n'
)
ITEMS = [
    {"id": {"S": f"{MARKER}-{number}"}, "n": {"N": str(number)}, "s": {"SS": [MARKER, "b"]}}
    for number in range(40)
]
CHANGED = {"id": ITEMS[3]["id"], "of": {"M": {"a": {"L": [{"NULL": True}]}}}}


class Sources:
    """Runs that were started at once."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.tables: dict[str, str] = {}
        self._runs: dict[str, Run] = {}

    def start(self, name: str, source: dict[str, Any], **payload: Any) -> None:
        """Start a run into a new table, or into that of the run `table`."""
        table = self.tables[name] = payload.pop("table", None) or self.stack.cloud.table()
        payload |= {
            "run": {"id": name},
            "source": {"bucket": SOURCES, "format": "auto", **source},
            "target": {"table": table},
        }
        self._runs[name] = Run(self.stack, name, self.stack.start(payload, name))

    def succeeded(self, name: str) -> tuple[Run, dict[str, Any]]:
        """A run that did, and its report."""
        run = self._runs[name]
        ended = run.ended
        assert (ended.status, ended.error, ended.cause) == ("SUCCEEDED", None, None)
        report = run.json("report.json")
        assert_conserved(report, run.segments())
        assert report["chunks"] == report["chunks_done"] == run.chunks
        return run, report

    def items(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the items of a run's table."""
        return by_key(self.stack.cloud.items(self.tables[name]), "id")


@pytest.fixture(scope="module")
def sources(stack) -> Sources:
    made = Sources(stack)
    for number in range(OBJECTS):
        stack.put(plain(ROWS_EACH, ROWS_EACH * number), f"many/{number:03}.csv")
    # What is empty, and a folder, are none of them.
    stack.put("", "many/000-empty.csv")
    stack.put("", "many/folder/")
    made.start("many", {"prefix": "many/"}, options={"chunk_bytes": 4000, "workers": 4})
    gzipped = {"bucket": stack.inbox, "key": stack.put(PACKED, "packed/a.csv.gz", stack.inbox)}
    made.start("gzip", gzipped, options={"max_rejects": 1000})
    zipped = {"bucket": stack.inbox, "key": stack.put(ZIPPED, "packed/a.zip", stack.inbox)}
    made.start("zip", zipped, options={"max_rejects": 1000})
    made.start("json", {"key": stack.put(DOCUMENTS, "in/documents.jsonl")})
    page = {"Count": 40, "Items": ITEMS, "LastEvaluatedKey": {"id": ITEMS[-1]["id"]}}
    scan = {"key": stack.put(json.dumps(page, indent=1), "in/scan.json")}
    made.start("scan", scan, options={"chunk_bytes": 500})
    made.start("plan", {"key": stack.put(ODD, "in/planned.csv")}, options=PLANNED)
    for key, data in exports.full("exports/", ITEMS[:15], [], ITEMS[15:]).items():
        stack.put(data, key)
    made.start("export", {"prefix": "exports/"})
    return made


ODD = odd(11, 300)
PACKED = gzip.compress(ODD[:5000]) + gzip.compress(ODD[5000:])
ZIPPED = archive({"in/a.csv": ODD, "__MACOSX/in/._a.csv": b"x", "in/b.csv": b""})
PLANNED = {"mode": "plan", "chunk_bytes": 3000, "max_rejects": 1000}


def test_many_small_objects_make_a_few_chunks(sources):
    run, report = sources.succeeded("many")
    count = OBJECTS * ROWS_EACH
    assert (report["rows"]["read"], report["rows"]["written"]) == (count, count)
    assert sources.items("many") == of_file(plain(count)).items
    assert 3 <= report["chunks"] <= 10
    (page,) = (run.json(name)["objects"] for name in run.names("listing/"))
    assert [each["key"] for each in page] == [f"many/{each:03}.csv" for each in range(OBJECTS)]
    parts = [run.json(name)["parts"] for name in run.names("parts/")]
    assert sorted(part["pinned"]["key"] for of in parts for part in of) == [
        each["key"] for each in page
    ]


def of_file(data: bytes):
    """Return the items expected from a file of strings."""
    header, *rows = read_rows(data)
    return expected(data, rows, header.fields)


def test_gzip_is_imported(sources):
    """The file has two members; positions count decompressed bytes."""
    run, report = sources.succeeded("gzip")
    wanted = of_file(ODD)
    assert sources.items("gzip") == wanted.items
    assert read_rejects(run.rejects()) == wanted.rejects
    assert report["rows"]["rejected"] == len(wanted.rejects) > 10
    assert (report["chunks"], report["bytes"]) == (1, len(ODD))


def test_members_of_zip_are_imported(sources, stack):
    run, report = sources.succeeded("zip")
    wanted = of_file(ODD)
    assert sources.items("zip") == wanted.items
    assert report["rows"]["rejected"] == len(wanted.rejects)
    name = f"s3://{stack.inbox}/packed/a.zip!in/a.csv"
    assert {json.loads(line)["source"] for line in run.rejects()} == {name}


def test_full_and_incremental_export_are_imported(sources, stack):
    """The first named by where it lies, the second by its upload, which starts one run."""
    _, report = sources.succeeded("export")
    assert report["rows"]["written"] == len(ITEMS)
    assert sources.items("export") == {item["id"]["S"]: item for item in ITEMS}

    table = stack.cloud.table("id:S", name="up-changes")
    for item in ITEMS[:4]:
        stack.cloud.dynamodb.put_item(TableName=table, Item=item)
    gone = [{"id": ITEMS[0]["id"]}, {"id": ITEMS[9]["id"]}]
    files = exports.changes("exports/", [CHANGED, ITEMS[8]], gone)
    for key, data in files.items():
        stack.upload(data, key)
    (summary,) = (key for key in files if key.endswith("manifest-summary.json"))
    run = run_of(stack, stack.execution_of(summary))
    assert (run.ended.status, run.ended.cause) == ("SUCCEEDED", None)
    wanted = [ITEMS[1], ITEMS[2], CHANGED, ITEMS[8]]
    found = by_key(stack.cloud.items(table), "id")
    assert found == {item["id"]["S"]: item for item in wanted}
    assert run.json("report.json")["rows"]["read"] == 4
    assert [key for key in files if stack.started_by(key)] == [summary]
