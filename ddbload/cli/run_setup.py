"""Prepare a run: copy its standard input, open its rejects file, and check or make its table."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ddbload.aws.clients import Clients
from ddbload.aws.retry import DEFAULT_POLICY, call_with_retries
from ddbload.aws.table_description import describe_table_with_response, table_notices
from ddbload.cli.options import is_given, writing_option
from ddbload.cli.terminal import (
    Output,
    ask_to_agree,
    has_terminal_input,
    print_notice,
    print_stderr,
)
from ddbload.contracts.options import ASYNC
from ddbload.contracts.payload import Payload
from ddbload.errors import Cancelled, DdbloadError, InvalidUsage, SourceUnreadable, TableNotFound
from ddbload.planning.warm_up import plan_warm_up, warm_up
from ddbload.runs.local_runs import HeartbeatWriter, default_engine
from ddbload.source.local_file import PIPE_PREFIX, STDIN_PREFIX, is_pipe, spool_to_disk

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_WAITED: Any = {"Delay": 1, "MaxAttempts": 300}
"""Seconds between two looks at a new table, and their number."""
NewKeys = tuple[tuple[str, str], ...]
"""Name and type of the partition key, followed by those of the sort key, if any."""
create_table_option = writing_option(
    metavar="KEYS",
    common=False,
    help="Make the table if it does not exist: on demand, with these keys, such as isbn:S or"
    " id:S,year:N. Asked about; a plan only takes it as made.",
)


def require_not_stopped(heartbeats: HeartbeatWriter) -> None:
    """Raise `Cancelled` if the run was cancelled, `RunUnderWay` if another process works on it."""
    heartbeats.raise_overtaken()
    if heartbeats.cancelled:
        raise Cancelled("the run was cancelled while its input was copied; nothing was imported")


@contextmanager
def spooled(payload: dict[str, Any], heartbeats: HeartbeatWriter | None = None) -> Iterator[None]:
    """Copy standard input or a pipe to a temporary file, and make the payload read that file.

    `heartbeats`: writer that runs during the copy. Raises `SourceUnreadable`, `Cancelled` if the
    run was cancelled meanwhile, and `RunUnderWay` if another process works on it.
    """
    source = payload["source"].get("path")
    if source != "-" and (source is None or not is_pipe(source)):
        yield
        return
    if source == "-" and has_terminal_input():
        print_stderr(
            "ddbload: reading rows from the terminal until Ctrl-D; name a file to read that"
        )
    prefix = STDIN_PREFIX if source == "-" else PIPE_PREFIX
    with open_stream(source) as stream, heartbeats or nullcontext():
        if heartbeats is None:
            path = spool_to_disk(stream, prefix=prefix)
        else:
            # Copying may take hours, and the run can be cancelled meanwhile.
            heartbeats.beat()
            path = spool_to_disk(stream, partial(require_not_stopped, heartbeats), prefix=prefix)
    try:
        payload["source"]["path"] = path
        yield
    finally:
        Path(path).unlink(missing_ok=True)


def open_stream(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file or a pipe, or standard input for `-`. Raises `SourceUnreadable`."""
    if name != "-":
        try:
            return open(name, "rb")  # noqa: PTH123 - as it was typed
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SourceUnreadable(f"{name}: {reason}") from None
    # A closed standard input is an error, not an empty file.
    if sys.stdin is None:
        raise SourceUnreadable("standard input is closed")
    return nullcontext(sys.stdin.buffer)


@contextmanager
def rejects_file(path: str | None, sources: Sequence[str]) -> Iterator[BinaryIO | None]:
    """Open the file for rejects before the import, so that a wrong path fails at once.

    The file is not truncated here: earlier rejects stay until this run has a result.
    """
    if path is None:
        yield None
        return
    if any(same_file(path, source) for source in sources):
        raise InvalidUsage(f"--rejects {path} is the source itself")
    try:
        # Rejects quote rows: only the owner may read a new file.
        file = open(path, "ab", opener=private_file)  # noqa: SIM115 - closed below
    except OSError as error:
        raise InvalidUsage(f"--rejects {path}: {error.strerror}") from None
    try:
        yield file
    finally:
        # A failed write was reported before.
        with suppress(OSError):
            file.close()


def same_file(path: str, source: str) -> bool:
    """Return whether a path and the source are the same regular file."""
    try:
        return stat.S_ISREG(os.stat(source).st_mode) and Path(path).samefile(source)  # noqa: PTH116 - as in is_pipe
    except (OSError, ValueError):
        return False


def private_file(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def choose_engine(payload: dict[str, Any], clients: Clients, output: Output) -> None:
    """Choose the engine, unless the user did."""
    options = payload["options"]
    if options.get("engine", ASYNC) != ASYNC or is_given("engine"):
        return
    try:
        options["engine"], url = default_engine(clients), clients.dynamodb.meta.endpoint_url
    except DdbloadError:
        # The import raises this error again, and reports it.
        return
    if options["engine"] != ASYNC:
        output.say(
            f"{url.partition(':')[0].upper()}_PROXY names a proxy, so this run uses --engine"
            " threads, which needs more CPU; NO_PROXY names hosts that are reached without a proxy"
        )


def print_table_notices(payload: Mapping[str, Any], clients: Clients) -> None:
    """Print warnings about a payload's table, as far as permissions allow reading it."""
    checked = Payload.from_json(payload)
    for notice in table_notices(clients, checked.table, checked.options, time.time()):
        print_notice(notice)


def prewarm(table: str, wanted: int, clients: Clients, output: Output, *, yes: bool) -> None:
    """Raise a table's warm throughput to `wanted` write units per second, and wait for it.

    The price is shown first, and confirmed by the user unless `yes`. Raises `InvalidUsage` if the
    table has no warm throughput to raise, if the user declines, or without a terminal to ask on;
    `PrewarmUnfinished`; and AWS's errors.
    """
    client = clients.dynamodb
    _, described = describe_table_with_response(client, table)
    change = plan_warm_up(table, described, client.meta.region_name, wanted)
    if not change.more:
        output.say(f"table {table} is warm for {wanted:,} write units a second")
        return
    if not yes:
        ask_to_agree(
            change.question,
            unasked=f"--prewarm {wanted} costs about ${change.dollars:,.2f} ({change.how}): without"
            " a terminal to ask on, give --yes to agree",
            declined="--prewarm was declined: nothing was changed or written",
        )
    output.say(f"warming table {table} to {wanted:,} write units a second ...")
    warm_up(client, change, policy=DEFAULT_POLICY, clock=time.monotonic, sleep=time.sleep)
    output.say(f"table {table} is warm")


# Tables that do not exist yet.


def parse_table_keys(
    text: str,
    option: str = "--create-table",
    form: str = "key:S, key:N or key:B",
    kinds: Collection[str] = ("S", "N", "B"),
    default: str = "",
) -> NewKeys:
    """Parse the `KEY:TYPE,SORT:TYPE` of an option. Raises `InvalidUsage`.

    `default`: type of a key that is given without one.
    """
    keys: list[tuple[str, str]] = []
    for part in text.split(","):
        name, colon, kind = part.strip().rpartition(":")
        if not colon:
            name, kind = part, default
        if not name or kind.upper() not in kinds:
            raise InvalidUsage(f"{option}: {part!r} is not of the form {form}")
        keys.append((name, kind.upper()))
    if len(keys) > 2 or len({name for name, _ in keys}) < len(keys):
        raise InvalidUsage(f"{option}: one partition key, and at most one other as sort key")
    return tuple(keys)


def create_table(client: DynamoDBClient, table: str, keys: NewKeys) -> None:
    """Create an on-demand table, and wait until it is active. Raises AWS's errors."""
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    request: Any = {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for n, t in keys],
        "KeySchema": [{"AttributeName": key[0], "KeyType": role} for key, role in roles],
    }
    call_with_retries(lambda: client.create_table(**request), f"making table {table}")
    wait = client.get_waiter("table_exists").wait
    call_with_retries(
        lambda: wait(TableName=table, WaiterConfig=_WAITED), f"waiting for table {table}"
    )


def ensure_table(
    table: str,
    keys: NewKeys,
    client: DynamoDBClient,
    output: Output,
    *,
    yes: bool,
    check: Callable[[], object],
) -> None:
    """Create a table unless it exists with these keys, after `check`; asked about unless `yes`.

    Raises `InvalidUsage` if it exists with other keys, or if the user declines, and AWS's errors.
    """
    shown = ", ".join(f"{name} ({kind})" for name, kind in keys)
    try:
        found, _ = describe_table_with_response(client, table)
    except TableNotFound:
        check()
        made = f"table {table} in {client.meta.region_name}, on demand, with the key {shown}"
        if not yes:
            ask_to_agree(
                f"Make {made}?",
                unasked=f"--create-table makes {made}: without a terminal to ask on, give --yes",
                declined="--create-table was declined: nothing was made or written",
            )
        output.say(f"making {made} ...")
        create_table(client, table, keys)
        return
    if tuple((key.name, key.type) for key in found.keys) != keys:
        there = ", ".join(f"{key.name} ({key.type})" for key in found.keys)
        raise InvalidUsage(
            f"--create-table: table {table} exists, with the key {there} and not {shown}: leave the"
            " option out to load into it, or name another table"
        )
