"""Tests of the template by cfn-lint, which also reads the inlined state machine."""

from __future__ import annotations

import json

import pytest

from tests.infra.lint import IGNORED, REGIONS, broken_rules
from tests.infra.synthesis import Synthesized


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


@pytest.mark.filterwarnings("default")
def test_app_of_the_page_passes_cfn_lint(page_app: Synthesized):
    assert broken_rules(page_app.template, REGIONS[:1]) <= set(IGNORED)
