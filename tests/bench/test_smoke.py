"""A round counts only if exactly the file's items arrive. `make trials` tests the rest."""

from __future__ import annotations

import pytest

from bench.checksum import expected_checksum
from bench.clients import Client
from bench.rounds import Cores, InvalidRound, Scenario, run, sink
from bench.shapes import SHAPES

ROWS = 60


def test_round_is_valid_with_all_rows_and_refused_with_a_lost_one(tmp_path):
    scenario, cores = Scenario(SHAPES["quoted"], True, 0.0), Cores(None, None)
    file = tmp_path / "rows.csv"
    scenario.shape.write(file, ROWS, 1)
    due = expected_checksum(file, scenario.shape)
    with sink(cores) as process:
        cost = run(Client.parse("async"), scenario, file, due, process, cores)
        assert cost.requests == 3
        assert cost.cpu > 0
        scenario.shape.write(file, ROWS - 1, 1)
        with pytest.raises(InvalidRound, match=f"{ROWS - 1} of {ROWS} items arrived"):
            run(Client.parse("pool"), scenario, file, due, process, cores)
