"""Patch distributed Maps: children are separate executions, with a limit on failures.

Source: the Step Functions Developer Guide, "Using Map state in Distributed mode".
"""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from dataclasses import dataclass
from typing import Any

from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.distributed_iteration_component import (
    DistributedIterationComponent,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.state_map import StateMap
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded, ProgramError
from moto.stepfunctions.parser.asl.eval.states import ItemData, MapData

from localaws.call_observers import check_json_call
from localaws.patches.failures import (
    DATA_LIMIT_EXCEEDED,
    EXCEED_TOLERATED,
    PERMISSIONS,
    RUNTIME,
    error_and_cause,
    failure,
)
from localaws.patches.monkeypatch import original, replace
from localaws.patches.states import within_quota

# AWS runs up to 10,000 children at once. Here each is a thread, and functions are the bottleneck.
_MAX_THREADS = 256


@dataclass
class Child:
    """Child execution in the form of the result writer. `output` is set only on success."""

    name: str
    arn: str
    machine: str
    input: Any
    started: dt.datetime
    stopped: dt.datetime | None = None
    status: str = "RUNNING"
    output: Any = None
    error: str = ""
    cause: str = ""


def apply() -> None:
    """Replace moto's processing of a Map's items, and check the size of a Map's result."""
    replace(DistributedIterationComponent, "_map_run", _map_run)
    _patch_result_size()


def _map_run(self: DistributedIterationComponent, env: Environment, eval_input: Any) -> None:
    items: list[Any] = env.stack.pop()
    run = _MapRun(self._get_iteration_program(), env, eval_input, items)
    env.stack.append(run.execute())


class _MapRun:
    def __init__(
        self, program: Program, env: Environment, eval_input: Any, items: list[Any]
    ) -> None:
        self._program = program
        self._env = env
        self._eval_input = eval_input
        self._items = items
        self._record = eval_input.map_run_record
        self._map_input = env.stack[-1] if env.stack else env.states.get_input()
        self._lock = threading.Lock()
        self._next = 0
        self._failed = 0
        self._children: list[Child | None] = [None] * len(items)
        self._record.localaws_children = self._children

    def execute(self) -> list[Any]:
        """Return the children's outputs, None for failed ones. Raise if too many failed."""
        self._check_start_permission()
        self._record.item_counter.total.count(len(self._items))
        self._record.item_counter.pending.count(len(self._items))
        self._record.execution_counter.total.count(len(self._items))
        limit = self._record.max_concurrency or _MAX_THREADS
        threads = [
            threading.Thread(target=self._run_children, name=f"map {number}", daemon=True)
            for number in range(min(limit, len(self._items), _MAX_THREADS))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._threshold_exceeded():
            raise failure(
                self._env,
                EXCEED_TOLERATED,
                "The specified tolerated failure threshold was exceeded",
            )
        return [child.output if child else None for child in self._children]

    def _check_start_permission(self) -> None:
        machine = self._env.states.context_object.context_object_data["StateMachine"]["Id"]
        role = self._env.aws_execution_details.role_arn
        region = self._env.aws_execution_details.region
        refused = check_json_call(
            role,
            "states",
            region,
            "AWSStepFunctions.StartExecution",
            {"stateMachineArn": machine, "input": "{}"},
        )
        if refused is not None:
            raise failure(self._env, PERMISSIONS, refused)

    def _threshold_exceeded(self) -> bool:
        """Compare the failures with the tolerated count and percentage (default: zero)."""
        count: int = self._record.tolerated_failure_count
        percentage: float = self._record.tolerated_failure_percentage
        if not self._failed:
            return False
        by_count = self._failed > count
        by_share = self._failed * 100.0 > percentage * len(self._items)
        if count and percentage:
            return by_count or by_share
        return by_share if percentage else by_count

    def _run_children(self) -> None:
        while self._env.is_running():
            with self._lock:
                if self._next == len(self._items) or self._threshold_exceeded():
                    return
                index = self._next
                self._next += 1
            frame = self._env.open_inner_frame()
            try:
                self._children[index] = child = self._run_child(frame, index)
            finally:
                self._env.delete_frame(frame)
            with self._lock:
                self._failed += child.status == "FAILED"

    def _run_child(self, frame: Environment, index: int) -> Child:
        counters = (self._record.item_counter, self._record.execution_counter)
        self._record.item_counter.pending.offset(-1)
        for counter in counters:
            counter.running.count()
        frame.event_manager = EventManager()
        child = self._make_child(frame, index)
        try:
            if child.status == "RUNNING":
                self._evaluate(frame, child)
        finally:
            child.stopped = dt.datetime.now(tz=dt.UTC)
            for counter in counters:
                counter.running.offset(-1)
                {
                    "SUCCEEDED": counter.succeeded,
                    "FAILED": counter.failed,
                    "ABORTED": counter.aborted,
                }[child.status].count()
        return child

    def _make_child(self, frame: Environment, index: int) -> Child:
        """Create the child with its input, which is selected in the parent's context."""
        item = self._items[index]
        context: Any = frame.states.context_object.context_object_data
        parent = self._env.states.context_object.context_object_data
        machine = self._record.map_run_arn.replace(":mapRun:", ":stateMachine:").rsplit(":", 1)[0]
        name = str(uuid.uuid4())
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
        now = dt.datetime.now(tz=dt.UTC)
        child = Child(name, arn, machine, None, now)
        context["Map"] = MapData(Item=ItemData(Index=index, Value=item))
        try:
            child.input = self._select_input(frame, item)
        except Exception as error:  # noqa: BLE001 - an invalid path, or a defect
            self._mark_failed(child, error)
            return child
        context["Execution"] = {
            "Id": arn,
            "Input": child.input,
            "Name": name,
            "RoleArn": parent["Execution"]["RoleArn"],
            "StartTime": now.isoformat(),
            "RedriveCount": 0,
        }
        context["StateMachine"] = {
            "Id": machine,
            "Name": f"{parent['StateMachine']['Name']}/{machine.rsplit('/', 1)[-1]}",
        }
        context.pop("Map", None)
        if not within_quota(child.input):
            child.status, child.error = "FAILED", DATA_LIMIT_EXCEEDED
            child.cause = "The input's size exceeds the maximum number of bytes service limit."
        return child

    def _select_input(self, frame: Environment, item: Any) -> Any:
        selector = self._eval_input.item_selector or self._eval_input.parameters
        if not selector:
            frame.states.reset(item)
            return item
        frame.states.reset(self._map_input)
        frame.stack.append(self._map_input)
        selector.eval(frame)
        selected = frame.stack.pop()
        frame.stack.clear()
        frame.states.reset(selected)
        return selected

    def _evaluate(self, frame: Environment, child: Child) -> None:
        frame.next_state_name = self._program.start_at.start_at_name
        # Program.eval would start another thread, only to wait for it.
        EvalComponent.eval(self._program, frame)
        state = frame.program_state()
        if isinstance(state, ProgramEnded):
            child.status, child.output = "SUCCEEDED", frame.states.get_input()
        elif isinstance(state, ProgramError):
            details = state.error or {}
            child.status = "FAILED"
            child.error, child.cause = details.get("error") or "", details.get("cause") or ""
        else:
            child.status = "ABORTED"

    @staticmethod
    def _mark_failed(child: Child, error: Exception) -> None:
        child.status = "FAILED"
        if isinstance(error, FailureEventException):
            child.error, child.cause = error_and_cause(error)
        else:
            child.error, child.cause = RUNTIME, str(error)


def _patch_result_size() -> None:
    evaluate = original(StateMap, "_eval_execution")

    def eval_execution(self: StateMap, env: Environment) -> None:
        evaluate(self, env)
        # Checked before ResultPath: discarding the result does not avoid the error.
        if not within_quota(env.stack[-1]):
            raise failure(
                env,
                DATA_LIMIT_EXCEEDED,
                f"The state/task '{self.name}' returned a result with a size exceeding the "
                "maximum number of bytes service limit.",
            )

    replace(StateMap, "_eval_execution", eval_execution)
