"""Objects of a table export."""

from __future__ import annotations

import gzip
import json
from typing import Any

EXPORT = "01693685827463-2d8752fd"


def exported_files(*data: list[dict[str, Any]], incremental: bool = False) -> dict[str, bytes]:
    """The objects of an export in several data files, as the developer guide has them."""
    folder = f"2020-Nov/AWSDynamoDB/{EXPORT}/"
    beside = "2020-Nov/AWSDynamoDB/" if incremental else folder
    files, lines = {}, []
    for number, rows in enumerate(data):
        key = f"{beside}data/f{number}.json.gz"
        files[key] = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        lines.append({"itemCount": len(rows), "md5Checksum": "", "dataFileS3Key": key})
    summary = {
        "version": "2023-08-01",
        "manifestFilesS3Key": f"{folder}manifest-files.json",
        "itemCount": sum(map(len, data)),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": "INCREMENTAL_EXPORT" if incremental else "FULL_EXPORT",
    }
    files[f"{folder}manifest-summary.json"] = json.dumps(summary).encode()
    files[f"{folder}manifest-files.json"] = "\n".join(map(json.dumps, lines)).encode()
    files[f"{folder}_started"] = b""
    return files
