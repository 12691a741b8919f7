"""Errors of states, in the form that moto's interpreter passes on."""

from __future__ import annotations

from typing import Any

from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment

DATA_LIMIT_EXCEEDED = "States.DataLimitExceeded"
EXCEED_TOLERATED = "States.ExceedToleratedFailureThreshold"
ITEM_READER_FAILED = "States.ItemReaderFailed"
PERMISSIONS = "States.Permissions"
RESULT_WRITER_FAILED = "States.ResultWriterFailed"
RUNTIME = "States.Runtime"
TIMEOUT = "States.Timeout"


def failure(env: Environment, error: str, cause: str, **details: Any) -> FailureEventException:
    """Return the exception that fails a state. `details`: more fields of the history's event."""
    name: ErrorName
    fields: Any = {"taskFailedEventDetails": {"error": error, "cause": cause, **details}}
    if error.startswith("States."):
        name = StatesErrorName(typ=StatesErrorNameType.from_name(error))
    else:
        name = CustomErrorName(error)
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=name,
            event_type=HistoryEventType.TaskFailed,
            event_details=fields,
        )
    )


def error_and_cause(exception: FailureEventException) -> tuple[str, str]:
    """Return the error's name and cause; an empty string for one that is missing."""
    error, cause = exception.extract_error_cause_pair() or (None, None)
    return error or "", cause or ""
