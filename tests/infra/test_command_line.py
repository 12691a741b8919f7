"""Tests of `cdk synth` and app.py as users run them; tests/e2e_stack deploys with `-c`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from infra.bundling import interpreter
from infra.settings import Settings
from tests.infra.synthesis import CDK, Synthesized, attempt, run


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """What `cdk synth` makes of cdk.json as it is.

    There is nothing on its PATH but node, sh, a python3, and the runtime's Python if there is one:
    no credentials, no git, and a proxy where nothing listens.
    """
    folder = tmp_path_factory.mktemp("untouched")
    path = folder / "bin"
    path.mkdir()
    for name in ("node", "sh", "env"):
        (path / name).symlink_to(str(shutil.which(name)))
    # For where there is no .venv: a link would lose the environment that this Python is of.
    python = path / "python3"
    python.write_text(f'#!{path / "sh"}\nexec "{sys.executable}" "$@"\n', "utf-8")
    python.chmod(0o755)
    runtime = Settings().runtime
    if compiler := interpreter(runtime):
        (path / runtime).symlink_to(str(shutil.which(compiler)))
    out = folder / "out"
    # CDK's own validation takes most of a synthesis; tests/e2e/test_whole_demo.py deploys with it.
    environment = {"PATH": str(path), "CDK_VALIDATION": "false"}
    run(str(CDK), "synth", "--quiet", "--output", str(out), **environment)
    return Synthesized(out)


def test_cdk_synth_writes_the_template_of_the_app(untouched: Synthesized, synthesized: Synthesized):
    """But for what the knobs change; the stack itself is compared in full by the snapshot."""
    kept = ("StorageWork", "Observability", "WorkflowStateMachine", "FunctionsReport")
    mine, theirs = untouched.template["Resources"], synthesized.template["Resources"]
    # Report may describe the tables that are named.
    compared = [
        name
        for name in theirs
        if name.startswith(kept) and not name.startswith("FunctionsReportRoleDefaultPolicy")
    ]
    assert len(compared) >= 10
    for name in compared:
        if "Environment" not in theirs[name]["Properties"]:
            assert mine[name] == theirs[name]
    assert untouched.asset.name == synthesized.asset.name


def test_deployment_without_tables_is_valid_and_allows_none(untouched: Synthesized):
    resources = untouched.template["Resources"].values()
    (rule,) = (each for each in resources if each["Type"] == "AWS::Events::Rule")
    assert rule["Properties"]["EventPattern"]["source"] == ["aws.states"]
    statements = [
        statement
        for each in resources
        if each["Type"] == "AWS::IAM::Policy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert len(statements) > 20
    assert all(statement["Resource"] for statement in statements)
    assert "dynamodb:" not in json.dumps(statements)


def test_queue_is_not_polled_without_uploads(untouched: Synthesized):
    """SQS bills each request, also those that find nothing."""
    resources = untouched.template["Resources"].values()
    (mapping,) = (each for each in resources if each["Type"] == "AWS::Lambda::EventSourceMapping")
    assert mapping["Properties"]["Enabled"] is False


def test_deployment_without_tables_or_uploads_warns(untouched: Synthesized):
    tables, uploads = untouched.warnings
    assert "No table may be written" in tables
    assert "No upload starts a run" in uploads


def test_wrong_settings_end_with_a_named_error_without_traceback(tmp_path: Path):
    context = {"tables": "arn:aws:dynamodb:eu-west-1:210987654321:table/books"}
    done = attempt(
        sys.executable,
        "app.py",
        # How `cdk` tells the app what it wants.
        CDK_OUTDIR=str(tmp_path / "out"),
        CDK_CONTEXT_JSON=json.dumps(context),
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "ddbload: TableElsewhere: tables has the ARN" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*.template.json"))


def test_jsii_is_told_not_to_print_its_banner_before_it_starts(tmp_path: Path):
    """Whatever Node is here: jsii prints it on one that is past its end, and takes no "1"."""
    (tmp_path / "aws_cdk.py").write_text(
        'import os, sys\nsys.exit(os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"])\n'
    )
    done = attempt(sys.executable, "app.py", PYTHONPATH=str(tmp_path))
    assert done.stderr == "20\n"
