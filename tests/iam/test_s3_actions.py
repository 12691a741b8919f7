from __future__ import annotations

import pytest

from localaws.iam.actions import required_actions
from localaws.iam.requests import Call, Request
from localaws.iam.s3 import missing_object_action
from tests.iam.request_helpers import PLACE, capture_request, pairs, required_pairs

HERE = "http://127.0.0.1:5000"
BUCKET = "arn:aws:s3:::in.box"
OBJECT = f"{BUCKET}/a/b c+d.csv"
NAMES = {"Bucket": "in.box", "Key": "a/b c+d.csv"}


@pytest.mark.parametrize("endpoint", [None, HERE, "http://localhost:5000"])
@pytest.mark.parametrize(
    ("operation", "parameters", "actions"),
    [
        ("get_object", {}, ["GetObject"]),
        ("get_object", {"Range": "bytes=0-9", "IfMatch": '"e"'}, ["GetObject"]),
        ("get_object", {"VersionId": "v1"}, ["GetObjectVersion"]),
        ("get_object", {"PartNumber": 2}, ["GetObject"]),
        ("get_object", {"ResponseContentType": "text/csv"}, ["GetObject"]),
        ("head_object", {}, ["GetObject"]),
        ("head_object", {"VersionId": "v1"}, ["GetObjectVersion"]),
        ("get_object_attributes", {"ObjectAttributes": ["ETag"]},
         ["GetObject", "GetObjectAttributes"]),
        ("get_object_attributes", {"ObjectAttributes": ["ETag"], "VersionId": "v1"},
         ["GetObjectVersion", "GetObjectVersionAttributes"]),
        ("get_object_acl", {}, ["GetObjectAcl"]),
        ("get_object_tagging", {"VersionId": "v1"}, ["GetObjectVersionTagging"]),
        ("put_object", {"Body": b"x"}, ["PutObject"]),
        ("put_object", {"Body": b"x", "IfNoneMatch": "*"}, ["PutObject"]),
        ("put_object", {"Body": b"x", "IfMatch": '"e"'}, ["PutObject", "GetObject"]),
        ("put_object", {"Body": b"x", "ACL": "public-read"}, ["PutObject", "PutObjectAcl"]),
        ("put_object", {"Body": b"x", "Tagging": "a=b"}, ["PutObject", "PutObjectTagging"]),
        ("put_object_tagging", {"Tagging": {"TagSet": []}}, ["PutObjectTagging"]),
        ("create_multipart_upload", {}, ["PutObject"]),
        ("upload_part", {"UploadId": "u", "PartNumber": 1, "Body": b"x"}, ["PutObject"]),
        ("complete_multipart_upload", {"UploadId": "u"}, ["PutObject"]),
        ("abort_multipart_upload", {"UploadId": "u"}, ["AbortMultipartUpload"]),
        ("list_parts", {"UploadId": "u"}, ["ListMultipartUploadParts"]),
        ("delete_object", {}, ["DeleteObject"]),
        ("delete_object", {"VersionId": "v1"}, ["DeleteObjectVersion"]),
        ("delete_object", {"IfMatch": '"e"'}, ["DeleteObject", "GetObject"]),
        ("delete_object", {"IfMatch": "*"}, ["DeleteObject"]),
    ],
)  # fmt: skip
def test_object_operation_needs_its_actions(endpoint, operation, parameters, actions):
    found = required_pairs("s3", operation, endpoint=endpoint, **NAMES, **parameters)
    assert found == [(f"s3:{action}", OBJECT) for action in actions]


@pytest.mark.parametrize("endpoint", [None, HERE])
@pytest.mark.parametrize("bucket", ["inbox", "in.box"])
@pytest.mark.parametrize(
    ("operation", "parameters", "action"),
    [
        ("list_objects_v2", {"Prefix": "runs/", "Delimiter": "/"}, "ListBucket"),
        ("list_objects_v2", {"ContinuationToken": "x", "StartAfter": "a"}, "ListBucket"),
        ("list_objects", {"Marker": "a"}, "ListBucket"),
        ("head_bucket", {}, "ListBucket"),
        ("list_object_versions", {"Prefix": "a", "KeyMarker": "b"}, "ListBucketVersions"),
        ("list_multipart_uploads", {}, "ListBucketMultipartUploads"),
        ("get_bucket_location", {}, "GetBucketLocation"),
        ("get_bucket_versioning", {}, "GetBucketVersioning"),
        ("put_bucket_policy", {"Policy": "{}"}, "PutBucketPolicy"),
        ("delete_bucket_lifecycle", {}, "PutLifecycleConfiguration"),
        ("create_bucket", {}, "CreateBucket"),
        ("delete_bucket", {}, "DeleteBucket"),
    ],
)
def test_bucket_operation_needs_its_action(endpoint, bucket, operation, parameters, action):
    found = required_pairs("s3", operation, endpoint=endpoint, Bucket=bucket, **parameters)
    assert found == [(f"s3:{action}", f"arn:aws:s3:::{bucket}")]


def test_delete_objects_needs_an_action_for_each_key():
    objects = [{"Key": "a"}, {"Key": "b&c", "VersionId": "v1"}]
    assert required_pairs("s3", "delete_objects", Bucket="in.box", Delete={"Objects": objects}) == [
        ("s3:DeleteObject", f"{BUCKET}/a"),
        ("s3:DeleteObjectVersion", f"{BUCKET}/b&c"),
    ]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/b/runs/1/run.json", "runs/1/run.json"),
        ("/b/runs%2F1%2Frun.json", "runs/1/run.json"),
        ("/b/runs/../secret", "runs/../secret"),
        ("/b//x", "/x"),
        ("/b/a//b", "a//b"),
        ("/b/100%25+1", "100%+1"),
        ("/b/%2525", "%25"),
        ("/b/gr%C3%B6%C3%9Fe", "größe"),
        ("/b/x%0A", "x\n"),
        ("/b/?", "?"),
    ],
)
def test_key_is_decoded_exactly_once(path, key):
    request = Request("GET", path, "", {"host": "127.0.0.1:5000"})
    assert pairs(required_actions("s3", request, PLACE)) == [
        ("s3:GetObject", f"arn:aws:s3:::b/{key}")
    ]


@pytest.mark.parametrize(
    ("host", "bucket"),
    [
        ("b.s3.amazonaws.com", "b"),
        ("b.s3.eu-central-1.amazonaws.com", "b"),
        ("b.s3-eu-west-1.amazonaws.com", "b"),
        ("b.s3.dualstack.eu-central-1.amazonaws.com:443", "b"),
        ("a.b.s3.eu-central-1.amazonaws.com", "a.b"),
        ("b.localhost:5000", "b"),
        ("B.S3.amazonaws.com", "b"),
        ("s3.eu-central-1.amazonaws.com", "k"),
        ("s3.amazonaws.com", "k"),
        ("127.0.0.1", "k"),
        ("[::1]:5000", "k"),
        ("localhost", "k"),
        ("aws:5000", "k"),
    ],
)
def test_bucket_is_read_from_the_host_or_the_path(host, bucket):
    request = Request("GET", "/k/l", "", {"host": host})
    key = "l" if bucket == "k" else "k/l"
    assert pairs(required_actions("s3", request, PLACE)) == [
        ("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}")
    ]


@pytest.mark.parametrize(
    ("operation", "parameters", "bucket"),
    [
        ("get_object", {}, "in.box"),
        ("get_object", {"VersionId": "v1"}, "in.box"),
        ("head_object", {}, "in.box"),
        ("get_object_tagging", {}, "in.box"),
        ("copy_object", {"CopySource": {"Bucket": "other", "Key": "k"}}, "other"),
        ("put_object", {"Body": b""}, None),
        ("delete_object", {}, None),
        ("list_parts", {"UploadId": "u"}, None),
    ],
)
def test_missing_object_needs_list_bucket_for_reads(operation, parameters, bucket):
    found = missing_object_action(capture_request("s3", operation, **NAMES, **parameters), PLACE)
    assert found == (Call("s3:ListBucket", f"arn:aws:s3:::{bucket}") if bucket else None)
