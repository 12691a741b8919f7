"""Metrics of a pipeline: ddbload's own, and AWS's of its functions and queues."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from ddbload.contracts.states import (
    CONSUMED_WRITE_UNITS,
    METRICS_NAMESPACE,
    ROW_METRICS,
    RUN_METRICS,
    SERVICE_DIMENSION,
    STALLED_INVOCATIONS,
    THROTTLED_REQUESTS,
)

OWN = (
    *ROW_METRICS,
    *RUN_METRICS,
    *(CONSUMED_WRITE_UNITS, STALLED_INVOCATIONS, THROTTLED_REQUESTS),
)
"""Names of the metrics that the functions emit."""


def own(service: str, name: str, period: Duration) -> cloudwatch.Metric:
    """Return the sum of a metric that the functions of a pipeline emit."""
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={SERVICE_DIMENSION: service},
        statistic=cloudwatch.Stats.SUM,
        period=period,
    )


def waiting(queue: sqs.Queue, period: Duration, label: str | None = None) -> cloudwatch.Metric:
    """Return the most messages that waited in a queue."""
    return queue.metric_approximate_number_of_messages_visible(
        statistic=cloudwatch.Stats.MAXIMUM, period=period, label=label
    )


def longest_wait(queue: sqs.Queue, period: Duration) -> cloudwatch.Metric:
    """Return the age in seconds of the message that waited longest in a queue."""
    return queue.metric_approximate_age_of_oldest_message(
        statistic=cloudwatch.Stats.MAXIMUM, period=period
    )
