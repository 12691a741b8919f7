"""cfn-lint, which also reads the inlined state machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

IGNORED = {
    "W3005": "CDK writes DependsOn for a function's role, which Role says too: it does no harm",
}
REGIONS = ("eu-central-1", "us-east-1")


def broken_rules(template: dict[str, Any], regions: Sequence[str] = REGIONS) -> set[str]:
    from cfnlint.api import lint
    from cfnlint.config import ManualArgs

    # cfn-lint takes an ARN with a substitution in it, and those of other partitions, for a mistake.
    text = json.dumps(template).replace("arn:${Partition}:states:", "arn:aws:states:")
    matches = lint(text, config=ManualArgs(regions=[*regions]))
    return {match.rule.id for match in matches}
