"""Messages that cross an edge between states, processes and runs, and strict reading of JSON.

A message is a record with `to_json` and a strict `from_json`, which reads each field by its type.
Every error is `InvalidPayload` and names the field by its path, such as `options.workers`. Field
names are whole words. Byte offsets are absolute in the source; lines count from 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from functools import cache
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

from ddbload.errors import DdbloadError, InvalidPayload, LedgerDamaged, nearest_name
from ddbload.records import Record

T = TypeVar("T")
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.refuse_unknown()

    def refuse_unknown(self) -> None:
        """Raise `InvalidPayload` if the object has fields that were not read."""
        if self._value.keys() <= self._read:
            return
        unknown = sorted(str(name) for name in self._value if name not in self._read)
        listed = ", ".join(self._described(name) for name in unknown[:_LISTED_FIELDS])
        left = len(unknown) - _LISTED_FIELDS
        more = f" and {left:,} more" if left > 0 else ""
        known = ", ".join(sorted(self._read))
        raise InvalidPayload(f"unknown field {listed}{more}; known here: {known}")

    def _described(self, unknown: str) -> str:
        """Return the path of an unknown field, with the field that was likely meant."""
        near = nearest_name(unknown, sorted(self._read))
        return f"{self.path(unknown)!r}{f' (did you mean {near!r}?)' if near else ''}"

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

    def required(
        self, name: str, default: object = None, kind: type = object, wanted: str = ""
    ) -> Any:
        """Return a field's value, or the default; refuse null, and another `kind` than `wanted`."""
        value = self._given(name, default)
        if value is None:
            others = sorted(str(each) for each in self._value if each not in self._read)
            near = nearest_name(name, others)
            there = f"; there is {self.path(near or '')!r}: names are compared exactly"
            raise InvalidPayload(f"{self.path(name)!r} is missing{there if near else ''}")
        if not isinstance(value, kind):
            raise self.wrong(name, value, wanted)
        return value

    def _given(self, name: str, default: object) -> Any:
        value = self.raw(name)
        return default if value is None else value

    def nested(self, name: str) -> JsonObjectReader:
        """Return a reader of a nested object; a missing one reads as empty."""
        value = self.raw(name)
        return JsonObjectReader({} if value is None else value, self.path(name))

    def text(self, name: str, default: str | None = None) -> str:
        """Read a string that is not empty."""
        value = self.required(name, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, value, "a string that is not empty")
        return self._utf8(name, value)

    def optional(self, name: str, read: Callable[..., Any], *arguments: Any) -> Any:
        """Read a value by one of the other methods, or null."""
        return None if self.raw(name) is None else read(self, name, *arguments)

    def choice(self, name: str, known: Iterable[str], default: str | None = None) -> str:
        """Read one of the known words."""
        value = self.text(name, default)
        options = list(known)
        if value not in options:
            raise self.wrong(name, value, f"one of {', '.join(options)}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Read true or false."""
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def whole(
        self, name: str, default: int | None = None, least: int = 0, most: int = MAX_WHOLE
    ) -> int:
        """Read a whole number from `least` to `most`."""
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            limit = f"at least {least}" if most == MAX_WHOLE else f"from {least} to {most}"
            raise self.wrong(name, value, f"a whole number {limit}")
        return value

    def number(self, name: str, default: float | None = None, least: float = 0.0) -> float:
        """Read a finite number of at least `least`."""
        value = self._given(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(name, value, "a number")
        if not least <= value <= sys.float_info.max:
            raise self.wrong(name, value, f"a number of at least {least:g}")
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Read a list of strings."""
        value = self.required(name, default)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(name, value, "a list of strings")
        return tuple(self._utf8(name, each) for each in value)

    def text_map(self, name: str) -> dict[str, str]:
        """Read an object whose values are strings; a missing one reads as empty."""
        value = self._given(name, {})
        if not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object of strings")
        for key, each in value.items():
            if not isinstance(each, str):
                raise self.wrong(f"{name}.{key}", each, "a string")
        return {self._utf8(name, key): each for key, each in value.items()}

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read an object whose fields are not checked."""
        return dict(self.required(name, default, Mapping, "an object"))

    def items(self, name: str) -> list[Any]:
        """Read a list whose members are not checked."""
        return list(self.required(name, None, list, "a list"))

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


def is_text(value: str) -> bool:
    """Return true if UTF-8 can encode the text, so that it has no lone surrogate."""
    return value.isascii() or not _SURROGATES.search(value)


_TYPE_NAMES = {
    NoneType: "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
}


def json_type_name(value: object) -> str:
    """Return the name that JSON has for the type of a value, with its article."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


FieldReader = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function that reads one field, and its arguments after the `JsonObjectReader`."""


class JsonRule(Record):
    """Rule of a field beyond its type: `year: Annotated[int, JsonRule(least=1)]`."""

    least: int = 0
    most: int = MAX_WHOLE
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    """Pattern of a text, which may then be empty."""
    wanted: str = ""
    """Description of the pattern, for errors."""
    sparse: bool = False
    """True for a field that is written only if it differs from its default."""
    read: Callable[[JsonObjectReader], Any] | None = None
    """Function of the module that reads the field, where its type is not enough."""


_NO_RULE, SPARSE = JsonRule(), JsonRule(sparse=True)
LineNumber = Annotated[int, JsonRule(least=1)]
CountedLine = Annotated[int, JsonRule(least=0)]
"""Line number in the source; in a chunk whose first line is not known, the line ends before."""


class JsonObject:
    """Base of data classes that are written as JSON of the same shape, and read back."""

    __slots__ = ()

    PATH: ClassVar[str | None] = None
    """Path of the whole message in errors; by default the name of its class."""
    WRITTEN_BY_USERS: ClassVar[bool] = False
    """Fields that have a default may be missing or null."""

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON."""
        return {
            name: _to_json(value)
            for name, default, is_sparse in _written_fields(type(self))  # type: ignore[arg-type]
            if (value := getattr(self, name)) != default or not is_sparse
        }

    @classmethod
    def from_json(cls, value: object, path: str | None = None) -> Self:
        """Read the message strictly. `path`: its place in a larger one, for errors.

        Raises `InvalidPayload` for a missing, unknown or wrong field.
        """
        name, readers = _readers(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
        f = JsonObjectReader(cls.nested(value), name if path is None else path)
        message = cls(*[read(f, *arguments) for read, arguments in readers])
        message.check_rules(f)
        f.refuse_unknown()
        return message

    @staticmethod
    def nested(value: object) -> object:
        """Return what is read in place of the value: with each option in its part."""
        return value

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` for a combination of fields that the message does not allow."""


class Message(JsonObject, Record):
    """Record that is written as JSON, and read back."""

    __slots__ = ()


def _to_json(value: Any) -> Any:
    if isinstance(value, JsonObject):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [_to_json(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


@cache
def typed_fields(kind: type[JsonObject]) -> tuple[tuple[Field[Any], Any, JsonRule], ...]:
    """Return each field of a message with its type and its rule."""
    found = []
    for each in fields(cast("Any", kind)):
        hint, rule = _type_of(str(each.type), kind.__module__), _NO_RULE
        if get_origin(hint) is Annotated:
            hint, rule = get_args(hint)[0], get_args(hint)[-1]
        found.append((each, hint, rule))
    return tuple(found)


@cache
def _type_of(hint: str, module: str) -> Any:
    # As `typing.get_type_hints`, which does not remember the types that many fields have.
    return eval(hint, vars(sys.modules[module]))  # noqa: S307 - an annotation of ours


@cache
def _written_fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Return the name and the default of each field, and true for a sparse one."""
    return tuple((each.name, _default(each), rule.sparse) for each, _, rule in typed_fields(kind))


@cache
def _readers(kind: Any) -> tuple[str, tuple[FieldReader, ...]]:
    """Return the path of a message in errors, and a reader for each of its fields.

    Made at the first use of a class: resolving type hints would slow down every import.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    readers = [
        _field_reader(each, hint, rule, kind.WRITTEN_BY_USERS)
        for each, hint, rule in typed_fields(kind)
    ]
    return words if kind.PATH is None else kind.PATH, tuple(readers)


def _field_reader(
    each: Field[Any], hint: Any, rule: JsonRule, written_by_users: bool
) -> FieldReader:
    if rule.read is not None:
        return rule.read, ()
    if NoneType in get_args(hint):
        read, arguments = _value_reader(each.name, get_args(hint)[0], rule, None)
        return JsonObjectReader.optional, (each.name, read, *arguments)
    absent = _default(each) if written_by_users or rule.sparse else None
    read, arguments = _value_reader(each.name, hint, rule, absent)
    return read, (each.name, *arguments)


def _value_reader(name: str, hint: Any, rule: JsonRule, absent: Any) -> FieldReader:
    """Return the reader of a type, and its arguments after the name of the field."""
    kind, kinds = get_origin(hint) or hint, get_args(hint)
    if kind is tuple:
        texts = kinds[0] is str
        return (JsonObjectReader.texts, (absent,)) if texts else (_read_messages, (kinds[0],))
    if kind is Mapping:
        texts = kinds[1] is str
        return (JsonObjectReader.text_map, ()) if texts else (JsonObjectReader.mapping, (absent,))
    if isinstance(kind, type) and issubclass(kind, JsonObject):
        return _read_message, (kind, absent)
    if kind is str and rule.choices:
        return JsonObjectReader.choice, (rule.choices, absent)
    if rule.pattern is not None:
        return _read_matching, (rule.pattern, rule.wanted, absent)
    readers: dict[Any, FieldReader] = {
        int: (JsonObjectReader.whole, (absent, rule.least, rule.most)),
        float: (JsonObjectReader.number, (absent, rule.least)),
        bool: (JsonObjectReader.flag, (absent,)),
        str: (JsonObjectReader.text, (absent,)),
        object: (JsonObjectReader.raw, ()),
    }
    if kind not in readers:
        raise TypeError(f"no reader for field {name} of type {hint}")
    return readers[kind]


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return None if each.default is MISSING else each.default


def _read_matching(
    f: JsonObjectReader, name: str, pattern: re.Pattern[str], wanted: str, absent: Any
) -> Any:
    value = f.raw(name)
    if value is None and absent is not None:
        return absent
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise f.wrong(name, value, wanted)
    return value


def _read_message(f: JsonObjectReader, name: str, kind: type[JsonObject], absent: Any) -> Any:
    value = f.raw(name) if absent is not None else f.required(name)
    return absent if value is None else kind.from_json(value, f.path(name))


def _read_messages(f: JsonObjectReader, name: str, kind: type[JsonObject]) -> tuple[Any, ...]:
    path = f.path(name)
    return tuple(
        kind.from_json(each, f"{path}[{number}]") for number, each in enumerate(f.items(name))
    )


# Options of users, which fields of messages declare.

INPUT, TYPES_AND_MAPPING, WRITING, RUN = ("Input", "Types and mapping", "Writing", "Run")
"""Groups of options."""
_SAME: Any = object()


class Option(Record):
    """An option, as the command line has it."""

    field: str
    """Name of its field."""
    flag: str
    """Name as it is typed, such as `--delimiter`."""
    group: str
    help: str
    metavar: str | None = None
    typed: Any = None
    """Default on the command line, which may detect what a payload has to say."""
    default_text: str | None = None
    """Description of a default that is not a value."""
    choices: tuple[str, ...] = ()
    """Choices on the command line, where the payload has more."""
    common: bool = False
    """Listed by `--help`; all others by `--help-all` alone."""
    shared: bool = False
    """True if a variable such as DDBLOAD_MAX_WCU sets it for all commands."""
    decisive: bool = False
    """True if it determines which rows and items an object version gives."""
    delimited: bool = False
    """True if it applies to delimited text alone."""

    @property
    def name(self) -> str:
        """Name as it is written in a job file, a payload and Python: `skip_lines`."""
        return self.flag.partition("/")[0].removeprefix("--").replace("-", "_")


def option(
    default: Any,
    help: str,
    *,
    group: str,
    typed: Any = _SAME,
    **more: Any,
) -> Any:
    """Declare the field of an option. A type as its default makes a new value for each message."""
    is_type = isinstance(default, type)
    if typed is _SAME:
        typed = None if is_type else default
    metadata = {"option": {"group": group, "help": help, "typed": typed, **more}}
    if is_type:
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def declared(kind: Any) -> tuple[Option, ...]:
    """Return the options that the fields of a message declare."""
    return tuple(
        Option(**{"flag": "--" + each.name.replace("_", "-"), **settings, "field": each.name})
        for each in fields(kind)
        if (settings := each.metadata.get("option")) is not None
    )


def encode_json(value: object) -> bytes:
    """Encode a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def json_object(data: str | bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None if the data are something else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def decode_json(uri: str, data: bytes, decode: Callable[[Any], T], advice: str) -> T:
    """Decode an object's JSON. Raises `LedgerDamaged` with `advice` on what to do."""
    return decode_object(uri, lambda: decode(json.loads(data)), advice)


def decode_object(uri: str, decode: Callable[[], T], advice: str) -> T:
    """Call `decode`. Raises `LedgerDamaged` with `advice` if it fails."""
    try:
        return decode()
    except LedgerDamaged:
        raise
    except (DdbloadError, ValueError, LookupError, TypeError, RecursionError):
        raise LedgerDamaged(
            f"{uri} is not what this version of ddbload writes: it is damaged, or of another"
            f" version; {advice}"
        ) from None
