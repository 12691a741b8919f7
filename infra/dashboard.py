"""Dashboard of a stack, with the setting `dashboard`: $3 a month after the account's third."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from ddbload.contracts import states
from ddbload.contracts.row_counts import OUTCOMES

from .functions import Functions
from .measures import own, waiting
from .notice import Notice
from .trigger import Trigger

PERIOD = Duration.minutes(5)
WIDTH, HEIGHT = 12, 6
"""Size of a graph. CloudWatch's grid has 24 columns."""
_COLORS = cloudwatch.Color
RUNS = {
    states.RUNS_SUCCEEDED: ("succeeded", _COLORS.GREEN),
    states.RUNS_SUCCEEDED_WITH_REJECTS: ("succeeded with rejects", _COLORS.ORANGE),
    states.RUNS_FAILED: ("failed", _COLORS.RED),
    states.RUNS_CANCELLED: ("cancelled", _COLORS.GREY),
}
_ROW_COLORS = (
    *(_COLORS.GREEN, _COLORS.RED, _COLORS.GREY, _COLORS.PURPLE, _COLORS.BROWN),
    *(_COLORS.PINK, _COLORS.ORANGE, _COLORS.BLUE),
)
ROWS = {
    metric: (name, color)
    for metric, name, color in zip(states.ROW_METRICS[1:], OUTCOMES, _ROW_COLORS, strict=False)
}
"""Label and color by metric."""


class Dashboard(Construct):
    """Runs, rows, write units, functions and queues: two graphs a row."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        service: str,
        functions: Functions,
        trigger: Trigger,
        notice: Notice,
    ) -> None:
        super().__init__(scope, name)
        import_chunk = functions.import_chunk.function
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(12),
            widgets=[
                [
                    _graph("Runs that ended", _own(service, RUNS), stacked=True),
                    _graph("Rows settled", _own(service, ROWS), stacked=True),
                ],
                [
                    _graph(
                        "Write units a second, counted as invocations end",
                        [
                            cloudwatch.MathExpression(
                                expression="units / PERIOD(units)",
                                using_metrics={
                                    "units": own(service, states.CONSUMED_WRITE_UNITS, PERIOD)
                                },
                                label="write units a second",
                                period=PERIOD,
                            )
                        ],
                    ),
                    _graph(
                        "Throttled requests (left), invocations without progress (right)",
                        _own(service, {states.THROTTLED_REQUESTS: ("throttled", _COLORS.ORANGE)}),
                        _own(service, {states.STALLED_INVOCATIONS: ("no progress", _COLORS.RED)}),
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


def _own(service: str, named: Mapping[str, tuple[str, str]]) -> list[cloudwatch.Metric]:
    """Return metrics that the functions emit, with their labels and colors."""
    return [
        own(service, name, PERIOD).with_(label=label, color=color)
        for name, (label, color) in named.items()
    ]


def _graph(
    title: str,
    left: Sequence[cloudwatch.IMetric],
    right: Sequence[cloudwatch.IMetric] = (),
    *,
    stacked: bool = False,
) -> cloudwatch.GraphWidget:
    axis = cloudwatch.YAxisProps(min=0, show_units=False)
    return cloudwatch.GraphWidget(
        title=title,
        left=left,
        left_y_axis=axis,
        right=right or None,
        right_y_axis=axis if right else None,
        stacked=stacked,
        width=WIDTH,
        height=HEIGHT,
    )
