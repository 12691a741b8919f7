"""Alarms for a topic, with the setting `alarm_topic`: each costs about $0.10 a month."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from ddbload.contracts.states import ROWS_REJECTED, RUNS_FAILED, STALLED_INVOCATIONS

from .measures import longest_wait, own, waiting
from .notice import Notice
from .trigger import Trigger

SOON = Duration.minutes(5)
STALL = Duration.minutes(15)
"""An invocation may work as long before it says that it settled nothing."""
LONG_WAIT = Duration.minutes(10)
"""Longer than a burst of 90,000 uploads takes where StartExecution allows 150 a second. A message
that fails is delivered the third time after 12 minutes, and does not count after that."""


class Alarms(Construct):
    """Alarms for failed runs, rejects, stalled imports, and events that wait or were not handled.

    Where nothing runs there is no data, and no alarm.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        topic: sns.ITopic,
        service: str,
        trigger: Trigger,
        notice: Notice,
    ) -> None:
        super().__init__(scope, name)
        self._action = actions.SnsAction(topic)
        self._alarm(
            "RunsFailed",
            own(service, RUNS_FAILED, SOON),
            "A run failed: ddbload runs shows which",
        )
        self._alarm(
            "RowsRejected",
            own(service, ROWS_REJECTED, SOON),
            "Rows were rejected: ddbload rejects RUN --summary says why",
        )
        self._alarm(
            "NoProgress",
            own(service, STALLED_INVOCATIONS, STALL),
            "An invocation of ImportChunk settled no row: the table accepts no writes, or rows"
            " cannot be read in time",
        )
        self._alarm(
            "OldestUpload",
            longest_wait(trigger.queue, SOON),
            "An upload waits for its run: the log group of on_upload says why",
            threshold=LONG_WAIT.to_seconds(),
        )
        self._alarm(
            "DeadLetters",
            waiting(trigger.dead_letters, SOON),
            "Uploads could not start a run: docs/operations.md says how to move them back",
        )
        self._alarm(
            "Undelivered",
            waiting(notice.undelivered, SOON),
            "A stopped execution was not concluded: ddbload status shows its run",
        )

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, description: str, threshold: float = 1
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)
