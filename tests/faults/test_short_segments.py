"""A run whose invocations are short consumes no write units twice."""

from __future__ import annotations

from ddbload.aws.clients import AwsSettings
from ddbload.runs.local_runs import LocalSettings
from ddbload.runs.run_import import run_import
from tests.fakes.dynamodb_tables import keyed
from tests.faults.server import FaultServer

ROWS, UNITS_A_SECOND, SECONDS = 2000, 300, 2.5


def test_short_invocations_write_few_rows_twice(tmp_path, monkeypatch):
    """Rows are spread over requests; those beyond an unsettled one are sent again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    source = tmp_path / "a.csv"
    source.write_text("id,n\n" + "".join(f"{number},x\n" for number in range(ROWS)))
    with FaultServer() as server:
        server.dynamodb.create_table(**keyed("short", id="N"))
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", server.endpoint)
        settings = LocalSettings(
            str(tmp_path / "ledger"), AwsSettings(region="us-east-1"), segment_seconds=SECONDS
        )
        payload = {
            "source": {"path": str(source)},
            "target": {"table": "short"},
            "options": {"max_wcu": UNITS_A_SECOND},
        }
        report = run_import(payload, settings, run="short").report
        sent = sum(
            len(call.params["RequestItems"]["short"])
            for call in server.dynamodb.calls
            if call.operation == "batch_write_item"
        )
    assert report.rows.written == ROWS
    assert report.work.consumed_wcu == sent
    # Without looking at the deadline, it is two thirds more than the rows need.
    assert sent <= 1.3 * ROWS
