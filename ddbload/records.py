"""Frozen values with named fields, like those of `dataclass(frozen=True, slots=True)`.

`dataclass` compiles six methods for each class when its module is imported. A command imports more
than a hundred such classes, which would take as long as all its other imports. Records share their
methods instead. `fields`, `replace` and `asdict` of `dataclasses` work with them.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, cast, dataclass_transform

_set_field = object.__setattr__


class RecordType(type):
    """Class of records. Annotations declare its fields, each with a slot, as in a dataclass."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        """Make the class. One with `__slots__` is a base class, without fields of its own."""
        if "__slots__" not in namespace:
            own = {
                each: _field(each, hint, namespace.pop(each, MISSING))
                for each, hint in namespace.get("__annotations__", {}).items()
                if not hint.startswith("ClassVar[")
            }
            inherited = ChainMap(*(getattr(base, "__dataclass_fields__", {}) for base in bases))
            declared = {**inherited, **own}
            namespace["__slots__"] = tuple(own)
            namespace["__match_args__"] = tuple(declared)
            namespace["__dataclass_fields__"] = declared
        return super().__new__(cls, name, bases, namespace)


def _field(name: str, hint: str, default: Any) -> Any:
    found: Any = default if isinstance(default, Field) else field(default=default)
    found.name, found.type = name, hint
    # The mark by which `dataclasses.fields` knows a field.
    found._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # noqa: SLF001
    return found


class _Fields(metaclass=RecordType):  # noqa: PLW1641 - mutable records have none
    """Methods of all records, which are equal if their classes and fields are equal."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any) -> None:
            names = self.__match_args__
            if named or len(values) != len(names):
                values = _with_defaults(type(self), values, named)
            for name, value in zip(names, values, strict=True):
                _set_field(self, name, value)
            self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields, or derive some of them by `object.__setattr__`."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    def __repr__(self) -> str:
        shown = (each.name for each in fields(cast("Any", self)) if each.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), _values(self)


@dataclass_transform(field_specifiers=(field,))
class MutableRecord(_Fields):
    """Base of records whose fields may change."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(_Fields):
    """Base of records whose fields do not change."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(_values(self))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(record: Any) -> tuple[Any, ...]:
    return tuple([getattr(record, name) for name in record.__match_args__])


def _with_defaults(kind: type[Any], values: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
    """Return the values of all fields. Raises `TypeError` for a missing or unknown one."""
    unknown = named.keys() - kind.__match_args__[len(values) :]
    if unknown:
        raise TypeError(f"{kind.__name__}() takes no {', '.join(sorted(unknown))} here")
    found = list(values)
    for each in fields(kind)[len(values) :]:
        if each.name in named:
            found.append(named[each.name])
        elif each.default_factory is not MISSING:
            found.append(each.default_factory())
        elif each.default is not MISSING:
            found.append(each.default)
        else:
            raise TypeError(f"{kind.__name__}() needs {each.name}")
    return found
