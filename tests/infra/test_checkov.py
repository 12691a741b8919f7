"""Tests of the template by checkov: each accepted finding is listed with its reason.

checkov runs in an environment of its own (`make checkov`), without a network.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.infra.synthesis import ROOT, Synthesized, run

CHECKOV = ROOT / ".venv-checkov" / "bin" / "checkov"
HASH = re.compile(r"[0-9A-F]{8}$")
"""Hash at the end of a logical id."""

FUNCTIONS = {
    "AWS::Lambda::Function.FunctionsPreflightFunction",
    "AWS::Lambda::Function.FunctionsImportChunkFunction",
    "AWS::Lambda::Function.FunctionsReportFunction",
    "AWS::Lambda::Function.TriggerOnUploadFunction",
    "AWS::Lambda::Function.NoticeOnStoppedFunction",
}
LOG_GROUPS = {
    "AWS::Logs::LogGroup.ObservabilityStateMachine",
    "AWS::Logs::LogGroup.ObservabilityPreflight",
    "AWS::Logs::LogGroup.ObservabilityImportChunk",
    "AWS::Logs::LogGroup.ObservabilityReport",
    "AWS::Logs::LogGroup.ObservabilityOnUpload",
    "AWS::Logs::LogGroup.ObservabilityOnStopped",
}
WORK, INBOX = "AWS::S3::Bucket.StorageWork", "AWS::S3::Bucket.StorageInbox"

ACCEPTED = {
    "CKV_AWS_18": (
        {WORK, INBOX},
        (
            "access logs need a further bucket that outlives the stack; CloudTrail data events give"
            " the same to who wants it"
        ),
    ),
    "CKV_AWS_21": (
        {WORK},
        (
            "the ledger's objects are written once, or replaced on purpose; versions of progress"
            " would only cost"
        ),
    ),
    "CKV_AWS_27": (
        {
            "AWS::SQS::Queue.TriggerDeadLetters",
            "AWS::SQS::Queue.TriggerUploads",
            "AWS::SQS::Queue.NoticeUndelivered",
        },
        "SQS encrypts by its own keys by default; a customer's key has a monthly price",
    ),
    "CKV_AWS_115": (
        FUNCTIONS,
        (
            "reserved concurrency is taken from all other functions of the account: a knob"
            " (import_concurrency)"
        ),
    ),
    "CKV_AWS_116": (
        FUNCTIONS,
        "only asynchronous invocations use a dead-letter queue of a function, and it has none",
    ),
    "CKV_AWS_117": (FUNCTIONS, "it reaches AWS's own endpoints only: a knob (vpc)"),
    "CKV_AWS_158": (LOG_GROUPS, "CloudWatch Logs encrypts by its own keys: a knob (log_key)"),
    "CKV_AWS_173": (FUNCTIONS, "the environment holds names of buckets and tables, and no secret"),
}
"""By check: the resources that it finds, and why they stay as they are."""


@pytest.fixture(scope="module")
def findings(synthesized: Synthesized, tmp_path_factory) -> dict[str, dict[str, set[str]]]:
    """checkov's findings in the template, and in one with a public bucket: resources by check.

    One process reads both, since its start takes longer than they do.
    """
    if not CHECKOV.exists():
        pytest.fail("checkov is not installed: run `make checkov`")
    public = json.loads(json.dumps(synthesized.template))
    (work,) = (name for name in public["Resources"] if HASH.sub("", name) == "StorageWork")
    del public["Resources"][work]["Properties"]["PublicAccessBlockConfiguration"]
    folder = tmp_path_factory.mktemp("checkov")
    for name, template in (("ours", synthesized.template), ("public", public)):
        (folder / f"{name}.template.json").write_text(json.dumps(template))
    words = ("--framework", "cloudformation", "--output", "json", "--compact", "--soft-fail")
    shown = json.loads(run(str(CHECKOV), "--directory", str(folder), "--skip-download", *words))
    assert shown["summary"]["parsing_errors"] == 0
    assert shown["summary"]["passed"] > 200
    found: dict[str, dict[str, set[str]]] = {"ours": {}, "public": {}}
    for each in shown["results"]["failed_checks"]:
        checks = found[Path(each["file_path"]).name.partition(".")[0]]
        checks.setdefault(each["check_id"], set()).add(HASH.sub("", each["resource"]))
    return found


def test_checkov_findings_are_all_accepted(findings: dict[str, dict[str, set[str]]]):
    assert findings["ours"] == {check: what for check, (what, _) in ACCEPTED.items()}
    assert all(reason for _, reason in ACCEPTED.values())


def test_checkov_sees_a_public_bucket(findings: dict[str, dict[str, set[str]]]):
    assert findings["public"]["CKV_AWS_53"] == {WORK}
