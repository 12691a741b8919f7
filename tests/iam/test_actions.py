from __future__ import annotations

import pytest

from localaws.iam.actions import required_actions
from localaws.iam.requests import Request, UnknownCall
from tests.iam.request_helpers import ACCOUNT, PLACE, REGION, required_pairs

BOOKS = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/books"
OTHER = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/other"
ELSEWHERE = "arn:aws:dynamodb:us-east-1:999999999999:table/books"
KEY = {"Key": {"id": {"S": "1"}}}
PUT = {"PutRequest": {"Item": {}}}
DELETE = {"DeleteRequest": KEY}


@pytest.mark.parametrize(
    ("operation", "parameters", "calls"),
    [
        ("describe_table", {"TableName": "books"}, [("DescribeTable", BOOKS)]),
        ("describe_table", {"TableName": ELSEWHERE}, [("DescribeTable", ELSEWHERE)]),
        ("put_item", {"TableName": "books", "Item": {}}, [("PutItem", BOOKS)]),
        (
            "batch_execute_statement",
            {
                "Statements": [
                    {
                        "Statement": "INSERT INTO \"books\" VALUE {'a':?}",
                        "Parameters": [{"S": "1"}],
                    },
                    {"Statement": "insert into \"other\" value {'a':'1'}"},
                ]
            },
            [("PartiQLInsert", BOOKS), ("PartiQLInsert", OTHER)],
        ),
        ("query", {"TableName": "books", "IndexName": "i"}, [("Query", f"{BOOKS}/index/i")]),
        ("scan", {"TableName": "books"}, [("Scan", BOOKS)]),
        ("create_table", {"TableName": "books"}, [("CreateTable", BOOKS)]),
        ("delete_table", {"TableName": "books"}, [("DeleteTable", BOOKS)]),
        ("batch_write_item", {"RequestItems": {"books": [PUT]}}, [("BatchWriteItem", BOOKS)]),
        ("batch_write_item", {"RequestItems": {"books": [DELETE]}}, [("BatchWriteItem", BOOKS)]),
        (
            "batch_write_item",
            {"RequestItems": {"books": [PUT], "other": [DELETE], ELSEWHERE: [PUT]}},
            [("BatchWriteItem", BOOKS), ("BatchWriteItem", OTHER), ("BatchWriteItem", ELSEWHERE)],
        ),
        (
            "batch_get_item",
            {"RequestItems": {"other": {"Keys": []}}},
            [("BatchGetItem", OTHER)],
        ),
        ("list_tables", {}, [("ListTables", "*")]),
    ],
)
def test_dynamodb_operation_needs_its_actions(operation, parameters, calls):
    expected = [(f"dynamodb:{action}", resource) for action, resource in calls]
    assert required_pairs("dynamodb", operation, **parameters) == expected


MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:import"
EXECUTION = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:import:run1"
MAP_RUN = f"arn:aws:states:{REGION}:{ACCOUNT}:mapRun:import/ImportChunks:1"


@pytest.mark.parametrize(
    ("operation", "parameters", "action", "resource"),
    [
        ("start_execution", {"stateMachineArn": MACHINE}, "StartExecution", MACHINE),
        ("stop_execution", {"executionArn": EXECUTION}, "StopExecution", EXECUTION),
        ("describe_execution", {"executionArn": EXECUTION}, "DescribeExecution", EXECUTION),
        ("list_executions", {"stateMachineArn": MACHINE}, "ListExecutions", MACHINE),
        ("list_executions", {"mapRunArn": MAP_RUN}, "ListExecutions", MAP_RUN),
        ("create_state_machine", {"name": "import"}, "CreateStateMachine", MACHINE),
        ("update_state_machine", {"stateMachineArn": MACHINE}, "UpdateStateMachine", MACHINE),
        ("list_state_machines", {}, "ListStateMachines", "*"),
    ],
)
def test_step_functions_operation_needs_its_action(operation, parameters, action, resource):
    assert required_pairs("stepfunctions", operation, **parameters) == [
        (f"states:{action}", resource)
    ]


FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f"


@pytest.mark.parametrize(
    ("operation", "parameters", "action", "resource"),
    [
        ("invoke", {"FunctionName": "f"}, "InvokeFunction", FUNCTION),
        ("invoke", {"FunctionName": FUNCTION}, "InvokeFunction", FUNCTION),
        ("invoke", {"FunctionName": f"{ACCOUNT}:function:f"}, "InvokeFunction", FUNCTION),
        ("invoke", {"FunctionName": "f", "Qualifier": "7"}, "InvokeFunction", f"{FUNCTION}:7"),
        ("invoke", {"FunctionName": f"{FUNCTION}:live"}, "InvokeFunction", f"{FUNCTION}:live"),
        ("invoke", {"FunctionName": "f:live"}, "InvokeFunction", f"{FUNCTION}:live"),
        ("get_function", {"FunctionName": "f"}, "GetFunction", FUNCTION),
        ("delete_function", {"FunctionName": "f"}, "DeleteFunction", FUNCTION),
        ("create_function", {"FunctionName": "f"}, "CreateFunction", FUNCTION),
        ("update_function_code", {"FunctionName": "f"}, "UpdateFunctionCode", FUNCTION),
        ("list_functions", {}, "ListFunctions", "*"),
        ("get_account_settings", {}, "GetAccountSettings", "*"),
    ],
)
def test_lambda_operation_needs_its_action(operation, parameters, action, resource):
    assert required_pairs("lambda", operation, **parameters) == [(f"lambda:{action}", resource)]


QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"


@pytest.mark.parametrize(
    ("service", "operation", "parameters"),
    [
        ("dynamodb", "execute_statement", {"Statement": "SELECT * FROM books"}),
        ("dynamodb", "put_item", {"Item": {}}),
        ("stepfunctions", "create_activity", {"name": "a"}),
        ("lambda", "create_alias", {"FunctionName": "f", "Name": "a"}),
        ("lambda", "invoke", {"FunctionName": "a:b:c:d:e:f"}),
        ("sts", "decode_authorization_message", {"EncodedMessage": "x"}),
        ("ssm", "get_parameter", {"Name": "p"}),
        ("secretsmanager", "get_secret_value", {"SecretId": "s"}),
        ("logs", "put_query_definition", {"name": "n", "queryString": "q"}),
        ("events", "create_event_bus", {"Name": "b"}),
        ("events", "put_events", {"Entries": []}),
        ("sqs", "start_message_move_task", {"SourceArn": QUEUE}),
    ],
)
def test_operation_is_refused_if_unlisted(service, operation, parameters):
    with pytest.raises(UnknownCall):
        required_pairs(service, operation, **parameters)


@pytest.mark.parametrize("body", [b"no json", b"[]", b"\xff"])
def test_request_is_refused_unless_its_body_is_a_json_object(body):
    request = Request("POST", "/", "", {"x-amz-target": "DynamoDB_20120810.PutItem"}, lambda: body)
    with pytest.raises(UnknownCall, match="not a JSON object"):
        required_actions("dynamodb", request, PLACE)
