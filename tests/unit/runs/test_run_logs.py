"""Logs of a run: which lines are its own, their order, pages, and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.cli.listing_commands import parse_time, text_line
from ddbload.errors import InvalidUsage
from ddbload.runs.deployed import LogEvent, RunLogs

REQUESTS = [f"{n:08x}-1111-2222-3333-444444444444" for n in range(4)]
IMPORTS, REPORTS = "/ddbload/ddbload/import_chunk", "/ddbload/ddbload/report"


class FakeLogs:
    """CloudWatch Logs with a few events, one on each page."""

    def __init__(self, **groups: list[tuple[float, str]]) -> None:
        self.groups: dict[str, Any] = groups
        self.calls: list[dict[str, Any]] = []

    def filter_log_events(
        self,
        *,
        logGroupName: str,  # noqa: N803 - botocore's own names
        startTime: int,  # noqa: N803
        filterPattern: str,  # noqa: N803
        nextToken: str = "0",  # noqa: N803
    ) -> Any:
        self.calls.append({"group": logGroupName, "pattern": filterPattern})
        found = self.groups[logGroupName.rpartition("/")[2]]
        if isinstance(found, Exception):
            raise found
        number = int(nextToken)
        events = [
            {
                "eventId": f"{logGroupName}-{number}",
                "timestamp": int(at * 1000),
                "message": message,
                "logStreamName": "stream",
            }
            for at, message in found[number : number + 1]
            if at * 1000 >= startTime
        ]
        more = {"nextToken": str(number + 1)} if number < len(found) else {}
        return {"events": events, **more}


def line(run: str, message: str = "began", request: int = 0, **more: Any) -> str:
    return json.dumps({"message": message, "run": run, "id": REQUESTS[request], **more}) + "\n"


def messages(logs: RunLogs, since: float = 0.0) -> list[str]:
    return [
        event.message if event.fields is None else event.fields["message"]
        for event in logs.events(since)
    ]


def test_events_of_all_groups_come_by_time():
    client = FakeLogs(
        import_chunk=[(2.0, line("r", "second")), (4.0, line("r", "fourth"))],
        report=[(3.0, line("r", "third")), (5.0, line("r", "fifth"))],
    )
    logs = RunLogs(client, [IMPORTS, REPORTS], "r")
    assert messages(logs) == ["second", "third", "fourth", "fifth"]
    assert {call["pattern"] for call in client.calls} == {
        '?"r" ?"Task timed out" ?"Runtime exited"'
    }


def test_events_of_other_runs_are_left_out():
    """Ids may begin alike, and one may stand in another's message."""
    client = FakeLogs(
        import_chunk=[
            (1.0, line("first")),
            (2.0, line("first-2")),
            (3.0, line("first-r0a1b2c3d", "resumed")),
            (4.0, line("other", "after first")),
            (5.0, json.dumps({"message": "first"})),
            (6.0, json.dumps({"message": "x", "run": ["first"]})),
            (7.0, "first, not JSON"),
        ]
    )
    assert messages(RunLogs(client, [IMPORTS], "first")) == ["began", "resumed"]


def test_functions_that_were_killed_are_recognized_by_their_request():
    killed = f"RequestId: {REQUESTS[1]} Error: Task timed out after 3.00 seconds"
    other = f"RequestId: {REQUESTS[2]} Error: Runtime exited with error: signal: killed"
    client = FakeLogs(import_chunk=[(1.0, line("r", request=1)), (2.0, killed), (3.0, other)])
    assert messages(RunLogs(client, [IMPORTS], "r")) == ["began", killed]


def test_events_are_returned_once_when_followed():
    client = FakeLogs(import_chunk=[(1.0, line("r", "a")), (2.0, line("r", "b"))])
    logs = RunLogs(client, [IMPORTS], "r")
    assert messages(logs) == ["a", "b"]
    client.groups["import_chunk"].append((2.5, line("r", "c")))
    assert messages(logs, 1.5) == ["c"]
    assert messages(logs, 1.5) == []


def test_line_of_text_shows_what_it_is_about_and_controls_no_terminal():
    fields = {
        "level": "INFO",
        "location": "handler:28",
        "message": "imported\x1b[2J",
        "service": "ddbload",
        "function_request_id": REQUESTS[0],
        "run": "r",
        "chunk": 3,
        "rows": {"read": 1},
    }
    event = LogEvent("1", 1_763_800_000.123, "import_chunk", "s", json.dumps(fields), fields)
    assert text_line(event) == (
        '2025-11-22T08:26:40.123Z import_chunk INFO    imported\\x1b[2J chunk=3 rows={"read": 1}'
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 99_400.0),
        ("2h", 92_800.0),
        ("1d", 13_600.0),
        ("1970-01-02T00:00", 86_400.0),
        ("1970-01-02T02:00+02:00", 86_400.0),
    ],
)
def test_times(text, seconds):
    assert parse_time(text, 100_000.0) == seconds


@pytest.mark.parametrize("text", ["", "10", "soon", "-5m", "10 m", "9999999h"])
def test_wrong_times_are_refused(text):
    with pytest.raises(InvalidUsage, match="--since"):
        parse_time(text, 0.0)
