"""Reading JSON objects strictly: each field by name and kind, and nothing left over.

Used for every message that crosses a process or state edge. All failures are
`InvalidPayload` and name the field by its path (`options.workers`).
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
_SHOWN = 10
"""Unknown fields that a message names."""


class JsonObjectReader:
    """One JSON object being read. Use as a context manager: leaving it refuses unknown fields."""

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            where = f"{path!r}" if path else "the input"
            raise InvalidPayload(f"{where} must be a JSON object, not {json_type_name(value)}")
        self._value: dict[str, Any] = dict(value)
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
        """Raise for fields that nobody asked for."""
        unknown = sorted(str(name) for name in self._value if name not in self._read)
        if unknown:
            named = ", ".join(repr(self.path(name)) for name in unknown[:_SHOWN])
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            known = ", ".join(sorted(self._read))
            raise InvalidPayload(f"unknown field {named}{more}; known here: {known}")

    def path(self, name: str) -> str:
        """The field's full path, for messages."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Whether the field is given, and not null."""
        return self._value.get(name) is not None

    def raw(self, name: str, default: object = None) -> Any:
        """The field's value as it stands."""
        self._read.add(name)
        return self._value.get(name, default)

    def required(self, name: str) -> Any:
        """The field's value; missing or null is an error."""
        value = self.raw(name)
        if value is None:
            raise InvalidPayload(f"{self.path(name)!r} is missing")
        return value

    def nested(self, name: str) -> JsonObjectReader:
        """A nested object; missing reads as an empty one."""
        value = self.raw(name)
        return JsonObjectReader({} if value is None else value, self.path(name))

    def optional_path(self, name: str) -> str | None:
        """A file's name or null. Its bytes may be no text: they come as half characters."""
        value = self.raw(name)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.wrong(name, value, "a string that is not empty")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self.raw(name)
        if value is None:
            value = default
        if value is None:
            raise InvalidPayload(f"{self.path(name)!r} is missing")
        if not isinstance(value, str) or not value:
            raise self.wrong(name, value, "a string that is not empty")
        return self._written(name, value)

    def optional_text(self, name: str) -> str | None:
        """A string that is not empty, or null."""
        return None if self._absent(name) else self.text(name)

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """One of the known words."""
        value = self.text(name, default)
        options = list(known)
        if value not in options:
            raise self.wrong(name, value, f"one of {', '.join(options)}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """true or false."""
        value = self.raw(name)
        if value is None:
            value = default
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def whole(
        self, name: str, default: int | None = None, *, least: int = 0, most: int = 2**53
    ) -> int:
        """A whole number within `least` and `most`."""
        value = self.raw(name)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            limit = f"at least {least}" if most == 2**53 else f"from {least} to {most}"
            raise self.wrong(name, value, f"a whole number {limit}")
        return value

    def optional_whole(self, name: str, *, least: int = 0) -> int | None:
        """A whole number, or null."""
        return None if self._absent(name) else self.whole(name, least=least)

    def number(self, name: str, default: float | None = None, *, least: float = 0.0) -> float:
        """A finite number, at least `least`."""
        value = self.raw(name)
        if value is None:
            value = default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, value, "a number")
        if not least <= value <= sys.float_info.max:
            raise self.wrong(name, value, f"a number of at least {least:g}")
        return value

    def optional_number(self, name: str, *, least: float = 0.0) -> float | None:
        """A finite number, or null."""
        return None if self._absent(name) else self.number(name, least=least)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.required(name)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(name, value, "a list of strings")
        return tuple(self._written(name, each) for each in value)

    def text_map(self, name: str) -> dict[str, str]:
        """An object whose values are strings; missing reads as an empty one."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise self.wrong(name, value, "an object of strings")
        return {self._written(name, key): each for key, each in value.items()}

    def mapping(self, name: str) -> dict[str, Any]:
        """An object, its fields as they stand."""
        value = self.required(name)
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object")
        return dict(value)

    def items(self, name: str) -> list[Any]:
        """A list."""
        value = self.required(name)
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        return value

    def wrong(self, name: str, value: object, wanted: str) -> InvalidPayload:
        """The error for a value that is not what the field wants."""
        if value is None:
            return InvalidPayload(f"{self.path(name)!r} must be {wanted}, and is missing")
        shown = json.dumps(value, default=str)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        return InvalidPayload(f"{self.path(name)!r} must be {wanted}, not {shown}")

    def _written(self, name: str, value: str) -> str:
        """Refuse half a surrogate pair, which JSON can say, and no request and no file."""
        if not is_text(value):
            raise self.wrong(name, value, "text that UTF-8 can write")
        return value

    def _absent(self, name: str) -> bool:
        return self.raw(name) is None


def is_text(value: str) -> bool:
    """Whether UTF-8 can write it: bytes of a file's name that are none come as half characters."""
    return value.isascii() or not _SURROGATES.search(value)


def json_type_name(value: object) -> str:
    """What JSON calls a value of this kind."""
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
