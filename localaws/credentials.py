"""Credentials of roles, by which moto and the observers of calls tell who is calling."""

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
    """As sts:AssumeRole, for a service that acts by `role` (its ARN).

    `session` is cut to the 64 characters that STS allows. They do not expire here.
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
    """The ARN of the role that a service here assumed by this key; None for anybody else's.

    Roles that people assume (`cdk deploy` does) are not known here on purpose: what is watched
    is what has been deployed.
    """
    return _roles.get(access_key)
