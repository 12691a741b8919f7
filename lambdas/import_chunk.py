"""Handler of the ImportChunk state."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from ddbload.contracts.results import Segment
from ddbload.contracts.states import ImportTask
from ddbload.pipeline.context import Context
from ddbload.pipeline.importing.import_chunk import import_chunk
from lambdas.deployment import Deployment
from lambdas.entry import function, logger, metrics


@function(Deployment.step_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Import a part of a chunk: `ImportTask` to `ImportResult`."""
    result = import_chunk(ImportTask.from_json(event), context)
    segment = result.segment
    if segment is not None and not result.adopted:
        _measure(segment)
    logger.info(
        "imported",
        extra={
            "run": result.run,
            "chunk": result.chunk.chunk,
            "rows": None if segment is None else segment.rows.to_json(),
            "adopted": result.adopted,
            "whole": result.cursor is None,
        },
    )
    return result.to_json()


def _measure(segment: Segment) -> None:
    for name, value in segment.rows.to_json().items():
        metrics.add_metric(f"Rows{name.title()}", MetricUnit.Count, value)
    metrics.add_metric("ThrottledRequests", MetricUnit.Count, segment.work.throttled)
    metrics.add_metric("ConsumedWriteUnits", MetricUnit.Count, segment.work.consumed_wcu)
