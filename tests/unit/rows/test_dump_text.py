r"""Tests of text of databases, which is read by its program's rules only where that is clear."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddbload import errors
from ddbload.rows.file_signatures import dump_program
from ddbload.rows.readings import Reading
from ddbload.rows.sniff import sniff
from tests.unit.convert.conversion import Conversion
from tests.unit.steps.guessed import GUESSED, converted

HEAD = "id\tname\ttext\n1\tAnn\t\\N\n"


def reading(text: str, **more: bool) -> Reading | None:
    """Return the reading that is used; None for a refusal."""
    found = sniff(text.encode(), name="-", **{"whole": True, **more})
    return found.reading if found.doubt is None else None


@pytest.mark.parametrize(
    ("rows", "dialect"),
    [
        ("2\tBo\tx\n", "postgres"),
        ("2\tBo\tone\\n\\nTwo\n", "postgres"),
        ("2\tBo\tItems:\\n- a\\t1\\r\\n\n", "postgres"),
        ("2\tBo\tC:\\\\new\\\\table\n", "postgres"),
        ("2\tBo\t\\\\xDEADBEEF\n", "postgres"),
        ("2\tBo\tx\n\\.\n", "postgres"),
        ("2\tBo\t\\\\section{One}\\nText\\n- a\n", "postgres"),
        ("2\tBo\t\\\\item a\\\n\\\\item b\n", "mysql"),
        ("2\tBo\ttwo\\\nlines\n3\tCy\ta\\\tb\n", "mysql"),
        # Other text, of which some is escaped as by a program.
        ("2\tBo\tC:\\new\\table\n", None),
        ("2\tBo\tC:\\New\n", None),
        ("2\tBo\t\\\\host\\new\\tmp\n", None),
        ("2\tBo\t\\\\host.local\\NEW\n", None),
        ("2\tBo\t\\beta\n", None),
        ("2\tBo\t^[^\\r\\n]+$\n", None),
        ("2\tBo\t[\\n\\t]\n", None),
        ("2\tBo\t\\d+\\n\n", None),
        ('2\tBo\t{"a": "x\\ny"}\n', None),
        ("2\tdir\\\tx\n", None),
        ("2\tBo\tdir\\\n3\tCy\tx\n", None),
        ("2\tBo\tdir\\\r\n3\tCy\tx\n", None),
    ],
)
def test_dialect_is_that_of_the_program(rows: str, dialect: str | None) -> None:
    found = reading(HEAD + rows)
    assert found is not None
    assert found.dialect == dialect
    marks = ["--dialect", dialect] if dialect else ["--delimiter", "tab"]
    assert found.options() == marks


@pytest.mark.parametrize(
    "text",
    [
        "\\t",
        "\\n\n3\tCy\t\\r",
        "line\\nend",
        "src\\new\\test",
        "\\nu",
        "a\\vb",
        "a\\0b",
        "x\\ty and C:\\\\a\\nb",
    ],
)
def test_words_after_backslashes_are_asked_about(text: str) -> None:
    found = sniff((HEAD + f"2\tBo\t{text}\n").encode(), name="-", whole=True)
    assert found.doubt is not None
    options = found.doubt.to_json(0)
    assert [each["options"][:2] for each in options] in (
        [["--dialect", name], ["--delimiter", "tab"]] for name in ("postgres", "mysql")
    )
    assert not any(each["best"] for each in options)


@pytest.mark.parametrize(
    ("data", "whole", "found"),
    [
        (b"a\t\\N\n", True, ("postgres", True)),
        # Rows that were not seen may have backslashes of their own.
        (b"a\t\\N\n", False, None),
        (b"a\t\\N\nb\tx\\n-\nc\\", False, ("postgres", False)),
        (b"a\t\\N\n" + 8 * b"b\tx\\n-\n" + b"c\\", False, ("postgres", True)),
        (b"a\x01\\N\nb\x01c\td\n", False, ("hive", True)),
        (b"a\x01\\N\nb\x01c\\nd\n", True, None),
        (b"a\x01b\n", True, None),
        (b"a\tx\\N\n", True, None),
        (b"a\tb\\n\n", True, None),
        (b"a,\\N\n", True, None),
        (b"a\tb\n", True, None),
    ],
)
def test_program_is_known_by_its_nulls(
    data: bytes, whole: bool, found: tuple[str, bool] | None
) -> None:
    assert dump_program(data, whole=whole) == found


def test_row_with_a_null_names_no_columns(tmp_path: Path) -> None:
    for text, dialect in (("1\t\\N\tx\n2\tb\ty\n", "postgres"), ("1\x01\\N\n2\x01b\n", "hive")):
        found = converted(tmp_path, text)
        assert isinstance(found.error, errors.BadHeader)
        (option,) = found.error.options
        assert option["options"] == ["--dialect", dialect, "--no-header"]
        assert option["best"]
    other = sniff(b"Ann,\\N,4\nBo,2,5\nCy,3,6\n", name="-", whole=True)
    assert other.doubt is not None


@pytest.mark.parametrize("markers", [[], ["\\N"], ["NULL"]])
def test_detected_dialect_adds_its_null_to_those_given(tmp_path: Path, markers: list[str]) -> None:
    path = tmp_path / "data"
    path.write_text(HEAD + "2\tNULL\tone\\n-\n")
    found = Conversion(str(path), None, source=GUESSED, nulls={"markers": markers}).run()
    name = {} if markers == ["NULL"] else {"name": {"S": "NULL"}}
    assert found.items == [
        {"id": {"S": "1"}, "name": {"S": "Ann"}},
        {"id": {"S": "2"}, **name, "text": {"S": "one\n-"}},
    ]


def test_objects_that_were_not_seen_may_have_other_backslashes(tmp_path: Path) -> None:
    for name, path in (("a", "x"), ("b", "C:\\new")):
        (tmp_path / name).write_text(HEAD + f"2\tBo\t{path}\n")
    found = Conversion(str(tmp_path) + "/", None, source=GUESSED).run()
    assert [item["text"]["S"] for item in found.items] == ["\\N", "x", "\\N", "C:\\new"]
