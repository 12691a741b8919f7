"""Imports of all kinds of files in small chunks, by several processes."""

from __future__ import annotations

import itertools
import json
import re
import string

import pytest

from ddbload.errors import UnterminatedQuote
from ddbload.runs.local_runs import LocalSettings
from ddbload.runs.retry_rejects import iter_rejects
from ddbload.runs.run_import import run_import
from tests.cli.transcript import items, make_table
from tests.e2e.awkward import COLUMNS, awkward
from tests.e2e.expected import by_key, expected, read_rejects
from tests.golden.cases import load_all
from tests.oracle.csv_machine import read_rows
from tests.unit.steps.expected import status_for

GOLDEN = {golden.name: golden for golden in load_all() if golden.rows}
UNCLOSED = {name for name in GOLDEN if GOLDEN[name].rows[-1].defect == "unterminated_quote"}
MANY = "1000000"
NUMBERS = itertools.count()


def imported(console, file, table, *options, processes=2):
    ended = console.ddbload(
        *("import", file, table, "--json", "--run-id", "e2e"),
        *("--processes", str(processes), "--max-rejects", MANY, *options),
    )
    # Some rows of the awkward files end with a lone CR.
    assert not ended.told or re.fullmatch(r"ddbload: warning: line \d+ has a CR .*\n", ended.told)
    return ended.code, json.loads(ended.out)


@pytest.mark.parametrize(
    ("seed", "engine", "scan"),
    [(1, "threads", "edges"), (2, "sync", "auto"), (3, "async", "edges")],
)
def test_import_loads_awkward_file(console, dynamodb, seed, engine, scan):
    table = f"awkward-{seed}"
    make_table(dynamodb, table, "id:S")
    data = awkward(seed, 1000)
    wanted = expected(data, read_rows(data)[1:], COLUMNS)
    assert len(wanted.items) > 800
    assert {cause for _, _, cause, _ in wanted.rejects} == {
        *("empty_key", "field_count", "bad_quote", "bad_encoding")
    }
    console.write("a.csv", data)

    options = ("--chunk-bytes", "2000", "--engine", engine)
    # Rows of at most 400 bytes: short windows prove row ends then.
    options += ("--scan", scan, "--max-row-bytes", "400") if scan == "edges" else ()
    code, found = imported(console, "a.csv", table, *options)

    assert by_key(items(dynamodb, table), "id") == wanted.items
    assert read_rejects(console.ddbload("rejects", "e2e").out.splitlines()) == wanted.rejects
    assert code == 3
    assert found["rows"] == {
        "read": wanted.rows,
        "written": len(wanted.items),
        "rejected": len(wanted.rejects),
        "superseded": 0,
        "skipped": 0,
        "filtered": 0,
    }
    assert found["bytes"] == len(data)
    chunks = json.loads(console.ddbload("status", "e2e", "--json").out)["chunks"]
    assert chunks > 10


def in_this_process(golden, table, folder):
    """Import a file without a header, with a row or two per chunk."""
    source = {"path": str(golden.path), "delimiter": golden.delimiter, "quote": golden.quote}
    return run_import(
        {
            "source": {**source, "columns": numbered(golden)},
            "target": {"table": table},
            "options": {"chunk_bytes": 20},
        },
        LocalSettings(str(folder)),
        run="golden",
    )


def numbered(golden):
    return [f"c{place}" for place in range(1, len(golden.rows[0].fields) + 1)]


@pytest.fixture
def table(dynamodb, account, monkeypatch):
    """Create a table keyed by ``c1``, and point this process at the local servers."""
    for variable, value in account.items():
        monkeypatch.setenv(variable, value)
    name = f"golden-{next(NUMBERS)}"
    make_table(dynamodb, name, "c1:S")
    return name


@pytest.mark.parametrize("name", sorted(set(GOLDEN) - UNCLOSED))
def test_import_loads_golden_file(dynamodb, table, tmp_path, name):
    golden = GOLDEN[name]
    wanted = expected(golden.data, golden.rows, numbered(golden))
    ended = in_this_process(golden, table, tmp_path)
    assert ended.report.status == status_for(ended.report.rows)
    assert by_key(items(dynamodb, table), "c1") == wanted.items
    lines = [
        line.decode() for line in iter_rejects("golden", LocalSettings(str(tmp_path)).context())
    ]
    assert read_rejects(lines) == wanted.rejects
    assert ended.report.rows.read == wanted.rows


@pytest.mark.parametrize("name", sorted(UNCLOSED))
def test_import_refuses_golden_file_that_ends_inside_quotes(dynamodb, table, tmp_path, name):
    golden = GOLDEN[name]
    with pytest.raises(UnterminatedQuote, match=f"line {golden.rows[-1].line}, "):
        in_this_process(golden, table, tmp_path)
    assert list(items(dynamodb, table)) == []


def test_import_loads_100000_columns(console, dynamodb):
    """One row is an item of 400,000 bytes, just within DynamoDB's limit; one is nearly empty."""
    letters = string.ascii_letters + string.digits
    names = itertools.islice(itertools.product(letters, repeat=3), 100_000)
    columns = ["".join(name) for name in names]
    make_table(dynamodb, "wide", f"{columns[0]}:S")
    full = ["1"] + [letters[place % 62] for place in range(1, 100_000)]
    sparse = ["2"] + [""] * 99_998 + ["last"]
    too_large = ["3"] + ["letters"] * 99_999
    rows = [columns, full, sparse, too_large]
    console.write("wide.csv", "\n".join(map(",".join, rows)))

    code, found = imported(console, "wide.csv", "wide", processes=1)

    assert (code, found["rows"]["written"], found["rows"]["rejected"]) == (3, 2, 1)
    assert by_key(items(dynamodb, "wide"), columns[0]) == {
        "1": {name: {"S": text} for name, text in zip(columns, full, strict=True)},
        "2": {columns[0]: {"S": "2"}, columns[-1]: {"S": "last"}},
    }
    (reject,) = console.ddbload("rejects", "e2e").out.splitlines()
    assert json.loads(reject)["cause"] == "item_too_large"
