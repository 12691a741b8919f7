"""boto3 clients with which state machines and failed invocations call this emulator.

They use credentials of the role that makes the call, so that observers see the call like any other
call of that role.
"""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from localaws.credentials import assume_role

_lock = threading.Lock()
_clients: dict[tuple[str, str, str, str], Any] = {}


def client_for_role(service: str, region: str, role: str, endpoint: str) -> Any:
    """Return a client for the service and role, cached because creating one is slow."""
    key = (service, region, role, endpoint)
    with _lock:
        if key not in _clients:
            credentials = assume_role(role, "localaws", region)
            session: Any = boto3.session.Session(
                aws_access_key_id=credentials.access_key,
                aws_secret_access_key=credentials.secret_key,
                aws_session_token=credentials.session_token,
                region_name=region,
            )
            # The state machine retries, so the client must not; a task may run for any time.
            _clients[key] = session.client(
                service,
                endpoint_url=endpoint,
                config=Config(
                    parameter_validation=False,
                    retries={"total_max_attempts": 1},
                    read_timeout=100_000,
                    proxies={},
                    s3={"addressing_style": "path"},
                ),
            )
        return _clients[key]
