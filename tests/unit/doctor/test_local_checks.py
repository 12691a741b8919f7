"""Checks of this machine."""

from __future__ import annotations

import pytest

from ddbload.doctor import checks
from ddbload.doctor.checks import check_machine


def run(tmp_path, *, source=None, ledger=None):
    found = check_machine(source=source, ledger=str(ledger or tmp_path / "new" / "ledger"))
    return {each.name: each for each in found}


def test_all_is_well(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "check_node", lambda: (22, 0, 0))
    (tmp_path / "a.csv").write_text("a\n1\n")
    found = run(tmp_path, source=str(tmp_path / "a.csv"))
    assert {each.status for each in found.values()} == {"ok"}
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("version", [(20, 20, 2), (21, 0, 0)])
def test_node_past_its_end_is_told_in_one_line(tmp_path, monkeypatch, version):
    monkeypatch.setattr(checks, "check_node", lambda: version)
    found = run(tmp_path)["node"]
    shown = ".".join(map(str, version))
    assert (found.status, found.advice) == ("warn", None)
    told = f"Node.js {shown} works, but is past its end of life: install 22 or newer"
    assert found.message == told


def test_extra_that_the_source_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    found = run(tmp_path, source="s3://b/a.PARQUET")
    assert (found["parquet"].status, found["zstd"].status) == ("fail", "ok")
    assert found["parquet"].advice == "pipx inject ddbload pyarrow"


def test_ledger_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    assert run(tmp_path, ledger=tmp_path / "file" / "x")["ledger"].status == "fail"
