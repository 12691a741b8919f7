"""Records behave as frozen dataclasses with slots do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, astuple, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from ddbload.records import MutableRecord, Record


class Book(Record):
    """A record."""

    KIND: ClassVar[str] = "book"

    isbn: str
    year: int = 1990
    tags: list[str] = field(default_factory=list)
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DataBook:
    """The same as a dataclass."""

    isbn: str
    year: int = 1990
    tags: list[str] = field(default_factory=list)
    secret: str | None = field(default=None, repr=False)


class Novel(Book):
    """A record with a field more."""

    pages: int = 0


class Checked(Record):
    """A record that derives a field."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name.strip())

    def shown(self) -> str:
        """Use the class's own cell, which dataclasses with slots break."""
        return super().__repr__()


class Tally(MutableRecord):
    """A record that changes."""

    rows: int = 0
    names: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("1",), {}),
        (("1", 2000), {}),
        (("1", 2000, ["a"], "b"), {}),
        ((), {"isbn": "1", "secret": "b"}),
        (("1",), {"tags": ["x"]}),
    ],
)
def test_fields_are_filled_as_in_a_dataclass(values: Any, named: Any) -> None:
    record, data = Book(*values, **named), DataBook(*values, **named)
    assert asdict(record) == asdict(data)
    assert astuple(record) == astuple(data)
    assert repr(record) == repr(data).replace("DataBook", "Book")
    assert [each.name for each in fields(record)] == [each.name for each in fields(data)]
    assert asdict(replace(record, year=1)) == asdict(replace(data, year=1))


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), (("1",), {"isbn": "2"}), (("1",), {"pages": 3}), (("1", 2, [], None, 5), {})],
)
def test_missing_unknown_and_doubled_fields_are_refused(values: Any, named: Any) -> None:
    with pytest.raises(TypeError):
        DataBook(*values, **named)
    with pytest.raises((TypeError, ValueError)):
        Book(*values, **named)


def test_defaults_are_not_shared() -> None:
    assert Book("1").tags is not Book("1").tags


def test_equality_is_by_class_and_fields() -> None:
    assert Book("1") == Book("1") != Book("2")
    assert Book("1") != Novel("1")
    assert Book("1") != DataBook("1")
    assert Book("1") == AnyBook()
    assert hash(Checked("a")) == hash(Checked(" a "))
    assert len({Checked("a"), Checked("a "), Checked("b")}) == 2


class AnyBook:
    """Equal to everything."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_records_do_not_change() -> None:
    book: Any = Book("1")
    with pytest.raises(FrozenInstanceError):
        book.year = 2
    with pytest.raises(FrozenInstanceError):
        del book.year
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(book, "other", 1)


@pytest.mark.parametrize("record", [Novel("1", 2, ["x"], pages=7), Checked(" a"), Tally(3, ["b"])])
def test_records_are_copied_and_pickled(record: Any) -> None:
    assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301 - our own
    assert copy.copy(record) == copy.deepcopy(record) == record


def test_subclasses_add_fields() -> None:
    assert Novel.__match_args__ == ("isbn", "year", "tags", "secret", "pages")
    assert Novel("1", pages=7) == replace(Novel("1"), pages=7)
    assert Book.KIND == "book"
    assert Checked(" a").shown() == "Checked(name='a')"


def test_mutable_records_change_and_have_no_hash() -> None:
    tally = Tally()
    tally.rows += 2
    assert tally == Tally(2) != Tally()
    with pytest.raises(TypeError):
        hash(tally)
