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


def findings(template: dict[str, Any]) -> set[tuple[str, str]]:
    from cfnlint.api import lint
    from cfnlint.config import ManualArgs

    matches = lint(json.dumps(template), config=ManualArgs(regions=[*REGIONS]))
    return {(match.rule.id, match.message) for match in matches}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("assembly", ["synthesized", "synthesized_with_all"])
def test_template_passes_cfn_lint(request: pytest.FixtureRequest, assembly: str):
    made: Synthesized = request.getfixturevalue(assembly)
    found = findings(made.template)
    assert {(rule, message) for rule, message in found if rule not in IGNORED} == set()
    assert {rule for rule, _ in found} == set(IGNORED)


@pytest.mark.filterwarnings("default")
def test_cfn_lint_checks_the_state_machine(synthesized: Synthesized):
    template = json.loads(json.dumps(synthesized.template))
    (machine,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::StepFunctions::StateMachine"
    )
    definition = json.loads(machine["DefinitionString"])
    definition["States"]["Report"]["Type"] = "Tusk"
    machine["DefinitionString"] = json.dumps(definition)
    assert any(rule == "E3601" for rule, _ in findings(template))
