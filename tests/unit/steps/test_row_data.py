"""Rows go to the table and to the rejects, and nowhere else."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import ImportResult, ImportTask
from ddbload.errors import (
    BadHeader,
    DdbloadError,
    DuplicateColumn,
    KeyColumnMissing,
    LedgerDamaged,
    RowTooLong,
    UnexpectedError,
)
from ddbload.items.batch_encoder import BatchEncoder
from ddbload.rows.columns import Columns
from ddbload.runs.run_import import ChunkWorker
from tests.fakes.client import ServiceError
from tests.fakes.dynamodb_faults import Fault, fails, never_sent, nothing_processed
from tests.fakes.s3_faults import slow_down
from tests.unit.runs.local_runs import Settings
from tests.unit.steps.world import RUN, World

SECRET = "s3cr3t"


def rows(count: int) -> bytes:
    return b"".join(
        b"%s-%d,%d,%s\n" % (SECRET.encode(), n, n, SECRET.encode()) for n in range(count)
    )


DATA = b"id,n,a\n" + rows(40)


def nothing(_: World) -> None:
    """The import as it is."""


def cut_within_a_row(world: World) -> None:
    (chunk,) = world.manifest
    parts = [Chunk(0, chunk.start, 60, 2), Chunk(1, 60, chunk.end, 4)]
    world.write_json("manifest.json", [{"chunks": [part.to_json()]} for part in parts])


def overwrite(world: World) -> None:
    world.overwrite(DATA.replace(b"s3cr3t", b"S3CR3T"))


def refuse_every_item(world: World) -> None:
    refused = ServiceError("ValidationException", 400, f"Type mismatch in {SECRET}")
    world.dynamodb.faults.decide = writes(Fault(raises=refused))


def take_nothing(world: World) -> None:
    world.dynamodb.faults.decide = writes(nothing_processed())


def return_what_was_not_sent(world: World) -> None:
    stranger = {"PutRequest": {"Item": {"id": {"S": SECRET}}}}
    world.dynamodb.faults.decide = writes(never_sent("books", stranger))


def deny(world: World) -> None:
    world.dynamodb.faults.decide = writes(fails("AccessDeniedException"))


def miss_the_table(world: World) -> None:
    """As a proxy says it that quotes the request."""
    missing = ServiceError("ResourceNotFoundException", 400, f"no table for {SECRET}")
    world.dynamodb.faults.decide = writes(Fault(raises=missing))


def raise_what_nobody_knows(world: World) -> None:
    world.dynamodb.faults.decide = writes(Fault(raises=RuntimeError(f"odd: {SECRET}")))


def throttle_reads(world: World) -> None:
    world.s3.faults.add("get_object", slow_down(), times=6)


def damage_a_segment(world: World) -> None:
    world.import_one(world.manifest[0])
    (name,) = world.in_ledger("chunks/")
    world.store.objects[f"runs/{RUN}/{name}"] = SECRET.encode()


def writes(fault: Fault) -> Callable[[str, Any], Fault | None]:
    return lambda operation, _: fault if operation == "batch_write_item" else None


def told(error: BaseException) -> str:
    """All that an uncaught exception prints, and what it holds."""
    return "".join(traceback.format_exception(error)) + repr(error.args)


def leaks(world: World) -> list[str]:
    """Names in the ledger, other than rejects', that hold a row's text."""
    return [
        name
        for name, data in world.store.objects.items()
        if SECRET.encode() in data and "/rejects/" not in name
    ]


def steps(world: World) -> list[ImportResult | DdbloadError]:
    """Return each chunk's result as a worker returns it; failures are in the ledger too."""
    settings: Any = Settings(world, segment_seconds=20.0)
    worker = ChunkWorker(settings, world.context(), RUN)
    found: list[ImportResult | DdbloadError] = []
    for chunk in world.manifest:
        result = worker(ImportTask(RUN, (chunk,)))
        while not isinstance(result, DdbloadError) and result.chunks:
            result = worker(ImportTask(RUN, result.chunks, result.stalled))
        found.append(result)
    worker.close()
    return found


@pytest.mark.parametrize(
    ("change", "types", "error"),
    [
        (nothing, {}, None),
        (nothing, {"a": "N"}, None),
        (nothing, {"a": "BOOL"}, None),
        (nothing, {"n": "N", "a": "S"}, None),
        (cut_within_a_row, {}, "SplitMismatch"),
        (overwrite, {}, "SourceChanged"),
        (refuse_every_item, {}, None),
        (take_nothing, {}, "NoProgress"),
        (return_what_was_not_sent, {}, "NoProgress"),
        (deny, {}, "AccessDenied"),
        (miss_the_table, {}, "TableNotFound"),
        (raise_what_nobody_knows, {}, "UnexpectedError"),
        (throttle_reads, {}, "ServiceUnavailable"),
        (damage_a_segment, {}, "LedgerDamaged"),
    ],
)
def test_errors_and_ledger_contain_no_row_data(change, types, error):
    world = World(DATA, types=types, request_seconds=1.0)
    world.preflight()
    change(world)
    found = [each for each in steps(world) if isinstance(each, DdbloadError)]
    assert (error in [each.name for each in found]) == (error is not None)
    for each in found:
        assert SECRET not in told(each)
    if change is damage_a_segment:
        with pytest.raises(LedgerDamaged) as raised:
            world.report()
        assert SECRET not in told(raised.value)
        return
    world.report()
    assert leaks(world) == []
    if types.get("a", "S") != "S":
        assert SECRET in str(world.rejects())


@pytest.mark.parametrize(
    ("data", "source", "options", "error"),
    [
        (rows(1).replace(b"-0", b'-0"') + b'"' + rows(2), {"header": False}, {}, KeyColumnMissing),
        (b'"' + rows(2), {"header": False}, {}, BadHeader),
        (rows(1).replace(b",0,", b",\xff,"), {"header": False}, {}, BadHeader),
        (rows(2), {"header": False}, {"max_row_bytes": 10}, RowTooLong),
        (rows(2), {"columns": ["x", "y"]}, {}, KeyColumnMissing),
        (rows(2), {"columns": ["x", "x"]}, {}, DuplicateColumn),
        (b"id,n,a\n" + rows(2), {}, {"max_row_bytes": 10}, RowTooLong),
    ],
)
def test_preflight_errors_contain_no_row_data(data, source, options, error):
    world = World(data, source=source, options=options)
    with pytest.raises(error) as raised:
        world.preflight()
    assert SECRET not in told(raised.value)
    assert leaks(world) == []


def test_unexpected_error_names_line_of_code_only(monkeypatch):
    def encode(_: BatchEncoder, columns: Columns) -> Any:
        return {}[columns.cells[0][0]]

    monkeypatch.setattr(BatchEncoder, "encode", encode)
    world = World(DATA)
    world.preflight()
    (error,) = steps(world)
    assert isinstance(error, UnexpectedError)
    assert "KeyError at test_row_data.py:" in error.message
    assert SECRET not in told(error)
