"""Mode `insert` at a service that does not know BatchExecuteStatement: each row by PutItem."""

from __future__ import annotations

import json

import boto3

from tests.cli.transcript import items, make_table
from tests.servers.dynalite import dynalite

WARNING = (
    "ddbload: warning: this endpoint does not know BatchExecuteStatement, so mode insert sends each"
    " row in a request of its own, by PutItem\n"
)


def test_rows_go_by_put_item_without_statements(console):
    with dynalite(statements=False) as endpoint:
        account = {"aws_access_key_id": "made-up", "aws_secret_access_key": "made-up"}
        client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1", **account)
        make_table(client, "plain", "id:N")
        client.put_item(TableName="plain", Item={"id": {"N": "3"}})
        console.write("a.csv", "id\n" + "".join(f"{number}\n" for number in range(40)))
        given = ["import", "a.csv", "plain", "--mode", "insert", "--json", "--endpoint-url"]
        ended = console.ddbload(*given, endpoint)
        assert (ended.code, ended.told) == (0, WARNING)
        found = json.loads(ended.out)
        assert (found["rows"]["written"], found["rows"]["skipped"]) == (39, 1)
        assert found["identical"] == 1
        assert found["requests"] >= 40
        assert len(list(items(client, "plain"))) == 40
