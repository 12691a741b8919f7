"""Tests of the template by cfn-lint, which also reads the inlined state machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.synthesis import Synthesized

IGNORED = {
    "W3005": "CDK writes DependsOn for a function's role, which Role says too: it does no harm",
}
REGIONS = ("eu-central-1", "us-east-1")


def broken_rules(template: dict[str, Any]) -> set[str]:
    from cfnlint.api import lint
    from cfnlint.config import ManualArgs

    # cfn-lint takes an ARN with a substitution in it, and those of other partitions, for a mistake.
    text = json.dumps(template).replace("arn:${Partition}:states:", "arn:aws:states:")
    matches = lint(text, config=ManualArgs(regions=[*REGIONS]))
    return {match.rule.id for match in matches}


@pytest.mark.filterwarnings("default")
def test_template_with_everything_passes_cfn_lint(synthesized_with_all: Synthesized):
    assert broken_rules(synthesized_with_all.template) == set(IGNORED)


@pytest.mark.filterwarnings("default")
def test_cfn_lint_finds_only_the_damaged_state_in_the_plain_template(synthesized: Synthesized):
    template = json.loads(json.dumps(synthesized.template))
    (machine,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    )
    definition = json.loads(machine["DefinitionString"])
    definition["States"]["Report"]["Type"] = "Tusk"
    machine["DefinitionString"] = json.dumps(definition)
    assert broken_rules(template) == {*IGNORED, "E3601"}
