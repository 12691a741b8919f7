"""Read how many import functions an account lets run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddbload.aws.retry import call_if_possible

if TYPE_CHECKING:
    from ddbload.aws.clients import AwsClients

CONCURRENCY_PERMISSION = "lambda:GetAccountSettings"
SHARE_OF_ACCOUNT = 2
"""A run takes at most one part in this many: other functions of the account need the rest."""


def account_concurrency(clients: AwsClients) -> int | None:
    """Return how many import functions a run may use in this account; None if unknown.

    That is half of UnreservedConcurrentExecutions: "The maximum number of simultaneous function
    executions, minus the capacity that's reserved for individual functions" (AccountLimit). New
    accounts start with 10.
    """

    def ask() -> int:
        answer: Any = clients.advisory("lambda").get_account_settings()
        unreserved = int(answer["AccountLimit"]["UnreservedConcurrentExecutions"])
        return max(1, unreserved // SHARE_OF_ACCOUNT)

    return call_if_possible(ask, "reading the account's concurrency")
