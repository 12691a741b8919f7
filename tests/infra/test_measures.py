"""Alarms and dashboard read metrics that the functions emit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ddbload.contracts import states
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
        if alarm["Namespace"] == states.METRICS_NAMESPACE:
            dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
            yield alarm["MetricName"], dimensions
    for widget in shown(template):
        for line in widget["properties"]["metrics"]:
            if line[0] == states.METRICS_NAMESPACE:
                yield line[1], {line[2]: line[3]}


def test_own_metrics_are_those_that_the_functions_emit(template_with_all: Template):
    """tests/unit/lambdas holds the names in `contracts.states` to what handlers print."""
    emitted = {
        *states.ROW_METRICS,
        *states.RUN_METRICS,
        states.THROTTLED_REQUESTS,
        states.CONSUMED_WRITE_UNITS,
        states.STALLED_INVOCATIONS,
    }
    used = list(own_metrics(template_with_all))
    assert {name for name, _ in used} == emitted - {states.ROWS_READ}
    # The functions' environment names the same service.
    for function in template_with_all.of_type("AWS::Lambda::Function").values():
        service = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        assert all(dimensions == {"service": service} for _, dimensions in used)


@pytest.mark.parametrize(
    ("name", "metric", "seconds", "threshold"),
    [
        ("AlarmsRunsFailed", states.RUNS_FAILED, 300, 1),
        ("AlarmsRowsRejected", states.ROWS_REJECTED, 300, 1),
        ("AlarmsNoProgress", states.STALLED_INVOCATIONS, 900, 1),
        ("AlarmsOldestUpload", "ApproximateAgeOfOldestMessage", 300, 600),
        ("AlarmsDeadLetters", "ApproximateNumberOfMessagesVisible", 300, 1),
        ("AlarmsUndelivered", "ApproximateNumberOfMessagesVisible", 300, 1),
    ],
)
def test_alarm_fires_at_the_first_event_and_not_without_data(
    template_with_all: Template, name: str, metric: str, seconds: int, threshold: int
):
    alarm = alarms(template_with_all)[name]
    assert (alarm["MetricName"], alarm["Period"]) == (metric, seconds)
    assert alarm["Threshold"] == threshold
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert alarm["EvaluationPeriods"] == 1
    # Where nothing runs, nothing is emitted.
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"] == ["arn:aws:sns:eu-west-1:123456789012:ops"]
    assert len(alarms(template_with_all)) == 6


def test_age_of_the_oldest_upload_is_measured_before_failures_hide_it(template_with_all: Template):
    """A message that failed often must not wait for the dead letters, hours later, to be noticed.

    "After a message is received three times (or more) and not processed, the message is moved to
    the back of the queue and the ApproximateAgeOfOldestMessage metric points at the second-oldest
    message that hasn't been received more than three times. This action occurs even if the queue
    has a redrive policy." ("Available CloudWatch metrics for Amazon SQS")
    """
    alarm = alarms(template_with_all)["AlarmsOldestUpload"]
    queue = template_with_all.resources["TriggerUploads"]["Properties"]
    assert alarm["Statistic"] == "Maximum"
    assert queue["VisibilityTimeout"] < alarm["Threshold"] < 2 * queue["VisibilityTimeout"]


def test_alarms_watch_all_queues_of_events(template_with_all: Template):
    queues = [
        alarm["Dimensions"][0]["Value"]
        for alarm in alarms(template_with_all).values()
        if alarm["Namespace"] == "AWS/SQS"
    ]
    assert queues == [
        "${TriggerUploads.QueueName}",
        "${TriggerDeadLetters.QueueName}",
        "${NoticeUndelivered.QueueName}",
    ]
