"""The deployment's settings: the knobs in cdk.json's context, read strictly.

A knob is JSON from cdk.json, or text from `cdk -c name=value`. This module does not import CDK.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ddbload.contracts.messages import MAX_WHOLE
from ddbload.contracts.payload import TABLE_NAME
from ddbload.contracts.upload_rule import (
    DEFAULT_MEMORY_MB,
    DEFAULT_RESERVE_SECONDS,
    DEFAULT_SMALL_BYTES,
    DEFAULT_TIMEOUT_SECONDS,
    IMPORT_MEMORY_MB,
    SourceBucket,
    UploadRule,
)
from ddbload.errors import DdbloadError

from .errors import (
    AmbiguousUpload,
    BucketNotListed,
    InvalidSetting,
    TableElsewhere,
    TableNotListed,
    UnknownSetting,
)
from .wheels import PACKAGES

FUNCTIONS = ("preflight", "import_chunk", "report", "on_upload", "on_stopped")
RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
NO_SNAPSHOTS = "python3.11"
"""The runtime that SnapStart does not support."""
ARCHITECTURES = ("arm64", "x86_64")
LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Retention periods that CloudWatch Logs allows."""
MEMORY_MB = range(128, 10241)
TIMEOUT_SECONDS = range(2, 901)
"""Up to Lambda's limit, which is below TimeoutSeconds of the state machine's tasks."""
MAX_SMALL_BYTES = 16 * 1024 * 1024
IMPORT_CONCURRENCY = range(1, 10_001)
"""At 0 no chunk would be imported; more than a run's `workers` would never be used."""

TOKEN = re.compile(r"[$#]\{Token\[[^]]*\]\}")
"""Form of what CDK puts in place of a text that is only known at deployment."""
_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_LAYER = re.compile(
    r"arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+", re.ASCII
)
_KEY = re.compile(
    r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/"
    r"(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    re.ASCII,
)
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}", re.ASCII)
_VPC, _SUBNET, _GROUP = (
    re.compile(rf"{kind}-[0-9a-f]{{8,17}}", re.ASCII) for kind in ("vpc", "subnet", "sg")
)
MOST_LAYERS = 5
"""Lambda's limit for the layers of a function."""
NETWORK = ("vpc", "subnets", "security_groups")
"""Settings of which there are all or none."""
MOST_SUBNETS, MOST_SECURITY_GROUPS = 16, 5
"""Lambda's limits for the network interfaces of a function."""
_DEFAULT_MEMORY = {
    **dict.fromkeys(FUNCTIONS, DEFAULT_MEMORY_MB),
    "import_chunk": IMPORT_MEMORY_MB,
    "on_upload": 512,
}


def _knob(default: Any, read: Callable[[str, Any], Any]) -> Any:
    """Declare a knob by its default and the function that reads it from the context."""
    return field(default=default, metadata={"read": read})


def _flag() -> Any:
    return _knob(False, lambda where, value: _true_or_false(where, value))  # noqa: PLW0108 - below


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All knobs. A test keeps the defaults equal to those of cdk.json."""

    stack_name: str = _knob("ddbload", lambda where, value: _matching(where, value, _STACK_NAME))
    source_buckets: tuple[SourceBucket, ...] = _knob((), lambda _, value: _buckets(value))
    """Buckets, or prefixes in them, that may be read, besides the inbox."""
    tables: tuple[str, ...] = _knob(
        (), lambda where, value: tuple(_table(where, each) for each in _texts(where, value))
    )
    """Names of existing tables that may be written."""
    uploads: tuple[UploadRule, ...] = ()
    kms_keys: tuple[str, ...] = _knob(
        (), lambda where, value: tuple(_key(where, each) for each in _texts(where, value))
    )
    """ARNs of the keys that source buckets and tables are encrypted with."""
    bucket_key: str | None = _knob(None, lambda where, arn: _key(where, arn) if arn else None)
    """ARN of a key that encrypts the work bucket and the inbox; None for S3's own."""
    layers: tuple[str, ...] = _knob(
        (), lambda where, value: tuple(_layer(where, each) for each in _texts(where, value))
    )
    """ARNs of layer versions for the functions that read sources."""
    extras: tuple[str, ...] = _knob(
        (),
        lambda where, value: tuple(
            _one_of(where, each, tuple(PACKAGES)) for each in _texts(where, value)
        ),
    )
    """Formats whose packages these functions get in layers that synthesis makes."""
    runtime: str = _knob("python3.13", lambda where, value: _one_of(where, value, RUNTIMES))
    architecture: str = _knob("arm64", lambda where, value: _one_of(where, value, ARCHITECTURES))
    memory_mb: Mapping[str, int] = field(
        default_factory=lambda: dict(_DEFAULT_MEMORY),
        metadata={"read": lambda _, value: _memory(value)},
    )
    timeout_seconds: int = _knob(
        DEFAULT_TIMEOUT_SECONDS, lambda where, value: _whole(where, value, TIMEOUT_SECONDS)
    )
    """Timeout of preflight and import_chunk, which continue in another invocation."""
    log_retention_days: int = _knob(
        30, lambda where, value: int(_one_of(where, str(value), [*map(str, LOG_RETENTION_DAYS)]))
    )
    log_key: bool = _flag()
    """Encrypt log groups with a KMS key of the stack instead of CloudWatch Logs' key."""
    retain_runs_days: int = _knob(90, lambda where, value: _whole(where, value, range(1, 36501)))
    alarm_topic: str | None = _knob(None, lambda _, arn: _topic(arn) if arn else None)
    """ARN of an SNS topic that alarms are sent to; None for no alarms."""
    dashboard: bool = _flag()
    tracing: bool = _flag()
    """Trace functions and state machine with X-Ray."""
    snap_start: bool = _flag()
    """Start functions from snapshots of their initialized environment."""
    import_concurrency: int | None = _knob(
        None, lambda where, value: _whole(where, value, IMPORT_CONCURRENCY)
    )
    """Concurrency reserved for import_chunk; None to share the account's."""
    vpc: str | None = _knob(
        None, lambda where, value: _matching(where, value, _VPC) if value else None
    )
    """Id of the VPC that the functions connect to; None for none. Goes with the two below."""
    subnets: tuple[str, ...] = _knob(
        (), lambda where, value: _ids(where, value, _SUBNET, MOST_SUBNETS)
    )
    security_groups: tuple[str, ...] = _knob(
        (), lambda where, value: _ids(where, value, _GROUP, MOST_SECURITY_GROUPS)
    )
    small_bytes: int = _knob(
        DEFAULT_SMALL_BYTES, lambda where, value: _whole(where, value, range(MAX_SMALL_BYTES + 1))
    )
    """Size up to which preflight imports a source itself; 0 to have it only cut sources."""
    require_backup: bool = _flag()
    """Refuse tables without point-in-time recovery."""

    @property
    def reserve_seconds(self) -> int:
        """Seconds before its timeout at which a function stops, and hands on its cursor."""
        return min(DEFAULT_RESERVE_SECONDS, self.timeout_seconds * 2 // 3)

    def to_context(self) -> dict[str, Any]:
        """Return the knobs that differ from their defaults, as cdk.json has them.

        Without the stack's name, which is not to be changed.
        """
        defaults = Settings(stack_name=self.stack_name)
        changed: dict[str, Any] = {
            name: getattr(self, name)
            for name in _KNOBS
            if getattr(self, name) != getattr(defaults, name)
        }
        for name in ("source_buckets", "uploads"):
            if name in changed:
                changed[name] = [_entry(each) for each in changed[name]]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in changed.items()
        }

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Settings:
        """Read the app's context, in which CDK and other apps have keys, too.

        Raises an error of `.errors` for the first wrong knob.
        """
        _refuse_misspelt(context)
        try:
            return cls.of({name: context.get(name) for name in _KNOBS})
        except InvalidSetting as error:
            if error.knob is None:
                raise
            raise InvalidSetting(
                f"{error}: set it in cdk.json's context, with -c {error.knob}=..., or ddbload"
                f" deploy --set {error.knob}=..."
            ) from None

    @classmethod
    def of(cls, knobs: Mapping[str, Any]) -> Settings:
        """Read knobs by their names; None stands for the default.

        Names of tables, buckets and the like may be tokens of CDK. Raises as `from_context`.
        """
        given = {name: value for name, value in knobs.items() if value is not None}
        readers = {each.name: each.metadata["read"] for each in fields(cls) if each.metadata}
        found = cls(
            **{name: read(name, given[name]) for name, read in readers.items() if name in given}
        )
        if len(found.layers) + len(found.extras) > MOST_LAYERS:
            raise _wrong(
                "layers",
                given.get("layers", ()),
                f"at most {MOST_LAYERS} with those of extras, which is Lambda's limit",
            )
        network = {name: getattr(found, name) for name in NETWORK}
        if any(network.values()) and not all(network.values()):
            missing = " and ".join(name for name, ids in network.items() if not ids)
            raise InvalidSetting(
                f"{', '.join(NETWORK)} belong together, and {missing} is missing: set all three,"
                " or none of them"
            )
        if found.snap_start and found.runtime == NO_SNAPSHOTS:
            raise _wrong("snap_start", True, f"false with {NO_SNAPSHOTS}, without Lambda SnapStart")
        uploads = _uploads(given.get("uploads", ()), found.tables, found.source_buckets)
        return replace(found, uploads=uploads)


_KNOBS = tuple(each.name for each in fields(Settings))


def _entry(value: SourceBucket | UploadRule) -> Any:
    """Return an entry as users write it, without what it leaves out."""
    if isinstance(value, UploadRule):
        return value.to_json()
    terms = {"owner": value.owner, "requester_pays": value.requester_pays}
    given = {name: term for name, term in terms.items() if term}
    if not given:
        return value.location
    prefix = {"prefix": value.prefix} if value.prefix else {}
    return {"bucket": value.bucket, **prefix, **given}


def _refuse_misspelt(context: Mapping[str, Any]) -> None:
    """Raise `UnknownSetting` for a misspelt knob, such as `-c table=books`.

    Other unknown keys belong to other tools or, in ~/.cdk.json, to other apps.
    """
    for key in context:
        if key in _KNOBS or ":" in key or "/" in key:
            continue
        if meant := difflib.get_close_matches(key.replace("-", "_").lower(), _KNOBS, 1, 0.8):
            raise UnknownSetting(f"there is no setting '{key}': '{meant[0]}' is meant?")


def _texts(where: str, value: object) -> list[str]:
    """Read a list of texts, or text separated by commas; drop duplicates."""
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",") if each.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise _wrong(where, value, "a list of names, or names separated by commas")
    return list(dict.fromkeys(value))


def _table(where: str, name: object) -> str:
    if isinstance(name, str) and name.startswith("arn:"):
        raise TableElsewhere(
            f"{where} has the ARN '{name}': tables of other accounts or regions are not"
            " supported. Name a table of the account and region that you deploy to,"
            f" like '{name.rpartition('/')[2]}'"
        )
    return _matching(where, name, TABLE_NAME)


def _buckets(value: object) -> tuple[SourceBucket, ...]:
    """Read names, names with prefixes, and objects of `SourceBucket`'s fields."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _decoded("source_buckets", value)
    if isinstance(value, str):
        value = _texts("source_buckets", value)
    if not isinstance(value, list | tuple):
        wanted = (
            'a list like ["bucket", "bucket/prefix/", {"bucket": "b", "owner": "123456789012"}]'
        )
        raise _wrong("source_buckets", value, wanted)
    found = [_source_bucket(f"source_buckets[{n}]", each) for n, each in enumerate(value)]
    terms: dict[str, SourceBucket] = {}
    for each in found:
        first = terms.setdefault(each.bucket, each)
        if (each.owner, each.requester_pays) != (first.owner, first.requester_pays):
            raise InvalidSetting(
                f"source_buckets names the bucket '{each.bucket}' with different owner or"
                " requester_pays: give each of its prefixes the same"
            )
    return tuple(dict.fromkeys(found))


def _source_bucket(where: str, value: object) -> SourceBucket:
    if isinstance(value, str):
        bucket, _, prefix = value.partition("/")
        value = {"bucket": bucket, "prefix": prefix} if bucket else value
    if not isinstance(value, Mapping):
        raise _wrong(where, value, "a bucket's name, with a prefix after a slash, or an object")
    try:
        found = SourceBucket.from_json(value, where)
    except DdbloadError as error:
        raise InvalidSetting(error.message, "source_buckets") from None
    if "${" in found.prefix:
        raise _wrong(where, found.prefix, "a prefix without ${, which IAM takes for a variable")
    _bucket(where, found.bucket)
    return found


def _bucket(where: str, name: object) -> str:
    if _is_token(name):
        return str(name)
    if not isinstance(name, str) or not _BUCKET.fullmatch(name):
        raise _wrong(where, name, "a bucket's name, without s3:// or arn:")
    if name.endswith("-s3alias"):
        raise _wrong(
            where, name, "a bucket's name: IAM's policies know no alias of an access point"
        )
    return name


def _key(where: str, arn: object) -> str:
    if not isinstance(arn, str) or not _KEY.fullmatch(arn):
        wanted = "the ARN of a KMS key, arn:aws:kms:...:key/ID (IAM's policies know no aliases)"
        raise _wrong(where, arn, wanted)
    return arn


def _topic(arn: object) -> str:
    if not isinstance(arn, str) or not _TOPIC.fullmatch(arn):
        raise _wrong("alarm_topic", arn, "the ARN of an SNS topic, arn:aws:sns:...:NAME")
    return arn


def _layer(where: str, arn: str) -> str:
    if not _is_token(arn) and not _LAYER.fullmatch(arn):
        wanted = "the ARN of a layer's version, arn:aws:lambda:...:layer:NAME:1"
        raise _wrong(where, arn, wanted)
    return arn


def _ids(where: str, value: object, pattern: re.Pattern[str], most: int) -> tuple[str, ...]:
    found = tuple(_matching(where, each, pattern) for each in _texts(where, value))
    if len(found) > most:
        raise _wrong(where, value, f"at most {most}, which is Lambda's limit")
    return found


def _memory(value: object) -> dict[str, int]:
    """Read one number for all functions, or an object with numbers for some."""
    value = _decoded("memory_mb", value)
    if not isinstance(value, Mapping):
        return dict.fromkeys(FUNCTIONS, _whole("memory_mb", value, MEMORY_MB))
    for name in value:
        _one_of("memory_mb", name, FUNCTIONS)
    return {
        name: _whole(f"memory_mb.{name}", value.get(name, _DEFAULT_MEMORY[name]), MEMORY_MB)
        for name in FUNCTIONS
    }


def _uploads(
    value: object, tables: tuple[str, ...], buckets: tuple[SourceBucket, ...]
) -> tuple[UploadRule, ...]:
    value = _decoded("uploads", value)
    if not isinstance(value, list | tuple):
        raise _wrong("uploads", value, 'a list like [{"prefix": "books/", "table": "books"}]')
    found: dict[tuple[str | None, str], str] = {}
    uploads = []
    for number, each in enumerate(value):
        where = f"uploads[{number}]"
        upload = _upload_rule(where, each)
        if upload.table not in tables:
            raise TableNotListed(
                f"{where} goes to the table '{upload.table}', which is not in tables: add it there"
            )
        _check_source(where, upload, buckets)
        place = (upload.bucket, upload.prefix)
        if place in found:
            raise AmbiguousUpload(
                f"{where} and {found[place]} have the same bucket and prefix: keep one of them"
            )
        found[place] = where
        uploads.append(upload)
    return tuple(uploads)


def _check_source(where: str, upload: UploadRule, buckets: Sequence[SourceBucket]) -> None:
    """Raise `BucketNotListed` for a rule whose uploads the deployment could not read."""
    bucket = upload.bucket
    if bucket is None or any(each.covers(bucket, upload.prefix) for each in buckets):
        return
    listed = [each.location for each in buckets if each.bucket == bucket]
    if listed:
        raise BucketNotListed(
            f"{where} has the prefix '{upload.prefix}' in the bucket '{bucket}', of which"
            f" source_buckets has {', '.join(listed)} only: widen that, or narrow the rule"
        )
    raise BucketNotListed(
        f"{where} comes from the bucket '{bucket}', which is not in source_buckets: add it there,"
        " or leave bucket out to mean the stack's own inbox"
    )


def _upload_rule(where: str, value: object) -> UploadRule:
    """Read a rule as the function will read it, and check it as each of its runs would."""
    try:
        rule = UploadRule.from_json(_with_whole_numbers(value), where)
        _table(f"{where}.table", rule.table)
        if rule.bucket is not None:
            _bucket(f"{where}.bucket", rule.bucket)
        # Its name was checked above, and may be a token.
        replace(rule, table="table").check(where)
    except DdbloadError as error:
        named = error.message if where in error.message else f"{where}: {error.message}"
        raise InvalidSetting(named, "uploads") from None
    return rule


def _with_whole_numbers(value: Any) -> Any:
    """Restore whole numbers: JavaScript, through which the context comes, has only floats."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE:
        return int(value)
    if isinstance(value, Mapping):
        return {name: _with_whole_numbers(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_whole_numbers(each) for each in value]
    return value


def _wrong(where: str, value: object, wanted: str) -> InvalidSetting:
    """Make the error for a value that a knob does not allow."""
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    knob = where.partition("[")[0].partition(".")[0]
    return InvalidSetting(f"{where} is {shown}, and must be {wanted}", knob)


def _matching(where: str, value: object, pattern: re.Pattern[str]) -> str:
    if _is_token(value):
        return str(value)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(where, value, f"text like {pattern.pattern}")
    return value


def _is_token(value: object) -> bool:
    """Return whether a text has a part that is only known at deployment."""
    return isinstance(value, str) and TOKEN.search(value) is not None


def _one_of(where: str, value: object, choices: Collection[str]) -> str:
    if value not in choices:
        raise _wrong(where, value, f"one of {', '.join(choices)}")
    return str(value)


def _whole(where: str, value: object, allowed: range) -> int:
    """Read a whole number, or its digits: `-c` gives text."""
    number = _with_whole_numbers(value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise _wrong(where, value, f"a whole number from {allowed.start} to {allowed.stop - 1}")
    return number


def _true_or_false(where: str, value: object) -> bool:
    """Read a boolean, or its name: `-c` gives text."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise _wrong(where, value, "true or false")


def _decoded(where: str, value: object) -> object:
    """Decode JSON text, as `-c` gives it; return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "[]")
    except ValueError as error:
        raise InvalidSetting(f"{where} is not JSON ({error}): quote it for your shell") from None
