"""Build the environment variables of a function's process, and validate them like Lambda.

Source: the Lambda Developer Guide, "Defined runtime environment variables" and "Quotas".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from localaws.credentials import Credentials
from localaws.functions.function import Function

VARIABLES_BYTES = 4096
RESERVED = frozenset(
    {
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_MAX_CONCURRENCY",
        "AWS_LAMBDA_METADATA_API",
        "AWS_LAMBDA_METADATA_TOKEN",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LAMBDA_RUNTIME_DIR",
        "LAMBDA_TASK_ROOT",
        "_HANDLER",
        "_X_AMZN_TRACE_ID",
    }
)
_NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_])+")
_REFUSED = (
    "Lambda was unable to configure your environment variables because the environment "
    "variables you have provided "
)


def environment_error(variables: Mapping[str, str]) -> str | None:
    """Return Lambda's error message for these variables; None if they are valid."""
    reserved = sorted(RESERVED & variables.keys())
    if reserved:
        return (
            f"{_REFUSED}contains reserved keys that are currently not supported for "
            f"modification. Reserved keys used in this request: {', '.join(reserved)}"
        )
    for name in variables:
        if not _NAME.fullmatch(name):
            return (
                f"1 validation error detected: Value at 'environment.variables' failed to "
                f"satisfy constraint: Map keys must satisfy constraint: [Member must satisfy "
                f"regular expression pattern: {_NAME.pattern}] ({name})"
            )
    measured = json.dumps(dict(variables), separators=(",", ":"), ensure_ascii=False)
    if len(measured.encode()) > VARIABLES_BYTES:
        return f"{_REFUSED}exceeded the 4KB limit. String measured: {measured}"
    return None


def process_environment(
    function: Function,
    credentials: Credentials,
    *,
    task_root: Path,
    layers: Path,
    home: Path,
    runtime_api: str,
    log_stream: str,
    endpoints: Mapping[str, str],
) -> dict[str, str]:
    """Build the variables of a function's process. Only PATH comes from this process.

    `layers`: folder in place of /opt. `endpoints`: AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_DYNAMODB.
    `home`: empty folder, which hides the developer's AWS settings and keeps temporary files apart,
    like each environment's /tmp on AWS.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join([str(task_root), str(layers / "python")]),
        "LAMBDA_TASK_ROOT": str(task_root),
        "_HANDLER": function.handler,
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_FUNCTION_VERSION": function.version,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
        "AWS_REGION": function.region,
        "AWS_DEFAULT_REGION": function.region,
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.session_token,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        **endpoints,
        **dict(function.variables),
    }
