"""`cdk synth` and app.py as people run them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.infra.synthesis import CDK, CONTEXT, Synthesized, attempt, run


def test_cdk_synth_needs_no_credentials_network_or_git(
    synthesized: Synthesized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With nothing on PATH but node, sh and what cdk.json's command finds in .venv."""
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("node", "sh", "env"):
        (path / name).symlink_to(found(name))
    python = path / "python3"
    python.write_text(f'#!{path / "sh"}\nexec "{sys.executable}" "$@"\n', "utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(path))
    words = [
        str(CDK),
        "synth",
        "--quiet",
        "--output",
        str(tmp_path / "out"),
        # As text, which is how -c gives everything.
        "-c",
        f"source_buckets={','.join(CONTEXT['source_buckets'])}",
        "-c",
        f"tables={','.join(CONTEXT['tables'])}",
        "-c",
        f"uploads={json.dumps(CONTEXT['uploads'])}",
    ]
    run(*words)
    assert Synthesized(tmp_path / "out").template == synthesized.template


def found(name: str) -> str:
    import shutil

    path = shutil.which(name)
    assert path is not None
    return path


def test_an_empty_deployment_is_valid_and_warned_of(tmp_path: Path):
    app(tmp_path / "out", {})
    synthesized = Synthesized(tmp_path / "out")
    assert any("No table may be written" in each for each in synthesized.warnings)
    assert any("No upload starts a run" in each for each in synthesized.warnings)
    resources = synthesized.template["Resources"]
    assert not any(each["Type"] == "AWS::Events::Rule" for each in resources.values())
    statements = [
        statement
        for each in resources.values()
        if each["Type"] == "AWS::IAM::Policy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert all(statement["Resource"] for statement in statements)
    assert "dynamodb:" not in json.dumps(statements)


def test_what_cannot_be_deployed_ends_with_a_named_error_and_no_traceback(tmp_path: Path):
    context = {"tables": "arn:aws:dynamodb:eu-west-1:210987654321:table/books"}
    done = attempt(sys.executable, "app.py", **variables(tmp_path / "out", context))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("ddbload: TableElsewhere: tables has the ARN")
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*.template.json"))


def app(folder: Path, context: dict[str, object]) -> None:
    run(sys.executable, "app.py", **variables(folder, context))


def variables(folder: Path, context: dict[str, object]) -> dict[str, str]:
    """How `cdk` tells the app what it wants."""
    return {"CDK_OUTDIR": str(folder), "CDK_CONTEXT_JSON": json.dumps(context)}
