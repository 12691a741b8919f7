"""Targets of a run that are not tables: a prefix of a bucket, or a queue.

Their rows need texts that a table's do not, such as the key of a row's object. Templates make them,
as attributes that are taken out of the row before it is sent. These have names of their own, which
are those of the options, so that errors and rejects name what users write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message
from ddbload.contracts.options import BUCKET_KIND, QUEUE_KIND, Options
from ddbload.contracts.queue_messages import FIFO_SUFFIX
from ddbload.contracts.template import Template
from ddbload.dynamodb.write_modes import INSERT, PUT
from ddbload.errors import InvalidPayload

_S3, _SQS = "s3://", "sqs:"

OBJECT_KEY = "--object-key"
MESSAGE_GROUP = "--message-group"
MESSAGE_DEDUPLICATION = "--message-deduplication"
RESERVED_NAMES = frozenset({OBJECT_KEY, MESSAGE_GROUP, MESSAGE_DEDUPLICATION})
"""Names of attributes that are made for the target, and are not sent with the row."""

MAX_OBJECT_KEY_BYTES = 1024
"""Longest key of an object ("Naming Amazon S3 objects")."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-_]{1,62}|arn:[^\s/]+(?:/[^\s/]+)*", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo", re.ASCII)
_QUEUE_PLACE = re.compile(
    r"(?:sqs:)?(?:arn:[^:]*:sqs:[^:]*:[^:]*:|https?://[^/]+/[0-9]{12}/|(?<=^sqs:)//)([\w.-]+)",
    re.ASCII,
)
"""Other ways to name a queue."""
_COLUMN = re.compile(r"\{[^{}/]+\}")
_FORBIDDEN = (
    *("max_wcu", "max_wcu_percent", "max_cost", "unit_price", "require_backup"),
    *("position_attribute", "on_empty", "add", "only_existing", "condition"),
)
"""Options that are about a table or its items."""


def _read_prefix(f: JsonObjectReader) -> str:
    return "" if f.raw("prefix") in (None, "") else f.text("prefix")


@dataclass(frozen=True, slots=True)
class BucketTarget(Message):
    """A prefix of a bucket, in which each row becomes an object."""

    PATH = "target"
    KIND: ClassVar[str] = BUCKET_KIND
    MODES: ClassVar[tuple[str, ...]] = (PUT, INSERT)

    bucket: str
    prefix: Annotated[str, JsonRule(read=_read_prefix)]
    """Beginning of each key; may be empty."""
    key: str
    """Template of the rest of the key."""

    @property
    def name(self) -> str:
        """The target as users write it."""
        return f"{_S3}{self.bucket}/{self.prefix}"

    @property
    def templates(self) -> dict[str, str]:
        """Templates by the names of the attributes that they make."""
        return {OBJECT_KEY: self.key}

    @property
    def key_bytes(self) -> int:
        """Most bytes of a key after the prefix."""
        return MAX_OBJECT_KEY_BYTES - len(self.prefix.encode())

    def check(self) -> None:
        """Raise `InvalidPayload` for a bucket, prefix or template that no object can have."""
        if not _BUCKET.fullmatch(self.bucket):
            raise InvalidPayload(
                f"'target.bucket', {self.bucket!r}, is not the name of a bucket: write the target"
                " as s3://bucket/prefix/"
            )
        if self.key_bytes < 1:
            raise InvalidPayload(
                f"'target.prefix' has {len(self.prefix.encode()):,} bytes, and a key of S3 has at"
                f" most {MAX_OBJECT_KEY_BYTES:,}: shorten it"
            )
        wrong = key_defect(self.prefix)
        if wrong is not None:
            raise InvalidPayload(f"'target.prefix' {wrong}: write another prefix")
        if not Template.read(self.key, OBJECT_KEY).parts:
            raise InvalidPayload(
                "'target.key' names no column, so all rows would have one key:"
                " write columns in braces, such as {id}.json"
            )


@dataclass(frozen=True, slots=True)
class QueueTarget(Message):
    """A queue, to which each row is sent as a message."""

    PATH = "target"
    KIND: ClassVar[str] = QUEUE_KIND
    MODES: ClassVar[tuple[str, ...]] = (PUT,)

    queue: str
    """Name of a queue in this account and region; a FIFO queue's ends with `.fifo`."""
    group: str | None = None
    """Template of the message group id. FIFO queues need one, and keep the order of each group.
    Standard queues take it as the tenant of a fair queue."""
    deduplication: str | None = None
    """Template of the message deduplication id of a FIFO queue."""

    @property
    def name(self) -> str:
        """The target as users write it."""
        return f"{_SQS}{self.queue}"

    @property
    def is_fifo(self) -> bool:
        """True if the queue keeps the order of each message group."""
        return self.queue.endswith(FIFO_SUFFIX)

    @property
    def templates(self) -> dict[str, str]:
        """Templates by the names of the attributes that they make."""
        given = {MESSAGE_GROUP: self.group, MESSAGE_DEDUPLICATION: self.deduplication}
        return {name: text for name, text in given.items() if text is not None}

    def to_json(self) -> dict[str, Any]:
        given = {"queue": self.queue, "group": self.group, "deduplication": self.deduplication}
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Raise `InvalidPayload` for a name that no queue has, and ids that the queue lacks."""
        if not _QUEUE.fullmatch(self.queue):
            raise InvalidPayload(
                f"'target.queue', {self.queue!r}, is not the name of a queue: 1 to 80 letters,"
                " digits, '-' or '_', and .fifo at the end of a FIFO queue's; name it without its"
                " URL or ARN"
            )
        if self.is_fifo and self.group is None:
            raise InvalidPayload(
                f"'target.group' is missing: a message of the FIFO queue"
                f" {self.queue} needs a group, such as {{customer}}, whose rows stay in order"
            )
        if not self.is_fifo and self.deduplication is not None:
            raise InvalidPayload(
                "'target.deduplication' is for FIFO queues, whose names"
                f" end with {FIFO_SUFFIX}, and the queue is {self.queue}: leave it out"
            )


Target = BucketTarget | QueueTarget


def is_target_address(text: str) -> bool:
    """Tell whether a text names a bucket or a queue, and not a table."""
    return text.startswith((_S3, _SQS))


def target_fields(
    address: str,
    object_key: str | None = None,
    group: str | None = None,
    deduplication: str | None = None,
) -> dict[str, str]:
    """Return the payload's `target` for an address as users write it.

    Raises `InvalidPayload` for an address that is not complete, and an option of another target.
    """
    given = {
        OBJECT_KEY: (object_key, BUCKET_KIND),
        MESSAGE_GROUP: (group, QUEUE_KIND),
        MESSAGE_DEDUPLICATION: (deduplication, QUEUE_KIND),
    }
    place = _QUEUE_PLACE.fullmatch(address)
    if place is not None:
        raise InvalidPayload(
            f"{address}: name the queue {_SQS}{place[1]}, without its URL or ARN; it is one of the"
            " account and region that the settings name (--region)"
        )
    kind = BUCKET_KIND if address.startswith(_S3) else None
    kind = QUEUE_KIND if address.startswith(_SQS) else kind
    for option, (template, its_kind) in given.items():
        if template is not None and kind != its_kind:
            form = "s3://bucket/prefix/" if its_kind == BUCKET_KIND else "sqs:queue"
            raise InvalidPayload(f"{option} is for a target {form}, and the target is {address}")
    if kind is None:
        return {"table": address}
    if kind == QUEUE_KIND:
        ids = {"group": group, "deduplication": deduplication}
        queue = address.removeprefix(_SQS)
        return {"queue": queue, **{name: text for name, text in ids.items() if text is not None}}
    bucket, slash, prefix = address.removeprefix(_S3).partition("/")
    column = _COLUMN.search(prefix)
    if column is not None:
        literal = prefix[: prefix.rfind("/", 0, column.start()) + 1]
        template = prefix.removeprefix(literal)
        if template.endswith("/"):
            template += object_key or "{id}.json"
        raise InvalidPayload(
            f"{address}: columns are for {OBJECT_KEY} alone: write s3://{bucket}/{literal}"
            f" {OBJECT_KEY} '{template}'"
        )
    if prefix and not prefix.endswith("/"):
        raise InvalidPayload(
            f"{address}: end the target's prefix with a slash, {address}/, since each row becomes"
            " an object below it"
        )
    if object_key is None:
        raise InvalidPayload(
            f"{OBJECT_KEY} is missing: each row becomes an object below {address}"
            f"{'' if slash else '/'}, under a key made of its columns: {OBJECT_KEY} '{{id}}.json'"
        )
    return {"bucket": bucket, "prefix": prefix, "key": object_key}


def key_defect(key: str) -> str | None:
    """Say why a key or prefix is not used although S3 may take it; None for a good one."""
    if ".." in key:
        where = "as a path segment" if ".." in key.split("/") else "in it"
        return f"has '..' {where}, which clients may take for the folder above"
    if "." in key.split("/"):
        return "has '.' as a path segment, which clients may leave out"
    return None


def read_target(value: Mapping[str, Any]) -> Target:
    """Read a payload's `target` that names a bucket or a queue. Raises `InvalidPayload`."""
    kind = QueueTarget if value.get("bucket") is None else BucketTarget
    target = kind.from_json(value)
    target.check()
    return target


def check_options(target: Target, options: Options) -> None:
    """Raise `InvalidPayload` for a mode or an option that only a table has."""
    if options.mode not in target.MODES:
        raise InvalidPayload(
            f"mode {options.mode} is for tables, and the target is {target.name}: a {target.KIND}"
            f" takes mode {' or '.join(target.MODES)}"
        )
    unset = Options()
    for name in _FORBIDDEN:
        if getattr(options, name) != getattr(unset, name):
            raise InvalidPayload(
                f"'options.{name.removesuffix('_percent')}' is for tables, and the target is"
                f" {target.name}: leave it out"
            )
