"""Table exports, as the developer guide has them ("DynamoDB table export output format")."""

from __future__ import annotations

import gzip
import json
from typing import Any

Item = dict[str, Any]


def full(root: str, *files: list[Item]) -> dict[str, bytes]:
    """The objects of a full export of these items, in the order that they are written in."""
    return _export(root, [[{"Item": item} for item in items] for items in files], "FULL_EXPORT")


def changes(root: str, new: list[Item], gone: list[Item]) -> dict[str, bytes]:
    """Those of an incremental one. `gone`: keys of what was deleted."""
    at = {"Metadata": {"WriteTimestampMicros": {"N": "1680109764000000"}}}
    lines = [{**at, "Keys": {"id": item["id"]}, "NewImage": item} for item in new]
    return _export(root, [[*lines, *({**at, "Keys": key} for key in gone)]], "INCREMENTAL_EXPORT")


def _export(root: str, files: list[list[Item]], kind: str) -> dict[str, bytes]:
    folder = f"{root}AWSDynamoDB/01693685827463-{kind[:4].lower()}/"
    beside = f"{root}AWSDynamoDB/" if kind == "INCREMENTAL_EXPORT" else folder
    objects = {f"{folder}_started": b""}
    entries = []
    for number, lines in enumerate(files):
        key = f"{beside}data/{number}mv3x2lk2g4r.json.gz"
        objects[key] = gzip.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        entries.append({"itemCount": len(lines), "md5Checksum": "", "dataFileS3Key": key})
    summary = {
        "version": "2023-08-01",
        "tableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/elsewhere",
        "manifestFilesS3Key": f"{folder}manifest-files.json",
        "itemCount": sum(map(len, files)),
        "outputFormat": "DYNAMODB_JSON",
        "exportType": kind,
    }
    objects[f"{folder}manifest-files.json"] = "\n".join(map(json.dumps, entries)).encode()
    objects[f"{folder}manifest-files.md5"] = b"c2VxdWVuY2Vz"
    objects[f"{folder}manifest-summary.json"] = json.dumps(summary).encode()
    objects[f"{folder}manifest-summary.md5"] = b"b2YgYnl0ZXM="
    return objects
