"""Common part of all handlers: settings, contexts, logs, metrics and named errors."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from ddbload.context import Context
from ddbload.contracts.messages import json_type_name
from ddbload.contracts.payload import is_run_id
from ddbload.contracts.results import MAX_CAUSE, Failure
from ddbload.contracts.states import METRICS_NAMESPACE
from ddbload.errors import DdbloadError, InvalidPayload, unexpected, visible
from lambdas.deployment import Deployment

# The stack's name, so that stacks do not share metrics.
_SERVICE = os.environ.get("POWERTOOLS_SERVICE_NAME", "ddbload")


def _visible(value: Any) -> Any:
    """Escape all texts in a JSON value, names of fields included, as `visible` does."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(name)): _visible(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(each) for each in value]
    return value


def _log_line(line: Any) -> str:
    return json.dumps(_visible(line), default=str, separators=(",", ":"), ensure_ascii=False)


logger = Logger(service=_SERVICE, json_serializer=_log_line)
metrics = Metrics(namespace=METRICS_NAMESPACE, service=_SERVICE)
Handler = Callable[[Any, LambdaContext], dict[str, Any]]


@cache
def deployment() -> Deployment:
    """Return the function's settings, read once. Raises `AwsConfiguration`."""
    # botocore backs off by this generator, whose seed a SnapStart snapshot would repeat.
    random.seed()
    return Deployment.of(os.environ)


def function(
    make_context: Callable[[Deployment, float], Context],
    failed: Callable[[Mapping[str, Any], Failure], dict[str, Any]] | None = None,
) -> Callable[[Callable[[Any, Context], dict[str, Any]]], Handler]:
    """Make a Lambda handler of a step, which gets its event and the context from `make_context`.

    The handler raises named errors only, and none of them holds row data: Lambda would log the
    text of any other exception, and the state machine would keep it as a cause. With `failed` an
    error that would come again is no exception, which the state machine retries, but a result.
    """

    def decorate(step: Callable[[Any, Context], dict[str, Any]]) -> Handler:
        @wraps(step)
        def handler(event: Any, invocation: LambdaContext) -> dict[str, Any]:
            logger.set_correlation_id(invocation.aws_request_id)
            keys = _log_keys(event)
            logger.append_keys(**keys)
            try:
                if not isinstance(event, Mapping):
                    raise InvalidPayload(
                        f"the event must be a JSON object, not {json_type_name(event)}"
                    )
                if keys:
                    # Of an invocation that is killed, this is the only line that names its run.
                    logger.info("began")
                remaining = invocation.get_remaining_time_in_millis() / 1000
                context = make_context(deployment(), remaining)
                context.measure = _measure
                return step(event, context)
            except DdbloadError as error:
                named = _shortened(error)
                log_failure(named)
            except Exception as error:  # noqa: BLE001 - its text may hold row data: its place may not
                named = unexpected(error, f"function {step.__module__}")
                logger.error("failed", extra={"error": named.name, "cause": named.message})  # noqa: TRY400 - without the trace: it would show the text
            finally:
                logger.remove_keys(keys)
                # Powertools warns if it flushes no metric.
                if metrics.metric_set:
                    metrics.flush_metrics()
            if failed is None or not named.permanent or not isinstance(event, Mapping):
                raise named
            return failed(event, Failure.of(named))

        return handler

    return decorate


def _measure(counts: Mapping[str, float]) -> None:
    for name, count in counts.items():
        metrics.add_metric(name, MetricUnit.Count, count)


def _log_keys(event: Any) -> dict[str, Any]:
    """Return the run, and the chunk, that each line of an invocation names; none if unknown."""
    if not isinstance(event, Mapping):
        return {}
    if isinstance(state := event.get("state"), Mapping):
        # Report gets the state beside a count.
        event = state
    named = event.get("input")
    named = named.get("run") if isinstance(named, Mapping) else None
    named = named if isinstance(named, Mapping) else {}
    keys: dict[str, Any] = {}
    for name in (event.get("run"), named.get("resume_of"), named.get("id")):
        if isinstance(name, str) and is_run_id(name):
            keys["run"] = name
    chunk = event.get("chunk")
    number = chunk.get("chunk") if isinstance(chunk, Mapping) else None
    return {**keys, "chunk": number} if keys and isinstance(number, int) else keys


def log_failure(error: DdbloadError, **more: str) -> None:
    """Log a named error, and the fields in `more`, as a warning."""
    named = _shortened(error)
    logger.warning("failed", extra={"error": named.name, "cause": named.message, **more})


def log_notice(notice: str) -> None:
    """Log a one-line warning of a step."""
    logger.warning("notice", extra={"notice": notice})


def _shortened(error: DdbloadError) -> DdbloadError:
    """Shorten the message of an error to fit a state, and the header that Lambda makes of it.

    The message may quote user input of any length.
    """
    if len(error.message) <= MAX_CAUSE:
        return error
    return type(error)(visible(error.message, MAX_CAUSE))
