"""Handler of the ImportChunk state."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.contracts.states import ImportTask, failed_import
from ddbload.steps.import_chunk import import_chunk
from lambdas.deployment import Deployment
from lambdas.entry import function, logger


@function(Deployment.step_context, failed=failed_import)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Import a part of a chunk: `ImportTask` to `ImportResult`."""
    result = import_chunk(ImportTask.from_json(event), context)
    logger.info(
        "imported",
        extra={
            "run": result.run,
            "chunk": result.chunk.chunk,
            "rows": None if result.segment is None else result.segment.rows.to_json(),
            "adopted": result.adopted,
            "whole": result.cursor is None,
        },
    )
    return result.to_json()
