"""The CDK app with a second stack, which has no uploads, and functions with two seconds of work."""

from __future__ import annotations

from aws_cdk import App

import app
from infra.settings import Settings
from infra.stack import DdbloadStack
from tests.infra import unvalidated_app


def build(both: App) -> None:
    context = both.node.get_all_context()
    hasty = {**context, "stack_name": "ddbload-hasty", "uploads": [], "timeout_seconds": 6}
    for each in (context, hasty):
        DdbloadStack(both, Settings.from_context(each))


if __name__ == "__main__":
    app.build = build  # type: ignore[assignment]
    unvalidated_app.app.main()
