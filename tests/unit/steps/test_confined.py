"""A run that an upload starts reads nothing outside of its rule's prefix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddbload.context import AccessPolicy
from ddbload.contracts.chunks import Chunk
from ddbload.contracts.states import PreflightTask
from ddbload.errors import BucketNotAllowed, InvalidPayload
from ddbload.steps.preflight import preflight
from tests.unit.steps.exports import EXPORT, exported_files
from tests.unit.steps.world import BUCKET, World
from tests.unit.steps.worlds import ManyObjects, only_chunk

FOLDER = f"2020-Nov/AWSDynamoDB/{EXPORT}/"
ITEMS = [{"Item": {"id": {"S": "secret"}}}]


def _forged(within: str) -> ManyObjects:
    """An export whose manifest, in one folder, names a file in the folder beside it."""
    source = {"prefix": f"many/{FOLDER}", "format": "auto", "within": within}
    return ManyObjects(files=exported_files(ITEMS, incremental=True), source=source)


def test_manifest_that_names_a_file_outside_is_refused_before_anything_is_written():
    world = _forged(f"{BUCKET}/many/{FOLDER}")
    with pytest.raises(BucketNotAllowed, match=f"is outside of s3://.*{EXPORT}/, which the run is"):
        world.preflight()
    assert (world.items, world.in_ledger("run.json")) == ([], [])
    assert _forged(f"{BUCKET}/many/").run().rows.written == 1


def test_import_refuses_an_object_outside_that_a_ledger_names():
    world = World(b"id\na\n", source={"within": f"{BUCKET}/in/"})
    chunk = only_chunk(world)
    record = world.ledger.record()
    elsewhere = replace(record.payload, source=replace(record.payload.source, within="other/"))
    world.write_json("run.json", replace(record, payload=elsewhere).to_json())
    with pytest.raises(BucketNotAllowed, match="outside of s3://other/"):
        world.import_step(chunk)


def test_record_keeps_the_confinement_and_a_resume_cannot_lift_it():
    world = World(b"id\na\n", source={"within": f"{BUCKET}/in/"})
    world.preflight()
    assert world.ledger.record().payload.source.within == f"{BUCKET}/in/"
    resumed = {"run": {"resume_of": world.ledger.run}, "source": {"within": None}}
    with pytest.raises(InvalidPayload, match="'source' cannot be given with"):
        preflight(PreflightTask(resumed, "again"), world.context())


@pytest.mark.parametrize("location", ["/etc/passwd", "s3://other/in/x", "s3://b", "s3://b/inn"])
def test_confined_run_reads_no_file_and_no_other_bucket(location):
    policy = AccessPolicy(paths=True, within="b/in/")
    policy.check_location("s3://b/in/x")
    with pytest.raises(BucketNotAllowed):
        policy.check_location(location)


@pytest.mark.parametrize(
    "changes",
    [{"start": 4}, {"end": 6}, {"first_line": 3}, {"chunk": 1}, {"chunk": 10**12}],
)
def test_chunk_that_is_not_in_the_manifest_is_refused(changes):
    """An invocation by hand could import any bytes as rows, or a chunk twice."""
    world = World(b"id\na\nb\n")
    chunk = only_chunk(world)
    before = world.in_ledger()
    with pytest.raises(InvalidPayload, match=r"is not one of run .*: its manifest\.json has"):
        world.import_step(Chunk(**{**chunk.to_json(), **changes}))
    assert (world.items, world.in_ledger()) == ([], before)
