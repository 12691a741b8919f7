"""Rows as objects: what each answer of S3 means for the row."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from ddbload.aws.failures import AwsFailure, FailureKind, failure_of_code
from ddbload.errors import (
    AccessDenied,
    AwsConfiguration,
    BucketNotFound,
    ConditionalWritesUnsupported,
    RequestRefused,
)
from ddbload.write.object_requests import ObjectRequests, ObjectRow, ObjectWrite, run_stamp
from ddbload.write.requests import EndpointFeatures
from ddbload.write.scheduler.messages import Accepted, Answer, Fatal, Refused, Throttled, Unsure
from ddbload.write.scheduler.outcome_tracker import RowOutcome
from tests.unit.write.object_records import object_record

ETAG = {"etag": '"e"'}


class Bucket:
    """A bucket with conditional writes, by S3's documentation; it fails as a script says."""

    def __init__(self, *script: Any, ignores: bool = False) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.script = list(script)
        self.sent: list[str] = []
        self.ignores = ignores

    def answer(self, request: Any) -> tuple[AwsFailure | None, dict[str, str]]:
        failure = self.script.pop(0) if self.script else None
        self.sent.append("HEAD" if request.body is None else "PUT")
        if failure == "lost":
            self.carry_out(request)
            return AwsFailure(FailureKind.UNSURE, "ReadTimeout", ""), {}
        if failure is not None:
            return failure, {}
        return self.carry_out(request)

    def carry_out(self, request: Any) -> tuple[AwsFailure | None, dict[str, str]]:
        found = self.objects.get(request.key)
        etag = None if found is None else hashlib.md5(repr(found).encode()).hexdigest()  # noqa: S324
        if request.body is None:
            if found is None:
                return failure_of_code("404", "", 404), {}
            return None, {"etag": str(etag), **found[1]}
        headers = dict(request.headers)
        if not self.ignores:
            if headers.pop("if-none-match", None) == "*" and found is not None:
                return failure_of_code("PreconditionFailed", "", 412), {}
            wanted = headers.pop("if-match", None)
            if wanted is not None and found is None:
                return failure_of_code("NoSuchKey", "", 404), {}
            if wanted is not None and wanted != etag:
                return failure_of_code("PreconditionFailed", "", 412), {}
        meta = {name: text for name, text in headers.items() if name.startswith("x-amz-meta-")}
        self.objects[request.key] = request.body, meta
        return None, ETAG


def requests(*, proven: bool = True, **options: Any) -> ObjectRequests:
    return ObjectRequests(object_record(**options), EndpointFeatures(proven_condition=proven))


def write(owner: ObjectRequests, bucket: Bucket, row: ObjectRow) -> Answer:
    each = ObjectWrite(owner, row)
    while True:
        answer = each.answered(*bucket.answer(each.request))
        if answer is not None:
            return answer


ROW = ObjectRow("p/1", b'{"id":"1"}', 100)
OTHER = ObjectRow("p/1", b'{"id":"1","more":2}', 7000)
FOREIGN = b"someone's", {"x-amz-meta-ddbload-run": "run-1/other", "x-amz-meta-ddbload-row": "100"}


def test_a_row_is_put_where_nothing_is():
    bucket = Bucket()
    assert write(requests(), bucket, ROW) == Accepted()
    assert bucket.objects["p/1"][0] == ROW.body
    assert bucket.sent == ["PUT"]


def test_a_put_has_a_checksum_as_buckets_with_object_lock_demand():
    for each in (ROW, OTHER):
        digest = base64.b64decode(ObjectWrite(requests(), each).request.headers["content-md5"])
        assert digest == hashlib.md5(each.body).digest()  # noqa: S324


def test_a_row_whose_answer_was_lost_is_written_once():
    owner, bucket = requests(), Bucket("lost")
    assert write(owner, bucket, ROW) == Unsure("ReadTimeout")
    assert write(owner, bucket, ROW) == Accepted()
    assert bucket.sent == ["PUT", "PUT", "HEAD"]
    # The requests of another worker or attempt of the run say the same.
    assert write(requests(), bucket, ROW) == Accepted()


def test_a_second_row_of_a_key_does_not_overwrite_the_first():
    owner, bucket = requests(), Bucket()
    write(owner, bucket, ROW)
    answer = write(owner, bucket, OTHER)
    assert isinstance(answer, Refused)
    assert answer.cause == "duplicate_key"
    assert "the row at byte 100 of the source" in answer.message
    assert bucket.objects["p/1"][0] == ROW.body


def test_the_object_of_another_run_is_replaced():
    owner, bucket = requests(), Bucket()
    bucket.objects["p/1"] = FOREIGN
    assert write(owner, bucket, ROW) == Accepted()
    assert bucket.objects["p/1"][0] == ROW.body
    assert bucket.sent == ["PUT", "HEAD", "PUT"]
    assert owner.follow_ups == 2
    assert isinstance(write(owner, bucket, OTHER), Refused)


def test_a_replacement_whose_answer_was_lost_is_written_once():
    owner, bucket = requests(), Bucket(None, None, "lost")
    bucket.objects["p/1"] = FOREIGN
    assert write(owner, bucket, ROW) == Unsure("ReadTimeout")
    assert write(owner, bucket, ROW) == Accepted()
    assert bucket.objects["p/1"][0] == ROW.body


def test_inserts_skip_the_objects_of_others():
    owner, bucket = requests(mode="insert"), Bucket()
    bucket.objects["p/1"] = FOREIGN
    assert write(owner, bucket, ROW) == Accepted(outcome=RowOutcome.SKIPPED)
    assert bucket.objects["p/1"] == FOREIGN


def test_an_object_that_another_row_took_meanwhile_is_not_replaced():
    owner, bucket = requests(), Bucket()
    bucket.objects["p/1"] = FOREIGN
    each = ObjectWrite(owner, ROW)
    for _ in range(2):
        assert each.answered(*bucket.answer(each.request)) is None
    assert write(owner, bucket, OTHER) == Accepted()
    answer = each.answered(*bucket.answer(each.request))
    assert answer is None
    answer = each.answered(*bucket.answer(each.request))
    assert isinstance(answer, Refused)
    assert bucket.objects["p/1"][0] == OTHER.body


@pytest.mark.parametrize("steps", [1, 2])
def test_an_object_that_is_deleted_meanwhile_is_put_again(steps):
    owner, bucket = requests(), Bucket()
    bucket.objects["p/1"] = FOREIGN
    each = ObjectWrite(owner, ROW)
    for _ in range(steps):
        assert each.answered(*bucket.answer(each.request)) is None
    del bucket.objects["p/1"]
    answer = None
    while answer is None:
        answer = each.answered(*bucket.answer(each.request))
    assert answer == Accepted()
    assert bucket.objects["p/1"][0] == ROW.body


def test_an_object_that_others_change_all_the_time_waits():
    owner, each = requests(), ObjectWrite(requests(), ROW)
    assert owner.follow_ups == 0
    changed, steps, answer = failure_of_code("PreconditionFailed", "", 412), 0, None
    while answer is None:
        is_head = each.request.body is None
        answer = each.answered(None if is_head else changed, ETAG)
        steps += 1
        assert steps < 20
    assert isinstance(answer, Unsure)
    assert answer.refused


def test_an_endpoint_without_conditions_is_found_out():
    owner, bucket = requests(proven=False), Bucket(ignores=True)
    answer = write(owner, bucket, ROW)
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, ConditionalWritesUnsupported)


def test_conditions_are_proven_once():
    owner, bucket = requests(proven=False), Bucket()
    assert write(owner, bucket, ROW) == Accepted()
    assert owner.endpoint.proven_condition
    assert bucket.sent == ["PUT", "PUT"]
    write(owner, bucket, ObjectRow("p/2", b"{}", 1))
    assert bucket.sent == ["PUT", "PUT", "PUT"]


def test_a_proof_that_fails_leaves_the_row_written():
    owner = requests(proven=False)
    bucket = Bucket(None, failure_of_code("InternalError", "", 500))
    assert write(owner, bucket, ROW) == Accepted()
    assert not owner.endpoint.proven_condition


def test_an_answer_without_an_etag_is_not_believed():
    each = ObjectWrite(requests(), ROW)
    assert isinstance(each.answered(None, {}), Unsure)


@pytest.mark.parametrize(
    ("code", "status", "answer"),
    [
        ("SlowDown", 503, Throttled("SlowDown")),
        ("503", 503, Unsure("503")),
        ("InternalError", 500, Unsure("InternalError")),
        ("ConditionalRequestConflict", 409, Unsure("ConditionalRequestConflict")),
        ("RequestTimeout", 400, Unsure("RequestTimeout")),
        ("XAmzContentSHA256Mismatch", 400, Unsure("XAmzContentSHA256Mismatch", refused=True)),
        ("KeyTooLongError", 400, Refused("told", "refused_by_s3")),
    ],
)
def test_failures_that_do_not_end_the_run(code, status, answer):
    each = ObjectWrite(requests(), ROW)
    assert each.answered(failure_of_code(code, "told", status), {}) == answer


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("AccessDenied", 403, AccessDenied),
        ("NoSuchBucket", 404, BucketNotFound),
        ("NotImplemented", 501, ConditionalWritesUnsupported),
        ("InvalidRequest", 400, RequestRefused),
        ("AuthorizationHeaderMalformed", 400, AwsConfiguration),
        ("TemporaryRedirect", 307, AwsConfiguration),
    ],
)
def test_failures_that_end_the_run_do_not_quote_the_key(code, status, error):
    each = ObjectWrite(requests(), ROW)
    told = "not authorized to perform s3:PutObject on arn:aws:s3:::shop/p/secret-1"
    answer = each.answered(failure_of_code(code, told, status), {})
    assert isinstance(answer, Fatal)
    assert isinstance(answer.error, error)
    assert "secret" not in answer.error.message


@pytest.mark.parametrize(("status", "told"), [(403, "s3:GetObject"), (400, "have expired")])
def test_a_head_that_stays_forbidden_ends_the_run(status, told):
    owner, bucket = requests(), Bucket()
    bucket.objects["p/1"] = FOREIGN
    denied = failure_of_code(str(status), "", status)
    answers = []
    for _ in range(3):
        bucket.script = [None, denied]
        answers.append(write(owner, bucket, ROW))
    assert [type(each) for each in answers] == [Unsure, Unsure, Fatal]
    assert f"HTTP status {status}" in answers[-1].error.message
    assert told in answers[-1].error.message


def test_stamp_tells_runs_of_one_id_apart():
    stamps = {run_stamp(object_record(created)) for created in (5.0, 6.0)}
    assert len(stamps) == 2
    assert all(stamp.startswith("run-1/") for stamp in stamps)
