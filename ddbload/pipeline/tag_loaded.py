"""Tag the objects that a run has loaded, so that lifecycle rules can expire or archive them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from ddbload.aws.failures import AwsFailure
from ddbload.aws.retry import call_with_retries
from ddbload.context import LedgerContext
from ddbload.contracts.load_record import ObjectVersion
from ddbload.contracts.results import DONE, Report, TaggedObjects
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import PLAN
from ddbload.errors import DdbloadError, RequestRefused, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.load_history import object_versions

RUN_TAG, STATUS_TAG = "ddbload-run", "ddbload-status"
MOST_TAGS = 10
"""S3's limit for the tags of an object."""
_TAGGED_AT_ONCE = 16


def tag_loaded(
    record: RunRecord, report: Report, ledger: Ledger, context: LedgerContext
) -> TaggedObjects | None:
    """Tag the versions of objects in S3 that a run has loaded; None if there is nothing to tag.

    Tags of others stay. What cannot be tagged is counted, with the first error, and fails nothing:
    the rows are in the table. Ends when the context's time is over.
    """
    if report.status not in DONE or record.payload.options.mode == PLAN:
        return None
    if record.loads_nothing or record.payload.where:
        # Tags would say that the whole object is loaded, or by another run than the one that did.
        return None
    tags = {RUN_TAG: record.run, STATUS_TAG: report.status}
    versions = (each for each in object_versions(record, ledger) if "bucket" in each.pinned)
    tagged = failed = 0
    first_error: str | None = None
    with ThreadPoolExecutor(_TAGGED_AT_ONCE) as pool:
        while some := list(islice(versions, 10 * _TAGGED_AT_ONCE)):
            for error in pool.map(lambda each: _tag(each, tags, context), some):
                if error is None:
                    tagged += 1
                else:
                    failed += 1
                    first_error = first_error or error
    if not tagged and not failed:
        return None
    return TaggedObjects(tagged, failed, first_error)


def _tag(version: ObjectVersion, tags: dict[str, str], context: LedgerContext) -> str | None:
    """Tag an object version; return why not, if it cannot be tagged."""
    if context.must_end():
        return "the function's time was over"
    try:
        _add_tags(version, tags, context)
    except DdbloadError as error:
        return f"{error.name}: {error.message}"
    return None


def _add_tags(version: ObjectVersion, tags: dict[str, str], context: LedgerContext) -> None:
    """Add tags to an object version. Raises `RequestRefused`, `SourceChanged` and AWS's errors."""
    client, pinned = context.clients.s3, version.pinned
    place: Any = {"Bucket": pinned["bucket"], "Key": pinned["key"]}
    version_id = version.version_id or _find_version(version, context)
    if version_id is not None:
        place["VersionId"] = version_id

    def gone(failure: AwsFailure) -> Exception | None:
        if failure.status == 404:
            return SourceChanged(f"{version.location} was deleted since it was loaded")
        return None

    answer: Any = call_with_retries(
        lambda: client.get_object_tagging(**place),
        f"reading the tags of {version.location}",
        expected=gone,
        policy=context.retry_policy,
    )
    present = {each["Key"]: each["Value"] for each in answer["TagSet"]}
    wanted = {**present, **tags}
    if len(wanted) > MOST_TAGS:
        raise RequestRefused(
            f"{version.location} has {len(present)} tags, and S3 allows {MOST_TAGS} with ddbload's"
        )
    if wanted == present:
        return
    tag_set: Any = [{"Key": name, "Value": value} for name, value in wanted.items()]
    call_with_retries(
        lambda: client.put_object_tagging(**place, Tagging={"TagSet": tag_set}),
        f"tagging {version.location}",
        expected=gone,
        policy=context.retry_policy,
    )


def _find_version(version: ObjectVersion, context: LedgerContext) -> str | None:
    """Find the id of a version that a listing pinned by its ETag; None in an unversioned bucket.

    Raises `SourceChanged` if the object was replaced, so that the new one is not tagged.
    """
    pinned = version.pinned
    answer: Any = call_with_retries(
        lambda: context.clients.s3.list_object_versions(
            Bucket=pinned["bucket"], Prefix=pinned["key"], MaxKeys=100
        ),
        f"listing the versions of {version.location}",
        policy=context.retry_policy,
    )
    for each in _versions_of(answer, pinned["key"]):
        if each["ETag"].strip('"') == str(pinned["etag"]).strip('"'):
            found = each["VersionId"]
            return None if found == "null" else str(found)
    raise SourceChanged(f"{version.location} was replaced since it was loaded")


def _versions_of(answer: Any, key: str) -> Iterator[Any]:
    # A listing of a prefix also has longer keys.
    return (each for each in answer.get("Versions", ()) if each["Key"] == key)
