"""`make test-aws` against the emulation: whole, interrupted, killed, refused; nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import boto3
import pytest

from localaws import LocalAws
from proof.budget import SCALES, Budget, BudgetTooSmall, Work, choose_scale
from proof.parts import PARTS, price
from tests.cli.console import ROOT

NOT_EMULATED = {"500-wcu", "cold-starts", "log-key"}
LISTS = {
    "cloudformation": ("describe_stacks", "Stacks", "StackName"),
    "ecr": ("describe_repositories", "repositories", "repositoryName"),
    "events": ("list_rules", "Rules", "Name"),
    "iam": ("list_roles", "Roles", "RoleName"),
    "lambda": ("list_functions", "Functions", "FunctionName"),
    "logs": ("describe_log_groups", "logGroups", "logGroupName"),
    "s3": ("list_buckets", "Buckets", "Name"),
    "ssm": ("describe_parameters", "Parameters", "Name"),
    "stepfunctions": ("list_state_machines", "stateMachines", "name"),
}


class Cloud:
    """The emulated account, and proofs in it."""

    def __init__(self, aws, folder):
        self.aws, self.folder = aws, folder
        self.env = {**os.environ, **aws.environment, "PYTHONPATH": str(ROOT)}

    def client(self, service):
        url = self.aws.dynamodb_endpoint if service == "dynamodb" else self.aws.endpoint
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        return boto3.client(service, endpoint_url=url, region_name=self.aws.region, **keys)

    def things(self):
        """List what the account has."""
        found = {"dynamodb": self.client("dynamodb").list_tables()["TableNames"]}
        found["sqs"] = self.client("sqs").list_queues().get("QueueUrls", [])
        for service, (call, field, name) in LISTS.items():
            answer = getattr(self.client(service), call)()
            found[service] = [each[name] for each in answer[field]]
        return {service: names for service, names in found.items() if names}

    def start(self, *words):
        """Start a proof; its standard error is its log."""
        command = [sys.executable, "-m", "proof", "--folder", str(self.folder), *words]
        with (self.folder / "log").open("w+") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": log}
            return subprocess.Popen(command, cwd=ROOT, env=self.env, **streams)

    def log(self):
        return (self.folder / "log").read_text()

    def wait_for(self, words, process):
        while words not in self.log():
            assert process.poll() is None, self.log()
            time.sleep(0.1)

    def run(self, *words):
        return self.start(*words).wait(1200)


@pytest.fixture(scope="module")
def aws():
    hasty = ("--retry-seconds", "0.2", "--state-retry-seconds", "0.5")
    with LocalAws("--enforce-iam", "--concurrency", "2", *hasty) as aws:
        yield aws


@pytest.fixture
def cloud(aws, tmp_path):
    cloud = Cloud(aws, tmp_path)
    assert cloud.things() == {}
    return cloud


@pytest.mark.timeout(1500)
def test_whole_proof_passes_and_leaves_nothing(cloud):
    assert cloud.run("--yes") == 0, cloud.log()
    assert cloud.things() == {}
    result = json.loads((cloud.folder / "aws-proof.json").read_text())
    by_status = {"measured": set(), "left out": set()}
    for each in result["figures"]:
        by_status[each["status"]].add(each["part"])
    assert by_status["measured"] == {part.name for part in PARTS} - NOT_EMULATED
    assert by_status["left out"] >= NOT_EMULATED | {"uploads", "redrive"}
    assert result["left"] == []


@pytest.mark.timeout(900)
def test_interrupted_proof_leaves_nothing(cloud):
    """A run is under way, and the stack is deployed."""
    process = cloud.start("--yes", "--parts", "stop")
    cloud.wait_for("proof: stop: an execution", process)
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130, cloud.log()
    assert "proof: nothing is left" in cloud.log()
    assert cloud.things() == {}


@pytest.mark.timeout(900)
def test_killed_proof_is_found_by_its_tag(cloud):
    process = cloud.start("--yes", "--parts", "stop")
    cloud.wait_for("proof: deploy: ", process)
    while "cloudformation" not in cloud.things():
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert {"dynamodb", "s3", "sqs", "events"} <= cloud.things().keys()
    for record in (cloud.folder / "aws-proof").iterdir():
        record.unlink()
    assert cloud.run("--clean") == 2
    assert "give --yes" in cloud.log()
    assert cloud.run("--clean", "--yes") == 0, cloud.log()
    assert cloud.things() == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--yes", "--budget", "0.3"], "BUDGET=0.3 is too small"), ([], "no terminal to ask on")],
)
def test_refused_proof_makes_nothing(cloud, words, said):
    assert cloud.run(*words) == 2
    assert said in cloud.log()
    assert cloud.things() == {}


@pytest.mark.parametrize("cents", [62, 65, 80, 100, 150, 198, 200, 1000])
def test_scale_is_the_largest_within_the_budget(cents):
    scale = choose_scale(partial(price, PARTS), cents / 100)
    assert price(PARTS, scale) <= cents / 100
    assert all(price(PARTS, larger) > cents / 100 for larger in SCALES if larger > scale)
    assert (scale == 1) == (cents >= 198)


def test_part_is_allowed_while_its_price_is_left():
    work = Work(runs=2, rows=1000, seconds=60)
    assert work.dollars > 2 * work.max_cost > 2 * 1000 * 0.625e-6
    assert Budget(work.dollars).allows(work)
    assert not Budget(work.dollars, spent=0.0001).allows(work)
    with pytest.raises(BudgetTooSmall, match=r"may cost \$0.01"):
        choose_scale(lambda _: 0.005, 0.001)
