"""Tests by cdk-nag's AWS Solutions and Serverless rules: each accepted finding has its reason.

`Resource::` findings are about a `*` in what a statement names; test_policies.py has them all.
"""

from __future__ import annotations

import re

import pytest

from tests.infra.synthesis import Synthesized

WORK = "<StorageWork.Arn>"
INBOX = "<StorageInbox.Arn>"
EXECUTION = (
    "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>"
    ":execution:<WorkflowStateMachine.Name>"
)
PREFLIGHT, IMPORT_CHUNK = "Functions/Preflight", "Functions/ImportChunk"
REPORT, ON_UPLOAD = "Functions/Report", "Trigger/OnUpload"
ON_STOPPED = "Notice/OnStopped"
POLICY = "Role/DefaultPolicy/Resource"

RUN = "a run's id is chosen when it starts; the names below it are the step's own"
KNOWN = "names are of tables, objects and runs, which are chosen later"
SOURCE = "which object of an allowed bucket is loaded, each run's input says"
EXECUTIONS = "children's names are chosen by Step Functions; the machine's own is given"

ACKNOWLEDGED = {
    ("S1", "Storage/Work/Resource"): (
        "access logs need a further bucket that outlives the stack; CloudTrail data events give"
        " the same to who wants it"
    ),
    ("S1", "Storage/Inbox/Resource"): "the same",
    ("SF1", "Workflow/StateMachine/Resource"): (
        "20,000 children would log each transition; the ledger and the execution's history have"
        " what happened, and errors are logged"
    ),
    ("SF2", "Workflow/StateMachine/Resource"): (
        "X-Ray's actions take no resource but `*`, and a trace of 20,000 children shows nothing"
        " that the report does not"
    ),
    ("Serverless-LambdaEventSourceMappingDestination", "Trigger/ReadUploads/Resource"): (
        "a queue has no destination of its mapping: what failed stays in it, and becomes a dead"
        " letter by its redrive policy"
    ),
    ("SQS3", "Notice/Undelivered/Resource"): (
        "it is the dead-letter queue of a rule and of a function: the rule looks for queues'"
    ),
    ("IAM5[Resource::*]", f"{PREFLIGHT}/{POLICY}"): (
        "IAM has no resources for GetAccountSettings and GetMetricStatistics, which only read"
    ),
    (f"IAM5[Resource::{WORK}/runs/*/execution.json]", f"{PREFLIGHT}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/listing/*]", f"{PREFLIGHT}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/manifest/*]", f"{PREFLIGHT}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/request.json]", f"{PREFLIGHT}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/request.json]", f"{REPORT}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/request.json]", f"{ON_STOPPED}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/history/*]", f"{PREFLIGHT}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/once/*]", f"{PREFLIGHT}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/uploads/*]", f"{PREFLIGHT}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/started/*]", f"{PREFLIGHT}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{INBOX}/*]", f"{PREFLIGHT}/{POLICY}"): SOURCE,
    ("IAM5[Resource::arn:<AWS::Partition>:s3:::other-source/*]", f"{PREFLIGHT}/{POLICY}"): SOURCE,
    ("IAM5[Resource::arn:<AWS::Partition>:s3:::third.source/*]", f"{PREFLIGHT}/{POLICY}"): SOURCE,
    (f"IAM5[Resource::{INBOX}/*]", f"{IMPORT_CHUNK}/{POLICY}"): SOURCE,
    (
        "IAM5[Resource::arn:<AWS::Partition>:s3:::other-source/*]",
        f"{IMPORT_CHUNK}/{POLICY}",
    ): SOURCE,
    (
        "IAM5[Resource::arn:<AWS::Partition>:s3:::third.source/*]",
        f"{IMPORT_CHUNK}/{POLICY}",
    ): SOURCE,
    # Preflight imports and reports small sources.
    **{
        (f"IAM5[Resource::{WORK}/runs/*/{name}]", f"{function}/{POLICY}"): RUN
        for function in (PREFLIGHT, IMPORT_CHUNK)
        for name in (
            *("attempts/*", "chunks/*", "control.json", "failures/*", "manifest.json"),
            *("parts/*", "progress/*", "rejects/*", "run.json", "seek/*"),
        )
    },
    **{
        (f"IAM5[Resource::{WORK}/{name}]", f"{function}/{POLICY}"): RUN
        for function in (PREFLIGHT, REPORT, ON_STOPPED)
        for name in (
            "runs/*",
            "runs/*/report-parts/*",
            "runs/*/report.html",
            "runs/*/report.json",
            "notices/*",
        )
    },
    (f"IAM5[Resource::{WORK}/history/*]", f"{REPORT}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/history/*]", f"{ON_STOPPED}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/uploads/*]", f"{ON_UPLOAD}/{POLICY}"): KNOWN,
    (f"IAM5[Resource::{WORK}/runs/*/control.json]", f"{ON_STOPPED}/{POLICY}"): RUN,
    (f"IAM5[Resource::{EXECUTION}:*]", f"{ON_STOPPED}/{POLICY}"): EXECUTIONS,
    (f"IAM5[Resource::{WORK}/runs/*/report.json]", f"{ON_UPLOAD}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/run.json]", f"{ON_UPLOAD}/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/runs/*/manifest.json]", f"Workflow/{POLICY}"): RUN,
    (f"IAM5[Resource::{WORK}/mapruns/*]", f"Workflow/{POLICY}"): (
        "Step Functions names what lies there"
    ),
    ("IAM5[Resource::*]", f"Workflow/{POLICY}"): "log deliveries have no resource to name",
    (f"IAM5[Resource::{EXECUTION}:*]", "Workflow/AwaitTurns/Resource"): (
        "a run waits for the runs of older uploads, which are any executions of the machine"
    ),
    (f"IAM5[Resource::{EXECUTION}:*]", "Workflow/RunChildren/Resource"): EXECUTIONS,
    (f"IAM5[Resource::{EXECUTION}/ImportChunks:*]", "Workflow/RunChildren/Resource"): EXECUTIONS,
}

FUNCTIONS = (PREFLIGHT, IMPORT_CHUNK, REPORT, ON_UPLOAD, ON_STOPPED)
NO_QUEUE = (
    "only asynchronous invocations use it, and the function has none: the state machine waits for"
    " its answer, or its failed events stay in their queue"
)
NOT_LATEST = "synthesis compiles for the runtime, and Python 3.13 is where more people have it"
ACKNOWLEDGED |= {
    (rule, f"{function}/Function/Resource"): reason
    for function in FUNCTIONS
    for rule, reason in (
        ("Serverless-LambdaDLQ", NO_QUEUE),
        ("Serverless-LambdaTracing", "X-Ray has a price: a knob (tracing)"),
        ("Serverless-LambdaLatestVersion", NOT_LATEST),
        ("L1", NOT_LATEST),
    )
}
# Preflight imports and reports small sources.
ACKNOWLEDGED |= {
    (rule, f"{PREFLIGHT}/{POLICY}"): reason
    for (rule, where), reason in ACKNOWLEDGED.items()
    if where in (f"{IMPORT_CHUNK}/{POLICY}", f"{REPORT}/{POLICY}")
}
ACKNOWLEDGED |= {
    ("Serverless-SQSRedrivePolicy", "Trigger/DeadLetters/Resource"): (
        "it is the dead-letter queue itself"
    ),
    ("Serverless-SQSRedrivePolicy", "Notice/Undelivered/Resource"): (
        "it is the dead-letter queue itself"
    ),
    ("Serverless-StepFunctionStateMachineXray", "Workflow/StateMachine/Resource"): (
        "X-Ray has a price: a knob (tracing)"
    ),
}


TRACED = {
    *(("Serverless-LambdaTracing", f"{function}/Function/Resource") for function in FUNCTIONS),
    ("Serverless-StepFunctionStateMachineXray", "Workflow/StateMachine/Resource"),
    ("SF2", "Workflow/StateMachine/Resource"),
}
"""Findings that the setting `tracing` removes."""
LIMITED = ("both/x/*", "narrow/in/*", "narrow/more*", "theirs/*")
WITH_EXTRAS = {
    **{what: reason for what, reason in ACKNOWLEDGED.items() if what not in TRACED},
    **{
        (f"IAM5[Resource::arn:<AWS::Partition>:s3:::{source}]", f"{function}/{POLICY}"): SOURCE
        for function in (PREFLIGHT, IMPORT_CHUNK)
        for source in LIMITED
    },
    **{
        ("IAM5[Resource::*]", f"{function}/{POLICY}"): (
            "X-Ray and the network interfaces of a VPC have no resource to name; the latter's"
            " conditions name the VPC, and Lambda as the caller"
        )
        for function in FUNCTIONS
    },
}


@pytest.mark.parametrize(
    ("assembly", "accepted"),
    [("synthesized", ACKNOWLEDGED), ("synthesized_with_all", WITH_EXTRAS)],
)
def test_nag_findings_are_all_acknowledged(
    request: pytest.FixtureRequest, assembly: str, accepted: dict[tuple[str, str], str]
):
    made: Synthesized = request.getfixturevalue(assembly)
    found = {
        # Long policies are split.
        (rule.removeprefix("AwsSolutions-"), re.sub(r"OverflowPolicy\d", "DefaultPolicy", where))
        for rule, where in made.findings
    }
    assert found == set(accepted)
    assert all(accepted.values())


USERS = {("AwsSolutions-DDB3", f"shop/{table}/Resource") for table in ("Books", "Films")}
"""Findings in what the page's app has besides the pipelines: tables without a backup."""


def test_pipelines_of_the_page_have_the_findings_of_the_stack(page_app: Synthesized):
    wanted = {
        (rule, where)
        for rule, where in ACKNOWLEDGED
        if "other-source" not in rule and "third.source" not in rule
    }
    found = {*page_app.findings}
    for pipeline in ("Load", "More"):
        theirs = {each for each in found if each[1].startswith(f"shop/{pipeline}/")}
        found -= theirs
        assert wanted == {
            (
                rule.removeprefix("AwsSolutions-").replace(f"<{pipeline}", "<"),
                where.removeprefix(f"shop/{pipeline}/"),
            )
            for rule, where in theirs
        }
    assert {each for each in found if "/Serverless" not in each[0]} == USERS
