"""Alarms and dashboard read metrics that the functions emit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ddbload.contracts import run_notice
from tests.infra.template import Template


def alarms(template: Template) -> dict[str, Any]:
    return template.of_type("AWS::CloudWatch::Alarm")


def shown(template: Template) -> list[dict[str, Any]]:
    """Return the dashboard's widgets."""
    (dashboard,) = template.of_type("AWS::CloudWatch::Dashboard").values()
    widgets: list[dict[str, Any]] = json.loads(dashboard["DashboardBody"])["widgets"]
    return widgets


def own_metrics(template: Template) -> Iterator[tuple[str, dict[str, str]]]:
    """Find every use of ddbload's own metrics: name, and values by dimension."""
    for alarm in alarms(template).values():
        if alarm["Namespace"] == run_notice.METRICS_NAMESPACE:
            dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
            yield alarm["MetricName"], dimensions
    for widget in shown(template):
        for line in widget["properties"]["metrics"]:
            if line[0] == run_notice.METRICS_NAMESPACE:
                yield line[1], {line[2]: line[3]}


def test_own_metrics_are_those_that_the_functions_emit(template_with_all: Template):
    """tests/unit/lambdas holds the names in `contracts.run_notice` to what handlers print."""
    emitted = {
        *run_notice.ROW_METRICS,
        *run_notice.RUN_METRICS,
        run_notice.THROTTLED_REQUESTS,
        run_notice.CONSUMED_WRITE_UNITS,
        run_notice.STALLED_INVOCATIONS,
    }
    used = list(own_metrics(template_with_all))
    assert {name for name, _ in used} == emitted - {run_notice.ROWS_READ}
    # The functions' environment names the same service.
    for function in template_with_all.of_type("AWS::Lambda::Function").values():
        service = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        assert all(dimensions == {"service": service} for _, dimensions in used)


@pytest.mark.parametrize(
    ("name", "metric", "seconds"),
    [
        ("AlarmsRunsFailed", run_notice.RUNS_FAILED, 300),
        ("AlarmsRowsRejected", run_notice.ROWS_REJECTED, 300),
        ("AlarmsNoProgress", run_notice.STALLED_INVOCATIONS, 900),
        ("AlarmsDeadLetters", "ApproximateNumberOfMessagesVisible", 300),
        ("AlarmsUndelivered", "ApproximateNumberOfMessagesVisible", 300),
    ],
)
def test_alarm_fires_at_the_first_event_and_not_without_data(
    template_with_all: Template, name: str, metric: str, seconds: int
):
    alarm = alarms(template_with_all)[name]
    assert (alarm["MetricName"], alarm["Period"]) == (metric, seconds)
    assert alarm["Threshold"] == 1
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert alarm["EvaluationPeriods"] == 1
    # Where nothing runs, nothing is emitted.
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"] == ["arn:aws:sns:eu-west-1:123456789012:ops"]
    assert len(alarms(template_with_all)) == 5


def test_alarms_watch_both_queues_of_events_that_were_not_handled(template_with_all: Template):
    queues = [
        alarm["Dimensions"][0]["Value"]
        for alarm in alarms(template_with_all).values()
        if alarm["Namespace"] == "AWS/SQS"
    ]
    assert queues == ["${TriggerDeadLetters.QueueName}", "${NoticeUndelivered.QueueName}"]


def test_widgets_fill_the_dashboards_grid(template_with_all: Template):
    cells = {
        (x, y)
        for widget in shown(template_with_all)
        for x in range(widget["x"], widget["x"] + widget["width"])
        for y in range(widget["y"], widget["y"] + widget["height"])
    }
    sizes = [widget["width"] * widget["height"] for widget in shown(template_with_all)]
    assert cells == {(x, y) for x in range(24) for y in range(24)}
    assert len(cells) == sum(sizes)
    assert all(widget["properties"]["title"] for widget in shown(template_with_all))
