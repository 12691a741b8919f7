"""An emulated account, and proofs in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import boto3

from tests.cli.console import ROOT

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
