"""`ddbload run` does the loads of a job file as its commands would, and stops at a failure."""

from __future__ import annotations

import json

import pytest

from tests.cli.transcript import delete_table, make_table

JOB = """
[defaults]
infer_types = true

[load.books]
source = "in/books.csv"
table = "jobs1"
types = { year = "N", "odd,name" = "N" }
null = ["-", '\\N']
set = { kind = "book of ${OWNER}" }
rename = { title = "name" }

[load.authors]
source = ["in/a.csv", "in/b.csv"]
table = "jobs2"
"""


@pytest.fixture
def jobs(console, dynamodb):
    for name in ("jobs1", "jobs2"):
        make_table(dynamodb, name, "id:S")
    for folder in ("job", "job/in"):
        console.path(folder).mkdir()
    console.write("job/in/books.csv", 'id,year,"odd,name",title\na,1,2,-\nb,2,,x\n')
    console.write("job/in/a.csv", "id,n\na,1\n")
    console.write("job/in/b.csv", "id,n\nb,2\n")
    console.write("job/books.toml", JOB)
    console.env["OWNER"] = "Ann"
    yield console
    for name in ("jobs1", "jobs2"):
        delete_table(dynamodb, name)


def lines(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


def test_loads_run_in_order_with_paths_relative_to_the_file(jobs, dynamodb):
    ended = jobs.ddbload("run", "job/books.toml", "--verify", "--json")
    assert ended.code == 0, ended.err
    first, second = lines(ended)
    assert (first["load"], first["table"], first["status"]) == ("books", "jobs1", "SUCCEEDED")
    assert first["rows"]["written"] == 2
    assert (second["load"], second["rows"]["written"]) == ("authors", 2)
    assert [each["verify"]["status"] for each in (first, second)] == ["EQUAL", "EQUAL"]
    items = {item["id"]["S"]: item for item in dynamodb.scan(TableName="jobs1")["Items"]}
    kind = {"S": "book of Ann"}
    assert items["a"] == {
        "id": {"S": "a"},
        "year": {"N": "1"},
        "odd,name": {"N": "2"},
        "kind": kind,
    }
    assert items["b"] == {"id": {"S": "b"}, "year": {"N": "2"}, "name": {"S": "x"}, "kind": kind}


def test_summary_is_a_table(jobs):
    ended = jobs.ddbload("run", "job/books.toml", "authors")
    assert ended.code == 0, ended.err
    head, row = ended.out.splitlines()
    assert head.split() == [
        "load",
        "table",
        "rows",
        "written",
        "rejected",
        "seconds",
        "price",
        "status",
    ]
    assert row.split()[:5] == ["authors", "jobs2", "2", "2", "0"]
    assert row.split()[-1] == "SUCCEEDED"


def test_first_failure_stops_the_others(jobs, dynamodb):
    jobs.path("job/in/books.csv").unlink()
    ended = jobs.ddbload("run", "job/books.toml", "--json")
    assert ended.code == 1
    (only,) = lines(ended)
    assert (only["load"], only["status"]) == ("books", "FAILED")
    assert "ddbload: not begun: authors" in ended.err
    assert dynamodb.scan(TableName="jobs2")["Count"] == 0
    going = jobs.ddbload("run", "job/books.toml", "--json", "--keep-going")
    assert going.code == 1
    assert [each["status"] for each in lines(going)] == ["FAILED", "SUCCEEDED"]
    assert dynamodb.scan(TableName="jobs2")["Count"] == 2


def test_difference_after_a_load_is_a_failure(jobs, dynamodb):
    dynamodb.put_item(TableName="jobs1", Item={"id": {"S": "extra"}})
    ended = jobs.ddbload("run", "job/books.toml", "--verify", "--json")
    assert ended.code == 1
    (only,) = lines(ended)
    assert (only["status"], only["verify"]["status"]) == ("SUCCEEDED", "DIFFERENT")


def test_rejects_are_no_failure(jobs):
    jobs.write("job/in/books.csv", 'id,year,"odd,name",title\na,x,,\nb,1,,\n')
    ended = jobs.ddbload("run", "job/books.toml", "--json")
    assert ended.code == 3
    assert [each["status"] for each in lines(ended)] == ["SUCCEEDED_WITH_REJECTS", "SUCCEEDED"]


def test_nightly_job_succeeds_where_nothing_is_new(jobs):
    jobs.write("job/night.toml", f"{JOB}once = true\n")
    for status in ("SUCCEEDED", "ALREADY_LOADED"):
        ended = jobs.ddbload("run", "job/night.toml", "authors", "--json")
        assert (ended.code, lines(ended)[0]["status"]) == (0, status)


def test_plan_writes_nothing(jobs, dynamodb):
    ended = jobs.ddbload("run", "job/books.toml", "--plan", "--json")
    assert ended.code == 0, ended.err
    assert [(each["load"], each["status"]) for each in lines(ended)] == [
        ("books", "FINE"),
        ("authors", "FINE"),
    ]
    assert dynamodb.scan(TableName="jobs1")["Count"] == 0
    assert jobs.ddbload("run", "job/books.toml", "--plan", "--verify").code == 2


BOOKS = '[load.books]\nsource = "in/books.csv"\ntable = "jobs1"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no load: write [load.NAME] with source and table"),
        ("x = ", "is not a job file: Invalid value (at end of document)"),
        ("[laod.books]\n", "unknown table [laod]; did you mean 'load'?: loads are [load.NAME]"),
        ('[load.books]\ntable = "a"\n', "load.books.source must be a path or URI, or a list"),
        ('[load.books]\nsource = "a"\n', "load.books.table must be the name of a table"),
        ("load = 1\n", "load must be a table, such as [load.NAME]"),
        (
            BOOKS + 'typs = { year = "N" }\n',
            "load.books: there is no option typs; did you mean 'types'?",
        ),
        (BOOKS + "quiet = true\n", "load.books: there is no option quiet"),
        (BOOKS + 'header = "no"\n', "load.books.header must be true or false"),
        (BOOKS + "max_wcu = true\n", "load.books.max_wcu must not be true or false"),
        (BOOKS + "max_wcu = [1, 2]\n", "load.books.max_wcu must be one value, not a list"),
        (
            BOOKS + "types = { year = 1979-05-27 }\n",
            "load.books.types.year must be text or a number",
        ),
        (BOOKS + 'types = { year = "Q" }\n', "'--types year' must be one of S, N"),
        (
            BOOKS + 'set = { a = "${NOT_SET}" }\n',
            "load.books.set.a: the environment variable NOT_SET",
        ),
        ('[defaults]\ntable = "a"\n' + BOOKS, "defaults: there is no option table"),
        (BOOKS + 'mode = "upsert"\n', "load.books: "),
        (BOOKS + "max_wcu = -1\n", "load.books: "),
        (BOOKS + 'mode = "delete"\non_empty = "keep"\n', "load.books: "),
        (BOOKS + 'create_table = "id:X"\n', "load.books: --create-table"),
        (BOOKS + 'set = { "a=b" = "x" }\n', "load.books.set: a name with '='"),
        (BOOKS + 'rename = { year = "y=z" }\n', "load.books.rename: a name with '='"),
    ],
)
def test_mistake_is_named_with_its_place(jobs, dynamodb, text, said):
    jobs.write("job/wrong.toml", text)
    ended = jobs.ddbload("run", "job/wrong.toml")
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert dynamodb.scan(TableName="jobs1")["Count"] == 0


def test_names_and_files_that_are_missing_are_named(jobs):
    ended = jobs.ddbload("run", "job/books.toml", "book")
    assert ended.code == 2
    assert "there is no load book; did you mean 'books'?; it has books, authors" in ended.err
    assert "job/no.toml: No such file" in jobs.ddbload("run", "job/no.toml").err
    jobs.write("job/latin.toml", b"# \xff\n")
    assert "is not a job file: not UTF-8" in jobs.ddbload("run", "job/latin.toml").err


@pytest.mark.parametrize(
    "wrong", ["header = 1", "max_wcu = -1", 'mode = "delete"\non_empty = "keep"', 'rejects = "r"']
)
def test_all_loads_are_checked_before_the_first(jobs, dynamodb, wrong):
    jobs.write("job/books.toml", f"{JOB}{wrong}\n")
    ended = jobs.ddbload("run", "job/books.toml")
    assert ended.code == 2
    assert "load.authors" in ended.err
    assert dynamodb.scan(TableName="jobs1")["Count"] == 0


def test_job_file_may_begin_with_a_byte_order_mark(jobs):
    jobs.write("job/books.toml", "\ufeff" + JOB)
    assert jobs.ddbload("run", "job/books.toml", "authors", "--quiet").code == 0
