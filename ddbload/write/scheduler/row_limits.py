"""Limits on the rows that one worker holds."""

from __future__ import annotations

MAX_AHEAD = 20_000
"""Most rows from the first unsettled one on."""
MAX_HELD_BYTES = 16 * 1024 * 1024
"""Most bytes of JSON of unsettled rows. Request bodies in flight take as much again."""
SPREAD_ROWS = 2_000
"""Rows dealt out to requests in turn. After a deadline, unsettled ones are written again."""
SPREAD_ROUNDS = 8
"""Most requests that rows are dealt out to, for each concurrent request."""
SPREAD_SECONDS = 2.0
"""A slow run deals out the rows that it writes in this time."""
READY_ROWS = 2_000
"""More rows are read while fewer than these are ready."""
