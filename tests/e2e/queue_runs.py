"""Imports into the fake SQS, and the proof that exactly the file's rows arrived as messages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.listing import control
from tests.cli.console import PROGRAM, Console
from tests.e2e.processes import Running, started, until

FILE, RUN = "rows.csv", "messages"
STANDARD, FIFO = "orders", "orders.fifo"


class QueueRun:
    """Import of rows of several groups into a queue."""

    def __init__(
        self, console: Console, endpoint: str, rows: int, queue: str = STANDARD, **settings: Any
    ) -> None:
        """`settings`: those of the fake SQS."""
        self.console, self.endpoint, self.rows = console, endpoint, rows
        self.is_fifo = queue == FIFO
        # Bodies in the order of the file, with their groups, made without the product.
        groups = [f"c{number % 11 % 7}" for number in range(rows)]
        self.messages = [
            (f'{{"id":{number},"customer":"{group}","text":"row {number}"}}', group)
            for number, group in enumerate(groups)
        ]
        lines = [f"{number},{group},row {number}" for number, group in enumerate(groups)]
        console.write(FILE, "\n".join(["id,customer,text", *lines, ""]))
        self.command = [
            *(str(PROGRAM), "import", FILE, f"sqs:{queue}", "--types", "id=N"),
            *("--run-id", RUN, "--ledger", "ledger", "--chunk-bytes", "1500"),
            *(("--message-group", "{customer}") if self.is_fifo else ()),
        ]
        self.resume = [str(PROGRAM), "resume", RUN, "--ledger", "ledger"]
        attributes = {"FifoQueue": "true"} if self.is_fifo else {}
        control(endpoint, "/reset", {"queues": {queue: attributes}, **settings})

    def counters(self) -> dict[str, Any]:
        """Return what the queue has counted."""
        found: dict[str, Any] = control(self.endpoint, "/counters")
        return found

    @contextmanager
    def started(self, *options: str) -> Iterator[Running]:
        """Start the import."""
        with started(self.console, [*self.command, *options]) as running:
            yield running

    def killed(self, command: list[str], messages: int) -> bool:
        """Run a command until so many messages arrived, and kill it; return whether it was."""
        with started(self.console, command) as running:
            until(
                lambda: (
                    self.counters()["messages"] >= messages or running.process.poll() is not None
                ),
                "no message arrives",
            )
            if running.process.poll() is not None:
                return False
            running.kill()
            running.process.wait()
            until(lambda: not running.members(), "processes are left")
        return True

    def completed(self, *command: str, once: bool) -> dict[str, Any]:
        """Run a command that ends the import, and check its counts and what arrived.

        `once`: no message may have arrived twice.
        """
        ended = self.console.run([*(command or self.command), "--json"])
        result: dict[str, Any] = json.loads(ended.out)
        rows = result["rows"]
        assert (rows["read"], rows["written"]) == (self.rows, self.rows), ended
        assert ended.code == 0, ended
        assert "row " not in ended.err, "rows are shown"
        self.queue_is_right(once=once)
        return result

    def queue_is_right(self, *, once: bool) -> None:
        """Check that each row arrived, in its group's order where the queue keeps it."""
        found = self.counters()
        assert found["most_entries"] <= 10
        assert found["most_bytes"] <= 1_048_576
        assert found["invalid"] == 0
        arrived = control(self.endpoint, "/messages")
        counts = Counter(each["body"] for each in arrived)
        assert counts.keys() == {body for body, _ in self.messages}
        if once:
            assert set(counts.values()) == {1}
        if self.is_fifo:
            due, order = defaultdict(list), defaultdict(list)
            for body, group in self.messages:
                due[group].append(body)
            for each in arrived:
                order[each["group"]].append(each["body"])
            assert order == due
