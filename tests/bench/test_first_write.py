"""The import whose first write is measured is ended by it."""

from __future__ import annotations

from bench.first_write import MB, ROWS, first_write, make_file


def test_import_is_ended_by_its_first_write(sink_process, tmp_path):
    file = tmp_path / "rows.csv"
    make_file(file, MB, ROWS["some cells quoted"])
    rows = file.read_bytes().count(b"\n") - 1
    found = first_write(file, "edges", sink_process, tmp_path / "ledger")
    counters = sink_process.counters()
    assert 0 < counters["items"] < rows
    assert found.seconds > 0
    assert found.cpu > 0
    # The process is gone: nothing arrives any more.
    assert sink_process.counters()["requests"] == counters["requests"]
