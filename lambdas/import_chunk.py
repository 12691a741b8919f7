"""Handler of the ImportChunk state."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from ddbload.context import Context
from ddbload.contracts.results import Segment
from ddbload.contracts.run_notice import (
    CONSUMED_WRITE_UNITS,
    ROW_METRICS,
    STALLED_INVOCATIONS,
    THROTTLED_REQUESTS,
)
from ddbload.contracts.states import ImportTask
from ddbload.errors import NoProgress
from ddbload.steps.import_chunk import import_chunk
from lambdas.deployment import Deployment
from lambdas.entry import function, logger, metrics


@function(Deployment.step_context)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Import a part of a chunk: `ImportTask` to `ImportResult`."""
    try:
        result = import_chunk(ImportTask.from_json(event), context)
    except NoProgress:
        _measure_stall()
        raise
    segment = result.segment
    if segment is None and result.error is None:
        _measure_stall()
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
    rows = segment.rows
    for name, value in zip(ROW_METRICS, (rows.read, *rows.outcomes.values()), strict=True):
        metrics.add_metric(name, MetricUnit.Count, value)
    metrics.add_metric(THROTTLED_REQUESTS, MetricUnit.Count, segment.work.throttled)
    metrics.add_metric(CONSUMED_WRITE_UNITS, MetricUnit.Count, segment.work.consumed_wcu)


def _measure_stall() -> None:
    metrics.add_metric(STALLED_INVOCATIONS, MetricUnit.Count, 1)
