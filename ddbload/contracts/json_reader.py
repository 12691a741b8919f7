"""Strict reading of JSON objects: every field by name and type, and no unknown fields.

Each error is `InvalidPayload` and names the field by its path, such as `options.workers`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ddbload.errors import InvalidPayload

_SURROGATES = re.compile("[\ud800-\udfff]")
_LISTED_FIELDS = 10
"""Number of unknown fields that an error lists."""
MAX_WHOLE = 2**53
"""Largest whole number that every JSON reader keeps exactly."""


class JsonObjectReader:
    """Reader of one JSON object. As a context manager it refuses unknown fields at the end."""

    __slots__ = ("_path", "_read", "_value")

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            where = f"{path!r}" if path else "the input"
            raise InvalidPayload(f"{where} must be a JSON object, not {json_type_name(value)}")
        self._value: Mapping[str, Any] = value
        self._path = path
        self._read: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.refuse_unknown()

    def refuse_unknown(self) -> None:
        """Raise `InvalidPayload` if the object has fields that were not read."""
        if self._value.keys() <= self._read:
            return
        unknown = sorted(str(name) for name in self._value if name not in self._read)
        listed = ", ".join(repr(self.path(name)) for name in unknown[:_LISTED_FIELDS])
        left = len(unknown) - _LISTED_FIELDS
        more = f" and {left:,} more" if left > 0 else ""
        known = ", ".join(sorted(self._read))
        raise InvalidPayload(f"unknown field {listed}{more}; known here: {known}")

    def path(self, name: str) -> str:
        """Return the full path of a field, for error messages."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Return true if the field is present and not null."""
        return self._value.get(name) is not None

    def raw(self, name: str, default: object = None) -> Any:
        """Return the value of a field, unchecked."""
        self._read.add(name)
        return self._value.get(name, default)

    def required(self, name: str) -> Any:
        """Return the value of a field; raise `InvalidPayload` if it is missing or null."""
        value = self.raw(name)
        if value is None:
            raise InvalidPayload(f"{self.path(name)!r} is missing")
        return value

    def nested(self, name: str) -> JsonObjectReader:
        """Return a reader of a nested object; a missing one reads as empty."""
        value = self.raw(name)
        return JsonObjectReader({} if value is None else value, self.path(name))

    def optional_path(self, name: str) -> str | None:
        """Read a file name or null.

        Bytes of a file name that are not UTF-8 are surrogates in Python, and allowed here.
        """
        value = self.raw(name)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.wrong(name, value, "a string that is not empty")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Read a string that is not empty."""
        value = self.raw(name)
        if value is None:
            value = default
        if value is None:
            raise InvalidPayload(f"{self.path(name)!r} is missing")
        if not isinstance(value, str) or not value:
            raise self.wrong(name, value, "a string that is not empty")
        return self._utf8(name, value)

    def optional_text(self, name: str) -> str | None:
        """Read a string that is not empty, or null."""
        return None if self._is_null(name) else self.text(name)

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """Read one of the known words."""
        value = self.text(name, default)
        options = list(known)
        if value not in options:
            raise self.wrong(name, value, f"one of {', '.join(options)}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Read true or false."""
        value = self.raw(name)
        if value is None:
            value = default
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def whole(
        self, name: str, default: int | None = None, least: int = 0, most: int = MAX_WHOLE
    ) -> int:
        """Read a whole number from `least` to `most`."""
        value = self.raw(name)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            limit = f"at least {least}" if most == MAX_WHOLE else f"from {least} to {most}"
            raise self.wrong(name, value, f"a whole number {limit}")
        return value

    def optional_whole(self, name: str, least: int = 0, most: int = MAX_WHOLE) -> int | None:
        """Read a whole number from `least` to `most`, or null."""
        return None if self._is_null(name) else self.whole(name, None, least, most)

    def number(self, name: str, default: float | None = None, least: float = 0.0) -> float:
        """Read a finite number of at least `least`."""
        value = self.raw(name)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, value, "a number")
        if not least <= value <= sys.float_info.max:
            raise self.wrong(name, value, f"a number of at least {least:g}")
        return value

    def optional_number(self, name: str, least: float = 0.0) -> float | None:
        """Read a finite number of at least `least`, or null."""
        return None if self._is_null(name) else self.number(name, None, least)

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Read a list of strings."""
        value = self.raw(name)
        if value is None:
            value = default
        if value is None:
            raise InvalidPayload(f"{self.path(name)!r} is missing")
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(name, value, "a list of strings")
        return tuple(self._utf8(name, each) for each in value)

    def text_map(self, name: str) -> dict[str, str]:
        """Read an object whose values are strings; a missing one reads as empty."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object of strings")
        for key, each in value.items():
            if not isinstance(each, str):
                raise self.wrong(f"{name}.{key}", each, "a string")
        return {self._utf8(name, key): each for key, each in value.items()}

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read an object whose fields are not checked."""
        value = self.required(name) if default is None else self.raw(name)
        if value is None:
            return dict(default or {})
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object")
        return dict(value)

    def items(self, name: str) -> list[Any]:
        """Read a list whose members are not checked."""
        value = self.required(name)
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        return value

    def wrong(self, name: str, value: object, wanted: str) -> InvalidPayload:
        """Make the error for a value that the field does not allow."""
        if value is None:
            return InvalidPayload(f"{self.path(name)!r} must be {wanted}, and is missing")
        shown = json.dumps(value, default=str)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        return InvalidPayload(f"{self.path(name)!r} must be {wanted}, not {shown}")

    def _utf8(self, name: str, value: str) -> str:
        """Refuse lone surrogates: JSON can write them, but requests and files are UTF-8."""
        if not is_text(value):
            raise self.wrong(name, value, "text that UTF-8 can write")
        return value

    def _is_null(self, name: str) -> bool:
        return self.raw(name) is None


def is_text(value: str) -> bool:
    """Return true if UTF-8 can encode the text, so that it has no lone surrogate."""
    return value.isascii() or not _SURROGATES.search(value)


def json_type_name(value: object) -> str:
    """Return the name that JSON has for the type of a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list() | tuple():
            return "a list"
        case _:
            return type(value).__name__
