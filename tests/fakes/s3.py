"""An in-memory S3 with the interface of botocore's client."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

from botocore.response import StreamingBody

from tests.fakes.client import FakeClient, Refused, Script, ServiceError, refused
from tests.fakes.s3_faults import Fault, RawBody
from tests.fakes.s3_store import PRECONDITION, Bucket, Version, key_of, moment, span, token_for

Params = dict[str, Any]
Answer = dict[str, Any]


class FakeS3(FakeClient):
    """In-memory S3. Thread-safe. Raises botocore's exceptions.

    ``faults`` is the script of faults, ``calls`` records the calls, ``bodies`` all returned bodies.
    ``max_read`` limits one ``read(n)`` of a body, to find readers that take a short read for the
    end.
    """

    service = "s3"

    def __init__(self, region: str = "us-east-1", max_read: int | None = None) -> None:
        super().__init__(region)
        self.faults: Script[Fault] = Script()
        self.max_read = max_read
        self.bodies: list[RawBody] = []
        self._buckets: dict[str, Bucket] = {}
        self._written = 0

    def _next_number(self) -> int:
        self._written += 1
        return self._written

    def create_bucket(self, **params: Any) -> Answer:
        return self._call("create_bucket", params, self._create_bucket)

    def put_bucket_versioning(self, **params: Any) -> Answer:
        return self._call("put_bucket_versioning", params, self._put_bucket_versioning)

    def put_object(self, **params: Any) -> Answer:
        return self._call("put_object", params, self._put_object)

    def head_object(self, **params: Any) -> Answer:
        return self._call("head_object", params, self._head_object)

    def get_object(self, **params: Any) -> Answer:
        return self._call("get_object", params, self._get_object)

    def delete_object(self, **params: Any) -> Answer:
        return self._call("delete_object", params, self._delete_object)

    def list_objects_v2(self, **params: Any) -> Answer:
        return self._call("list_objects_v2", params, self._list_objects_v2)

    def open_bodies(self) -> list[RawBody]:
        """Bodies neither closed nor read to their end, each a leaked connection."""
        return [body for body in self.bodies if body.is_open()]

    def _call(
        self, operation: str, params: Params, answer: Callable[[Params, Fault], Answer]
    ) -> Answer:
        self._record(operation, params, KNOWN[operation])
        fault = self.faults.next(operation, params) or Fault()
        if fault.before:
            fault.before()
        if fault.raises is not None and not fault.landed:
            raise self._exception(operation, fault.raises)
        try:
            with self._lock:
                response = answer(params, fault)
        except Refused as refusal:
            raise self._exception(operation, refusal.error) from None
        if fault.raises is not None:
            raise self._exception(operation, fault.raises)
        return response

    def _create_bucket(self, params: Params, _: Fault) -> Answer:
        # In us-east-1, and only there, S3 answers 200 to the owner's second CreateBucket.
        if params["Bucket"] in self._buckets and self.meta.region_name != "us-east-1":
            raise refused(
                "BucketAlreadyOwnedByYou", 409, "You already own the bucket you try to create."
            )
        self._buckets.setdefault(params["Bucket"], Bucket())
        return {"ResponseMetadata": self._metadata(200), "Location": f"/{params['Bucket']}"}

    def _put_bucket_versioning(self, params: Params, _: Fault) -> Answer:
        self._bucket(params).versioning = params["VersioningConfiguration"]["Status"]
        return {"ResponseMetadata": self._metadata(200)}

    def _put_object(self, params: Params, _: Fault) -> Answer:
        bucket, key = self._bucket(params), params["Key"]
        current = bucket.current(key)
        if params.get("IfNoneMatch", "*") != "*":
            raise refused(
                "NotImplemented", 501, "A header you provided implies functionality not there"
            )
        if "IfNoneMatch" in params and current is not None:
            raise refused("PreconditionFailed", 412, PRECONDITION, Condition="If-None-Match")
        if "IfMatch" in params:
            _match(bucket.find(key, None), params)
        headers = {name: params[name] for name in STORED if name in params}
        version = bucket.add(key, _content(params), headers, self._next_number())
        return {"ResponseMetadata": self._metadata(200), "ETag": version.etag} | _id(
            bucket, version
        )

    def _head_object(self, params: Params, _: Fault) -> Answer:
        try:
            version = self._find(params)
        except Refused as refusal:
            # The answer to a HEAD has no body to name its error in: botocore has but the status.
            status = refusal.error.status
            text = {404: "Not Found", 412: "Precondition Failed"}.get(status, "")
            raise Refused(ServiceError(str(status), status, text)) from None
        return self._described(params, version, 200) | {"ContentLength": len(version.data)}

    def _get_object(self, params: Params, fault: Fault) -> Answer:
        version = self._find(params)
        size = len(version.data)
        part = None if fault.ignore_range else span(params.get("Range"), size)
        start, end = part or (0, size)
        data = version.data[start:end]
        sent = data[: fault.cut_after]
        missing = 0 if fault.silent else len(data) - len(sent)
        raw = RawBody(sent, self.max_read, fault.cut_with, missing)
        self.bodies.append(raw)
        length = None if fault.silent else len(data)
        response = self._described(params, version, 206 if part else 200) | {
            "ContentLength": len(data),
            "Body": StreamingBody(raw, length),  # type: ignore[arg-type]
        }
        if part:
            response["ContentRange"] = f"bytes {start}-{end - 1}/{size}"
        return response

    def _delete_object(self, params: Params, _: Fault) -> Answer:
        bucket, key = self._bucket(params), params["Key"]
        response: Answer = {"ResponseMetadata": self._metadata(204)}
        if "VersionId" in params:
            response["VersionId"] = params["VersionId"]
            if bucket.remove(key, params["VersionId"]):
                response["DeleteMarker"] = True
        elif bucket.versioning is None:
            bucket.keys.pop(key, None)
        else:
            marker = bucket.add(key, None, {}, self._next_number())
            response |= {"VersionId": marker.version_id, "DeleteMarker": True}
        return response

    def _list_objects_v2(self, params: Params, _: Fault) -> Answer:
        bucket, prefix = self._bucket(params), params.get("Prefix", "")
        most = min(params.get("MaxKeys", 1000), 1000)
        token = params.get("ContinuationToken")
        after = params.get("StartAfter", "") if token is None else key_of(token)
        delimiter = params.get("Delimiter", "")
        entries, last = bucket.page(prefix, after, most, delimiter)
        date = format_datetime(moment(self._written), usegmt=True)
        response: Answer = {
            "ResponseMetadata": self._metadata(200, {"date": date}),
            "IsTruncated": last is not None,
            "Name": params["Bucket"],
            "Prefix": prefix,
            "MaxKeys": most,
            "KeyCount": len(entries),
        }
        if delimiter:
            response["Delimiter"] = delimiter
        # S3 leaves empty lists out of its answer, and botocore with it.
        for name, member in (("Contents", "Key"), ("CommonPrefixes", "Prefix")):
            if found := [entry for entry in entries if member in entry]:
                response[name] = found
        if last is not None:
            response["NextContinuationToken"] = token_for(last)
        return response

    def _bucket(self, params: Params) -> Bucket:
        name = params["Bucket"]
        if name not in self._buckets:
            raise refused(
                "NoSuchBucket", 404, "The specified bucket does not exist", BucketName=name
            )
        return self._buckets[name]

    def _find(self, params: Params) -> Version:
        version = self._bucket(params).find(params["Key"], params.get("VersionId"))
        _match(version, params)
        return version

    def _described(self, params: Params, version: Version, status: int) -> Answer:
        return {
            "ResponseMetadata": self._metadata(status),
            "AcceptRanges": "bytes",
            "LastModified": version.modified,
            "ETag": version.etag,
            "ContentType": "binary/octet-stream",
            "Metadata": {},
            **_id(self._bucket(params), version),
            **version.headers,
        }


STORED = ("ContentType", "ContentEncoding", "Metadata")
_READ = frozenset({"Bucket", "Key", "VersionId", "IfMatch", "ChecksumMode"})
KNOWN = {
    "create_bucket": frozenset({"Bucket", "CreateBucketConfiguration"}),
    "put_bucket_versioning": frozenset({"Bucket", "VersioningConfiguration"}),
    "put_object": frozenset(
        {"Bucket", "Key", "Body", "ContentLength", "IfNoneMatch", "IfMatch", *STORED}
    ),
    "head_object": _READ,
    "get_object": _READ | {"Range"},
    "delete_object": frozenset({"Bucket", "Key", "VersionId"}),
    "list_objects_v2": frozenset(
        {"Bucket", "Prefix", "Delimiter", "MaxKeys", "StartAfter", "ContinuationToken"}
    ),
}


def _match(version: Version, params: Params) -> None:
    if params.get("IfMatch", version.etag) != version.etag:
        raise refused("PreconditionFailed", 412, PRECONDITION, Condition="If-Match")


def _content(params: Params) -> bytes:
    body = params.get("Body", b"")
    data = body.read() if hasattr(body, "read") else body
    return data.encode() if isinstance(data, str) else bytes(data)


def _id(bucket: Bucket, version: Version) -> dict[str, str]:
    return {} if bucket.versioning is None else {"VersionId": version.version_id}
