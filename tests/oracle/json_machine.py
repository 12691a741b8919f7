"""Oracle for JSON Lines: an RFC 8259 parser that reads one character after the other.

Reading it should be enough to check it. It uses ``Decimal`` and the UTF-8 decoder of the standard
library. Its rules where RFC 8259 leaves a choice:

* A line ends at LF only; CR is white space. A line of white space is skipped.
* An object's names are compared after their escapes are read; each may occur once.
* A number is kept as text. DynamoDB stores 38 digits, from 1E-130 to 9.9...E+125.
* A lone surrogate is invalid. Lists and maps may nest 32 levels.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

WHITE = " \t\n\r"
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HEX = "0123456789abcdefABCDEF"
DIGITS = "0123456789"


class Bad(Exception):
    """Error for an invalid row; ``args[0]`` is the reason."""


class Number(str):
    """Text of a number."""

    __slots__ = ()


class Row(NamedTuple):
    """Row: its line (from 1), the offset of its first byte, and the offset after its last.

    ``value`` is a ``dict``, or a ``Bad``.
    """

    line: int
    byte: int
    end_byte: int
    value: Any


def read_rows(data: bytes) -> list[Row]:
    """Return every row of ``data``."""
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
    """Members of an object in which a name occurs twice."""


class Reader:
    """Parser of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        """Return the next character, or an empty string at the end."""
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, wanted: str) -> None:
        """Consume exactly these characters."""
        for character in wanted:
            if self.peek() != character:
                raise Bad("bad_json")
            self.at += 1

    def skip(self) -> None:
        """Consume white space."""
        while self.peek() and self.peek() in WHITE:
            self.at += 1

    def value(self) -> Any:
        """Parse any value."""
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
        """Parse an object."""
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
        """Parse an array."""
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
        """Parse a string."""
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
        # Surrogate pairs become one character.
        return (
            "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        )

    def digits(self) -> str:
        """Parse at least one digit."""
        start = self.at
        while self.peek() and self.peek() in DIGITS:
            self.at += 1
        if self.at == start:
            raise Bad("bad_json")
        return self.text[start : self.at]

    def number(self) -> Number:
        """Parse a number."""
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
    """Convert a JSON value to DynamoDB's JSON. Raises `Bad`."""
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
    """Return the text if it contains no lone surrogate. Raises `Bad`."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Bad("lone_surrogate")
    return text


def check_number(text: str) -> str:
    """Return the number if DynamoDB stores it exactly. Raises `Bad`."""
    number = Decimal(text)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if digits and len(digits) > 38:
        raise Bad("number_too_long")
    if digits and not -130 <= number.adjusted() <= 125:
        raise Bad("number_out_of_range")
    return str(text)


def typed(value: Any, depth: int = 0) -> dict[str, Any]:
    """Check a value in DynamoDB's JSON; sets and binary values are not supported. Raises `Bad`."""
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
        # DynamoDB also accepts +1, 01, 1. and .5 as numbers; it drops the plus.
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
