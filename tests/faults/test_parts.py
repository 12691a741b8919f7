"""Several processes make of a source what one makes, byte for byte."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any

import pytest

from ddbload.aws.clients import AwsSettings
from ddbload.context import reading_context
from ddbload.contracts.payload import Payload
from ddbload.convert import convert as convert_module
from ddbload.convert import sinks
from ddbload.convert.convert import Sink, convert, prepare_conversion
from ddbload.convert.sinks import FileSink, StreamSink
from ddbload.dynamodb.item_equality import ItemDigests
from ddbload.errors import DdbloadError, OutputUnwritable, WorkerDied
from ddbload.ledger.ledger import temporary_ledger
from ddbload.planning.make_plan import make_plan
from ddbload.reading import parts
from ddbload.reading.parts import ReadCounts, iter_parts
from ddbload.reading.row_blocks import RunReader
from ddbload.verification.compare_digests import item_marks, marked_items, read_digests
from tests.unit.steps.world import World
from tests.unit.steps.worlds import ManyObjects

QUOTED = "id,text\n" + "".join(f'{n},"a ""{n}"", b\n{n},c\n"\n' for n in range(300))
BAD = "id,n\n" + "".join(f"{n},{'x' if n % 7 == 0 else n}\n" for n in range(300))
# Cells that look like rows, with nothing near a cut that tells otherwise.
DECEIVING = "id,text\n" + "".join(f'{n},"' + "1,2\n" * 60 + '"\n' for n in range(40))
SOURCES: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "quoted": (QUOTED, {}),
    "crlf": (BAD.replace("\n", "\r\n"), {}),
    "cr": (BAD.replace("\n", "\r"), {"format": "csv", "delimiter": ","}),
    "no last line end": (BAD.rstrip("\n"), {}),
    "deceiving": (DECEIVING, {}),
    "comments": (BAD.replace("\n5", "\n# a\n5"), {"comment": "#"}),
    "escapes": (
        QUOTED.replace('""', '\\"'),
        {"escape": "\\", "format": "csv", "delimiter": ","},
    ),
    "json": ("".join(f'{{"id":"{n}","n":{n}}}\n' for n in range(300)) + "[]\n", {"format": "json"}),
    # In UTF-8 it has the byte 0x85, which is a line end to Python.
    "utf-8": ("id,text\n" + "".join(f"{n},Å\n" for n in range(200)), {}),
    "latin-1": ("id,text\n" + "ä,ö\n" * 200, {"encoding": "latin-1"}),
    "utf-16": (BAD, {"encoding": "utf-16"}),
    "no items in a part": (BAD.replace("\n200,", "\n200,x" * 200 + "\n200,"), {}),
    "gzip": (gzip.compress(QUOTED.encode()), {}),
    "header alone": ("id,text\n", {"format": "csv", "delimiter": ","}),
}


# Another test's threads may still be there; Python 3.12 and later warn of a fork beside them.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers inherit what a test replaced, whatever ran before in this process."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 500)
    monkeypatch.setattr(parts, "POOL_PARTS", 2)
    monkeypatch.setattr(parts, "_WINDOW_BEFORE", 40)
    monkeypatch.setattr(parts, "_WINDOW_AFTER", 200)


@dataclass
class Outcome:
    lines: bytes = b""
    rejects: list[Any] = field(default_factory=list)
    error: str | None = None
    converted: ReadCounts = field(default_factory=ReadCounts)


def converted(path: Path, processes: int, sink: Sink | None = None, **given: Any) -> Outcome:
    outcome, stream = Outcome(), io.BytesIO()
    value = {
        "source": {"path": str(path), **given.pop("source", {})},
        "target": {"table": "none"},
        **given,
    }
    make_context = partial(reading_context, AwsSettings())
    context = make_context()
    if "should_stop" in given:
        context.should_stop = value.pop("should_stop")
    with temporary_ledger() as ledger:
        record = prepare_conversion(Payload.from_json(value), None, ledger, context)
        try:
            convert(
                *(record, ledger, context, sink or StreamSink(stream, "out"), outcome.converted),
                reject=lambda line: outcome.rejects.append(json.loads(line)),
                processes=processes,
                make_context=make_context,
            )
        except DdbloadError as error:
            outcome.error = f"{type(error).__name__}: {error.message}"
    outcome.lines = stream.getvalue()
    return outcome


def write(folder: Path, data: str | bytes, encoding: str = "utf-8") -> Path:
    path = folder / "source"
    path.write_bytes(data if isinstance(data, bytes) else data.encode(encoding))
    return path


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_parts_give_what_one_pass_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, processes: int
) -> None:
    data, source = SOURCES[name]
    path = write(tmp_path, data, source.get("encoding", "utf-8"))
    given = {"source": source, "types": {"n": "N"} if "id,n" in str(data) else {}}
    cut = converted(path, processes, **given)
    with monkeypatch.context() as patch:
        patch.setattr(parts, "PART_BYTES", 1 << 30)
        whole = converted(path, 1, **given)
    assert cut == whole
    rows = cut.converted.rows
    assert rows.read == rows.written + rows.rejected


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_verify_compares_the_items_of_the_source_in_their_order(
    tmp_path: Path, name: str, processes: int
) -> None:
    data, source = SOURCES[name]
    path = write(tmp_path, data, source.get("encoding", "utf-8"))
    given = {"source": source, "types": {"n": "N"} if "id,n" in str(data) else {}}
    expected = [json.loads(line)["Item"] for line in converted(path, 1, **given).lines.splitlines()]
    value = {"source": {"path": str(path), **source}, "target": {"table": "none"}}
    make_context = partial(reading_context, AwsSettings())
    key = next(iter(expected[0]), "id") if expected else "id"
    digests = ItemDigests((key,), b"")
    with temporary_ledger() as ledger:
        payload = Payload.from_json({**value, "types": given["types"]})
        record = prepare_conversion(payload, None, ledger, make_context())
        settings = {"processes": processes, "make_context": make_context}
        summary, _, spool = read_digests(record, ledger, make_context(), digests, **settings)
        with closing(spool), item_marks(spool.items) as marks:
            entries = [each for part in range(256) for each in spool.entries(part)]
            for number in range(spool.items):
                marks[number] = 1 + number % 2
            again = list(marked_items(record, ledger, make_context(), marks, spool.items))
    found = {entry.number: entry.key + entry.item for entry in entries}
    assert found == dict(enumerate(digests.digest_all(expected)))
    assert [each.item for each in again] == expected
    assert [each.mark for each in again] == [1 + n % 2 for n in range(len(expected))]
    assert summary.read == len(expected) + summary.causes.total()


@pytest.mark.usefixtures("_small")
def test_cuts_are_row_ends_where_the_text_tells(tmp_path: Path) -> None:
    context = reading_context(AwsSettings())
    data = "id,text\n" + "".join(f'{n},"a ""{n}""\n{n},c"\n' for n in range(300))
    value = {"source": {"path": str(write(tmp_path, data))}, "target": {"table": "none"}}
    with temporary_ledger() as ledger:
        record = prepare_conversion(Payload.from_json(value), None, ledger, context)
        found = list(iter_parts(RunReader(record), ledger, context))
    assert len(found) > 4
    assert [each.end for each in found[:-1]] == [each.start.byte for each in found[1:]]
    ends = {found + 2 for found in range(len(data)) if data[found : found + 2] == '"\n'}
    assert {each.end for each in found[:-1]} <= ends


@pytest.mark.usefixtures("_small")
def test_several_objects_are_read_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_PART_OBJECTS", 2)
    (tmp_path / "in").mkdir()
    for number in range(7):
        data = f"id,n\n{number},x\n" + "".join(f"{number}-{n},{n}\n" for n in range(50))
        packed = gzip.compress(data.encode()) if number % 2 else data.encode()
        (tmp_path / "in" / f"{number}.csv{'.gz' * (number % 2)}").write_bytes(packed)
    alone = converted(tmp_path / "in", 1, types={"n": "N"})
    assert alone.converted.rows.read == 7 * 51
    assert converted(tmp_path / "in", 3, types={"n": "N"}) == alone
    places = [(Path(each["source"]).name, each["line"]) for each in alone.rejects]
    assert places[:2] == [("0.csv", 2), ("1.csv.gz", 2)]
    assert len(places) == 7


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_files_have_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    # Output is deflated in many slices.
    monkeypatch.setattr(sinks, "_SLICE_BYTES", 300)
    path = write(tmp_path, BAD)
    made = []
    for processes in (1, 3):
        out = tmp_path / f"out{processes}{suffix}"
        sink = FileSink(str(out))
        converted(path, processes, sink)
        sink.finish()
        assert sink.bytes == out.stat().st_size
        made.append(out.read_bytes())
    assert made[0] == made[1]
    plain = converted(path, 1).lines
    if suffix == ".gz":
        assert gzip.decompress(made[0]) == plain
    elif not suffix:
        assert made[0] == plain


@pytest.mark.usefixtures("_small")
def test_worker_that_is_killed_fails_the_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, work = os.getpid(), convert_module._ConvertJob.work

    def die(self: Any, reader: Any, batches: Any, output: Any) -> Any:
        if os.getpid() != parent:
            os.kill(os.getpid(), 9)
        return work(self, reader, batches, output)

    monkeypatch.setattr(convert_module._ConvertJob, "work", die)
    outcome = converted(write(tmp_path, BAD), 2)
    assert (outcome.error or "").startswith(WorkerDied.__name__)


@pytest.mark.usefixtures("_small")
def test_small_file_is_read_without_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "POOL_PARTS", 1000)
    monkeypatch.setattr(parts, "ProcessPool", None)
    assert converted(write(tmp_path, BAD), 2).converted.read


@pytest.mark.usefixtures("_small")
def test_output_that_cannot_be_written_fails_the_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    sink = FileSink(str(tmp_path / "out"))
    monkeypatch.setattr(sink._out, "write", full)
    outcome = converted(write(tmp_path, BAD), 2, sink)
    assert (outcome.error or "").startswith(OutputUnwritable.__name__)
    assert "No space left" in (outcome.error or "")
    sink.abandon()


PLANNED = "id,name,year,team\n" + "".join(
    f'{n % 190},"Name, {n}",{1900 + n},t{n % 3}\n' if n % 50 else ",none,x,t\n" for n in range(600)
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plan_is_that_of_one_process(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    world = World(pack(PLANNED.encode()), indexes=[[("team", "S")]])
    world.options["max_rejects"] = 100

    def plan_of(processes: int) -> Any:
        return make_plan(world.payload, world.context(), processes=processes).to_json()

    whole = plan_of(1)
    monkeypatch.setattr(parts, "REMOTE_PART_BYTES", 2000)
    alone = plan_of(1)
    assert json.dumps(plan_of(3)) == json.dumps(alone)
    for part in ("rows", "rejects", "keys", "items", "write_units", "source"):
        assert alone[part] == whole[part]
    inferred = [[each[part] for each in alone["columns"]] for part in ("inferred", "filled")]
    assert inferred == [
        [each[part] for each in whole["columns"]] for part in ("inferred", "filled")
    ]


def _narrow_pipe(duplex: object = True) -> tuple[connection.Connection, connection.Connection]:
    """Make a pipe that holds a few kilobytes, as on macOS; each of its ends sends and receives."""
    ends = socket.socketpair()
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    first, other = (connection.Connection(end.detach()) for end in ends)
    return first, other


def test_large_messages_in_both_directions_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "Pipe", _narrow_pipe)
    names = [f"{number:04d}-{'long' * 220}.csv" for number in range(1000)]
    world = ManyObjects(files=dict.fromkeys(names, b"id,a\n" + b"1,2\n" * 5))
    # Ends the test if it hangs.
    signal.alarm(60)
    try:
        plan = make_plan(world.payload, world.context(), processes=3).to_json()
    finally:
        signal.alarm(0)
    assert plan["error"] is None
    assert plan["rows"]["read"] == 5000
