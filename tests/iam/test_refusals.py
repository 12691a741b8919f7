"""botocore parses each refusal like a refusal of AWS."""

from __future__ import annotations

import botocore.session
import pytest
from botocore.parsers import create_parser

from localaws.iam.refusals import access_denied
from tests.iam.request_helpers import capture_request

WHY = 'User: <arn> & "co" is not authorized'


@pytest.mark.parametrize(
    ("service", "signed", "operation", "parameters", "code", "status"),
    [
        ("s3", "s3", "get_object", {"Bucket": "b", "Key": "k"}, "AccessDenied", 403),
        ("s3", "s3", "list_objects_v2", {"Bucket": "b"}, "AccessDenied", 403),
        ("dynamodb", "dynamodb", "describe_table", {"TableName": "t"},
         "AccessDeniedException", 400),
        ("stepfunctions", "states", "start_execution", {"stateMachineArn": "a"},
         "AccessDeniedException", 400),
        ("logs", "logs", "create_log_group", {"logGroupName": "g"}, "AccessDeniedException", 400),
        ("sqs", "sqs", "list_queues", {}, "AccessDeniedException", 403),
        ("lambda", "lambda", "invoke", {"FunctionName": "f"}, "AccessDeniedException", 403),
        ("sts", "sts", "assume_role", {"RoleArn": "a", "RoleSessionName": "s"},
         "AccessDenied", 403),
    ],
)  # fmt: skip
def test_access_denied_is_parsed_by_botocore(service, signed, operation, parameters, code, status):
    request = capture_request(service, operation, **parameters)
    answer = access_denied(signed, request, WHY)
    parsed = _parsed(service, operation, answer)
    assert parsed["Error"]["Code"] == code
    assert parsed["Error"]["Message"] == WHY
    assert parsed["ResponseMetadata"]["HTTPStatusCode"] == status
    assert parsed["ResponseMetadata"]["RequestId"]


def test_access_denied_has_no_body_for_head():
    answer = access_denied("s3", capture_request("s3", "head_object", Bucket="b", Key="k"), WHY)
    assert (answer.status, answer.body) == (403, b"")


def _parsed(service, operation, answer):
    model = botocore.session.get_session().get_service_model(service)
    name = "".join(word.title() for word in operation.split("_"))
    response = {
        "status_code": answer.status,
        "headers": {key.lower(): value for key, value in answer.headers.items()},
        "body": answer.body,
        "context": {"operation_name": name},
    }
    parser = create_parser(model.metadata["protocol"])
    return parser.parse(response, model.operation_model(name).output_shape)
