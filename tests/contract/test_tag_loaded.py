"""Objects that a run has loaded are tagged, in S3 as moto has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from ddbload.contracts.results import TaggedObjects
from ddbload.contracts.states import ReportTask
from ddbload.pipeline.report import report_execution
from ddbload.pipeline.tag_loaded import tag_loaded
from tests.unit.pipeline.machine import execute
from tests.unit.pipeline.world import BUCKET, World

FILE = b"id,n\na,1\nb,2\n"
KEY = "in/a.csv"


@pytest.fixture
def s3(request) -> Iterator[Any]:
    """S3 with a versioned bucket and one object."""
    with mock_aws():
        client = request.getfixturevalue("moto_s3")
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        client.put_object(Bucket=BUCKET, Key=KEY, Body=FILE, Tagging="team=books")
        yield client


def tags(s3: Any, key: str = KEY, **version: str) -> dict[str, str]:
    found = s3.get_object_tagging(Bucket=BUCKET, Key=key, **version)["TagSet"]
    return {each["Key"]: each["Value"] for each in found}


def loaded(s3: Any, **source: Any) -> tuple[World, Any]:
    """Run a whole import of an object, or of the objects of a source."""
    world = World(b"")
    world.s3 = s3
    payload = {**world.payload, "source": {"bucket": BUCKET, **(source or {"key": KEY})}}
    assert execute(world, {**payload, "run": {"id": "r1"}}, "r1")["status"] == "SUCCEEDED"
    return world, payload


def tag(world: World, **how: Any) -> TaggedObjects | None:
    context = world.context(**how)
    ledger = context.ledger("r1")
    report = ledger.find_report()
    assert report is not None
    return tag_loaded(ledger.record(), report, ledger, context)


OURS = {"ddbload-run": "r1", "ddbload-status": "SUCCEEDED"}


def test_loaded_version_is_tagged_and_keeps_its_tags(s3):
    world, _ = loaded(s3)
    first = s3.head_object(Bucket=BUCKET, Key=KEY)["VersionId"]
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"id,n\nc,3\n")
    assert tag(world) == TaggedObjects(1, 0)
    assert tags(s3, VersionId=first) == {"team": "books", **OURS}
    assert tags(s3) == {}
    assert tag(world) == TaggedObjects(1, 0)


def test_listed_objects_are_tagged_unless_they_were_replaced(s3):
    for name in "bc":
        s3.put_object(Bucket=BUCKET, Key=f"in/{name}.csv", Body=FILE)
    world, _ = loaded(s3, prefix="in/")
    s3.put_object(Bucket=BUCKET, Key="in/b.csv", Body=b"id,n\nd,4\n")
    s3.delete_object(Bucket=BUCKET, Key="in/c.csv")
    result = tag(world)
    assert result == TaggedObjects(3, 0)
    # The loaded version of each, found by its ETag.
    assert tags(s3) == {"team": "books", **OURS}
    assert tags(s3, "in/b.csv") == {}


def test_replaced_object_of_an_unversioned_bucket_is_not_tagged(s3):
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket=BUCKET, Key="in/z.csv", Body=FILE)
    world, _ = loaded(s3, key="in/z.csv")
    assert tag(world) == TaggedObjects(1, 0)
    s3.put_object(Bucket=BUCKET, Key="in/z.csv", Body=b"id,n\nd,4\n")
    result = tag(world)
    assert result is not None
    assert (result.tagged, result.failed) == (0, 1)
    assert "was replaced since it was loaded" in str(result.error)
    assert tags(s3, "in/z.csv") == {}


def test_object_with_too_many_tags_is_noted_and_fails_nothing(s3):
    many = "&".join(f"t{number}=x" for number in range(9))
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=FILE, Tagging=many)
    world, _ = loaded(s3)
    result = tag(world)
    assert result is not None
    assert (result.tagged, result.failed) == (0, 1)
    assert "has 9 tags, and S3 allows 10" in str(result.error)
    assert len(tags(s3)) == 9


def test_report_tags_once_and_notes_what_it_could_not(s3):
    world, _ = loaded(s3)
    s3.delete_object(
        Bucket=BUCKET, Key=KEY, VersionId=s3.head_object(Bucket=BUCKET, Key=KEY)["VersionId"]
    )
    context = world.context()
    notices: list[str] = []
    context.tag_loaded, context.notice = True, notices.append
    outcome = report_execution(ReportTask("r1"), context)
    assert outcome.status == "SUCCEEDED"
    report = context.ledger("r1").find_report()
    assert report is not None
    assert report.tags is not None
    assert report.tags.failed == 1
    assert "1 of its objects could not be tagged" in notices[0]
    report_execution(ReportTask("r1"), context)
    assert len(notices) == 1


def test_plan_tags_nothing(s3):
    world = World(b"")
    world.s3 = s3
    plan = {**world.payload, "source": {"bucket": BUCKET, "key": KEY}, "run": {"id": "r1"}}
    execute(world, {**plan, "options": {"mode": "plan", "engine": "sync"}}, "r1")
    assert tag(world) is None
    assert tags(s3) == {"team": "books"}


def test_tagging_ends_with_the_functions_time(s3):
    world, _ = loaded(s3)
    result = tag(world, seconds=0.0)
    assert result == TaggedObjects(0, 1, "the function's time was over")
