"""Map requests of JSON-protocol services to (action, resource) pairs.

The action is in the header X-Amz-Target. Source: the Service Authorization Reference's page for
each service.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from localaws.iam.requests import Call, Place, Request, UnknownCall

Fields = Mapping[str, Any]
_ServiceActions = Callable[[str, Fields, Place], Iterable[Call]]


def required_actions(service: str, request: Request, place: Place) -> list[Call]:
    """Return the permissions that `service` (the signing name) checks; all are needed.

    Raises UnknownCall for services and actions that are not supported here.
    """
    target = request.headers.get("x-amz-target", "")
    prefix, _, operation = target.rpartition(".")
    known = _SERVICES.get(service)
    if known is None or prefix != known[0] or not operation:
        raise UnknownCall(f"{service}: {request}")
    calls = list(known[1](operation, request.json(), place))
    if not calls:
        raise UnknownCall(f"{service}: {request}: the request names no resource")
    return calls


def _required_field(fields: Fields, name: str, operation: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise UnknownCall(f"{operation}: {name} is missing, so the resource is unknown")
    return value


# DynamoDB

_TABLE_ACTIONS = {
    "CreateTable", "DeleteItem", "DeleteTable", "DescribeContinuousBackups", "DescribeTable",
    "DescribeTimeToLive", "GetItem", "PutItem", "Query", "Scan", "UpdateContinuousBackups",
    "UpdateItem", "UpdateTable", "UpdateTimeToLive",
}  # fmt: skip
_ACCOUNT_ACTIONS = {"DescribeEndpoints", "DescribeLimits", "ListTables"}
_TAG_ACTIONS = {"ListTagsOfResource", "TagResource", "UntagResource"}
_INSERT = re.compile(r'\s*INSERT\s+INTO\s+"([^"]+)"\s', re.IGNORECASE)


def _dynamodb_actions(operation: str, fields: Fields, place: Place) -> Iterator[Call]:
    def table(name: str) -> str:
        # A table may be named by its ARN too.
        return name if name.startswith("arn:") else place.arn("dynamodb", f"table/{name}")

    if operation in _TABLE_ACTIONS:
        resource = table(_required_field(fields, "TableName", operation))
        if fields.get("IndexName"):
            # A query of an index needs permission for the index, not for the table.
            resource += f"/index/{fields['IndexName']}"
        yield Call(f"dynamodb:{operation}", resource)
    elif operation in {"BatchGetItem", "BatchWriteItem"}:
        names = fields.get("RequestItems")
        if not isinstance(names, Mapping):
            raise UnknownCall(f"{operation}: RequestItems is not an object of tables")
        # BatchWriteItem covers puts and deletes: AWS does not check DeleteItem as well.
        for name in names:
            yield Call(f"dynamodb:{operation}", table(name))
    elif operation == "BatchExecuteStatement":
        for statement in fields.get("Statements", []):
            text = str(statement.get("Statement", ""))
            inserted = _INSERT.match(text)
            if inserted is None:
                raise UnknownCall(f"{operation}: the permission for {text[:20]!r} is not known")
            yield Call("dynamodb:PartiQLInsert", table(inserted[1]))
    elif operation in _TAG_ACTIONS:
        yield Call(f"dynamodb:{operation}", _required_field(fields, "ResourceArn", operation))
    elif operation in _ACCOUNT_ACTIONS:
        yield Call(f"dynamodb:{operation}", "*")
    else:
        raise UnknownCall(f"dynamodb:{operation}")


# Step Functions

_STATES_RESOURCE_FIELDS: dict[str, str] = {
    "DeleteStateMachine": "stateMachineArn",
    "DescribeExecution": "executionArn",
    "DescribeMapRun": "mapRunArn",
    "DescribeStateMachine": "stateMachineArn",
    "DescribeStateMachineForExecution": "executionArn",
    "GetExecutionHistory": "executionArn",
    "ListMapRuns": "executionArn",
    "RedriveExecution": "executionArn",
    "StartExecution": "stateMachineArn",
    "StopExecution": "executionArn",
    "UpdateMapRun": "mapRunArn",
    "UpdateStateMachine": "stateMachineArn",
}
_STATES_ACCOUNT_ACTIONS = {
    "ListActivities", "ListStateMachines", "SendTaskFailure", "SendTaskHeartbeat",
    "SendTaskSuccess", "ValidateStateMachineDefinition",
}  # fmt: skip


def _states_actions(operation: str, fields: Fields, place: Place) -> Iterator[Call]:
    if operation in _STATES_RESOURCE_FIELDS:
        resource = _required_field(fields, _STATES_RESOURCE_FIELDS[operation], operation)
    elif operation == "ListExecutions":
        by = "mapRunArn" if "mapRunArn" in fields else "stateMachineArn"
        resource = _required_field(fields, by, operation)
    elif operation == "CreateStateMachine":
        resource = place.arn("states", f"stateMachine:{_required_field(fields, 'name', operation)}")
    elif operation in _STATES_ACCOUNT_ACTIONS:
        resource = "*"
    else:
        raise UnknownCall(f"states:{operation}")
    yield Call(f"states:{operation}", resource)


# CloudWatch Logs, EventBridge, SQS

_LOG_STREAM_ACTIONS = {"CreateLogStream", "DeleteLogStream", "GetLogEvents", "PutLogEvents"}
_LOG_GROUP_ACTIONS = {
    "CreateLogGroup", "DeleteLogGroup", "DeleteRetentionPolicy", "DescribeLogStreams",
    "FilterLogEvents", "PutRetentionPolicy",
}  # fmt: skip


def _logs_actions(operation: str, fields: Fields, place: Place) -> Iterator[Call]:
    if operation == "DescribeLogGroups":
        yield Call("logs:DescribeLogGroups", "*")
        return
    if operation not in _LOG_STREAM_ACTIONS | _LOG_GROUP_ACTIONS:
        raise UnknownCall(f"logs:{operation}")
    resource = f"log-group:{_required_field(fields, 'logGroupName', operation)}"
    if operation in _LOG_STREAM_ACTIONS:
        resource += f":log-stream:{_required_field(fields, 'logStreamName', operation)}"
    yield Call(f"logs:{operation}", place.arn("logs", resource))


def _events_actions(operation: str, fields: Fields, place: Place) -> Iterator[Call]:
    if operation != "PutEvents":
        raise UnknownCall(f"events:{operation}")
    for entry in fields.get("Entries", []):
        bus = entry.get("EventBusName") or "default"
        context = {
            "events:source": str(entry.get("Source")),
            "events:detail-type": str(entry.get("DetailType")),
        }
        arn = bus if bus.startswith("arn:") else place.arn("events", f"event-bus/{bus}")
        yield Call("events:PutEvents", arn, context)


# Batch operations need the permission of the single operation.
_SQS_ACTIONS = {
    "DeleteMessage": "DeleteMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "DeleteQueue": "DeleteQueue",
    "GetQueueAttributes": "GetQueueAttributes",
    "ReceiveMessage": "ReceiveMessage",
    "SendMessage": "SendMessage",
    "SendMessageBatch": "SendMessage",
}


def _sqs_actions(operation: str, fields: Fields, place: Place) -> Iterator[Call]:
    if operation == "ListQueues":
        yield Call("sqs:ListQueues", place.arn("sqs", "*"))
    elif operation in {"CreateQueue", "GetQueueUrl"}:
        name = _required_field(fields, "QueueName", operation)
        yield Call(f"sqs:{operation}", place.arn("sqs", name))
    elif operation in _SQS_ACTIONS:
        account, _, name = _required_field(fields, "QueueUrl", operation).rpartition("/")
        owner = Place(place.region, account.rpartition("/")[2], place.partition)
        yield Call(f"sqs:{_SQS_ACTIONS[operation]}", owner.arn("sqs", name))
    else:
        raise UnknownCall(f"sqs:{operation}")


# Signing name to the prefix of X-Amz-Target, and the function for the service's actions.
# CloudWatch

_CLOUDWATCH_READS = {"GetMetricData", "GetMetricStatistics", "ListMetrics"}


def _cloudwatch_actions(operation: str, _fields: Fields, _place: Place) -> Iterator[Call]:
    if operation not in _CLOUDWATCH_READS:
        raise UnknownCall(f"cloudwatch:{operation}")
    yield Call(f"cloudwatch:{operation}", "*")


_SERVICES: dict[str, tuple[str, _ServiceActions]] = {
    "dynamodb": ("DynamoDB_20120810", _dynamodb_actions),
    "events": ("AWSEvents", _events_actions),
    "logs": ("Logs_20140328", _logs_actions),
    "monitoring": ("GraniteServiceVersion20100801", _cloudwatch_actions),
    "sqs": ("AmazonSQS", _sqs_actions),
    "states": ("AWSStepFunctions", _states_actions),
}
