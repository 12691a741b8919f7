"""Comparisons of `where`: which rows of a source are taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Self

from ddbload.contracts.messages import JsonObjectReader, JsonRule, Message, is_text
from ddbload.errors import InvalidPayload

OPERATORS = EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = ("=", "!=", "<", "<=", ">", ">=")
_FORM = "a column, one of = != < <= > >=, and a value, such as 'year>=2000'"
_TEXT = re.compile(
    r"[ \t]*(?:\{(?P<quoted>[^{}]+)\}|(?P<column>[^=!<>{}]*[^=!<>{} \t]))[ \t]*"
    r"(?P<op>[=!<>]+)[ \t]*(?P<value>.*)",
    re.DOTALL,
)


_JOINED = re.compile(r"[ \t](?P<word>and|or|&&|\|\|)[ \t]+[^=!<>{} \t]+[ \t]*[=!<>]", re.IGNORECASE)
"""A second comparison within a value, as in SQL."""


_VALUE = JsonRule(
    pattern=re.compile("[^\ud800-\udfff]*"), wanted="text, of numbers, too, such as '2000'"
)


class Comparison(Message):
    """A condition on one column of the source; an empty value stands for no value."""

    column: str
    op: Annotated[str, JsonRule(choices=OPERATORS)]
    value: Annotated[str, _VALUE] = ""

    def __str__(self) -> str:
        is_bare = re.fullmatch(r"[^=!<>{} \t]+", self.column)
        blank = " " if self.value.startswith(("=", "!", "<", ">")) else ""
        return f"{self.column if is_bare else f'{{{self.column}}}'}{self.op}{blank}{self.value}"

    @property
    def orders(self) -> bool:
        """True if the operator asks which value is greater."""
        return self.op not in (EQUAL, UNEQUAL)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read `year>=2000`; a column whose name has an operator in it stands in braces.

        Blanks beside the operator belong to neither side. Raises `InvalidPayload`.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise InvalidPayload(
                f"{text!r} is not a comparison: write {_FORM}; a column with such a sign or a brace"
                " in its name stands in braces, {a>b}>=3"
            )
        if found["op"] not in OPERATORS:
            hint = {"==": "=", "<>": "!=", "=>": ">=", "=<": "<=", "=!": "!="}.get(found["op"])
            raise InvalidPayload(
                f"{text!r} has the operator {found['op']}: write"
                f" {hint or 'one of = != < <= > >='} instead"
            )
        joined = _JOINED.search(found["value"])
        if joined is not None:
            raise InvalidPayload(
                f"{text!r} joins comparisons with {joined['word']!r}: give each by itself, as"
                " several --where (in a payload, a list); rows are taken that match them all, and"
                " there is no or"
            )
        comparison = cls(found["quoted"] or found["column"], found["op"], found["value"])
        comparison.check("where")
        return comparison

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for a comparison that no value can meet."""
        self.check(f.path("value"))

    def check(self, path: str) -> None:
        """Raise `InvalidPayload` for an order without a value; `path` names it in the error."""
        if self.orders and not self.value:
            raise InvalidPayload(
                f"{path!r}: {str(self)!r} has no value to compare with; only = (the column is"
                " empty) and != (it is not) go without one"
            )


def read_comparisons(given: object, path: str) -> tuple[Comparison, ...]:
    """Read a list whose members are texts or objects. Raises `InvalidPayload`."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidPayload(f"{path!r} must be a list, such as ['year>=2000']")
    found = []
    for number, each in enumerate(given):
        if isinstance(each, str):
            if not is_text(each):
                raise InvalidPayload(f"'{path}[{number}]' must be text that UTF-8 can write")
            found.append(Comparison.of_text(each))
        else:
            found.append(Comparison.from_json(each, f"{path}[{number}]"))
    return tuple(dict.fromkeys(found))
