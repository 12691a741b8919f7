"""A bucket as the target of a chunk: each row is an object."""

from __future__ import annotations

from collections.abc import Sequence

from ddbload.contracts.options import ASYNC
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.target import OBJECT_KEY
from ddbload.errors import AwsConfiguration
from ddbload.items.plain_json import plain_object
from ddbload.items.target_rows import made_texts
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.chunk_target import ChunkTarget
from ddbload.pipeline.importing.row_window import PendingRows
from ddbload.write.drivers.object_transports import BotoObjectTransport, RawObjectTransport
from ddbload.write.object_requests import ObjectRequests, ObjectRow
from ddbload.write.requests import EndpointFeatures
from ddbload.write.scheduler.key_ordering import RowOrder
from ddbload.write.scheduler.request_limits import RequestLimits

AWS_HOST = ".amazonaws.com"
"""Part of the endpoints of S3 itself, which has conditional writes."""


def bucket_target(record: RunRecord, context: Context, pending: PendingRows) -> ChunkTarget:
    """Return the bucket of a run, for the rows of one chunk."""
    endpoint = context.endpoint or EndpointFeatures()
    client = context.clients.s3
    if AWS_HOST in client.meta.endpoint_url:
        endpoint.proven_condition = True
    requests = ObjectRequests(record, endpoint)
    target = requests.target

    def rows(handles: Sequence[int]) -> list[ObjectRow]:
        made = []
        for handle, item in zip(handles, pending.items(handles), strict=True):
            (key,) = made_texts(item, [OBJECT_KEY])
            body = plain_object(item).encode()
            made.append(ObjectRow(target.prefix + key, body, pending.byte(handle)))
        return made

    def transport() -> BotoObjectTransport | RawObjectTransport:
        if record.payload.options.engine != ASYNC:
            return BotoObjectTransport(client, requests)
        signer = context.clients.s3_signer(target.bucket)
        if signer is None:
            raise AwsConfiguration(
                f"AWS settings: engine async does not reach bucket {target.bucket} (a proxy, or an"
                " address that only botocore knows): give --engine threads"
            )
        return RawObjectTransport(signer, requests)

    return ChunkTarget(
        items=rows,
        body=rows,
        transport=transport,
        # The first row of a key that is written keeps it.
        order=RowOrder.FIRST_WINS,
        is_proven=lambda: endpoint.proven_condition,
        request_limits=RequestLimits(rows=1),
        follow_ups=lambda: requests.follow_ups,
    )
