"""Checks of this machine."""

from __future__ import annotations

import pytest

from ddbload.doctor import checks
from ddbload.doctor.checks import check_machine


def run():
    return {each.check: each for each in check_machine()}


def test_all_is_well(monkeypatch):
    monkeypatch.setattr(checks, "check_node", lambda: (22, 0, 0))
    assert {each.status for each in run().values()} == {"ok"}


@pytest.mark.parametrize("version", [(20, 20, 2), (21, 0, 0)])
def test_node_past_its_end_is_told_in_one_line(monkeypatch, version):
    monkeypatch.setattr(checks, "check_node", lambda: version)
    found = run()["node"]
    shown = ".".join(map(str, version))
    assert (found.status, found.advice) == ("warn", None)
    told = f"Node.js {shown} works, but is past its end of life: install 22 or newer"
    assert found.message == told
