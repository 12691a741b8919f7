"""Environment variables of the functions, and checks that settings fit AWS's limits.

Names that are only known at deployment are parameters: CDK tokens, or texts of the same length.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ddbload.contracts.upload_rule import (
    ACCOUNT,
    IMPORT_CONCURRENCY,
    INBOX,
    REQUIRE_BACKUP,
    RESERVE_SECONDS,
    SMALL_BYTES,
    SOURCE_BUCKETS,
    STATE_MACHINE,
    TABLES,
    UPLOADS,
    WORK_BUCKET,
)

from .errors import TooManySettings
from .policy_statements import check_policy_sizes
from .settings import TOKEN, Settings

ENVIRONMENT_BYTES = 4096
"""Lambda's limit for the names and values of a function's environment variables."""
PATTERN_CHARACTERS = 2048
"""EventBridge's limit for a rule's event pattern."""

_BUCKET = "b" * 63
_GENERATED = "g" * 63
"""In place of a name that CloudFormation makes: from the stack's and the logical name."""
_ACCOUNT = "123456789012"
_MACHINE = f"arn:aws-us-gov:states:us-gov-west-1:123456789012:stateMachine:{'s' * 80}"
"""The longest ARN of any partition."""


def for_all(
    settings: Settings, *, work: str, inbox: str, account: str, service: str
) -> dict[str, str]:
    """Return the variables of every function. `service`: the pipeline's name."""
    return {
        ACCOUNT: account,
        WORK_BUCKET: work,
        INBOX: inbox,
        SOURCE_BUCKETS: ",".join([inbox, *(each.to_text() for each in settings.source_buckets)]),
        TABLES: ",".join(settings.tables),
        # Dimension of the metrics, which tells pipelines apart.
        "POWERTOOLS_SERVICE_NAME": service,
    }


def for_stopping_early(settings: Settings) -> dict[str, str]:
    """Return the additional variables of functions that continue in another invocation."""
    return {RESERVE_SECONDS: str(settings.reserve_seconds)}


def for_preflight(settings: Settings) -> dict[str, str]:
    """Return the additional variables of preflight, which settles a run's limits."""
    found = {SMALL_BYTES: str(settings.small_bytes)}
    if settings.import_concurrency is not None:
        found[IMPORT_CONCURRENCY] = str(settings.import_concurrency)
    if settings.require_backup:
        found[REQUIRE_BACKUP] = "true"
    return found


def for_executions(*, machine: str) -> dict[str, str]:
    """Return the additional variable of a function that starts or describes executions."""
    return {STATE_MACHINE: machine}


def for_uploads(*, machine: str, mappings: str) -> dict[str, str]:
    """Return the additional variables of on_upload. `mappings`: the rules as JSON."""
    return {**for_executions(machine=machine), UPLOADS: mappings}


def mappings(settings: Settings, inbox: str) -> list[dict[str, Any]]:
    """Return the upload rules as on_upload reads them: a rule without a bucket is the inbox's."""
    return [
        (replace(each, bucket=inbox) if each.bucket is None else each).to_json()
        for each in settings.uploads
    ]


def patterns(settings: Settings, inbox: str) -> dict[str | None, dict[str, Any]]:
    """Return an event pattern for each bucket with upload rules, under None for the inbox."""
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


def check(settings: Settings, service: str | None = None) -> None:
    """Raise `TooManySettings` for settings with which a deployment would fail half way.

    `service`: the pipeline's name; None for the stack's.
    """
    variables = {
        **for_all(
            settings,
            work=_BUCKET,
            inbox=_BUCKET,
            account=_ACCOUNT,
            service=settings.stack_name if service is None else service,
        ),
        **for_uploads(machine=_MACHINE, mappings=_compact(mappings(settings, _BUCKET))),
    }
    _fits("the environment of on_upload", len(_compact(variables).encode()), ENVIRONMENT_BYTES)
    check_policy_sizes(settings)
    for bucket, pattern in patterns(settings, _BUCKET).items():
        what = f"the event pattern for uploads to {bucket or 'the inbox'}"
        _fits(what, len(_compact(pattern)), PATTERN_CHARACTERS)


def _compact(value: object) -> str:
    return TOKEN.sub(_GENERATED, json.dumps(value, separators=(",", ":")))


def _fits(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooManySettings(
            f"{what} would have up to {size} characters, and AWS allows {limit}: name fewer"
            " tables, source_buckets or uploads, or make a second pipeline (another stack_name)"
            " for some of them"
        )
