"""Tests that settings beyond AWS's limits are refused before the deployment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.errors import DeploymentError, TooManySettings
from infra.settings import Settings
from infra.variables import check
from tests.infra.synthesis import NETWORK, STACK, run
from tests.infra.template import Template

OWN = 2600
"""Upper bound for the characters of statements that do not depend on the settings."""


def settings(**context: Any) -> Settings:
    return Settings.from_context(context)


def named(number: int, more: str = "") -> list[str]:
    return [f"{each:03d}{more}" for each in range(number)]


def mapped(number: int, prefix: str) -> list[dict[str, str]]:
    return [{"prefix": f"{each}{prefix}", "table": "books"} for each in range(number)]


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (
            {"tables": [f"{each:03d}{'t' * 200}" for each in range(20)]},
            "the environment of on_upload",
        ),
        (
            {"tables": "books", "uploads": mapped(40, "p/")},
            "the environment of on_upload",
        ),
        ({"tables": named(357)}, "the role of preflight would have up to 11 managed policies"),
        ({"tables": named(36), "source_buckets": named(161)}, "the role of preflight"),
        ({"tables": named(289), "source_buckets": named(36)}, "the role of preflight"),
        (
            {"tables": "books", "uploads": mapped(5, "p" * 400)},
            "the event pattern for uploads to the inbox",
        ),
    ],
)
def test_settings_beyond_limits_are_refused(context: dict[str, Any], says: str):
    with pytest.raises(TooManySettings, match=says):
        check(settings(**context))


@pytest.mark.parametrize("number", [1, 12, 36, 39, 56, 72])
def test_names_that_fit_the_environment_fit_the_policies(number: int):
    """With as many ARNs as CDK lets into one, by the length it takes them for."""
    fitting = [length for length in range(253) if fits(named(number, "t" * length))]
    tables = named(number, "t" * max(fitting))
    assert not fits(named(number + 1, "t" * (max(fitting) + 1)))
    arns = [f"arn:aws:dynamodb:ap-southeast-1:123456789012:table/{name}" for name in tables]
    assert len(json.dumps(arns[:39], separators=(",", ":"))) + 400 <= 6144
    assert len(json.dumps(arns[:56], separators=(",", ":"))) + OWN <= 10240


def fits(tables: list[str]) -> bool:
    try:
        check(settings(tables=tables))
    except DeploymentError:
        return False
    return True


@pytest.mark.parametrize(
    ("tables", "buckets"),
    [(216, 35), (36, 160)],
    ids=["both", "as many buckets as are allowed"],
)
def test_long_permissions_are_split_over_valid_policies(tables: int, buckets: int, tmp_path: Path):
    context = {"tables": named(tables), "source_buckets": named(buckets), **NETWORK}
    check(Settings.from_context(context))
    variables = {"CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context)}
    run(sys.executable, "-m", "tests.infra.unvalidated_app", **variables)
    template = Template(json.loads((tmp_path / f"{STACK}.template.json").read_text("utf-8")))
    for role in ("FunctionsPreflightRole", "FunctionsImportChunkRole"):
        kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
        found = {
            kind: [
                deployed(policy["PolicyDocument"])
                for policy in template.of_type(kind).values()
                if policy["Roles"] == [f"${{{role}}}"]
            ]
            for kind in kinds
        }
        # IAM's limit for inline policies is for all of a role's together.
        sizes = [len(text) for text in found["AWS::IAM::ManagedPolicy"]]
        assert sum(len(text) for text in found["AWS::IAM::Policy"]) <= 10240
        assert max(sizes) <= 6144
        assert 1 < len(found["AWS::IAM::ManagedPolicy"]) <= 10
        everything = "".join(text for texts in found.values() for text in texts)
        for name in context["tables"]:
            assert everything.count(f':table/{name}"') == 1
        for name in context["source_buckets"]:
            assert everything.count(f':s3:::{name}/*"') == 1
            assert everything.count(f':s3:::{name}"') == 1


def deployed(document: Any) -> str:
    """As long as it can get, without white space."""
    text = json.dumps(document, separators=(",", ":"))
    for name, value in {
        "AWS::Partition": "aws",
        "AWS::Region": "ap-southeast-1",
        "AWS::AccountId": "1" * 12,
        "StorageWork.Arn": f"arn:aws:s3:::{'b' * 63}",
        "StorageInbox.Arn": f"arn:aws:s3:::{'b' * 63}",
        "WorkflowStateMachine.Name": "s" * 80,
        "ObservabilityPreflight.Arn": "l" * 200,
        "ObservabilityImportChunk.Arn": "l" * 200,
    }.items():
        text = text.replace(f"${{{name}}}", value)
    assert "${" not in text
    return text
