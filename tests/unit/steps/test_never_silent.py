"""What may be read in another way than it was meant is rejected, refused, or warned of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.convert.convert import prepare_conversion
from ddbload.errors import InvalidPayload
from ddbload.ledger.ledger import temporary_ledger
from ddbload.rows.file_signatures import refuse_other_encodings
from tests.unit.convert.conversion import Conversion
from tests.unit.steps.guessed import converted
from tests.unit.steps.world import TABLE, World


def notices(data: bytes, **payload: Any) -> list[str]:
    """Return the warnings of a conversion."""
    world, found = World(data), list[str]()
    context = replace(world.context(), notice=found.append)
    with temporary_ledger() as ledger:
        asked = Payload.from_json({**world.payload, **payload})
        prepare_conversion(asked, None, ledger, context)
    return found


@pytest.mark.parametrize(
    ("text", "rejects"),
    [
        ("id,name\n1,a\nid,name\n2,b\n", 1),
        ('id,name\n1,a\n"id","name"\n2,"b\nc"\nid,name\n', 2),
        ("id,name,\n1,a,\nid,name,\n", 1),
        ("id\n1\nid\n2\n", 1),
        ("id,name\n1,a\nid,nome\n", 0),
        ("id,name\nid,name\n", 1),
        # Files that begin with a byte order mark, joined.
        ("\ufeffid,name\n1,a\n\ufeffid,name\n2,b\n", 1),
        ('\ufeff"id","name"\n"1","a"\n\ufeff"id","name"\n"2","b"\n', 1),
        ('\ufeffid,"a,b"\n1,a\n\ufeffid,"a,b"\n\n2,b\n\ufeff3,b\n\ufeffid,"a,b"\r\n', 2),
        ("\ufeffid\n1\n\ufeffid\n2\n", 1),
        ("id,name\n1,a\n\ufeffid,nome\n", 0),
    ],
)
def test_row_that_repeats_the_header_is_rejected(tmp_path: Path, text: str, rejects: int) -> None:
    found = converted(tmp_path, text, delimiter=",", format="csv")
    assert [each["cause"] for each in found.rejects] == ["repeats_header"] * rejects
    assert not any("id" in row for row in found.rows) or rejects == 0
    # Columns that were named are no header of the file.
    named = converted(tmp_path, text, delimiter=",", format="csv", header=False)
    assert all(each["cause"] != "repeats_header" for each in named.rejects)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"id,n\n1,\\N\n", r"--null '\N'"),
        (b"id,n\n1,a\rb\n2,c\n", "line 2 has a CR without LF"),
        (b"1,2\n3,4\n", "say --no-header"),
        (b"A-1,x\nB-2,y\nC-3,z\n", "are written as those of the rows below"),
        (b"id,n\n1,a\n", None),
        (b'id,n\n1,"a\rb"\n2,c\n', None),
        (b"id,n\r1,a\r", None),
    ],
)
def test_cells_that_look_like_something_else_are_warned_of(data: bytes, words: str | None) -> None:
    found = notices(data)
    assert [words in each for each in found if words] == [True] * (words is not None)
    assert bool(found) == (words is not None)
    if words == r"--null '\N'":
        assert notices(data, nulls={"markers": ["\\N"]}) == []


def test_mapping_that_makes_every_key_the_same_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"n\n1\n2\n")

    def items(template: str) -> list[Any]:
        return Conversion(str(path), TABLE, mapping={"set": {"id": template}}).run().items

    with pytest.raises(InvalidPayload, match="to the same text in every row"):
        items("config")
    assert len(items("C#{n}")) == 2


ORDER = {"orderId": 7, "lines": [{"sku": "a"}, {"sku": "b"}]}


@pytest.mark.parametrize("indent", [None, 1])
def test_object_with_other_members_beside_its_list_is_one_item(
    tmp_path: Path, indent: int | None
) -> None:
    assert len(converted(tmp_path, json.dumps(ORDER, indent=indent), "data.json").items) == 1
    alone = json.dumps({"lines": ORDER["lines"]}, indent=1)
    assert len(converted(tmp_path, alone, "data.json").items) == 2
    text = json.dumps(ORDER, indent=indent)
    assert len(converted(tmp_path, text, "data.json", layout="object").items) == 2


def test_skipped_lines_are_in_the_report_and_the_event() -> None:
    source = {"format": "auto", "delimiter": "auto"}
    world = World(b"Report\n\nid;n\n1;2\n2;3\n", source=source)
    world.run()
    assert (world.report().skipped_lines, len(world.items)) == (2, 2)
    assert "skipped_lines" not in World(b"id,n\n1,2\n").payload


def test_rows_that_options_show_are_not_kept(tmp_path: Path) -> None:
    error = converted(tmp_path, "x,y\nsecret,1,2\nr2,3,4\n").error
    assert error is not None
    failure = Failure.of(error)
    assert "secret" in json.dumps(failure.shown())
    assert "secret" not in json.dumps(failure.to_json())
    assert "secret" not in failure.message
    # Names may stand above the wrong columns, so that neither is the best.
    assert Failure.from_json(failure.to_json()).options[0]["best"] is False
    assert "options" not in Failure("X", "y").to_json()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("id,участок\n1,область\n", "cp1251"),
        ("id,Łódź\n1,ęą\n", "cp1250"),
        ("id,café\n1,naïve\n", "cp1252"),
        ("id,café\n1,naïve\n", "mac-roman"),
        ("id,名前\n1,表示ソ\n", "shift-jis"),
        ("id,姓名\n1,北京\n", "gbk"),
    ],
)
def test_refusal_shows_the_text_under_each_encoding(
    tmp_path: Path, text: str, encoding: str
) -> None:
    data = text.encode(encoding)
    found = converted(tmp_path, data)
    assert found.refused == "UnsupportedFormat"
    assert found.error is not None
    shown = {each["options"][1]: each["rows"][0][0] for each in found.error.options}
    assert text.splitlines()[0] in shown.values()
    assert len(shown) > 2
    assert not any(each["best"] for each in found.error.options)
    assert not any(line in str(found.error) for line in shown.values())
    named = converted(tmp_path, data, encoding=encoding)
    assert [list(row) for row in named.rows] == [text.splitlines()[1].split(",")]
    assert named.names == {tuple(text.splitlines()[0].split(","))}


def test_few_damaged_lines_among_utf8_are_rejected(tmp_path: Path) -> None:
    data = "id,n\n1,é\n2,ü\n3,".encode() + b"\xe9\n"
    refuse_other_encodings(data, whole=True)
    found = converted(tmp_path, data, table=TABLE)
    assert [each["cause"] for each in found.rejects] == ["bad_encoding"]
    assert converted(tmp_path, b"id,n\n1,\xe9\n", encoding="utf-8").rejects
