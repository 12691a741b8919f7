"""Every way to read objects reads all bytes, with as many requests in flight as it has workers."""

from __future__ import annotations

import io
import subprocess
from threading import Barrier, get_ident

import pytest

from bench.listing import bucket_server, control
from bench.rounds import Cores, sink
from lab import ways
from lab.experiments import objects, objects_ways
from lab.experiments.objects_ways import DDBLOAD, TASKS, THREADS, Runner, Way
from lab.findings import PUBLISHED, CountsDiffer
from lab.published.objects import threads

SIZE = 12


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    setup = objects.Setup(SIZE, 0.1, 1, tmp_path_factory.mktemp("objects"))
    return objects.EXPERIMENT.run(setup)


def rows(found, title):
    """Rows of a table by way, as dicts."""
    table = next(each for each in found.tables if title in each.title)
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_each_way_has_as_many_requests_in_flight_as_workers(found):
    times = rows(found, "by concurrency")
    most = {way: int(row["most in flight"]) for way, row in times.items()}
    # The first threads may have read everything before the last one has made its client.
    assert 1 < most.pop("10 threads") <= 10
    assert most == {"asyncio, pool of 10": 10, "ddbload, 10 at once": 10}


def test_requests_that_are_all_made_at_once_are_refused_and_those_of_ddbload_never(found):
    aged = rows(found, "made at once")
    for way in ("asyncio, pool of 10", "asyncio, pool of 120"):
        assert int(aged[way]["answers 403"]) > 0
        assert aged[way]["answers 403"] == aged[way]["missing"]
    assert int(aged["asyncio, pool of 120"]["most in flight"]) > 24
    for way in ("10 threads", "ddbload, 24 at once"):
        assert (aged[way]["read"], aged[way]["answers 403"]) == ("120", "0")
    assert aged["ddbload, 24 at once"]["most in flight"] == "24"


def test_a_wrong_clock_is_corrected_by_ddbload_alone(found):
    wrong = rows(found, "clock")
    for way in ("10 threads", "asyncio, pool of 10"):
        assert (wrong[way]["read"], wrong[way]["answers 403"]) == ("0", str(SIZE))
    # No request is refused but those that were in flight when the first answer came.
    ours = wrong["ddbload, 10 at once"]
    assert (ours["read"], ours["missing"]) == (str(SIZE), "0")
    assert 1 <= int(ours["answers 403"]) <= 10


def test_refusals_are_told_in_each_ones_words(found):
    (told,) = [note for note in found.notes if note.startswith("How it is told")]
    assert "An error occurred (RequestTimeTooSkewed) when calling the GetObject operation" in told
    assert "AccessDenied: reading s3://bench/in/" in told
    assert "check this machine's clock" in told


def test_costs_and_charts_are_of_all_ways(found):
    costs = rows(found, "Cost")
    assert {"thread", "boto3 client", "aiobotocore client"} < costs.keys()
    assert costs["boto3 client, with a session"]["published, ms"] == "50.0"
    by_concurrency, by_number = found.charts
    # The published times are of 100 objects.
    assert [each.kind for each in by_concurrency.series] == ["rival", "rival", "ours"]
    assert by_number.series[-1].kind == PUBLISHED
    (server,) = found.servers
    assert server.cpu > 0 < server.seconds


@pytest.mark.parametrize(
    "words",
    [("convert", "s3://bench/in/", "-"), ("import", "s3://bench/in/", "objects")],
    ids=["convert", "import"],
)
def test_read_concurrency_is_the_number_of_requests_in_flight(words, tmp_path):
    settings = {"shape": "hashed", "objects": 60, "distinct": True, "latency": 0.1}
    with bucket_server() as endpoint, sink(Cores(None, None)) as tables:
        control(endpoint, "/reset", settings)
        table = {"table": "objects", "keys": {"object": "S"}}
        control(tables.ready["http"], "/reset", table)
        environment = ways.environment(s3=endpoint, dynamodb=tables.ready["http"])
        command = ways.ddbload(*words, "--read-concurrency", "7", "--processes", "1")
        if words[0] == "import":
            command += ["--ledger", str(tmp_path), "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        counters = control(endpoint, "/counters")
        assert counters["most_in_flight"] == 7
        if words[0] == "import":
            assert tables.counters()["items"] == 60
        else:
            assert done.stdout.count(b"\n") == 60


@pytest.mark.parametrize(("keys", "sessions"), [(1, 1), (40, 4)], ids=["one key", "many keys"])
def test_published_threads_make_a_client_each_when_they_have_a_key(monkeypatch, keys, sessions):
    made_in = []
    meeting = Barrier(sessions)

    class Session:
        """Session whose client belongs to the thread that made it."""

        def client(self, service):
            assert service == "s3"
            made_in.append(get_ident())
            self.owner = get_ident()
            meeting.wait(5)
            return self

        def get_object(self, *, Bucket, Key):  # noqa: N803 - as boto3 names them
            assert self.owner == get_ident()
            return {"Body": io.BytesIO(f"{Bucket}/{Key}".encode())}

    monkeypatch.setattr(threads.boto3, "Session", Session)
    names = [str(number) for number in range(keys)]
    bodies, failures = threads.read_objects("bench", names, 4)
    assert bodies == {name: f"bench/{name}".encode() for name in names}
    assert failures == []
    assert len(made_in) == len(set(made_in)) == sessions


@pytest.mark.parametrize("kind", [TASKS, DDBLOAD])
def test_a_run_with_a_missing_object_is_refused(kind, setup_of, monkeypatch):
    def lose_one(endpoint, path, settings=None):
        lost = settings and {**settings, "objects": settings["objects"] - 1}
        return control(endpoint, path, lost)

    monkeypatch.setattr(objects_ways, "control", lose_one)
    with bucket_server() as endpoint:
        runner = Runner(endpoint, setup_of(5))
        with pytest.raises(CountsDiffer, match=r"NoSuchKey|SourceChanged"):
            runner.read(Way(kind, 2), 5)


def test_a_run_with_other_bytes_is_refused(setup_of, monkeypatch):
    def other(endpoint, path, settings=None):
        return control(endpoint, path, settings and {**settings, "distinct": False})

    monkeypatch.setattr(objects_ways, "control", other)
    with bucket_server() as endpoint:
        runner = Runner(endpoint, setup_of(5))
        with pytest.raises(CountsDiffer, match="other bytes"):
            runner.read(Way(THREADS, 2), 5)


def test_a_run_in_which_an_object_is_sent_twice_is_refused(setup_of, monkeypatch):
    def one_more(endpoint, path, settings=None):
        found = control(endpoint, path, settings)
        return {**found, "objects": found["objects"] + 1} if path == "/counters" else found

    monkeypatch.setattr(objects_ways, "control", one_more)
    with bucket_server() as endpoint:
        runner = Runner(endpoint, setup_of(5))
        with pytest.raises(CountsDiffer, match="that were sent: 6 of 5"):
            runner.read(Way(DDBLOAD, 2), 5)
