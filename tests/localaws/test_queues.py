"""Queues invoke functions in batches, and keep what failed until it is a dead letter."""

import json

import pytest
from botocore.exceptions import ClientError

from tests.localaws.conftest import receive, wait_for
from tests.localaws.template import queue_template


@pytest.fixture(scope="module")
def queued(app):
    """The stack with a queue, beside the other one."""
    app.create_stack("queued", queue_template())
    app.outputs |= app.outputs_of("queued")
    return app


def send(app, body):
    app.client("sqs").send_message(QueueUrl=app.outputs["Work"], MessageBody=json.dumps(body))


def received(app, name):
    """Return the receive count with which the function saw each delivery of a message."""
    s3, bucket = app.client("s3"), app.outputs["Seen"]
    keys = s3.list_objects_v2(Bucket=bucket, Prefix=f"{name}/").get("Contents", [])
    return sorted(int(found["Key"].rpartition("/")[2]) for found in keys)


def test_message_that_failed_is_delivered_again_and_others_are_not(queued):
    send(queued, {"name": "good", "fails": 0})
    send(queued, {"name": "bad", "fails": 1})
    wait_for(lambda: received(queued, "bad") == [1, 2] and received(queued, "good"))
    assert received(queued, "good") == [1]


def test_message_is_a_dead_letter_after_its_receives(queued):
    send(queued, {"name": "poison", "fails": 99})
    dead = receive(queued, "Dead", lambda body: body["name"] == "poison")
    assert json.loads(dead["Body"]) == {"name": "poison", "fails": 99}
    assert received(queued, "poison") == [1, 2]


def test_rule_sends_events_where_the_queues_policy_lets_it(queued):
    queued.put("permitted/1", bucket="Source")
    queued.put("refused/1", bucket="Source")
    wait_for(lambda: received(queued, "permitted"))
    dead = receive(queued, "Dead", lambda body: "detail" in body)
    assert json.loads(dead["Body"])["detail"]["object"]["key"] == "refused/1"
    assert dead["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"


def test_mapping_is_refused_if_the_visibility_is_below_the_functions_timeout(queued):
    sqs = queued.client("sqs")
    url = sqs.create_queue(QueueName="short", Attributes={"VisibilityTimeout": "5"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    with pytest.raises(ClientError, match="less than Function timeout"):
        queued.client("lambda").create_event_source_mapping(
            EventSourceArn=arn["Attributes"]["QueueArn"], FunctionName=queued.outputs["Worker"]
        )
