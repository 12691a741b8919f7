"""Tests of rows that fit a file's columns and may be none: they are warned of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddbload.contracts.payload import Payload
from ddbload.convert.convert import prepare_conversion
from ddbload.ledger.ledger import temporary_ledger
from ddbload.rows.sniff import sniff
from tests.unit.steps.world import World

ROWS = "Z,2001,3,4\nB,2002,5,6\nC,2003,7,8\nD,2004,9,1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Footers.
        (f"town,year,a,b\n{ROWS}Total,,,\n", "line 6 has few values"),
        (f"town,year,a,b\n{ROWS},,,\nAll are estimates,,,\n", "line 7 has few values"),
        (f"town,year,a,b\nZ,,,\n{ROWS}Total,,,\n", None),
        (f"town,year,a,b\n{ROWS}E,2005,,\n", None),
        (f"town,year,a,b\n{ROWS},,,\n", None),
        ("key,value,c\na,1,x\nb,,\n", None),
        (
            "name\nAnn\nBo\nCy\n\nSource: own work\n",
            "line 6 is below an empty line: if it is a foo",
        ),
        ("name\nAnn\n\nCy\n\nDan\n", None),
        ('name\nAnn\nBo\nCy\n"two\n\nlines"\n', None),
        # Titles.
        ("Report\n\nname\nAnn\nBo\nCy\n", "line 3 is below an empty line: if it names the column"),
        # Comments.
        (
            "name\nAnn\n# a remark\nBo\nCy\n",
            "line 3 begins as a comment does: if it is one, say --",
        ),
        ("name\n# Ann\n# Bo\n# Cy\nDan\n", None),
        ("name\n#Ann\nBo\nCy\nDan\n", None),
        # Row names.
        ("a,b\nr1,1,\nr2,3,\nr3,5,\n", "say --skip-lines 1 --columns row,NAMES"),
        ("a,b\n1,1,\n2,3,\n3,5,\n", "say --skip-lines 1 --columns row,NAMES"),
        ("a,b\n7,1,\n8,3,\n9,5,\n", None),
        ("a,b\nr1,1,\nr1,3,\nr3,5,\n", None),
        ("a,b\nr1,1,\nr2,3,\nr3,5,x\nr4,6,\n", None),
        # Names.
        ("id, name\n1, Ann\n2, Bo\n3, Cy\n", "line 1 has names that begin or end with blanks"),
    ],
)
def test_rows_that_may_be_none_are_warned_of(text: str, words: str | None) -> None:
    found = sniff(text.encode(), name="-", whole=True).warnings
    assert [words in each for each in found] == [True] if words else not found


def test_footer_is_only_known_if_the_end_was_seen() -> None:
    text = f"town,year,a,b\n{ROWS}Total,,,\n"
    assert not sniff(text.encode(), name="-", whole=False).warnings


def test_lines_are_those_of_the_file() -> None:
    source = {"format": "auto", "delimiter": "auto", "skip_lines": 2}
    world, found = World(b"x\ny\nReport\n\nname\nAnn\nBo\nCy\n", source=source), list[str]()
    with temporary_ledger() as ledger:
        payload = Payload.from_json(world.payload)
        prepare_conversion(payload, None, ledger, replace(world.context(), notice=found.append))
    assert found == ["line 5 is below an empty line: if it names the column, say --skip-lines 4"]
