"""Load from Python: `ddbload.load` and its kin, in this process, against servers on 127.0.0.1."""

from __future__ import annotations

import asyncio
import functools
import io
import signal
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ddbload
from ddbload import errors
from tests.cli.console import Console
from tests.cli.transcript import delete_table, make_table

ROWS = "".join(f"b{number},{1900 + number}\n" for number in range(300))


@pytest.fixture
def here(
    account: dict[str, str], dynamodb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Make this process use the servers and an empty folder; return a reader of the table."""
    for name, value in account.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DDBLOAD_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.chdir(tmp_path)
    Path("books.csv").write_text(f"isbn,year\n{ROWS}")
    make_table(dynamodb, "python", "isbn:S")

    def items() -> list[dict[str, Any]]:
        found = dynamodb.get_paginator("scan").paginate(TableName="python").build_full_result()
        return sorted(found["Items"], key=lambda item: (len(item["isbn"]["S"]), item["isbn"]["S"]))

    yield items
    delete_table(dynamodb, "python")


def test_file_is_loaded_and_verified(here, capfd):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    seen = []
    result = ddbload.load("books.csv", "python", types={"year": "N"}, on_progress=seen.append)
    assert result.raise_for_status() is result
    assert (result.status, result.rows.read, result.rows.written) == ("SUCCEEDED", 300, 300)
    assert result.error is None
    assert seen[-1].totals.rows.written == 300
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    items = here()
    assert len(items) == 300
    assert items[7] == {"isbn": {"S": "b7"}, "year": {"N": "1907"}}
    assert ddbload.verify("books.csv", "python", types={"year": "N"}).keys.are_equal
    assert ddbload.verify("books.csv", "python").keys.different == 300
    assert ddbload.status(result.run).rows == result.rows
    # Nothing is imported again.
    assert ddbload.resume(result.run).rows == result.rows
    plan = ddbload.plan("books.csv", "python", types={"year": "N"})
    assert (plan.status, plan.error) == ("FINE", None)
    assert capfd.readouterr() == ("", "")


def test_provisioned_table_costs_nothing_to_verify(here, dynamodb):
    key = [{"AttributeName": "isbn", "KeyType": "HASH"}]
    dynamodb.create_table(
        TableName="python-provisioned",
        AttributeDefinitions=[{"AttributeName": "isbn", "AttributeType": "S"}],
        KeySchema=key,
        ProvisionedThroughput={"ReadCapacityUnits": 1000, "WriteCapacityUnits": 1000},
    )
    waiter = dynamodb.get_waiter("table_exists")
    waiter.wait(TableName="python-provisioned", WaiterConfig={"Delay": 0.05})
    rows = [{"isbn": str(number), "text": "x" * 1000} for number in range(100)]
    ddbload.load(rows, "python-provisioned")
    # The source is small, so that few units are expected: those that are read are not billed.
    compared = ddbload.verify(rows[:2], "python-provisioned", max_dollars=0)
    assert (compared.keys.equal, compared.keys.extra) == (2, 98)
    delete_table(dynamodb, "python-provisioned")


def test_dicts_keep_their_values(here):
    row = {
        "isbn": "a",
        "year": 2026,
        "price": Decimal("12.30"),
        "weight": 0.1,
        "ok": True,
        "none": None,
        "raw": b"\xff",
        "tags": {"x", "y"},
        "list": [1, {"n": Decimal(2)}],
    }
    result = ddbload.load(iter([row, {"isbn": "b"}]), "python", types={"year": "S"})
    assert result.rows.written == 2
    first, second = here()
    assert second == {"isbn": {"S": "b"}}
    assert first == {
        "isbn": {"S": "a"},
        "year": {"S": "2026"},
        "price": {"N": "12.3"},
        "weight": {"N": "0.1"},
        "ok": {"BOOL": True},
        "none": {"NULL": True},
        "raw": {"B": b"\xff"},
        "tags": {"SS": ["x", "y"]},
        "list": {"L": [{"N": "1"}, {"M": {"n": {"N": "2"}}}]},
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "row 2, 'x'"),
        (object(), "of type object is of no attribute type"),
        ({}.keys(), "of type dict_keys"),
        (set(), "a set has at least one member"),
        ({1: 2}, "a key of type int"),
    ],
)
def test_dicts_that_are_no_items_are_refused_before_a_write(here, value, said):
    with pytest.raises(errors.SourceUnreadable, match=said):
        ddbload.load([{"isbn": "a"}, {"isbn": "b", "x": value}], "python")
    assert here() == []


def test_open_files_are_read_from_where_they_are(here):
    file = io.BytesIO(b"isbn\na\nb\n")
    assert ddbload.load(file, "python").rows.written == 2
    with pytest.raises(errors.InvalidUsage, match="mode 'rb'"):
        ddbload.load(io.StringIO("isbn\na\n"), "python")
    with pytest.raises(errors.InvalidUsage, match="source is a stream"):
        ddbload.load(io.BytesIO(b"isbn\na\n"), "python", once=True)


def test_subclasses_of_text_keep_their_text(here):
    class Colour(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "Colour.RED"

    ddbload.load([{"isbn": "a", "colour": Colour("red")}], "python")
    assert here() == [{"isbn": {"S": "a"}, "colour": {"S": "red"}}]


def test_streams_without_a_descriptor_are_read(here):
    class Reader:
        """Has `read` alone, as the answers of HTTP clients may."""

        def __init__(self) -> None:
            self.left = [b"isbn\na\n", b"b\n", b""]

        def read(self, _size: int) -> bytes:
            return self.left.pop(0)

    assert ddbload.load(Reader(), "python").rows.written == 2


@pytest.mark.parametrize("source", [None, 5])
def test_values_that_are_no_source_are_refused(here, source):
    with pytest.raises(errors.InvalidUsage, match="a source is a path"):
        ddbload.load(source, "python")


def test_list_of_paths_has_paths_alone(here):
    with pytest.raises(errors.InvalidUsage, match=r"paths and URIs alone: .* not dict"):
        ddbload.load(["books.csv", {"isbn": "a"}], "python")
    with pytest.raises(errors.SourceUnreadable, match="row 2"):
        ddbload.load([{"isbn": "a"}, "books.csv"], "python")
    assert here() == []


def test_aws_settings_are_text(here):
    with pytest.raises(errors.InvalidUsage, match="region is text, not int"):
        ddbload.load("books.csv", "python", region=5)  # type: ignore[arg-type]


def test_options_are_checked_by_name(here):
    with pytest.raises(errors.InvalidPayload, match="did you mean 'types'"):
        ddbload.load("books.csv", "python", typs={"year": "N"})
    with pytest.raises(errors.InvalidPayload, match=r"source\.skip_lines"):
        ddbload.load("books.csv", "python", skip_lines="1")
    with pytest.raises(errors.InvalidPayload, match="did you mean 'max_wcu'"):
        ddbload.load("books.csv", "python", max_wuc=5)
    with pytest.raises(errors.TableNotFound):
        ddbload.load("books.csv", "pyton")
    with pytest.raises(errors.InvalidUsage, match="a number of keys"):
        ddbload.verify("books.csv", "python", sample=0)
    assert here() == []


def test_run_that_fails_has_a_result(here):
    Path("bad.csv").write_text("isbn,year\na,x\nb,1\n")
    result = ddbload.load("bad.csv", "python", types={"year": "N"}, max_rejects=0)
    assert (result.status, result.error.name) == ("FAILED", "TooManyRejects")
    with pytest.raises(errors.RunFailed, match=r"is FAILED: TooManyRejects"):
        result.raise_for_status()
    (reject,) = ddbload.rejects(result.run)
    assert (reject["line"], reject["column"], reject["raw"]) == (2, "year", "a,x")


def test_threads_and_event_loops_may_load(here):
    found = []

    def work(part: int) -> None:
        rows = [{"isbn": f"{part}-{number}"} for number in range(50)]
        found.append(ddbload.load(rows, "python").status)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def notebook() -> str:
        return ddbload.load([{"isbn": "loop"}], "python").status

    found.append(asyncio.run(notebook()))
    assert found == ["SUCCEEDED"] * 4
    assert len(here()) == 151


def test_proxy_is_reached_by_the_engine_that_knows_it(here, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(errors.ServiceUnavailable):
        ddbload.load([{"isbn": "a"}], "python", run="proxied")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert ddbload.load([{"isbn": "a"}], "python").rows.written == 1


def test_exception_of_progress_leaves_a_run_that_resumes(here):
    class Stop(BaseException):
        pass

    def stop(progress: Any) -> None:
        if progress.totals.rows.written:
            raise Stop

    with pytest.raises(Stop):
        ddbload.load("books.csv", "python", run="stopped", on_progress=stop, chunk_bytes=100)
    stopped = ddbload.status("stopped")
    assert stopped.status == "INTERRUPTED"
    assert 0 < stopped.rows.written < 300
    assert ddbload.resume("stopped").rows.written == 300
    assert len(here()) == 300


def older(row: dict[str, Any]) -> dict[str, Any] | None:
    """Leave out b1, refuse b2, and change the others."""
    if row["isbn"] == "b1":
        return None
    if row["isbn"] == "b2":
        raise ValueError("no b2")
    return {**row, "year": row["year"] - 100, "tags": {"old"}}


def test_transform_changes_leaves_out_and_rejects(here):
    result = ddbload.load("books.csv", "python", types={"year": "N"}, transform=older)
    rows = result.rows
    assert (rows.read, rows.written, rows.filtered, rows.rejected) == (300, 298, 1, 1)
    assert here()[0] == {"isbn": {"S": "b0"}, "year": {"N": "1800"}, "tags": {"SS": ["old"]}}
    (reject,) = ddbload.rejects(result.run)
    assert (reject["line"], reject["cause"]) == (4, "transform")
    assert reject["detail"] == "ValueError: no b2"


def test_text_of_an_exception_is_in_the_rejects_alone(here, tmp_path):
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail(row: dict[str, Any]) -> dict[str, Any]:
        if row["isbn"] == "b7":
            raise Mute
        raise ValueError(f"SECRET {row['isbn']}")

    result = ddbload.load("books.csv", "python", transform=fail, max_rejects=500)
    assert (result.status, result.rows.rejected) == ("FAILED", 300)
    files = [path for path in (tmp_path / "ledger").rglob("*") if path.is_file()]
    told = {path.name for path in files if b"SECRET" in path.read_bytes()}
    rejects = {path.name for path in files if "rejects" in path.as_posix()}
    assert told
    assert told <= rejects


def test_transform_fills_keys_that_are_set(here):
    Path("no_keys.csv").write_text("title\nEmma\nUbu\n")

    def key(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "isbn": row["title"].lower()}

    result = ddbload.load("no_keys.csv", "python", set={"isbn": "-"}, transform=key)
    assert result.rows.written == 2
    assert [item["isbn"]["S"] for item in here()] == ["ubu", "emma"]


def test_few_rows_are_transformed_twice(here):
    calls = []

    def count(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(row["isbn"])
        return row

    rows = [{"isbn": f"{number:05}", "text": "x" * 50} for number in range(3000)]
    assert ddbload.load(rows, "python", transform=count).rows.written == 3000
    assert 3100 <= len(calls) <= 3600


def test_transform_sees_typed_values_and_returns_checked_ones(here):
    seen: list[dict[str, Any]] = []

    def look(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(row))
        return {**row, "half": 0.5} if row["isbn"] == "b" else row

    Path("typed.csv").write_text('isbn,n,ok,l,x\na,1.50,yes,"[1,""z""]",\nb,2,no,[],y\n')
    types = {"n": "N", "ok": "BOOL", "l": "L"}
    result = ddbload.load("typed.csv", "python", types=types, transform=look)
    first = {"isbn": "a", "n": Decimal("1.5"), "ok": True, "l": [Decimal(1), "z"]}
    assert seen[0] == first
    (reject,) = ddbload.rejects(result.run)
    assert reject["detail"] == "a value of type float is of no attribute type; use Decimal"
    assert reject["column"] == "half"


def test_transform_that_differs_is_refused_before_a_write(here):
    calls = []

    def differs(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return {**row, "n": len(calls) if row["isbn"] == "b90" else 0}

    with pytest.raises(errors.TransformNotDeterministic, match="two results for one row"):
        ddbload.load("books.csv", "python", transform=differs)
    assert here() == []


def test_only_the_same_transform_resumes(here, account, tmp_path):
    def stop(progress: Any) -> None:
        if progress.totals.rows.written:
            raise KeyboardInterrupt

    how: dict[str, Any] = {"types": {"year": "N"}, "chunk_bytes": 100, "transform": older}
    with pytest.raises(KeyboardInterrupt):
        ddbload.load("books.csv", "python", run="changed", on_progress=stop, **how)
    with pytest.raises(errors.RunMismatch, match="with another transform"):
        ddbload.resume("changed")
    with pytest.raises(errors.RunMismatch, match="with another transform"):
        ddbload.resume("changed", transform=older, transform_id="2")
    (tmp_path / "folder").mkdir()
    console = Console(tmp_path / "folder", {**account, "DDBLOAD_LEDGER": str(tmp_path / "ledger")})
    ended = console.ddbload("resume", "changed")
    assert ended.code == 1
    assert "RunMismatch: " in ended.err
    result = ddbload.resume("changed", transform=older)
    assert (result.rows.written, result.rows.filtered, result.rows.rejected) == (298, 1, 1)
    assert len(here()) == 298
    (tmp_path / "folder" / "mended.jsonl").write_text(console.ddbload("rejects", "changed").out)
    ended = console.ddbload("rejects", "changed", "--retry", "mended.jsonl")
    assert ended.code == 2
    assert "load it by ddbload.load(file, table, transform=function)" in ended.err


def test_transform_without_a_source_needs_an_id(here):
    with pytest.raises(errors.InvalidUsage, match="give transform_id"):
        ddbload.load("books.csv", "python", transform=dict)
    for name in ("1", "\udc80"):
        result = ddbload.load("books.csv", "python", transform=dict, transform_id=name)
        assert result.rows.written == 300
    pair = (lambda row: row, lambda row: {**row, "w": "1"})
    with pytest.raises(errors.InvalidUsage, match="give transform_id"):
        ddbload.load("books.csv", "python", transform=pair[0])
    wrapped = functools.wraps(older)(lambda row: row)
    with pytest.raises(errors.InvalidUsage, match="give transform_id"):
        ddbload.load("books.csv", "python", transform=wrapped)


@pytest.mark.parametrize("mode", ["insert", "update", "last-wins", "delete"])
def test_transform_in_every_mode(here, mode):
    options: dict[str, Any] = {"position_attribute": "at"} if mode == "last-wins" else {}
    ddbload.load([{"isbn": "b3", "mark": 1}, {"isbn": "b1", "mark": 1}], "python")
    result = ddbload.load(
        "books.csv", "python", types={"year": "N"}, mode=mode, transform=older, **options
    )
    rows = result.rows
    skipped = 1 if mode == "insert" else 0
    assert (rows.written, rows.skipped, rows.rejected) == (298 - skipped, skipped, 1)
    by_key = {item["isbn"]["S"]: item for item in here()}
    assert by_key["b1"] == {"isbn": {"S": "b1"}, "mark": {"N": "1"}}
    if mode == "delete":
        assert by_key.keys() == {"b1"}
    else:
        assert ("mark" in by_key["b3"]) == (mode in ("insert", "update"))
        assert by_key["b4"]["year"] == {"N": "1804"}
