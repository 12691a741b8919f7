"""A queue as the target of a chunk: each row is a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddbload.contracts.options import ASYNC
from ddbload.contracts.queue_messages import message_body, message_entry
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.target import MESSAGE_DEDUPLICATION, MESSAGE_GROUP, QueueTarget
from ddbload.items.plain_json import plain_object
from ddbload.items.target_rows import made_texts
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.chunk_target import ChunkTarget
from ddbload.pipeline.importing.row_window import PendingRows
from ddbload.rows.columns import to_octets
from ddbload.write.drivers.blocking import QueueTransport
from ddbload.write.drivers.event_loop import RawTransport
from ddbload.write.queue_requests import (
    QUEUE_REQUESTS,
    QueueRequests,
    deduplication_prefix,
    message_of_entry,
    queue_body,
)
from ddbload.write.scheduler.key_ordering import RowOrder


def queue_target(record: RunRecord, context: Context, pending: PendingRows) -> ChunkTarget:
    """Return the queue of a run, for the rows of one chunk."""
    target = record.payload.target
    assert isinstance(target, QueueTarget)  # noqa: S101 - by the table's kind
    url = record.table.url or ""
    requests = QueueRequests(target.queue, url)
    names = list(target.templates)
    row_ids = target.is_fifo and target.deduplication is None
    prefix = deduplication_prefix(record)

    def entries(handles: Sequence[int]) -> list[str]:
        made = []
        for handle, item in zip(handles, pending.items(handles), strict=True):
            ids = dict(zip(names, made_texts(item, names), strict=True))
            deduplication = ids.get(MESSAGE_DEDUPLICATION)
            if row_ids:
                deduplication = f"{prefix}{pending.byte(handle)}"
            body = message_body(to_octets(plain_object(item)))
            made.append(message_entry(body, ids.get(MESSAGE_GROUP), deduplication))
        return made

    make_body = queue_body(url)

    def transport() -> Any:
        if record.payload.options.engine == ASYNC:
            return RawTransport(context.clients.sqs_signer, requests)
        return QueueTransport(context.clients.sqs, requests)

    return ChunkTarget(
        items=lambda handles: [message_of_entry(entry) for entry in entries(handles)],
        body=lambda handles: make_body(entries(handles)),
        transport=transport,
        # Of a group, one after the other.
        order=RowOrder.ALL,
        request_limits=QUEUE_REQUESTS,
        keeps_duplicates=True,
    )
