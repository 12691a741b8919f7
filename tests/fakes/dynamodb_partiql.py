"""INSERT of PartiQL, as far as FakeDynamoDB and the servers of benchmarks take it."""

from __future__ import annotations

from typing import Any

from tests.fakes.dynamodb_values import Item, invalid

MAX_STATEMENT = 8192


def parsed_insert(statement: str, parameters: list[Any]) -> tuple[str, Item]:
    """Read a statement letter by letter; return the table's name and the item.

    Raises Refused as the service does: for any statement but INSERT INTO "table" VALUE {'a':?,...}.
    """
    reader = _Reader(statement)
    reader.word("INSERT")
    reader.word("INTO")
    table = reader.quoted('"')
    reader.word("VALUE")
    reader.word("{")
    names: list[str] = []
    while True:
        names.append(reader.quoted("'"))
        reader.word(":")
        reader.word("?")
        if reader.next() == "}":
            break
        reader.word(",")
    reader.word("}")
    reader.end()
    if len(names) != len(parameters):
        raise invalid("Number of parameters in request and statement don't match.")
    if len(set(names)) < len(names):
        raise invalid("Two members of the item have one name")
    return table, dict(zip(names, parameters, strict=True))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self) -> str:
        """Skip blanks; return the character there, or nothing at the end."""
        while self._text[self._at : self._at + 1] in (" ", "\n", "\t", "\r"):
            self._at += 1
        return self._text[self._at : self._at + 1]

    def word(self, word: str) -> None:
        self.next()
        if self._text[self._at : self._at + len(word)].upper() != word:
            raise self._error()
        self._at += len(word)

    def quoted(self, quote: str) -> str:
        if self.next() != quote:
            raise self._error()
        found: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            letter = self._text[self._at]
            self._at += 1
            if letter == quote:
                if self._text[self._at : self._at + 1] != quote:
                    return "".join(found)
                self._at += 1
            found.append(letter)
        raise self._error()

    def end(self) -> None:
        if self.next():
            raise self._error()

    def _error(self) -> Exception:
        return invalid(f"Statement wasn't well formed, can't be processed: at {self._at}")
