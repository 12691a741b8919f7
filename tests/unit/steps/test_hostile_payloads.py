"""Each hostile payload ends as a named error before anything is written, or is accepted rightly."""

from __future__ import annotations

import json
from typing import Any

from ddbload import errors
from ddbload.context import AccessPolicy
from ddbload.contracts.payload import is_run_id
from ddbload.contracts.upload_rule import SourceBucket
from tests.unit.steps.hostile_payloads import payloads
from tests.unit.steps.machine import execute
from tests.unit.steps.world import BUCKET, TABLE, World

NAMED = {name for name, kind in vars(errors).items() if isinstance(kind, type)} - {
    "DdbloadError",
    "UnexpectedError",
}
MAX_OUTPUT_BYTES = 100_000
"""Bytes of an execution's output; a state may have 262,144."""


def _world() -> World:
    # What a deployment lets a payload reach: one prefix, one table, no file of the function.
    world = World(b"id,n\na,1\n")
    world.access = AccessPolicy(
        sources=(SourceBucket(BUCKET, "in/"),), tables=frozenset({TABLE}), paths=False
    )
    return world


def _is_sendable(payload: Any) -> bool:
    try:
        json.dumps(payload, allow_nan=False)
    except ValueError:
        return False
    return True


def test_each_payload_is_refused_by_name_before_anything_is_written_or_accepted_rightly():
    cases = dict(payloads())
    assert len(cases) >= 300
    accepted, wrong = [], []
    for name, payload in cases.items():
        if not _is_sendable(payload):
            continue
        world = _world()
        try:
            outcome = execute(world, payload, "execution-name")
            json.dumps(outcome, ensure_ascii=False).encode()
        except Exception as error:  # noqa: BLE001 - which is what must not happen
            if "unit tests send no requests" in str(error):
                # Accepted with the default engine, which has no fake.
                accepted.append(name)
            else:
                wrong.append(f"{name}: {type(error).__name__}: {error!s:.200}")
            continue
        error = outcome["error"]
        if not is_run_id(outcome["run"]) or len(json.dumps(outcome)) > MAX_OUTPUT_BYTES:
            wrong.append(f"{name}: the output is {json.dumps(outcome)[:200]}")
        if error is None:
            accepted.append(name)
            if len(world.items) > 1:
                wrong.append(f"{name}: accepted, and wrote {world.items!r:.100}")
        elif error["name"] not in NAMED or not error["message"].isprintable():
            wrong.append(f"{name}: {error['name']}: {error['message'][:200]}")
        elif world.items or world.in_ledger("chunks/"):
            wrong.append(f"{name}: {error['name']}, after something was written")
    assert not wrong, "\n".join(wrong)
    # Most are refused; the others are fields left out, and texts that mean nothing there.
    assert len(accepted) < len(cases) / 2, accepted
