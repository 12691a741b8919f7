import json
import time

import boto3
import pytest
from botocore.config import Config

from localaws import LocalAws
from tests.localaws.template import template

SECONDS = 60


class Deployed:
    """The template, deployed, and clients to look at it."""

    def __init__(self, aws):
        self.aws = aws
        self._clients = {}
        self.create_stack("app", template())
        self.outputs = self.outputs_of("app")

    def client(self, service):
        if service not in self._clients:
            local = self.aws.dynamodb_endpoint if service == "dynamodb" else self.aws.endpoint
            self._clients[service] = boto3.client(
                service,
                endpoint_url=local,
                region_name=self.aws.region,
                aws_access_key_id="local",
                aws_secret_access_key="local",
                config=Config(
                    retries={"total_max_attempts": 1}, proxies={}, s3={"addressing_style": "path"}
                ),
            )
        return self._clients[service]

    def create_stack(self, name, body):
        self.client("cloudformation").create_stack(
            StackName=name, TemplateBody=json.dumps(body), Capabilities=["CAPABILITY_IAM"]
        )

    def outputs_of(self, name):
        stack = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
        return {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}

    def invoke(self, function, event, **options):
        answer = self.client("lambda").invoke(
            FunctionName=self.outputs[function], Payload=json.dumps(event), **options
        )
        return answer, json.loads(answer["Payload"].read() or b"null")

    def put(self, key, body=b"x", bucket="Inbox"):
        return self.client("s3").put_object(Bucket=self.outputs[bucket], Key=key, Body=body)

    def run(self, definition, given=None, expect=None):
        """Execute a machine of this definition, `${Function}` filled in; its description."""
        states = self.client("stepfunctions")
        text = json.dumps(definition)
        for name, value in self.outputs.items():
            text = text.replace("${" + name + "}", value)
        machine = states.create_state_machine(
            name=f"m{time.monotonic_ns()}", definition=text, roleArn=self.outputs["MachineRole"]
        )["stateMachineArn"]
        execution = states.start_execution(
            stateMachineArn=machine, input=json.dumps(given if given is not None else {})
        )["executionArn"]
        ended = wait_for(
            lambda: (
                (d := states.describe_execution(executionArn=execution))["status"] != "RUNNING"
                and d
            )
        )
        if expect is not None:
            assert ended["status"] == expect, ended
        return ended


def wait_for(look, seconds=SECONDS):
    """What `look` returns once it is true."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return seen


def receive(app, queue):
    def message():
        got = app.client("sqs").receive_message(
            QueueUrl=app.outputs[queue], MessageAttributeNames=["All"], WaitTimeSeconds=0
        )
        return got.get("Messages")

    (found,) = wait_for(message)
    app.client("sqs").delete_message(
        QueueUrl=app.outputs[queue], ReceiptHandle=found["ReceiptHandle"]
    )
    return found


@pytest.fixture(scope="session")
def aws():
    with LocalAws("--retry-seconds", "0.05", "--concurrency", "2") as running:
        yield running


@pytest.fixture(scope="session")
def app(aws):
    return Deployed(aws)
