"""Dashboard of a stack, with the setting `dashboard`: $3 a month after the account's third."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from ddbload.contracts import metrics
from infra.functions import Functions
from infra.measures import own, waiting
from infra.notice import Notice
from infra.trigger import Trigger

PERIOD = Duration.minutes(5)
WIDTH, HEIGHT = 12, 6
"""Size of a graph. CloudWatch's grid has 24 columns."""
_COLORS = cloudwatch.Color


class Dashboard(Construct):
    """Runs, rows, write units, functions and queues: two graphs a row."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        functions: Functions,
        trigger: Trigger,
        notice: Notice,
    ) -> None:
        super().__init__(scope, name)
        import_chunk = functions.import_chunk.function
        runs = (_COLORS.GREEN, _COLORS.ORANGE, _COLORS.RED, _COLORS.GREY)
        rows = (_COLORS.GREEN, _COLORS.RED, _COLORS.GREY, _COLORS.PURPLE)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(12),
            widgets=[
                [
                    _graph("Runs that ended", _own(metrics.RUN_METRICS, runs), stacked=True),
                    _graph("Rows settled", _own(metrics.ROW_METRICS[1:], rows), stacked=True),
                ],
                [
                    _graph(
                        "Write units consumed a second",
                        [
                            cloudwatch.MathExpression(
                                expression="units / PERIOD(units)",
                                using_metrics={"units": own(metrics.CONSUMED_WRITE_UNITS, PERIOD)},
                                label="write units a second",
                                period=PERIOD,
                            )
                        ],
                    ),
                    _graph(
                        "Throttled requests, and invocations without progress",
                        _own(
                            (metrics.THROTTLED_REQUESTS, metrics.STALLED_INVOCATIONS),
                            (_COLORS.ORANGE, _COLORS.RED),
                        ),
                    ),
                ],
                [
                    _graph(
                        "ImportChunk: functions at once",
                        [
                            import_chunk.metric(
                                "ConcurrentExecutions",
                                statistic=cloudwatch.Stats.MAXIMUM,
                                period=PERIOD,
                                label="at once",
                            )
                        ],
                    ),
                    _graph(
                        "ImportChunk: errors and throttled invocations",
                        [
                            import_chunk.metric_errors(
                                period=PERIOD, label="errors", color=_COLORS.RED
                            ),
                            import_chunk.metric_throttles(
                                period=PERIOD, label="throttled", color=_COLORS.ORANGE
                            ),
                        ],
                    ),
                ],
                [
                    _graph("Uploads waiting", [waiting(trigger.queue, PERIOD, "uploads")]),
                    _graph(
                        "Not handled",
                        [
                            waiting(trigger.dead_letters, PERIOD, "uploads (dead letters)"),
                            waiting(notice.undelivered, PERIOD, "stopped executions"),
                        ],
                    ),
                ],
            ],
        )


def _own(names: Sequence[str], colors: Sequence[str]) -> list[cloudwatch.Metric]:
    return [own(name, PERIOD).with_(color=color) for name, color in zip(names, colors, strict=True)]


def _graph(
    title: str, metrics_shown: Sequence[cloudwatch.IMetric], *, stacked: bool = False
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=metrics_shown,
        left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False),
        stacked=stacked,
        width=WIDTH,
        height=HEIGHT,
    )
