"""Map S3's REST requests to (action, resource) pairs.

Sources: the Service Authorization Reference, "Actions, resources, and condition keys for Amazon
S3", and the permissions section of each operation in the S3 API Reference.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree as ET

from localaws.iam.requests import Call, Place, Request, UnknownCall

# Method and sub-resource of a bucket (`GET /bucket?versioning`), to action.
_BUCKET_ACTIONS: dict[str, dict[str, str]] = {
    "GET": {
        "location": "GetBucketLocation",
        "notification": "GetBucketNotification",
        "policy": "GetBucketPolicy",
        "uploads": "ListBucketMultipartUploads",
        "versioning": "GetBucketVersioning",
        "versions": "ListBucketVersions",
        "": "ListBucket",
    },
    "HEAD": {"": "ListBucket"},
    "PUT": {
        "notification": "PutBucketNotification",
        "policy": "PutBucketPolicy",
        "versioning": "PutBucketVersioning",
        "": "CreateBucket",
    },
    "DELETE": {
        # Deleting a configuration needs the permission to put it.
        "lifecycle": "PutLifecycleConfiguration",
        "policy": "DeleteBucketPolicy",
        "": "DeleteBucket",
    },
}

# Method and sub-resource of an object, to actions. `{Version}` is filled in if the request names a
# version.
_OBJECT_ACTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "GET": {
        "acl": ("GetObject{Version}Acl",),
        "attributes": ("GetObject{Version}", "GetObject{Version}Attributes"),
        "tagging": ("GetObject{Version}Tagging",),
        "uploadId": ("ListMultipartUploadParts",),
        "": ("GetObject{Version}",),
    },
    "HEAD": {"": ("GetObject{Version}",)},
    "PUT": {
        "acl": ("PutObject{Version}Acl",),
        "tagging": ("PutObject{Version}Tagging",),
        "uploadId": ("PutObject",),
        "": ("PutObject",),
    },
    "POST": {
        "uploadId": ("PutObject",),
        "uploads": ("PutObject",),
    },
    "DELETE": {
        "tagging": ("DeleteObject{Version}Tagging",),
        "uploadId": ("AbortMultipartUpload",),
        "": ("DeleteObject{Version}",),
    },
}

# Query parameters that do not change the action.
_NEUTRAL_PARAMETERS = {
    "continuation-token", "delimiter", "encoding-type", "fetch-owner", "key-marker", "list-type",
    "marker", "max-keys", "max-parts", "max-uploads", "part-number-marker", "partNumber", "prefix",
    "select-type", "start-after", "upload-id-marker", "version-id-marker", "versionId", "x-id",
}  # fmt: skip

# Headers of a PUT that need a permission in addition to PutObject.
_HEADER_ACTIONS = {
    "x-amz-acl": "PutObjectAcl",
    "x-amz-tagging": "PutObjectTagging",
}

_S3_HOST = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3(?:[.-](?:dualstack|fips|[a-z0-9-]+))*\.amazonaws\.com(?:\.cn)?"
)


def required_actions(request: Request, place: Place) -> list[Call]:
    """Return the permissions that S3 checks; all of them are needed.

    Raises UnknownCall for an unsupported host, method or sub-resource.
    """
    bucket, key = _bucket_and_key(request)
    if not bucket:
        if request.method == "GET" and not _subresource(request):
            return [Call("s3:ListAllMyBuckets", "*")]
        raise UnknownCall(f"S3: {request}")
    arn = f"arn:{place.partition}:s3:::{bucket}"
    calls = _object_actions(request, arn, key) if key else _bucket_actions(request, arn)
    return [_with_context(call, request, place) for call in calls]


def _with_context(call: Call, request: Request, place: Place) -> Call:
    """Add the values of S3's condition keys. All buckets here belong to one account."""
    context = {"s3:ResourceAccount": place.account}
    parameters = request.parameters()
    if "prefix" in parameters:
        context["s3:prefix"] = parameters["prefix"]
    return Call(call.action, call.resource, context)


def missing_object_action(request: Request, place: Place) -> Call | None:
    """Return the permission that lets a caller see a 404 for a missing object.

    Without it S3 answers 403. S3 API Reference, GetObject: "If you do not have the s3:ListBucket
    permission, Amazon S3 returns an HTTP status code 403 (Access Denied) error". Returns None for
    requests that read no object.
    """
    bucket, key = _bucket_and_key(request)
    if not key:
        return None
    copied = request.headers.get("x-amz-copy-source")
    if copied is not None and request.method == "PUT":
        bucket = unquote(copied.partition("?")[0]).removeprefix("/").partition("/")[0]
    elif request.method not in {"GET", "HEAD"} or _subresource(request) == "uploadId":
        return None
    call = Call("s3:ListBucket", f"arn:{place.partition}:s3:::{bucket}")
    return _with_context(call, request, place)


def _bucket_and_key(request: Request) -> tuple[str, str]:
    path = unquote(request.path.removeprefix("/"))
    bucket = _bucket_of_host(request.headers.get("host", ""))
    if bucket:
        return bucket, path
    bucket, _, key = path.partition("/")
    return bucket, key


def _bucket_of_host(host: str) -> str:
    """Return the bucket in a virtual-hosted address; empty for a path-style one."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    name = name.strip("[]").lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        return ""
    if "." not in name:
        return ""
    if name.endswith(".localhost"):
        return name.removesuffix(".localhost").removesuffix(".s3")
    match = _S3_HOST.fullmatch(name)
    if match is None:
        raise UnknownCall(f"S3: {host!r} is not a known form of S3 host")
    return match["bucket"] or ""


def _subresource(request: Request) -> str:
    """Return the query parameter that selects the action; empty if there is none.

    Raises UnknownCall for unsupported parameters, and for two sub-resources in one request.
    """
    known = {
        name
        for table in (_BUCKET_ACTIONS, _OBJECT_ACTIONS)
        for actions in table.values()
        for name in actions
    }
    known.add("delete")
    found = set()
    for name in request.parameters():
        if name in known:
            found.add(name)
        elif name not in _NEUTRAL_PARAMETERS and not name.lower().startswith(
            ("x-amz-", "response-")
        ):
            raise UnknownCall(f"S3: {request}: unknown query parameter {name!r}")
    if len(found) > 1:
        raise UnknownCall(f"S3: {request}: more than one sub-resource: {', '.join(sorted(found))}")
    return found.pop() if found else ""


def _bucket_actions(request: Request, arn: str) -> Iterator[Call]:
    subresource = _subresource(request)
    if request.method == "POST" and subresource == "delete":
        yield from _delete_objects_actions(request, arn)
        return
    action = _BUCKET_ACTIONS.get(request.method, {}).get(subresource)
    if action is None:
        raise UnknownCall(f"S3: {request}")
    yield Call(f"s3:{action}", arn)


def _object_actions(request: Request, bucket_arn: str, key: str) -> Iterator[Call]:
    arn = f"{bucket_arn}/{key}"
    subresource = _subresource(request)
    actions = _OBJECT_ACTIONS.get(request.method, {}).get(subresource)
    if actions is None:
        raise UnknownCall(f"S3: {request}")
    version = "Version" if request.parameters().get("versionId") else ""
    for action in actions:
        yield Call(f"s3:{action.format(Version=version)}", arn)
    if request.method == "PUT" and subresource in {"", "uploadId"}:
        yield from _copy_source_action(request, bucket_arn.rpartition(":")[0])
    if request.method in {"PUT", "POST"} and subresource in {"", "uploads"}:
        with_headers = {
            action for name, action in _HEADER_ACTIONS.items() if name in request.headers
        }
        for action in sorted(with_headers):
            yield Call(f"s3:{action}", arn)
    # S3 User Guide, "Add preconditions to S3 operations": comparing an object's ETag needs
    # permission to read the object. `*` only asks whether the object exists, and needs none.
    writes = request.method in {"PUT", "POST", "DELETE"}
    if writes and request.headers.get("if-match", "*").strip() != "*":
        yield Call("s3:GetObject", arn)


def _copy_source_action(request: Request, bucket_arns: str) -> Iterator[Call]:
    source = request.headers.get("x-amz-copy-source")
    if source is None:
        return
    path, _, query = source.partition("?")
    path = unquote(path).removeprefix("/")
    if path.startswith("arn:") or "/" not in path:
        raise UnknownCall(f"S3: {request}: unsupported copy source {source!r}")
    versioned = "versionId" in dict(parse_qsl(query, keep_blank_values=True))
    yield Call("s3:GetObjectVersion" if versioned else "s3:GetObject", f"{bucket_arns}:{path}")


def _delete_objects_actions(request: Request, arn: str) -> Iterator[Call]:
    try:
        # The caller's document; expat expands no external entities.
        root = ET.fromstring(request.body())  # noqa: S314
    except ET.ParseError:
        raise UnknownCall(f"S3: {request}: the body is not XML") from None
    namespace = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    keys = 0
    for entry in root.iter(f"{namespace}Object"):
        key = entry.findtext(f"{namespace}Key")
        if not key:
            raise UnknownCall(f"S3: {request}: an object without a key")
        keys += 1
        version = "Version" if entry.findtext(f"{namespace}VersionId") else ""
        yield Call(f"s3:DeleteObject{version}", f"{arn}/{key}")
    if not keys:
        raise UnknownCall(f"S3: {request}: the body names no object")
