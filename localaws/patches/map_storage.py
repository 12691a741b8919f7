"""Patch a distributed Map's item reader and result writer, which use S3.

Source: the Step Functions Developer Guide, "ResultWriter (Map)".
"""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.item_reader_decl import (
    ItemReader,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.result_writer.resource_eval.resource_eval_s3 import (
    ResourceEvalS3,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment

from localaws.patches.failures import ITEM_READER_FAILED, RESULT_WRITER_FAILED, failure
from localaws.patches.map_runs import Child
from localaws.patches.monkeypatch import original, replace

_FILES = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "ABORTED": "PENDING"}


def apply() -> None:
    """Report failed reads by their error name, and write the children's results with a manifest."""
    _patch_item_reader()
    replace(ResourceEvalS3, "_handle_put_object", _write_results)


def _patch_item_reader() -> None:
    """Report failed reads as States.ItemReaderFailed instead of States.Runtime."""
    evaluate = original(ItemReader, "_eval_body")

    def eval_body(self: ItemReader, env: Environment) -> None:
        try:
            evaluate(self, env)
        except (ClientError, BotoCoreError, ValueError) as error:
            raise failure(env, ITEM_READER_FAILED, str(error)) from error
        if not isinstance(env.stack[-1], list):
            raise failure(env, ITEM_READER_FAILED, "Attempting to map over non-iterable node.")

    replace(ItemReader, "_eval_body", eval_body)


def _write_results(env: Environment, resource_runtime_part: Any, state_credentials: Any) -> None:
    parameters = env.stack.pop()
    env.stack.pop()
    record: Any = env.map_run_record_pool_manager.get_all()[-1]
    client: Any = ResourceEvalS3._get_s3_client(  # noqa: SLF001
        resource_runtime_part=resource_runtime_part, state_credentials=state_credentials
    )
    bucket, prefix = parameters["Bucket"], parameters.get("Prefix", "")
    folder = f"{prefix.rstrip('/')}/" if prefix else ""
    folder += record.map_run_arn.rsplit(":", 1)[-1]
    files: dict[str, list[dict[str, Any]]] = {"FAILED": [], "PENDING": [], "SUCCEEDED": []}
    groups: dict[str, list[dict[str, Any]]] = {}
    for child in record.localaws_children:
        if child is not None:
            groups.setdefault(_FILES[child.status], []).append(_entry(child))
    try:
        for kind, entries in groups.items():
            body = json.dumps(entries, separators=(",", ":")).encode()
            key = f"{folder}/{kind}_0.json"
            client.put_object(Bucket=bucket, Key=key, Body=body)
            files[kind].append({"Key": key, "Size": len(body)})
        manifest = {
            "DestinationBucket": bucket,
            "MapRunArn": record.map_run_arn,
            "ResultFiles": files,
        }
        key = f"{folder}/manifest.json"
        client.put_object(Bucket=bucket, Key=key, Body=json.dumps(manifest).encode())
    except (ClientError, BotoCoreError) as error:
        raise failure(env, RESULT_WRITER_FAILED, str(error)) from error
    for counter in (record.item_counter, record.execution_counter):
        counter.results_written.count(sum(len(entries) for entries in groups.values()))
    env.stack.append(
        {
            "MapRunArn": record.map_run_arn,
            "ResultWriterDetails": {"Bucket": bucket, "Key": key},
        }
    )


def _entry(child: Child) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "ExecutionArn": child.arn,
        "Input": json.dumps(child.input, separators=(",", ":")),
        "InputDetails": {"Included": True},
        "Name": child.name,
        "StartDate": child.started.isoformat(),
        "StateMachineArn": child.machine,
        "Status": child.status,
        "StopDate": child.stopped.isoformat() if child.stopped else None,
    }
    if child.status == "SUCCEEDED":
        entry["Output"] = json.dumps(child.output, separators=(",", ":"))
        entry["OutputDetails"] = {"Included": True}
    if child.status == "FAILED":
        entry["Error"], entry["Cause"] = child.error, child.cause
    return entry
