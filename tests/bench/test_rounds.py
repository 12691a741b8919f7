"""Rounds that count, and rounds that are refused."""

from __future__ import annotations

import os

import pytest

from bench.checksum import expected_checksum
from bench.clients import Client, names
from bench.rounds import Cores, InvalidRound, check, check_ddbload_report, run
from bench.shapes import SHAPES
from ddbload.contracts.payload import ENGINES

CORES = Cores.for_this_machine()
ROWS = 60


@pytest.fixture(autouse=True)
def everywhere_again():
    """What a round pins is the tests' own process too."""
    if CORES.others is None:
        yield
        return
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def test_all_engines_are_measured():
    assert {name for name in names() if Client.named(name).ours} == set(ENGINES)


@pytest.mark.parametrize("text", ["nobody", "threads@0", "threads@x", "sync@2", "batch_writer@4"])
def test_no_client(text):
    with pytest.raises(ValueError):
        Client.named(text)


def test_a_clients_label_names_it():
    for text in ("threads@3", "sync", "batch_writer", "pool@16"):
        assert Client.named(text).label == text
        assert Client.named(text) == Client.named(Client.named(text).label)


@pytest.mark.parametrize("name", [*ENGINES, "batch_writer", "pool"])
def test_what_each_client_sends_is_the_file(name, to, scenario, made):
    path, due = made(scenario.shape, ROWS)
    cost = run(Client.named(name), scenario, path, due, to, CORES)
    assert cost.cpu > 0
    assert cost.peak_mb > 1
    assert cost.requests == 3


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_each_shape_arrives_by_boto3s_own_types(shape, to, scenario, made):
    scenario = type(scenario)(shape, scenario.tls, 0.0)
    path, due = made(shape, ROWS)
    run(Client.named("batch_writer"), scenario, path, due, to, CORES)


def test_a_lost_row_is_refused(to, scenario, made):
    path, _ = made(scenario.shape, ROWS - 1)
    _, due = made(scenario.shape, ROWS)
    with pytest.raises(InvalidRound, match=rf"pool@16, quoted.*{ROWS - 1} items arrived of {ROWS}"):
        run(Client.named("pool"), scenario, path, due, to, CORES)


def test_a_changed_value_is_refused(to, scenario, made):
    path, due = made(scenario.shape, ROWS)
    text = path.read_text("utf-8")
    path.write_text(text.replace("emoji", "emojj", 1), "utf-8")
    assert expected_checksum(path, scenario.shape).items == due.items
    with pytest.raises(InvalidRound, match="not those of the file"):
        run(Client.named("pool"), scenario, path, due, to, CORES)


def test_a_client_that_fails_is_refused_with_what_it_said(to, scenario, made):
    path, due = made(scenario.shape, ROWS)
    path.unlink()
    with pytest.raises(InvalidRound, match=r"(?s)ended with 1\n.*FileNotFoundError"):
        run(Client.named("pool"), scenario, path, due, to, CORES)


def test_clients_start_alike_whatever_is_set_here(to, scenario, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("AWS_PROFILE", "somebody's")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    environment = to.environment(scenario)
    assert not {"PYTHONDONTWRITEBYTECODE", "AWS_PROFILE", "HTTPS_PROXY"} & set(environment)
    assert environment["PYTHONPYCACHEPREFIX"]


def counters(due, **changed):
    right = {"items": due.items, "checksum": due.checksum, "invalid": 0, "first_invalid": None}
    return {**right, **changed}


def test_only_what_was_due_passes(made):
    _, due = made(SHAPES["ngrams"], ROWS)
    check("right", counters(due), due)
    for changed in (
        {"items": ROWS + 1},
        {"items": 0},
        {"checksum": "0" * 32},
        {"invalid": 1, "first_invalid": "twice"},
    ):
        with pytest.raises(InvalidRound, match="refused: wrong"):
            check("wrong", counters(due, **changed), due)


def rows(**changed):
    right = {"read": ROWS, "written": ROWS, "rejected": 0, "superseded": 0, "skipped": 0}
    return {"rows": {**right, **changed}}


def test_what_ddbload_counts_must_be_right_too():
    check_ddbload_report("right", rows(), ROWS)
    for changed in (
        {"read": ROWS + 1},
        {"written": ROWS - 1},
        {"rejected": 1},
        {"written": ROWS - 1, "skipped": 1},
    ):
        with pytest.raises(InvalidRound, match="ddbload says"):
            check_ddbload_report("wrong", rows(**changed), ROWS)
