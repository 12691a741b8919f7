r"""The oracle for lines of JSON: a parser of RFC 8259, one character after the other.

It is meant to be checked by reading it. What it takes from the standard library is ``Decimal`` and
the decoding of UTF-8. The rules, where RFC 8259 leaves them open:

* A line ends at LF, and only there; CR is white space. A line of white space is no row.
* Names of an object are told apart after their escapes are read; none may stand twice.
* A number is its text. DynamoDB keeps 38 digits, from 1E-130 to 9.9...E+125.
* Half a surrogate pair is no character. Lists and maps go 32 deep.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

WHITE = " \t\n\r"
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HEX = "0123456789abcdefABCDEF"
DIGITS = "0123456789"


class Bad(Exception):
    """A row that is none; ``args[0]`` says why."""


class Number(str):
    """A number's text."""

    __slots__ = ()


class Row(NamedTuple):
    """One row: its line from 1, the offsets of its first byte and of what follows it.

    ``value`` is what it holds, a ``dict``; or a ``Bad``.
    """

    line: int
    byte: int
    end_byte: int
    value: Any


def read_rows(data: bytes) -> list[Row]:
    """Every row of ``data``."""
    rows, start, line = [], 0, 1
    while start < len(data):
        end = start
        while end < len(data) and data[end] != 0x0A:
            end += 1
        end = min(end + 1, len(data))
        text = data[start:end]
        if any(byte not in WHITE.encode() for byte in text):
            rows.append(Row(line, start, end, _value_of(text)))
        start, line = end, line + 1
    return rows


def _value_of(data: bytes) -> Any:
    try:
        text = data.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return Bad("bad_encoding")
    try:
        reader = Reader(text)
        reader.skip()
        value = reader.value()
        reader.skip()
        if reader.at < len(text):
            raise Bad("bad_json")
    except Bad as bad:
        return bad
    return value if isinstance(value, dict | Twice) else Bad("not_an_object")


class Twice(list[tuple[str, Any]]):
    """An object's members, of which two have one name."""


class Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        """The next character; none at the end."""
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, wanted: str) -> None:
        """Step over these very characters."""
        for character in wanted:
            if self.peek() != character:
                raise Bad("bad_json")
            self.at += 1

    def skip(self) -> None:
        """Step over white space."""
        while self.peek() and self.peek() in WHITE:
            self.at += 1

    def value(self) -> Any:
        """Any value."""
        first = self.peek()
        if first == "{":
            return self.members()
        if first == "[":
            return self.elements()
        if first == '"':
            return self.string()
        for word, meant in (("true", True), ("false", False), ("null", None)):
            if first and first == word[0]:
                self.take(word)
                return meant
        return self.number()

    def members(self) -> Any:
        """An object."""
        found: list[tuple[str, Any]] = []
        self.take("{")
        self.skip()
        while self.peek() != "}":
            if found:
                self.take(",")
                self.skip()
            name = self.string()
            self.skip()
            self.take(":")
            self.skip()
            found.append((name, self.value()))
            self.skip()
        self.take("}")
        named = dict(found)
        return named if len(named) == len(found) else Twice(found)

    def elements(self) -> list[Any]:
        """An array."""
        found: list[Any] = []
        self.take("[")
        self.skip()
        while self.peek() != "]":
            if found:
                self.take(",")
                self.skip()
            found.append(self.value())
            self.skip()
        self.take("]")
        return found

    def string(self) -> str:
        """A string."""
        self.take('"')
        units: list[str] = []
        while self.peek() != '"':
            character = self.peek()
            if not character or character < " ":
                raise Bad("bad_json")
            self.at += 1
            if character != "\\":
                units.append(character)
                continue
            escape = self.peek()
            self.at += 1
            if escape == "u":
                digits = self.text[self.at : self.at + 4]
                if len(digits) < 4 or any(digit not in HEX for digit in digits):
                    raise Bad("bad_json")
                self.at += 4
                units.append(chr(int(digits, 16)))
            elif escape and escape in ESCAPES:
                units.append(ESCAPES[escape])
            else:
                raise Bad("bad_json")
        self.take('"')
        # Two halves make one character.
        return (
            "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        )

    def digits(self) -> str:
        """At least one digit."""
        start = self.at
        while self.peek() and self.peek() in DIGITS:
            self.at += 1
        if self.at == start:
            raise Bad("bad_json")
        return self.text[start : self.at]

    def number(self) -> Number:
        """A number."""
        start = self.at
        if self.peek() == "-":
            self.at += 1
        whole = self.digits()
        if len(whole) > 1 and whole[0] == "0":
            raise Bad("bad_json")
        if self.peek() == ".":
            self.at += 1
            self.digits()
        if self.peek() and self.peek() in "eE":
            self.at += 1
            if self.peek() and self.peek() in "+-":
                self.at += 1
            self.digits()
        return Number(self.text[start : self.at])


def attribute(value: Any, depth: int = 0) -> dict[str, Any]:
    """DynamoDB's value of JSON's. Raises `Bad`."""
    if depth >= 32:
        raise Bad("nested_too_deep")
    if isinstance(value, Number):
        return {"N": check_number(value)}
    if isinstance(value, str):
        return {"S": check_text(value)}
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, Twice):
        raise Bad("duplicate_name")
    if isinstance(value, list):
        return {"L": [attribute(each, depth + 1) for each in value]}
    if "" in value:
        raise Bad("bad_name")
    return {"M": {check_text(name): attribute(each, depth + 1) for name, each in value.items()}}


def check_text(text: str) -> str:
    """The text, of whole characters only. Raises `Bad`."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Bad("lone_surrogate")
    return text


def check_number(text: str) -> str:
    """The number, if DynamoDB keeps it whole. Raises `Bad`."""
    number = Decimal(text)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if digits and len(digits) > 38:
        raise Bad("number_too_long")
    if digits and not -130 <= number.adjusted() <= 125:
        raise Bad("number_out_of_range")
    return str(text)


def typed(value: Any, depth: int = 0) -> dict[str, Any]:
    """The same of DynamoDB's JSON; sets and binary are not looked into. Raises `Bad`."""
    if depth >= 32:
        raise Bad("nested_too_deep")
    if isinstance(value, Twice):
        raise Bad("duplicate_name")
    if not isinstance(value, dict) or len(value) != 1:
        raise Bad("bad_attribute")
    ((kind, content),) = value.items()
    is_text = isinstance(content, str) and not isinstance(content, Number)
    if kind == "S" and is_text:
        return {kind: check_text(content)}
    if kind == "N" and is_text:
        # Laxer than JSON's: +1, 01, 1. and .5 are numbers, too; a plus is not kept.
        if not content or any(each not in f"{DIGITS}+-.eE" for each in content):
            raise Bad("not_a_number")
        try:
            Decimal(content)
        except InvalidOperation:
            raise Bad("not_a_number") from None
        content = content.removeprefix("+")
        return {kind: check_number(content)}
    if (kind == "BOOL" and isinstance(content, bool)) or (kind == "NULL" and content is True):
        return {kind: content}
    if kind == "L" and isinstance(content, list) and not isinstance(content, Twice):
        return {kind: [typed(each, depth + 1) for each in content]}
    if kind == "M" and isinstance(content, Twice):
        raise Bad("duplicate_name")
    if kind == "M" and isinstance(content, dict):
        if "" in content:
            raise Bad("bad_name")
        return {kind: {check_text(name): typed(each, depth + 1) for name, each in content.items()}}
    raise Bad("bad_attribute")
