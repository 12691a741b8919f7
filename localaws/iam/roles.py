"""The identity-based policies that a role has in moto at this moment."""

from __future__ import annotations

from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends

from localaws.iam.errors import UnsupportedPolicy


def documents_of(role: str) -> dict[str, str]:
    """Inline and attached policies by name, as JSON text. `role`: an ARN.

    Without any for a role that does not exist, which so may do nothing.
    Raises UnsupportedPolicy where something narrows them that is not judged here.
    """
    _, partition, _, _, account, _ = role.split(":", 5)
    try:
        found = iam_backends[account][partition].get_role_by_arn(role)
    except NotFoundException:
        return {}
    if found.permissions_boundary_arn:
        raise UnsupportedPolicy(f"{role}: permission boundaries are not judged here")
    inline = {f"{found.name}/{name}": document for name, document in found.policies.items()}
    attached = {
        policy.arn: next(v.document for v in policy.versions if v.is_default)
        for policy in found.managed_policies.values()
    }
    return inline | attached
