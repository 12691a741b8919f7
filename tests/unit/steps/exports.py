"""Objects of a table export."""

from __future__ import annotations

import gzip
import json
from typing import Any

EXPORT = "01693685827463-2d8752fd"


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
