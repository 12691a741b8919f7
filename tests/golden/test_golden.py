"""The oracle agrees with the rows that are written down."""

from __future__ import annotations

import pytest

from tests.golden.cases import Golden, load_all
from tests.oracle.csv_machine import read_rows

GOLDEN = load_all()


@pytest.mark.parametrize("golden", GOLDEN, ids=[golden.name for golden in GOLDEN])
def test_oracle_agrees_with_the_golden_file(golden: Golden) -> None:
    assert read_rows(golden.data, golden.delimiter, golden.quote) == golden.rows


@pytest.mark.parametrize("golden", GOLDEN, ids=[golden.name for golden in GOLDEN])
def test_rows_and_gaps_cover_the_file(golden: Golden) -> None:
    position = 0
    for row in golden.rows:
        gap = golden.data[position : row.byte]
        # The first gap may hold the BOM; every other holds line ends only.
        assert gap.removeprefix(b"\xef\xbb\xbf" if position == 0 else b"").strip(b"\r\n") == b""
        assert row.byte < row.end_byte
        position = row.end_byte
    assert golden.data[position:].strip(b"\r\n") in {b"", b"\xef\xbb\xbf"}
