"""Handler of the ImportChunk state."""

from __future__ import annotations

from typing import Any

from ddbload.context import Context
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ImportTask, failed_import
from ddbload.steps.import_chunk import import_chunk
from lambdas.deployment import Deployment
from lambdas.entry import function, logger


@function(Deployment.step_context, failed=failed_import)
def handler(event: Any, context: Context) -> dict[str, Any]:
    """Import parts of chunks: `ImportTask` to `ImportResult`."""
    result = import_chunk(ImportTask.from_json(event), context)
    logger.info(
        "imported",
        extra={
            "run": result.run,
            "chunks": [each.chunk for each in result.segments],
            "rows": sum((each.rows for each in result.segments), RowCounts()).to_json(),
            "left": len(result.chunks),
        },
    )
    return result.to_json()
