"""Plans predict the result of an import, and write nothing."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from ddbload.items.document_rows import JsonRows
from ddbload.planning.make_plan import Sample, make_plan
from ddbload.planning.price import GROUP_TRANSITIONS, RUN_TRANSITIONS
from tests.fakes.dynamodb_values import item_size
from tests.unit.steps.world import BUCKET, World

HEAD = "id,name,year,team\n"
GOOD = "".join(f'{n},"Name, {n}",{1900 + n}.0,t{n % 3}\n' for n in range(200))
BAD = ",no key,1.0,t\n1,short\n2,x,y,z,too long\n\n7,again,2000.0,t\n"


def plan_of(world: World, **options) -> dict:
    made = make_plan(world.payload, world.context(), **options)
    # It is what --json prints.
    return json.loads(json.dumps(made.to_json(), allow_nan=False))


@pytest.fixture
def world() -> World:
    world = World((HEAD + GOOD + BAD).encode(), indexes=[[("team", "S")]])
    world.options["max_rejects"] = 10
    return world


def test_plan_predicts_result_of_import(world):
    plan = plan_of(world)
    assert world.items == []
    assert world.store.objects == {}
    report = world.run()
    assert plan["rows"] == {
        "read": report.rows.read,
        "good": report.rows.written + report.rows.superseded,
        "rejected": report.rows.rejected,
        "filtered": 0,
        "total": report.rows.read,
        "estimated": False,
    }
    assert plan["status"] == "REJECTS"
    assert plan["source"]["bytes_read"] == plan["source"]["bytes"] == report.size
    assert plan["source"]["complete"] is True
    assert plan["keys"]["distinct"] == len(world.items)
    assert (plan["keys"]["repeated"], plan["keys"]["extra_rows"]) == (1, 1)
    assert plan["keys"]["exact"] is True
    first = {}
    for reject in world.rejects():
        first.setdefault((reject["cause"], reject["column"]), reject)
    assert [
        (each["cause"], each["column"], each["rows"], each["first"]["line"], each["first"]["byte"])
        for each in plan["rejects"]
    ] == [
        ("field_count", None, 2, *(first["field_count", None][at] for at in ("line", "byte"))),
        ("empty_key", "id", 1, *(first["empty_key", "id"][at] for at in ("line", "byte"))),
    ]


def test_plan_counts_units_that_import_consumes():
    world = World((HEAD + GOOD).encode(), indexes=[[("team", "S")]])
    plan = plan_of(world)
    report = world.run()
    units = plan["write_units"]
    assert units["total"] == report.work.consumed_wcu
    assert units["table"] + sum(each["units"] for each in units["indexes"]) == units["total"]
    assert plan["price"]["services"]["DynamoDB"] == pytest.approx(400 * 0.625 / 1e6)
    assert plan["items"]["bytes"] == sum(item_size(item) for item in world.items)
    assert plan["items"]["largest"] == max(item_size(item) for item in world.items)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (200, {"workers": 1, "chunk_bytes": 100}),
        (200, {"workers": 3, "chunk_bytes": 100}),
        # One worker reads the file at 32 places.
        (90_000, {"workers": 4}),
        (90_000, {"workers": 1}),
    ],
)
def test_plan_counts_the_state_transitions_of_the_groups_of_an_import(rows, options):
    world = World((HEAD + "".join(f"{n},abcdefghi,{n},t\n" for n in range(rows))).encode())
    world.options.update(options)
    (line,) = (
        each
        for each in plan_of(world)["price"]["lines"]
        if each["service"] != "DynamoDB" and "transitions" in each["how"]
    )
    (lambdas,) = (each for each in plan_of(world)["price"]["lines"] if each["service"] == "Lambda")
    world.preflight()
    groups = world.ledger.find_groups() or ()
    assert len(world.manifest) > len(groups)
    transitions = RUN_TRANSITIONS + GROUP_TRANSITIONS * len(groups)
    assert line["how"].startswith(f"{transitions:,} transitions")
    # Preflight, Report and OnUpload are the others.
    assert f"; {len(groups) + 3:,} requests" in lambdas["how"]
    functions = world.ledger.record().workers
    assert lambdas["how"].startswith("1 function " if functions == 1 else f"{functions} functions ")


def test_plan_has_error_that_import_would_fail_with():
    world = World(b"id,name\n1,a\n", make_table=False)
    plan = plan_of(world)
    assert plan["status"] == "FAILS"
    assert plan["error"]["name"] == "TableNotFound"
    assert plan["price"] is None
    assert plan["table"] is None
    # What the file has is told all the same: that may well be why.
    assert [each["name"] for each in plan["columns"]] == ["id", "name"]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"name\n1\n", "KeyColumnMissing"),
        (b"id,id\n1,2\n", "DuplicateColumn"),
        (b'id,name\n1,a\n2,"b\n3,c\n', "UnterminatedQuote"),
        (b"\x1f\x8b\x08\x00", None),
    ],
)
def test_plan_has_errors_of_file(data, name):
    plan = plan_of(World(data))
    assert plan["status"] == "FAILS"
    assert name is None or plan["error"]["name"] == name
    assert plan["price"] is None
    assert plan["time"] is None


def test_plan_counts_all_rejects_when_they_exceed_limit(world):
    world.options["max_rejects"] = 2
    plan = plan_of(world)
    assert plan["error"]["name"] == "TooManyRejects"
    assert plan["rows"]["rejected"] == 3
    assert plan["price"]["total"] > 0
    world.options["max_rejects"] = 3
    assert plan_of(world)["status"] == "REJECTS"
    rows = plan["rows"]["total"]
    world.options["max_rejects"] = f"{300 / rows - 0.1:.3f}%"
    message = plan_of(world)["error"]["message"]
    assert f"3 of {rows} rows would be rejected, and max_rejects is" in message
    world.options["max_rejects"] = f"{300 / rows + 0.1:.3f}%"
    assert plan_of(world)["status"] == "REJECTS"


def test_plan_is_fine_when_file_has_no_rows():
    plan = plan_of(World(b"id,name\n"))
    assert (plan["status"], plan["rows"]["total"]) == ("FINE", 0)
    assert plan["write_units"]["total"] == 0
    assert plan["time"]["seconds"] == 0
    assert plan_of(World(b""))["status"] == "FINE"


@pytest.mark.parametrize("sample", [Sample(rows=1000), Sample(share=0.1)])
def test_sample_is_scaled_to_whole_file(sample):
    rows = 60_000
    world = World(("id,name\n" + "".join(f"{n:06},{'x' * 20}\n" for n in range(rows))).encode())
    plan = plan_of(world, sample=sample)
    assert plan["rows"]["read"] < rows / 2
    assert plan["rows"]["estimated"] is True
    assert plan["source"]["complete"] is False
    assert plan["rows"]["total"] == pytest.approx(rows, rel=0.01)
    assert plan["write_units"]["total"] == pytest.approx(rows, rel=0.01)
    assert "sample" in [each["code"] for each in plan["warnings"]]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_plan_of_the_first_rows_is_that_of_a_file_that_ends_there(compress):
    rows = [f"{n:06},{'x' * 20}\n" for n in range(30_000)]
    whole = World(compress(("id,name\n" + "".join(rows)).encode()))
    head = World(("id,name\n" + "".join(rows[:1000])).encode())
    plan, wanted = plan_of(whole, sample=Sample(rows=1000, exact=True)), plan_of(head)
    assert plan["rows"] == wanted["rows"]
    assert plan["keys"] == wanted["keys"]
    assert plan["write_units"] == wanted["write_units"]
    assert plan["source"]["complete"] is False
    codes = {each["code"] for each in wanted["warnings"]}
    assert {each["code"] for each in plan["warnings"]} - codes == {"first"}
    more = plan_of(head, sample=Sample(rows=1001, exact=True))
    assert more["source"]["complete"] is True


def test_plan_reads_several_objects():
    world = World(b"id,name\n1,a\n", source={"key": None, "prefix": "in/"})
    world.s3.put_object(Bucket=BUCKET, Key="in/two.csv", Body=b"id,name\n2,b\n,c\n1,d\n")
    plan = plan_of(world)
    assert plan["source"]["objects"] == 2
    assert plan["rows"]["read"] == 4
    assert plan["keys"]["extra_rows"] == 1
    (reject,) = plan["rejects"]
    assert reject["first"] == {"source": f"s3://{BUCKET}/in/two.csv", "line": 3, "byte": 12}


def test_plan_describes_documents():
    rows = [
        '{"id": "a", "n": 7, "tags": ["x", null]}',
        '{"id": "b", "n": "none"}',
        "{}",
        "nonsense",
        '{"id": "a"}',
    ]
    world = World("\n".join(rows).encode(), source={"format": "json"})
    plan = plan_of(world)
    report = world.run()
    assert plan["rows"]["rejected"] == report.rows.rejected == 2
    assert plan["keys"]["distinct"] == len(world.items) == 2
    assert plan["dialect"]["delimiter"] is None
    columns = {each["name"]: each for each in plan["columns"]}
    assert columns["n"]["inferred"] == {"type": "N", "why": "mixed: N 1, S 1"}
    assert columns["tags"]["type"] == "L"
    assert columns["id"]["key"] == "partition"
    put = [
        {"id": {"S": "a"}, "n": {"N": "7"}, "tags": {"L": [{"S": "x"}, {"NULL": True}]}},
        {"id": {"S": "b"}, "n": {"S": "none"}},
        {"id": {"S": "a"}},
    ]
    assert plan["items"]["bytes"] == sum(map(item_size, put))


@pytest.mark.parametrize(
    "options", [{"mode": "insert"}, {"mode": "last-wins", "position_attribute": "at"}]
)
def test_plan_counts_units_of_conditional_modes(options):
    world = World((HEAD + GOOD).encode(), options=dict(options), indexes=[[("team", "S")]])
    plan = plan_of(world)
    report = world.run()
    assert plan["items"]["bytes"] == sum(map(item_size, world.items))
    assert plan["write_units"]["total"] == report.work.consumed_wcu


def test_plan_shows_no_row_data_but_examples(world):
    secret = "".join(f"{n},secret-{n:03},1,t\n" for n in range(100)) + ",secret-999,1,t\nx,secret\n"
    world.overwrite((HEAD + secret).encode())
    told = json.dumps(plan_of(world))
    assert told.count("secret") == 3


def test_parquet_is_measured_by_columns_as_by_lines(monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["a", "", 'say "no"', "größe", "\\", None, "line\nend", "x" * 1100, "z"]
    table = arrow.table(
        {
            "id": ["", *"bcdefgh", None],
            "text": texts,
            "filled": [text or "" for text in texts],
            "null": [text or None for text in texts],
            "number": [None, 0.0, -1.5, 1e20, 1e126, 1e125, 1200.0, 0.05, 1.0],
            "flag": [True, None, False] * 3,
            "list": [[text, "1"] for text in texts],
            "map": [{"a": text, "n": 10} for text in texts],
            "bytes": [b"", b"1", None] * 3,
        }
    )
    out = io.BytesIO()
    parquet.write_table(table, out)
    world = World(out.getvalue(), source={"format": "parquet"}, indexes=[[("null", "S")]])
    world.options["max_rejects"] = 10
    plan = plan_of(world)
    monkeypatch.setattr(JsonRows, "column_values", lambda _self, _rows: None)
    assert plan == plan_of(world)
    assert (plan["rows"]["good"], plan["rows"]["rejected"]) == (6, 3)
