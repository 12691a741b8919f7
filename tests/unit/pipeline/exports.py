"""Objects of a table export."""

from __future__ import annotations

import gzip
import json
from typing import Any


def exported(lines: list[dict[str, Any]], *, incremental: bool = False, items: int | None = None):
    """The objects of an export in one data file, below `many/`."""
    data = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
    count = len(lines) if items is None else items
    folder = "AWSDynamoDB/01"
    place = "AWSDynamoDB/data/x.json.gz" if incremental else f"{folder}/data/x.json.gz"
    entry = {"itemCount": count, "md5Checksum": "", "etag": "", "dataFileS3Key": place}
    summary = {
        "version": "2020-06-30",
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "INCREMENTAL_EXPORT" if incremental else "FULL_EXPORT",
        "itemCount": count,
        "manifestFilesS3Key": f"{folder}/manifest-files.json",
        "tableArn": "arn:aws:dynamodb:us-east-1:1:table/t",
    }
    return {
        place: data,
        f"{folder}/manifest-files.json": json.dumps(entry).encode() + b"\n",
        f"{folder}/manifest-summary.json": json.dumps(summary).encode(),
    }
