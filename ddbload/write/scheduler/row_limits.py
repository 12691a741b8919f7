"""How much one request and one worker hold."""

from __future__ import annotations

MAX_AHEAD = 20_000
"""Rows that may be known from the first unsettled one on."""
MAX_HELD_BYTES = 16 * 1024 * 1024
"""JSON of the rows that are known and not settled. Bodies under way are as much again."""
SPREAD_ROWS = 2_000
"""Rows that are dealt out to requests in turn. What a deadline leaves of them is written again."""
SPREAD_ROUNDS = 8
"""So many requests at most for each that is under way at a time."""
SPREAD_SECONDS = 2.0
"""So many rows at most as a slow run writes in this time."""
READY_ROWS = 2_000
"""More rows are asked for while fewer than these are ready to go."""
