"""Credentials of roles, by which moto and the call observers identify the caller."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from moto.sts.models import sts_backends

from localaws.settings import ACCOUNT, PARTITION


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str
    session_token: str


_lock = threading.Lock()
_roles: dict[str, str] = {}


def assume_role(role: str, session: str, region: str) -> Credentials:
    """Issue credentials for a service that acts as `role` (an ARN), like sts:AssumeRole.

    `session` is truncated to the 64 characters that STS allows. The credentials never expire.
    """
    backend = sts_backends[ACCOUNT][PARTITION]
    with _lock:
        assumed = backend.assume_role(
            region_name=region,
            role_session_name=session[:64],
            role_arn=role,
            policy="",
            duration=3600,
            external_id="",
        )
        _roles[assumed.access_key_id] = role
    return Credentials(assumed.access_key_id, assumed.secret_access_key, assumed.session_token)


def find_role(access_key: str) -> str | None:
    """Return the ARN of the role that a service assumed with this access key; None if unknown.

    Roles that a developer assumes, for example by `cdk deploy`, are not found: observers watch the
    deployed stack, not its deployment.
    """
    return _roles.get(access_key)
