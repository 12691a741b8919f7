"""ZIP archives as sources: their members are the objects of one run."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zipfile

import pytest

from ddbload import errors
from ddbload.contracts import run_record
from ddbload.source.zip_members import list_members
from tests.fakes.s3_faults import Fault
from tests.unit.source.gzip_files import rows
from tests.unit.source.memory_source import MemorySource
from tests.unit.source.zip_files import CHECKSUM, FLAGS, archive, changed
from tests.unit.steps.expected import counts, outcome
from tests.unit.steps.many_files import files_of, found
from tests.unit.steps.world import BUCKET, KEY, World, by_value
from tests.unit.steps.worlds import ManyObjects

HEADER = b"id,a,b,n\r\n"
MANY = {"chunk_bytes": 1, "workers": 4}


def texts(*sizes: int) -> dict[str, bytes]:
    made = {}
    for number, size in enumerate(sizes):
        text = re.sub(rb"(?m)^(\d)", rb"%d-\1" % number, rows(size, number))
        made[f"in/{number}.csv"] = HEADER + text
    return made


FILES = texts(900, 3, 1200)
WHOLE = HEADER + b"".join(text.removeprefix(HEADER) for text in FILES.values())
METHODS = {"deflated": zipfile.ZIP_DEFLATED, "stored": zipfile.ZIP_STORED}


def assert_loaded(world: World, text: bytes = WHOLE) -> None:
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert report.rows == counts(outcome(text))
    items = {item["id"]["S"]: by_value(item) for item in world.items}
    assert items == {row.item["id"][1]: row.item for row in outcome(text).items}


@pytest.fixture
def small_members_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "INDEX_BYTES", 0)


@pytest.mark.usefixtures("small_members_are_indexed")
@pytest.mark.parametrize("scan", ["whole", "edges"])
@pytest.mark.parametrize("method", METHODS)
def test_members_are_cut_and_preflight_and_chunks_continue(monkeypatch, method, scan):
    monkeypatch.setattr("ddbload.source.s3_object.RANGE_BYTES", 4000)
    monkeypatch.setattr("ddbload.source.decoding.decoded_source.FIRST_BYTES", 4000)
    monkeypatch.setattr("ddbload.reading.open_sources.READ_WHOLE_BYTES", 0)
    data = archive(FILES, method=METHODS[method])
    world = World(data, options={**MANY, "scan": scan}, request_seconds=1.0)
    world.s3.faults.decide = lambda operation, _: (
        Fault(before=lambda: world.clock.sleep(1.0)) if operation == "get_object" else None
    )
    result, steps = world.preflight_step(None, world.context(20.0)), 1
    while result.cursor is not None:
        result = world.preflight_step(result.cursor, world.context(20.0))
        steps += 1
    assert steps > 1 or scan == "edges"
    invocations = [world.import_one(chunk, seconds=20.0) for chunk in world.manifest]
    assert max(invocations) > 1 or len(invocations) > 3
    assert_loaded(world)
    # Nothing is read but ranges of the version that the run is pinned to.
    reads = [each.params for each in world.s3.calls if each.operation == "get_object"]
    assert all(
        each["IfMatch"] and each["Range"] for each in reads[1:] if each["Key"].startswith("in/")
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scan", ["whole", "edges"])
def test_rejects_name_members_and_rows_are_those_of_the_files(method, scan):
    for seed in range(3):
        files = files_of(seed, 20)
        plain = ManyObjects(files=files, options={"max_rejects": 9999, "scan": scan})
        plain.run()
        zipped = {f"many/{name}": text for name, text in files.items()}
        world = World(
            archive(zipped, method=METHODS[method]),
            source={"key": "in/x"},
            options={"max_rejects": 9999, "scan": scan},
        )
        world.s3.put_object(Bucket=BUCKET, Key="in/x", Body=archive(zipped))
        world.run()
        keys, rejects = found(plain)
        named = [(f"s3://{BUCKET}/in/x!{r[0].split('/', 3)[3]}", *r[1:]) for r in rejects]
        assert found(world) == (keys, named)


def test_prefix_may_have_archives_beside_files():
    files = texts(20, 30, 40, 50)
    (_, one), (b, two), (c, three), (_, four) = files.items()
    world = ManyObjects(
        files={"0.csv": one, "1.ZIP": archive({b: two, c: three}), "2.csv": four, "3.csv": b""},
        source={"format": "csv"},
    )
    world.run()
    assert_loaded(world, HEADER + b"".join(t.removeprefix(HEADER) for t in files.values()))
    pages = map(world.read_json, world.in_ledger("listing/"))
    listed = [each for page in pages for each in page["objects"]]
    assert [each["member"][0] for each in listed if "member" in each] == [b, c]
    with pytest.raises(errors.DamagedCompression, match="not valid zip: the file is empty"):
        ManyObjects(files={"a.csv": one, "b.zip": b""}).preflight()
    with pytest.raises(errors.UnsupportedFormat, match=r"1: .*name it .zip"):
        ManyObjects(files={"0.csv": one, "1": archive({b: two})}).run()


def test_listing_of_members_has_several_pages(monkeypatch):
    monkeypatch.setattr("ddbload.ledger.object_listing.PAGE_OBJECTS", 50)
    files = {f"{n}.csv": b"id,a\n%d,x\n" % n for n in range(60)}
    world = World(archive(files), options={"chunk_bytes": 200})
    report = world.run()
    assert report.rows.written == len(world.items) == 60
    assert len(world.in_ledger("listing/")) == 2


def test_archive_that_changes_is_noticed():
    world = World(archive(FILES))
    world.preflight()
    world.overwrite(archive(texts(10)))
    with pytest.raises(errors.SourceChanged):
        world.import_all()
    with pytest.raises(errors.SourceChanged):
        world.preflight()


def test_run_is_taken_up():
    world = World(archive(FILES))
    world.preflight()
    before = world.manifest
    world.preflight()
    assert world.manifest == before
    world.import_all()
    world.preflight()
    assert_loaded(world)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (changed(archive(FILES), (*FLAGS, 1)), errors.UnsupportedFormat, "0.csv is encrypted"),
        (
            changed(archive(FILES), (*CHECKSUM, 1)),
            errors.DamagedCompression,
            r"!in/0.csv, about byte \d+ of the compressed data: the data are damaged \(",
        ),
        (archive(FILES)[:-5], errors.DamagedCompression, "not a valid ZIP archive"),
        (archive({"a.csv": bytes(8 << 20)}), errors.ExpansionTooLarge, "!a.csv"),
        (archive({"a.csv": b"id\n1\n", "b": archive(FILES)}), errors.UnsupportedFormat, "!b: "),
        (archive({"a.csv": b"id\n1\n", "b.csv": b"x\n1\n"}), errors.HeaderMismatch, "!b.csv"),
        (
            archive({"a.csv": b"PAR1aaaaaaaaPAR1"}),
            errors.UnsupportedFormat,
            "^s3://[^!]*!a.csv: this is Parquet within zip",
        ),
        *(
            (
                archive({"a.csv": b"id\n1\n", "b.csv": inside}),
                errors.UnsupportedFormat,
                "!b.csv: .*: unpack the archive, and import this file by itself$",
            )
            for inside in (
                *(gzip.compress(b"id\n1\n"), bz2.compress(b"id\n"), lzma.compress(b"id\n")),
                *("id\n1\n".encode("utf-16"), archive({"c": b"id\n"}), b"PAR1\x15"),
            )
        ),
        *(
            (archive({"a.csv": b"id,n\n1,2\n", "b.json": text}), errors.UnsupportedFormat, words)
            for words in (
                "!b.json: the file begins as JSON does: leave out --format, and import it apart",
            )
            for text in (b'{"id":"1","n":2}\n', b'[{"id":"1"}]', b'\xef\xbb\xbf[\n {\n  "id": 1}]')
        ),
        (archive({"b": gzip.compress(b"id\n")}), errors.UnsupportedFormat, "gzip data: unpack the"),
        (archive({"a/": b""}), errors.SourceNotFound, "no file to import"),
    ],
)
def test_errors_are_named_before_anything_is_written(data, error, words):
    world = World(data)
    world.source = {"format": "auto"}
    with pytest.raises(error, match=words):
        world.preflight()
    assert world.manifest == ()
    assert world.items == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("b.csv", b"id,n\n1,2\n"), ("b.TSV", b"id\tn\n1\t2\n"), ("b.csv.gz", b"id\n")],
)
def test_columns_behind_json_are_refused_by_name(name, text):
    files = {"a.json": b'{"id":"1"}\n{"id":"2"}\n', name: text}
    source = {"format": "auto", "delimiter": "auto"}
    worlds = [ManyObjects(files=files, source=source)]
    if not name.endswith(".gz"):
        worlds.append(World(archive(files), source=source))
    for world in worlds:
        with pytest.raises(errors.UnsupportedFormat, match=f"{name}: by its name it has columns"):
            world.preflight()


def test_declared_compression_is_kept():
    world = World(archive(FILES), source={"compression": "none"})
    with pytest.raises(errors.UnsupportedFormat, match="a ZIP archive"):
        world.preflight()


def test_listing_is_what_the_run_is_pinned_to():
    data = archive(FILES)
    world = World(data)
    world.preflight()
    (page,) = (world.read_json(name)["objects"] for name in world.in_ledger("listing/"))
    listed = [each["member"] for each in list_members(MemorySource(data))]
    assert [each["member"] for each in page] == listed
    assert {(each["key"], each["size"]) for each in page} == {(KEY, len(data))}
    assert world.read_json("run.json")["objects"] == 3
