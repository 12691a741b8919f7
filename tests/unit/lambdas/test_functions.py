"""Tests of the handlers: states, deadlines, logs, metrics, and errors without row data."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from ddbload.context import AccessPolicy
from ddbload.contracts import states as measures
from ddbload.contracts import upload_rule as deployed
from ddbload.contracts.results import STATUSES, ExecutionOutput, Failure
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.upload_rule import SourceBucket
from ddbload.errors import AwsConfiguration, InvalidPayload, ServiceUnavailable
from ddbload.ledger.bucket_store import BucketStore
from lambdas import entry, import_chunk, on_stopped, on_upload, preflight, report
from lambdas.deployment import Deployment
from tests.fakes.stepfunctions import FakeStepFunctions
from tests.unit.steps.world import BUCKET, KEY, RUN, TABLE, World

WORK = "work"
SECRET = "marker-of-a-row"
ENVIRONMENT = {
    deployed.WORK_BUCKET: WORK,
    deployed.SOURCE_BUCKETS: f"inbox,{BUCKET}",
    deployed.TABLES: TABLE,
    deployed.ACCOUNT: "123456789012",
    deployed.INBOX: "inbox",
}


@dataclass
class Invocation:
    """Lambda's context."""

    seconds: float = 900
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def world(monkeypatch) -> World:
    world = World(f"id,n\na,1\n{SECRET},{SECRET}\n".encode(), types={"n": "N"})
    world.s3.create_bucket(Bucket=WORK)
    stepfunctions = FakeStepFunctions()
    settings = Deployment(
        work_bucket=WORK,
        access=AccessPolicy((SourceBucket(BUCKET),), frozenset([TABLE])),
        state_machine=stepfunctions.machine,
        uploads=Deployment.of(
            {**ENVIRONMENT, deployed.UPLOADS: '[{"prefix": "in/", "table": "books"}]'}
        ).uploads,
        clients=SimpleNamespace(  # type: ignore[arg-type]
            s3=world.s3,
            dynamodb=world.dynamodb,
            stepfunctions=stepfunctions,
            events=world.events,
            s3_signer=lambda _: None,
        ),
    )
    world.store = BucketStore(world.s3, WORK)
    monkeypatch.setattr(entry, "deployment", lambda: settings)
    monkeypatch.setattr(on_upload, "deployment", lambda: settings)
    monkeypatch.setattr(on_stopped, "deployment", lambda: settings)
    return world


@pytest.fixture
def log(monkeypatch) -> io.StringIO:
    """What the functions log; Powertools keeps the stream that was there when it began."""
    stream = io.StringIO()
    monkeypatch.setattr(entry.logger.registered_handler, "stream", stream)
    return stream


def begin(world: World, **changes: Any) -> dict[str, Any]:
    given = {**world.payload, **changes}
    state = {"input": given, "run": RUN, "execution": "arn:x", "cursor": None}
    return {"state": state, "redrives": 0}


def failed(handler: Any, event: Any) -> Failure:
    """Error that a function returns, since no retry can mend it."""
    result = handler(event, Invocation())
    assert "cursor" not in result or result["cursor"] is None
    return Failure.from_json(result["error"])


def test_handlers_pass_the_state_on(world, capsys, log):
    state = preflight.handler(begin(world), Invocation())
    assert state == {
        "run": RUN,
        "cursor": None,
        "manifest": f"runs/{RUN}/manifest.json",
        "chunks": 1,
        "workers": 1,
        "execution": "arn:x",
    }
    child = {"run": RUN, "chunks": [world.manifest[0].to_json()], "stalled": 0}
    assert import_chunk.handler(child, Invocation()) == {**child, "chunks": []}
    outcome = report.handler({"state": state, "redrives": 1}, Invocation())
    assert outcome == {
        "run": RUN,
        "status": "SUCCEEDED_WITH_REJECTS",
        "rows": {"read": 2, "written": 1, "rejected": 1, "superseded": 0, "skipped": 0},
        "uncertain": 0,
        "chunks": 1,
        "chunks_done": 1,
        "rejects": f"s3://{WORK}/runs/{RUN}/rejects/",
        "error": None,
    }
    printed = capsys.readouterr().out
    assert "imported" in log.getvalue()
    assert SECRET not in printed + log.getvalue()
    (detail,) = world.events.details
    assert detail["status"] == "SUCCEEDED_WITH_REJECTS"
    assert (detail["execution"], detail["redrives"]) == ("arn:x", 1)
    assert all(json.loads(line)["run"] == RUN for line in log.getvalue().splitlines())
    metrics = [json.loads(line) for line in printed.splitlines() if "_aws" in line]
    assert [each.get("RowsWritten") for each in metrics] == [[1.0], None]
    assert metrics[1]["RunsSucceededWithRejects"] == [1.0]


def emitted(printed: str) -> set[str]:
    """Names of the metrics that were printed, each with the stack's name as its dimension."""
    names = set()
    for line in printed.splitlines():
        if "_aws" in line:
            (group,) = json.loads(line)["_aws"]["CloudWatchMetrics"]
            assert group["Namespace"] == measures.METRICS_NAMESPACE
            assert group["Dimensions"] == [[measures.SERVICE_DIMENSION]]
            names |= {each["Name"] for each in group["Metrics"]}
    return names


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_has_a_metric(world, capsys, monkeypatch, status):
    output = ExecutionOutput(RUN, status, RowCounts(), 1, 1, None, None)
    monkeypatch.setattr(report, "report_execution", lambda *_, **__: output)
    report.handler({"state": {"run": RUN}, "redrives": 0}, Invocation())
    (name,) = emitted(capsys.readouterr().out)
    assert name in measures.RUN_METRICS


def test_import_emits_the_named_metrics(world, capsys):
    preflight.handler(begin(world), Invocation())
    child = {"run": RUN, "chunks": [world.manifest[0].to_json()], "stalled": 0}
    import_chunk.handler(child, Invocation())
    assert emitted(capsys.readouterr().out) == {
        *measures.ROW_METRICS,
        measures.THROTTLED_REQUESTS,
        measures.CONSUMED_WRITE_UNITS,
    }


def test_on_upload_returns_the_messages_that_must_come_again(world, log):
    detail = {"bucket": {"name": BUCKET}, "object": {"key": KEY, "etag": "e", "size": 1}}
    bodies = {"good": json.dumps({"detail": detail}), "bad": "{}", "worse": f"[{SECRET}"}
    records = [{"messageId": name, "body": body} for name, body in bodies.items()]
    done = on_upload.handler({"Records": records}, Invocation())
    assert done == {"batchItemFailures": [{"itemIdentifier": "bad"}, {"itemIdentifier": "worse"}]}
    logged = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(each.get("message_id"), each.get("error")) for each in logged] == [
        (None, None),
        ("bad", "InvalidPayload"),
        ("worse", "InvalidPayload"),
    ]
    assert SECRET not in log.getvalue()


def test_handler_returns_errors_that_no_retry_mends(world, log):
    world.dynamodb.delete_table(TableName=TABLE)
    assert failed(preflight.handler, begin(world)).name == "TableNotFound"
    logged = json.loads(log.getvalue().splitlines()[-1])
    assert (logged["error"], logged["level"]) == ("TableNotFound", "WARNING")


@pytest.mark.parametrize("handler", [preflight, import_chunk, report])
def test_handler_raises_errors_that_a_retry_may_mend(world, log, monkeypatch, handler):
    def unavailable(*_: object) -> None:
        raise ServiceUnavailable("later")

    monkeypatch.setattr(entry, "deployment", unavailable)
    with pytest.raises(ServiceUnavailable, match="later"):
        handler.handler(begin(world), Invocation())


def test_handler_hides_the_text_of_other_exceptions(world, log, monkeypatch):
    def broken(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(preflight, "preflight_or_run", broken)
    error = failed(preflight.handler, begin(world))
    assert error.name == "UnexpectedError"
    assert SECRET not in error.message
    assert "ValueError at test_functions.py" in error.message
    assert "UnexpectedError" in log.getvalue()
    assert SECRET not in log.getvalue()


def test_deployment_reads_the_environment(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    settings = Deployment.of({**ENVIRONMENT, deployed.RESERVE_SECONDS: "7.5"})
    assert settings.access == AccessPolicy(
        (SourceBucket("inbox"), SourceBucket(BUCKET)), frozenset([TABLE])
    )
    assert (settings.reserve_seconds, settings.uploads) == (7.5, ())
    assert Deployment.of(ENVIRONMENT).step_context(100.0).import_concurrency is None
    limited = Deployment.of({**ENVIRONMENT, deployed.IMPORT_CONCURRENCY: "7"})
    assert limited.step_context(100.0).import_concurrency == 7
    context = Deployment.of(ENVIRONMENT).step_context(100.0)
    assert 60 < context.deadline - context.clock() <= 70
    assert context.access.paths is False


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({deployed.WORK_BUCKET: None}, "DDBLOAD_WORK_BUCKET"),
        ({deployed.TABLES: None}, "DDBLOAD_TABLES"),
        ({deployed.UPLOADS: "[{]"}, "the function's environment"),
        ({deployed.UPLOADS: '[{"prefix": "x"}]'}, r"'upload\.table' is missing"),
        ({deployed.RESERVE_SECONDS: "soon"}, "soon"),
        ({deployed.IMPORT_CONCURRENCY: "many"}, "many"),
    ],
)
def test_deployment_names_wrong_variables(changes, words):
    environment = {**ENVIRONMENT, **changes}
    given = {name: value for name, value in environment.items() if value is not None}
    with pytest.raises(AwsConfiguration, match=words):
        Deployment.of(given)


def test_handler_shortens_a_long_error(world, log):
    long = "x" * 200_000
    error = failed(preflight.handler, begin(world, **{long: 1}))
    assert "unknown field 'xxx" in error.message
    assert len(error.message) < 2100
    assert len(log.getvalue()) < 4000


def test_each_line_of_a_failed_invocation_names_its_run_and_chunk(world, log):
    state = preflight.handler(begin(world), Invocation())
    chunk = {"chunk": 7, "start": 1}
    assert failed(import_chunk.handler, {"run": state["run"], "chunk": chunk})
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["message"], line["run"], line.get("chunk")) for line in lines] == [
        ("began", RUN, None),
        ("cut", RUN, None),
        ("began", RUN, 7),
        ("failed", RUN, 7),
    ]


@pytest.mark.parametrize("run", ["\ud800", "a b", 7, None, ["r"]])
def test_run_that_is_none_is_not_logged(log, world, run):
    assert failed(import_chunk.handler, {"run": run}).name == "InvalidPayload"
    (line,) = map(json.loads, log.getvalue().splitlines())
    assert line["message"] == "failed"
    assert "run" not in line


HANDLERS = (preflight, import_chunk, report, on_upload, on_stopped)
ODD_EVENTS = [None, 0, 1.5, True, "text", "\x1b[31m\ud800", [], [None], {}]


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda each: each.__name__.rpartition(".")[2])
@pytest.mark.parametrize("event", [each for each in ODD_EVENTS if each != {}])
def test_handler_refuses_an_event_that_is_not_an_object(handler, world, log, event):
    with pytest.raises(InvalidPayload, match="must be a JSON object"):
        handler.handler(event, Invocation())


@pytest.mark.parametrize("name", ["etag", "version_id"])
@pytest.mark.parametrize(
    "text", ["a\r\nx-evil: 1", "a\nb", "a\x00", "a b", "\x7f", "é", "a" * 2000]
)
def test_version_that_no_header_may_have_is_refused(world, log, name, text):
    source = {"bucket": BUCKET, "key": KEY, name: text}
    error = failed(preflight.handler, begin(world, source=source))
    assert f"'source.{name}' must be as S3 gives it" in error.message
