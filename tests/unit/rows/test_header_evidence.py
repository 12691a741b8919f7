"""Evidence for and against a first row as a header."""

import pytest

from ddbload.rows.header_doubts import header_evidence


@pytest.mark.parametrize(
    ("rows", "looks_like_data"),
    [
        (["id,name", "1,a", "2,b"], False),
        (["1,a", "2,b", "3,c"], True),
        (["2020-01-02,3.5", "2020-01-03,4.5"], True),
        (["city,2019,2020", "a,1,2", "b,3,4"], True),
        (["city,2019,total", "a,1,2", "b,3,4"], False),
        (["name,kind", "a,x", "b,y"], False),
        (["red,yes", "blue,no", "red,yes", "red,yes"], True),
        (["id", "a"], False),
        (["7,8"], True),
        (["a,b"], False),
        (["when,v", "NA,", "10:30,1"], False),
        (["a,,c", "1,,2"], False),
    ],
)
def test_row_of_values_looks_like_data(rows: list[str], looks_like_data: bool) -> None:
    first, *others = [row.split(",") for row in rows]
    found = header_evidence(first, others)
    assert found.looks_like_data == looks_like_data
    assert found.why
    # A reason may be printed and logged.
    assert not any(cell in found.why.split() for cell in first if len(cell) > 1)
