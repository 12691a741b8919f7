"""How much a role's policies hold, and how it is spread over them.

CDK keeps a role's own, inline policy below 10,000 characters and moves each statement that does
not fit into a managed policy, which it fills up to 6,000: below IAM's limits of 10,240 and 6,144.
But it never cuts a statement, and takes each ARN that only the deployment knows for 153
characters, however long it is. So statements are cut here, to 36 ARNs, which come to 5,600 and
let 39 into a managed policy. That they are no longer than CDK takes them for is the
environment's doing: all names of tables and buckets together fit into its 4 KB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.errors import TooManySettings
from infra.settings import Settings

PIECE = 36
"""ARNs of a statement."""
MANAGED_POLICIES = 10
"""IAM's limit for a role, which an account may have raised."""


def pieces(resources: Sequence[Any]) -> list[Sequence[Any]]:
    """The resources of one statement each."""
    return [resources[begin : begin + PIECE] for begin in range(0, len(resources), PIECE)]


def check(settings: Settings) -> None:
    """Raises `TooManySettings`. The roles of preflight and import_chunk name the same things.

    What is not for the settings to say and the first statement that is fit into the inline
    policy; each of the others needs one managed policy at most.
    """
    others = len(settings.source_buckets)
    # The objects of the inbox and of the others; they themselves, and the work bucket.
    counted = (len(settings.tables), others + 1, others + 2)
    statements = sum(len(pieces(range(each))) for each in counted)
    if statements > MANAGED_POLICIES + 1:
        raise TooManySettings(
            f"the role of import_chunk would have up to {statements - 1} managed policies, and"
            f" AWS allows {MANAGED_POLICIES}: name fewer tables or source_buckets, or deploy a"
            " second stack (stack_name) for some of them"
        )
