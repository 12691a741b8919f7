"""The lab's executions of the state machine, on the stack that all tests here share."""

from __future__ import annotations

from bench.checksum import ItemChecksum, expected_checksum
from lab import harness
from lab.experiments.ladder import SHAPE
from lab.state_machine import StateMachine
from tests.e2e_stack.deployed import SOURCES
from tests.e2e_stack.runs import Run

ROWS = 120


def test_execution_loads_every_row_with_the_workers_asked_for(stack, tmp_path):
    cloud = stack.cloud
    table = cloud.table(*(f"{name}:{SHAPE.columns[name]}" for name in SHAPE.keys))
    file = tmp_path / "rows.tsv"
    SHAPE.write(file, ROWS, seed=1)
    environment = {**harness.environment(), **cloud.environment}
    machine = StateMachine(stack.name, SOURCES, table, environment, cloud.aws.pid, cloud.s3)
    machine.upload(file)
    execution = machine.load(3, chunk_bytes=file.stat().st_size // 4 + 1)
    rows = execution.report["rows"]
    assert (rows["read"], rows["written"]) == (ROWS, ROWS)
    record = Run(stack, execution.report["run"]).json("run.json")
    assert record["workers"] == 3
    arrived = ItemChecksum()
    for item in cloud.items(table):
        arrived.add(item)
    assert arrived == expected_checksum(file, SHAPE)
