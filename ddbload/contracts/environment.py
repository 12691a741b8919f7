"""Names of the environment variables by which a deployment tells its functions what they serve."""

from __future__ import annotations

WORK_BUCKET = "DDBLOAD_WORK_BUCKET"
"""The bucket that the ledger lies in, under runs/."""
SOURCE_BUCKETS = "DDBLOAD_SOURCE_BUCKETS"
"""Buckets that may be read, separated by commas."""
TABLES = "DDBLOAD_TABLES"
"""Tables that may be written, separated by commas."""
RESERVE_SECONDS = "DDBLOAD_RESERVE_SECONDS"
"""How long before its timeout a function hands its cursor on."""
STATE_MACHINE = "DDBLOAD_STATE_MACHINE"
"""The ARN of the state machine that uploads start."""
UPLOADS = "DDBLOAD_UPLOADS"
"""Which uploads go where: a JSON list of `ddbload.pipeline.on_upload.UploadRule`."""
