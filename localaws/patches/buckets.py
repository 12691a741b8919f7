"""Patch S3: bucket properties that moto ignores in templates, and events for EventBridge.

Source: the Amazon S3 User Guide, "EventBridge event message structure".
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from typing import Any

import moto.s3.notifications as notifications_module
from moto.events.models import events_backends
from moto.s3.models import FakeBucket, S3Backend
from moto.s3.notifications import S3NotificationEvent

from localaws.patches.monkeypatch import original, replace
from localaws.settings import ACCOUNT

_REASONS = {
    S3NotificationEvent.OBJECT_CREATED_PUT_EVENT: "PutObject",
    S3NotificationEvent.OBJECT_CREATED_POST_EVENT: "POST Object",
    S3NotificationEvent.OBJECT_CREATED_COPY_EVENT: "CopyObject",
    S3NotificationEvent.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD_EVENT: "CompleteMultipartUpload",
    S3NotificationEvent.OBJECT_REMOVED_DELETE_EVENT: "DeleteObject",
    S3NotificationEvent.OBJECT_REMOVED_DELETE_MARKER_CREATED_EVENT: "DeleteObject",
}
# Sequencers are hexadecimal and grow with each event, as S3 promises for one key.
_sequence = itertools.count(time.time_ns())
_COMPLETED = S3NotificationEvent.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD_EVENT
_completing = threading.local()


def apply() -> None:
    """Send events to EventBridge for buckets that enable it, by API or by template."""
    _patch_templates()
    _patch_multipart_uploads()
    replace(notifications_module, "_send_event_bridge_message", _send_event)


def _patch_multipart_uploads() -> None:
    complete = original(S3Backend, "complete_multipart_upload")

    def complete_multipart_upload(self: S3Backend, *rest: Any, **named: Any) -> Any:
        # moto puts and tags an object internally; only the completed upload is an event.
        _completing.now = True
        try:
            return complete(self, *rest, **named)
        finally:
            _completing.now = False

    replace(S3Backend, "complete_multipart_upload", complete_multipart_upload)


def _patch_templates() -> None:
    create = original(FakeBucket, "create_from_cloudformation_json")
    update = original(FakeBucket, "update_from_cloudformation_json")

    def create_from_template(
        cls: type[FakeBucket],
        resource_name: str,
        cloudformation_json: Any,
        *rest: Any,
        **named: Any,
    ) -> FakeBucket:
        bucket: FakeBucket = create(cls, resource_name, cloudformation_json, *rest, **named)
        _configure(bucket, cloudformation_json.get("Properties") or {})
        return bucket

    def update_from_template(
        cls: type[FakeBucket],
        original_resource: Any,
        new_resource_name: str,
        cloudformation_json: Any,
        *rest: Any,
        **named: Any,
    ) -> FakeBucket:
        bucket: FakeBucket = update(
            cls, original_resource, new_resource_name, cloudformation_json, *rest, **named
        )
        _configure(bucket, cloudformation_json.get("Properties") or {})
        return bucket

    replace(FakeBucket, "create_from_cloudformation_json", create_from_template)
    replace(FakeBucket, "update_from_cloudformation_json", update_from_template)


def _configure(bucket: FakeBucket, properties: dict[str, Any]) -> None:
    versioning = (properties.get("VersioningConfiguration") or {}).get("Status")
    if versioning:
        bucket.versioning_status = versioning
    wanted = (properties.get("NotificationConfiguration") or {}).get("EventBridgeConfiguration")
    if wanted is None:
        return
    on = str(wanted.get("EventBridgeEnabled", True)).lower() == "true"
    bucket.set_notification_configuration({"EventBridgeConfiguration": {}} if on else None)


def _send_event(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
    if getattr(_completing, "now", False) and event_name != _COMPLETED:
        return
    created = "ObjectCreated" in event_name
    item: dict[str, Any] = {"key": key.name, "sequencer": f"{next(_sequence):018X}"}
    if created:
        item |= {"size": key.size, "etag": key.etag.replace('"', "")}
    if bucket.versioning_status and key.version_id not in (None, "null"):
        item["version-id"] = key.version_id
    detail: dict[str, Any] = {
        "version": "0",
        "bucket": {"name": bucket.name},
        "object": item,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": account_id,
        "source-ip-address": "127.0.0.1",
    }
    reason = _REASONS.get(S3NotificationEvent(event_name))
    if reason:
        detail["reason"] = reason
    event: Any = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": notifications_module._detail_type(event_name),  # noqa: SLF001
        "source": "aws.s3",
        "account": account_id or ACCOUNT,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "region": bucket.region_name,
        "resources": [bucket.arn],
        "detail": detail,
    }
    backend = events_backends[account_id][bucket.region_name]
    # AWS services send their events to the default bus.
    for rule in list(backend.event_buses["default"].rules.values()):
        rule.send_to_targets(event, transform_input=True)
