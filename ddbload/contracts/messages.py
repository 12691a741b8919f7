"""Base of every message that crosses an edge: between states, processes and runs.

A message is a frozen dataclass with `to_json` and a strict `from_json`, which reads each field by
its type and raises `InvalidPayload` for anything else. Field names are whole words, and changes
are additive, because executions in flight span deployments. Byte offsets are absolute in the
source; lines count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, cast, get_args, get_origin, get_type_hints

from ddbload.contracts.json_reader import MAX_WHOLE, JsonObjectReader

FieldReader = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that reads one field, and its arguments after the `JsonObjectReader`."""


@dataclass(frozen=True, slots=True)
class JsonRule:
    """Rule of a field beyond its type: `year: Annotated[int, JsonRule(least=1)]`."""

    least: int = 0
    most: int = MAX_WHOLE
    choices: tuple[str, ...] = ()
    absent: Any = None
    """Value of a missing or null field. Messages of earlier versions lack some fields."""
    read: Callable[[JsonObjectReader], Any] | None = None
    """Function of the module that reads the field, where its type is not enough."""


LineNumber = Annotated[int, JsonRule(least=1)]


class Message:
    """Plain data that is written as JSON of the same shape, and read back."""

    __slots__ = ()

    PATH: ClassVar[str | None] = None
    """Path of the whole message in errors; by default the name of its class."""
    WRITTEN_BY_USERS: ClassVar[bool] = False
    """Fields that have a default may be missing or null."""

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON."""
        return asdict(cast("Any", self))

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        """Read the message strictly. `path`: its place in a larger one, for errors.

        Raises `InvalidPayload` for a missing, unknown or wrong field.
        """
        name, readers = _readers(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
        f = JsonObjectReader(value, name if path is None else path)
        message = cls(*[read(f, *arguments) for read, arguments in readers])
        message.check_rules(f)
        f.refuse_unknown()
        return message

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for a combination of fields that the message does not allow."""


@cache
def _readers(kind: type[Message]) -> tuple[str, tuple[FieldReader, ...]]:
    """Return the path of a message in errors, and a reader for each of its fields.

    Made at the first use of a class: resolving type hints would slow down every import.
    """
    hints = get_type_hints(kind, include_extras=True)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    readers = [
        _field_reader(each, hints[each.name], kind.WRITTEN_BY_USERS)
        for each in fields(cast("Any", kind))
    ]
    return words if kind.PATH is None else kind.PATH, tuple(readers)


def _field_reader(each: Field[Any], hint: Any, written_by_users: bool) -> FieldReader:
    rule = JsonRule()
    if get_origin(hint) is Annotated:
        hint, rule = get_args(hint)
    if rule.read is not None:
        return rule.read, ()
    name, absent = each.name, rule.absent
    if absent is None and written_by_users:
        absent = _default(each)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if NoneType in get_args(hint):
        return _optional_reader(name, kinds[0], rule)
    if get_origin(hint) is tuple:
        if kinds[0] is str:
            return JsonObjectReader.texts, (name, absent)
        return _read_messages, (name, kinds[0])
    if get_origin(hint) is Mapping:
        if kinds[1] is str:
            return JsonObjectReader.text_map, (name,)
        return JsonObjectReader.mapping, (name, absent)
    if isinstance(hint, type) and issubclass(hint, Message):
        return _read_message, (name, hint, absent)
    return _plain_reader(name, hint, absent, rule)


def _plain_reader(name: str, hint: Any, absent: Any, rule: JsonRule) -> FieldReader:
    if hint is int:
        return JsonObjectReader.whole, (name, absent, rule.least, rule.most)
    if hint is float:
        return JsonObjectReader.number, (name, absent, rule.least)
    if hint is bool:
        return JsonObjectReader.flag, (name, absent)
    if hint is str and rule.choices:
        return JsonObjectReader.choice, (name, rule.choices, absent)
    if hint is str:
        return JsonObjectReader.text, (name, absent)
    if hint is object:
        return JsonObjectReader.raw, (name,)
    raise TypeError(f"no reader for field {name} of type {hint}")


def _optional_reader(name: str, kind: Any, rule: JsonRule) -> FieldReader:
    if kind is int:
        return JsonObjectReader.optional_whole, (name, rule.least, rule.most)
    if kind is float:
        return JsonObjectReader.optional_number, (name, rule.least)
    if kind is str:
        return JsonObjectReader.optional_text, (name,)
    if issubclass(kind, Message):
        return _read_optional_message, (name, kind)
    raise TypeError(f"no reader for field {name} of type {kind} or null")


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return None if each.default is MISSING else each.default


def _read_message(f: JsonObjectReader, name: str, kind: type[Message], absent: Any) -> Any:
    value = f.raw(name) if absent is not None else f.required(name)
    return absent if value is None else kind.from_json(value, f.path(name))


def _read_optional_message(f: JsonObjectReader, name: str, kind: type[Message]) -> Any:
    value = f.raw(name)
    return None if value is None else kind.from_json(value, f.path(name))


def _read_messages(f: JsonObjectReader, name: str, kind: type[Message]) -> tuple[Message, ...]:
    path = f.path(name)
    return tuple(
        kind.from_json(each, f"{path}[{number}]") for number, each in enumerate(f.items(name))
    )
