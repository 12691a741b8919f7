"""Parameters of `ImportPipeline`: CDK's tables and buckets, and how they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from .errors import InvalidSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Bucket that runs may read, or its keys with one prefix."""

    bucket: s3.IBucket
    prefix: str = ""
    owner: str | None = None
    """Account that must own the bucket; None for any."""
    requester_pays: bool = False
    """True to have the pipeline's account pay for its requests."""

    def to_setting(self) -> dict[str, Any]:
        """Return the entry of the setting `source_buckets`."""
        return {**_given(self), "bucket": self.bucket.bucket_name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Rule that loads uploads with a prefix into a table. Fields are as in cdk.json's `uploads`."""

    prefix: str
    """Plain text that keys begin with; an empty text for all keys."""
    table: dynamodb.ITable
    """One of the pipeline's tables."""
    bucket: s3.IBucket | None = None
    """One of the source buckets, which sends its events to EventBridge; None for the inbox."""
    types: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    infer_types: bool = False
    mapping: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)
    where: Sequence[Any] = ()
    """Texts such as `year>=2000`, or objects with `column`, `op` and `value`."""
    once: bool = False
    """Leave out an upload whose content the table has loaded under the same key."""

    def to_setting(self) -> dict[str, Any]:
        """Return the entry of the setting `uploads`."""
        bucket = {} if self.bucket is None else {"bucket": self.bucket.bucket_name}
        return {**_given(self), "prefix": self.prefix, "table": self.table.table_name, **bucket}


def _given(value: Source | Upload) -> dict[str, Any]:
    """Return the fields that have no default value, with lists in place of tuples."""
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {
        name: list(each) if isinstance(each, tuple) else each
        for name, each in found.items()
        if each
    }


@dataclass(frozen=True, slots=True)
class Network:
    """Network that the functions connect to, by ids: `vpc.vpc_id` and the like."""

    vpc: str
    subnets: Sequence[str]
    security_groups: Sequence[str]


class Knobs(TypedDict, total=False):
    """Settings of docs/deploy.md that are plain values, under their names there."""

    extras: Sequence[str]
    runtime: str
    architecture: str
    memory_mb: int | Mapping[str, int]
    timeout_seconds: int
    log_retention_days: int
    log_key: bool
    retain_runs_days: int
    dashboard: bool
    tracing: bool
    snap_start: bool
    import_concurrency: int | None
    small_bytes: int
    require_backup: bool


@dataclass(frozen=True, slots=True)
class Access:
    """ARNs of the tables that are written, and of the keys of tables and of sources."""

    tables: Sequence[str]
    table_keys: Sequence[str]
    source_keys: Sequence[str]

    @classmethod
    def of(
        cls,
        tables: Sequence[dynamodb.ITable],
        buckets: Iterable[s3.IBucket],
        keys: Sequence[kms.IKey],
    ) -> Access:
        """Collect the ARNs. `keys`: those that CDK does not know the tables and buckets to have."""
        return cls(
            list(dict.fromkeys(each.table_arn for each in tables)),
            key_arns([*(each.encryption_key for each in tables), *keys]),
            key_arns([*(each.encryption_key for each in buckets), *keys]),
        )


def key_arns(keys: Iterable[kms.IKey | None]) -> list[str]:
    """Return the ARNs of keys, of which aliases have those of their targets."""
    targets = (key.alias_target_key if isinstance(key, kms.Alias) else key for key in keys)
    arns = list(dict.fromkeys(key.key_arn for key in targets if key is not None))
    for arn in arns:
        if ":alias/" in arn:
            raise InvalidSetting(
                f"{arn.rpartition(':')[2]} is an imported alias of a KMS key, and IAM's policies"
                " know no aliases: import the key itself (Key.from_key_arn)"
            )
    return arns
