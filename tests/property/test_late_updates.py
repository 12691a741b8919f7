"""Law of mode `update`: an item is the merge of its rows, or the result says that keys repeat."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes.client import read_timeout
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.generated import Sizes
from tests.unit.steps.world import World

LATE_SHARE = 0.05
ROWS = 240
KEYS = 60


class LateDelivery:
    """Lets some requests time out and take effect a few calls later."""

    def __init__(self, world: World, rng: random.Random, most_calls: int) -> None:
        self._world = world
        self._rng = rng
        self._most_calls = most_calls
        self._late: list[tuple[int, dict[str, Any]]] = []
        self._calls = 0
        world.dynamodb.faults.decide = self._decide

    def _decide(self, operation: str, params: dict[str, Any]) -> Fault | None:
        if operation != "update_item":
            return None
        self._calls += 1
        self.deliver(self._calls)
        if self._rng.random() >= LATE_SHARE:
            return None
        self._late.append((self._calls + self._rng.randrange(1, self._most_calls), params))
        return Fault(raises=read_timeout())

    def deliver(self, call: float) -> None:
        """Let the requests arrive that are due at this call."""
        due = [params for at, params in self._late if at <= call]
        self._late = [each for each in self._late if each[0] > call]
        faults = self._world.dynamodb.faults
        decide, faults.decide = faults.decide, None
        for params in due:
            self._world.dynamodb.update_item(**params)
        faults.decide = decide


@settings(max_examples=max(1, settings.default.max_examples // 10))
@given(st.integers(0, 10**6), st.sampled_from([20, 200]), st.sampled_from([5, 400]), st.booleans())
@example(3, 200, 5, True)
@example(3, 200, 5, False)
def test_late_update_decides_only_keys_that_the_result_counts(seed, most_calls, ahead, in_turn):
    rng = random.Random(seed)
    # In turn, no two rows of a key are in memory together if only few rows are.
    keys = [f"k{n % KEYS if in_turn else rng.randrange(KEYS)}" for n in range(ROWS)]
    rows = [(key, f"a{n}", rng.choice(["", f"b{n}"])) for n, key in enumerate(keys)]
    oracle: dict[str, dict[str, str]] = {}
    for key, a, b in rows:
        values = {name: value for name, value in (("a", a), ("b", b)) if value}
        oracle.setdefault(key, {"id": key}).update(values)
    text = "id,a,b\n" + "".join(f"{key},{a},{b}\n" for key, a, b in rows)
    world = World(text.encode(), options={"mode": "update", "chunk_bytes": 10**6})
    late = LateDelivery(world, rng, most_calls)
    with Sizes(256, 256, batch_rows=2, ready_rows=ahead, spread_rows=1, attempt_rows=ahead)():
        report = world.run()
    late.deliver(float("inf"))
    assert report.status == "SUCCEEDED"
    assert report.rows.read == report.rows.written + report.rows.superseded == ROWS
    items = {
        item["id"]["S"]: {name: value["S"] for name, value in item.items()} for item in world.items
    }
    assert items.keys() == oracle.keys()
    wrong = [key for key, item in oracle.items() if items[key] != item]
    assert len(wrong) <= report.repeated <= ROWS - len(oracle)
    assert all(keys.count(key) > 1 for key in wrong)
