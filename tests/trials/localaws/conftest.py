import json
import time

import boto3
import pytest
from botocore.config import Config

from localaws import LocalAws
from tests.trials.localaws.template import template

SECONDS = 60


class Deployed:
    """The deployed template, with clients for the emulator."""

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
        """Execute a machine with this definition, and return its description at the end.

        `${Function}` in the definition is replaced by the stack's output `Function`.
        """
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
    """Call `look` until it returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"nothing after {seconds} s"
        time.sleep(0.02)
    return seen


def receive(app, queue, matches):
    """Wait for a message whose decoded body `matches`. Messages of earlier tests are dropped."""
    sqs, url = app.client("sqs"), app.outputs[queue]

    def look():
        answer = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=0)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if matches(json.loads(message["Body"])):
                return message
        return None

    return wait_for(look)


@pytest.fixture(scope="session")
def aws():
    with LocalAws(
        "--retry-seconds", "0.05", "--state-retry-seconds", "2", "--concurrency", "2"
    ) as running:
        yield running


@pytest.fixture(scope="session")
def app(aws):
    return Deployed(aws)
