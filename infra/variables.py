"""What the functions' environment says, and whether it fits where AWS keeps it.

Pure: names that only the deployment knows are handed in, as CDK's tokens or as something as long.
"""

from __future__ import annotations

import json
from typing import Any

from ddbload.contracts.environment import (
    RESERVE_SECONDS,
    SOURCE_BUCKETS,
    STATE_MACHINE,
    TABLES,
    UPLOADS,
    WORK_BUCKET,
)
from infra import policies
from infra.errors import TooManySettings
from infra.settings import Settings

ENVIRONMENT_BYTES = 4096
"""Lambda's limit for all variables of a function, names and values."""
PATTERN_CHARACTERS = 2048
"""EventBridge's limit for a rule's event pattern."""

_BUCKET = "b" * 63
_MACHINE = f"arn:aws:states:ap-southeast-1:123456789012:stateMachine:{'s' * 80}"


def for_all(settings: Settings, *, work: str, inbox: str) -> dict[str, str]:
    """What every function has."""
    return {
        WORK_BUCKET: work,
        SOURCE_BUCKETS: ",".join([inbox, *settings.source_buckets]),
        TABLES: ",".join(settings.tables),
        "POWERTOOLS_SERVICE_NAME": "ddbload",
        "POWERTOOLS_METRICS_NAMESPACE": "ddbload",
    }


def for_stopping_early(settings: Settings) -> dict[str, str]:
    """What those have besides that go on in a further invocation."""
    return {RESERVE_SECONDS: str(settings.reserve_seconds)}


def for_uploads(*, machine: str, mappings: str) -> dict[str, str]:
    """What on_upload has besides: the mappings as JSON."""
    return {STATE_MACHINE: machine, UPLOADS: mappings}


def mappings(settings: Settings, inbox: str) -> list[dict[str, Any]]:
    """The mappings as on_upload reads them.

    One that names no bucket is for the inbox, and for no other bucket's uploads.
    """
    return [
        each.to_json(inbox if each.bucket is None else each.bucket) for each in settings.uploads
    ]


def patterns(settings: Settings, inbox: str) -> dict[str | None, dict[str, Any]]:
    """An event pattern for each bucket whose uploads are mapped; the inbox's has no name here."""
    prefixes: dict[str | None, list[str]] = {}
    for each in settings.uploads:
        prefixes.setdefault(each.bucket, []).append(each.prefix)
    return {
        bucket: _pattern(inbox if bucket is None else bucket, those)
        for bucket, those in prefixes.items()
    }


def _pattern(bucket: str, prefixes: list[str]) -> dict[str, Any]:
    detail: dict[str, Any] = {"bucket": {"name": [bucket]}}
    if "" not in prefixes:
        detail["object"] = {"key": [{"prefix": prefix} for prefix in sorted(prefixes)]}
    return {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail}


def check(settings: Settings) -> None:
    """Raises `TooManySettings`, where otherwise a deployment would fail half way."""
    variables = {
        **for_all(settings, work=_BUCKET, inbox=_BUCKET),
        **for_uploads(machine=_MACHINE, mappings=_compact(mappings(settings, _BUCKET))),
    }
    _fits("the environment of on_upload", len(_compact(variables).encode()), ENVIRONMENT_BYTES)
    policies.check(settings)
    for bucket, pattern in patterns(settings, _BUCKET).items():
        what = f"the event pattern for uploads to {bucket or 'the inbox'}"
        _fits(what, len(_compact(pattern)), PATTERN_CHARACTERS)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _fits(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooManySettings(
            f"{what} would have up to {size} characters, and AWS allows {limit}: name fewer"
            " tables, source_buckets or uploads, or deploy a second stack (stack_name) for some"
            " of them"
        )
