"""The input of a run: source, table, types, mapping, nulls, options, comparisons; its identity."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache, partial
from typing import Annotated, Any

from ddbload.contracts.comparisons import Comparison, read_comparisons
from ddbload.contracts.messages import (
    SPARSE,
    TYPES_AND_MAPPING,
    JsonObjectReader,
    JsonRule,
    Message,
    Option,
    declared,
    option,
)
from ddbload.contracts.options import KEEP, REMOVE, Options
from ddbload.contracts.source import AUTO, DELIMITERS, DUMPS, TSV, Source
from ddbload.contracts.text_encodings import known_codec
from ddbload.dynamodb.scalar_text import TimeFormat
from ddbload.errors import InvalidPayload, TableNotAllowed, nearest_name


def read_where(f: JsonObjectReader) -> tuple[Comparison, ...]:
    """Read the list `where`; a missing one is empty. Raises `InvalidPayload`."""
    given = f.raw("where")
    return () if given is None else read_comparisons(given, f.path("where"))


def where_json(where: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return comparisons as JSON objects."""
    return [each.to_json() for each in where]


mapping_option = partial(option, group=TYPES_AND_MAPPING, decisive=True)

TYPES = ("S", "N", "BOOL", "B", "SS", "NS", "BS", "M", "L", "NULL", "epoch")
"""Types that a column may be declared as. `epoch` makes an N of a time."""
CELL_TYPES = ("ddb_M", "ddb_L", "json_M", "json_L")
"""Types of maps and lists whose cells are DynamoDB JSON, or plain JSON. For M and L preflight
decides which they are."""
_SYNONYMS = {
    "S": ("string", "str", "text", "varchar", "char"),
    "N": (
        *("number", "numeric", "num", "int", "integer", "long", "bigint", "smallint"),
        *("float", "double", "decimal", "real"),
    ),
    "BOOL": ("boolean",),
    "B": ("binary", "bytes", "blob"),
    "SS": ("string_set", "stringset"),
    "NS": ("number_set", "numberset"),
    "BS": ("binary_set", "binaryset"),
    "M": ("map", "json", "object", "dict", "struct"),
    "L": ("list", "array"),
}
_CANONICAL_TYPES = {name.lower(): name for name in (*TYPES, *CELL_TYPES)} | {
    word: name for name, words in _SYNONYMS.items() for word in words
}
NULL_POLICIES = OMIT, NULL, EMPTY, REJECT = ("omit", "null", "empty", "reject")
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}", re.ASCII)


def canonical_type(text: str) -> str | None:
    """Return DynamoDB's name of a type, given in any case or by a synonym; None if unknown.

    `date:%d/%m/%Y` makes ISO 8601 of a time, `epoch:%d/%m/%Y` its seconds since 1970. Raises
    `ValueError` for a format that cannot be used.
    """
    name, sign, form = text.partition(":")
    if sign and (name := name.strip().lower()) in ("date", "epoch"):
        return f"{name}:{TimeFormat.of(form).text}"
    return _CANONICAL_TYPES.get(text.strip().lower().replace("-", "_").replace(" ", "_"))


def attribute_type(declared: str) -> str:
    """Return DynamoDB's type for a declared type, or for one of `Source.cell_type`."""
    name, sign, _ = declared.partition(":")
    if name == "date":
        return "S"
    return "N" if sign or name == "epoch" else declared.rpartition("_")[2]


def is_run_id(text: str) -> bool:
    """Return whether a text can be a run id, which is also a folder's name."""
    return RUN_ID.fullmatch(text) is not None


def check_run_id(text: str) -> str:
    """Return the run id if it is one. Raises `InvalidPayload`."""
    if not is_run_id(text):
        raise InvalidPayload(
            "a run id has 1 to 80 letters, digits, '.', '_' or '-', and begins with a letter"
            " or digit"
        )
    return text


class ColumnMapping(Message):
    """Mapping of columns to attributes."""

    PATH = "mapping"
    WRITTEN_BY_USERS = True

    rename: Mapping[str, str] = mapping_option(
        dict,
        "Rename columns: column OLD becomes attribute NEW. May be repeated.",
        metavar="OLD=NEW,...",
        common=True,
    )
    drop: tuple[str, ...] = mapping_option(
        (), "Leave columns out. May be repeated.", metavar="A,B,...", common=True
    )
    set: Mapping[str, str] = mapping_option(
        dict,
        "Add an attribute, such as kind=book, or pk=USER#{id} with the value of column id;"
        " {id|trim|lower} passes it through filters: trim, lower, upper, hmac. May be repeated.",
        metavar="NAME=TEXT",
        common=True,
    )

    def __bool__(self) -> bool:
        return bool(self.rename or self.drop or self.set)


class NullHandling(Message):
    """Cells that are null, and the attribute that a null becomes."""

    PATH = "nulls"
    WRITTEN_BY_USERS = True

    policy: Annotated[str, JsonRule(choices=NULL_POLICIES)] = mapping_option(
        OMIT,
        "For a field without a value: omit the attribute, write type NULL, write an empty string,"
        " or reject the row.",
        flag="--null-policy",
    )
    markers: tuple[str, ...] = mapping_option(
        (),
        r"Text that means no value, such as \N. An empty field always does. May be repeated.",
        flag="--null",
        metavar="TEXT",
        common=True,
    )

    def __bool__(self) -> bool:
        return self != NullHandling()


def _read_run(f: JsonObjectReader) -> str | None:
    with f.nested("run") as run:
        given = run.optional("id", JsonObjectReader.text)
        for name in ("force", "once", "retry_of"):
            run.raw(name)
        if run.raw("resume_of") is not None:
            raise InvalidPayload(
                f"{run.path('resume_of')!r} is for the deployed state machine; here the run's own"
                " id continues it"
            )
    return None if given is None else check_run_id(given)


def _read_retry_of(f: JsonObjectReader) -> str | None:
    run = f.nested("run").optional("retry_of", JsonObjectReader.text)
    return None if run is None else check_run_id(run)


def _read_force(f: JsonObjectReader) -> bool:
    run = f.nested("run")
    force = run.flag("force", False)
    if force and run.flag("once", False):
        raise InvalidPayload(
            f"{run.path('once')!r} refuses what was loaded before, and {run.path('force')!r} loads"
            " it again: give one"
        )
    return force


def _read_table(f: JsonObjectReader) -> str:
    if f.has("table") and not f.has("target"):
        raise InvalidPayload(
            f"{f.path('target')!r} is missing: write {f.path('table')!r} within it, as"
            ' "target": {"table": "books"}'
        )
    with JsonObjectReader(f.required("target"), f.path("target")) as fields:
        table = fields.text("table")
        if table.startswith("arn:"):
            raise TableNotAllowed(
                f"{table}: name the table, {table.partition('/')[2] or 'NAME'}, without the ARN;"
                " ddbload writes only tables of its own account and region (--region)"
            )
        if not TABLE_NAME.fullmatch(table):
            raise fields.wrong(
                "table",
                table,
                "the name of a table in this account and region: 3 to 255 letters,"
                " digits, '.', '_' or '-'",
            )
    return table


def _read_types(f: JsonObjectReader) -> dict[str, str]:
    types = {}
    for name, given in f.text_map("types").items():
        shown = f"{f.path('types')}.{name}"
        try:
            kind = canonical_type(given)
        except ValueError as error:
            raise InvalidPayload(f"{shown!r} has a format of times in which {error}") from None
        if kind is None:
            nearest = nearest_name(given, _CANONICAL_TYPES)
            meant = f" (did you mean {nearest}?)" if nearest else ""
            raise InvalidPayload(
                f"{shown!r} must be one of {', '.join(TYPES)}, date:FORMAT, epoch:FORMAT, or a"
                f" usual name such as string, number, boolean, binary, list, map, not"
                f" {given!r}{meant}"
            )
        types[name] = kind
    return types


@cache
def named_options() -> Mapping[str, tuple[str, Option]]:
    """Return the path of the part and the declaration of each option, by its name."""
    return {
        each.name: (path, each) for path, kind in PAYLOAD_PARTS.items() for each in declared(kind)
    }


def with_options_in_parts(value: object) -> object:
    """Return a payload or an upload rule in which each option stands in its part.

    Options may be given at the top by their names on the command line: `skip_lines` is
    `source.skip_lines`. Raises `InvalidPayload` for an option that is given twice.
    """
    if not isinstance(value, Mapping):
        return value
    known = named_options()
    named = [name for name in value if known.get(name, ("",))[0]]
    f, parts = JsonObjectReader(value), dict[str, dict[str, Any]]()
    for name in named:
        path, each = known[name]
        part = parts.get(path) or parts.setdefault(path, f.mapping(path, {}))
        if each.field in part:
            raise InvalidPayload(f"{name!r} and '{path}.{each.field}' are one option: give one")
        part[each.field] = value[name]
    return {**{name: each for name, each in value.items() if name not in named}, **parts}


class Payload(Message):
    """The input of an execution: what to load, and where to."""

    PATH = ""
    WRITTEN_BY_USERS = True

    source: Source
    table: Annotated[str, JsonRule(read=_read_table)]
    """Name of the table."""
    types: Annotated[Mapping[str, str], JsonRule(read=_read_types)] = mapping_option(
        dict,
        f"Column types, such as year=N,ok=BOOL or year:number: {', '.join(TYPES)}, or their usual"
        " names; date:%d/%m/%Y or epoch:%d/%m/%Y for times. Key attributes take the table's types,"
        " other columns are S. May be repeated.",
        metavar="A=TYPE,...",
        common=True,
    )
    """Types by attribute name, after the mapping."""
    options: Options = field(default_factory=Options)
    run: Annotated[str | None, JsonRule(read=_read_run)] = None
    once: Annotated[bool, JsonRule(read=lambda f: f.nested("run").flag("once", False))] = False
    """Refuse a source of which the table has loaded an object version before."""
    force: Annotated[bool, JsonRule(read=_read_force)] = False
    """Load the source again: under a new id if the run is done, and over a newer upload."""
    retry_of: Annotated[str | None, JsonRule(read=_read_retry_of)] = None
    """Run whose corrected rejects are the source."""
    infer_types: bool = mapping_option(
        False, "Detect from the first rows which columns hold numbers or booleans.", common=True
    )
    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    nulls: NullHandling = field(default_factory=NullHandling)
    where: Annotated[tuple[Comparison, ...], JsonRule(read=read_where)] = mapping_option(
        (),
        "Take only rows that match, such as country=DE, or year>=2000 with --types year=N: = != <"
        " <= > >=, by the column's type. country= is true without a value. May be repeated; all"
        " must match.",
        metavar="COMPARISON",
        common=True,
    )

    nested = staticmethod(with_options_in_parts)

    def __post_init__(self) -> None:
        """Add the null marker of the source's dialect, unless others are given."""
        if self.source.dialect in DUMPS and not self.nulls.markers:
            object.__setattr__(self, "nulls", replace(self.nulls, markers=("\\N",)))

    transform: Annotated[str | None, SPARSE] = None
    """Identity of the Python function that changes the rows; only Python can give one."""

    def to_json(self) -> dict[str, Any]:
        return {
            "run": {
                "id": self.run,
                "resume_of": None,
                "force": self.force,
                **({"once": True} if self.once else {}),
                **({} if self.retry_of is None else {"retry_of": self.retry_of}),
            },
            "source": self.source.to_json(),
            "target": {"table": self.table},
            "types": dict(self.types),
            "infer_types": self.infer_types,
            "mapping": self.mapping.to_json(),
            "nulls": self.nulls.to_json(),
            "options": self.options.to_json(),
            **({"where": where_json(self.where)} if self.where else {}),
            **({} if self.transform is None else {"transform": self.transform}),
        }

    def check_rules(self, f: JsonObjectReader) -> None:
        """Raise `InvalidPayload` if two settings say what becomes of a missing value."""
        # So that errors of unknown fields name these, too.
        for name in named_options():
            f.raw(name)
        on_empty, policy = self.options.on_empty, self.nulls.policy
        if on_empty is not None and policy != OMIT:
            raise InvalidPayload(
                f"{f.path('options.on_empty')!r} is {on_empty}, and {f.path('nulls.policy')!r} is"
                f" {policy}, which leaves no value empty: give one of the two"
            )

    @property
    def empty_policy(self) -> str:
        """Policy for missing values: a null policy, or `remove` in mode `update`."""
        return REMOVE if self.options.on_empty == REMOVE else self.nulls.policy


PAYLOAD_PARTS: Mapping[str, type[Message]] = {
    "source": Source,
    "": Payload,
    "mapping": ColumnMapping,
    "nulls": NullHandling,
    "options": Options,
}
"""Parts of a payload that declare options, by their paths in it."""


def payload_of(
    place: Mapping[str, Any],
    table: str,
    given: Mapping[str, Any],
    *,
    run: str | None = None,
    workers: int | str = AUTO,
) -> dict[str, Any]:
    """Build a payload from options by name; those that are not given detect what they can.

    Args:
        place: Fields of `source` that locate it.
        table: Name of the table.
        given: Values of options, by name.
        run: Run id.
        workers: Chunks to import at once, or `auto`.

    Values are not checked here.
    """
    options = {name: each.typed for name, (_, each) in named_options().items() if each.typed}
    options |= {name: each for name, each in given.items() if name not in ("run", "target")}
    if options.get("delimiter") is None and options.get("dialect") is None:
        options["delimiter"] = DELIMITERS[TSV] if options["format"] == TSV else AUTO
    payload: Any = with_options_in_parts(
        {"run": {"id": run}, "target": {"table": table}, **options}
    )
    payload["source"] |= place
    payload["options"]["workers"] = workers
    return dict(payload)


# Identity of loads. Options that determine rows are declared as decisive. They alone answer whether
# a table has loaded an object version, whether two runs load the same, and whether a run id belongs
# to a command.


def _decisive(kind: type) -> tuple[str, ...]:
    return tuple(each.field for each in declared(kind) if each.decisive)


DECISIVE: Mapping[type, tuple[str, ...]] = {
    Payload: tuple(
        each.name
        for each in fields(Payload)
        if each.name in (*PAYLOAD_PARTS, "transform", *_decisive(Payload))
    ),
    **{kind: _decisive(kind) for path, kind in PAYLOAD_PARTS.items() if path},
    Comparison: ("column", "op", "value"),
}
"""Payload fields that determine which rows and items an object version gives.

All others are limits, speed, locations, and settings of the run. The table's id and the object
version are the other parts of a load's identity.
"""

_WORDS = {"position_attribute": "position attribute"}
"""Names of fields in messages, if they differ from the fields' own."""


def asked_hash(payload: Payload, hmac_key: bytes | None) -> str:
    """Return the hash of all options that determine rows, in hexadecimal.

    `payload`: payload as given, before detection. `hmac_key`: key of the filter hmac, which also
    determines rows; the hash is keyed with it and does not reveal it.
    """
    # Without a function the hash is that of versions which had none.
    asked = {name: v for name, v in _asked(payload).items() if (name, v) != ("transform", None)}
    text = json.dumps(asked, sort_keys=True).encode()
    if hmac_key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.new(hmac_key, text, hashlib.sha256).hexdigest()


def differing(payload: Payload, *earlier: Payload) -> list[str]:
    """Name the options of a payload that none of the earlier payloads has, for messages."""
    asked, before = _asked(payload), [_asked(each) for each in earlier]
    return [
        _WORDS.get(name, name)
        for name, value in asked.items()
        if all(value != each[name] for each in before)
    ]


def _asked(payload: Payload) -> dict[str, Any]:
    """Return the decisive options by field name, normalized so that equal meanings are equal."""
    parts: dict[str, Any] = {
        name: _plain(getattr(payload, name))
        for name in DECISIVE[Payload]
        if name not in ("source", "options")
    }
    for part in (payload.source, payload.options):
        for name in DECISIVE[type(part)]:
            value, spell = getattr(part, name), _SPELLINGS.get(name)
            parts[name] = _plain(value) if spell is None else spell(part, value)
    return parts


def _plain(value: Any) -> Any:
    """Return a payload member as JSON, with lists sorted, because their order has no meaning."""
    if isinstance(value, ColumnMapping | NullHandling | Comparison):
        return {name: _plain(getattr(value, name)) for name in DECISIVE[type(value)]}
    if isinstance(value, tuple):
        plain = {json.dumps(_plain(each), sort_keys=True) for each in value}
        return sorted(plain)
    if isinstance(value, Mapping):
        return dict(value)
    return value


_SPELLINGS: Mapping[str, Callable[[Any, Any], Any]] = {
    # The order of columns has a meaning.
    "columns": lambda _, columns: None if columns is None else list(columns),
    "encoding": lambda _, name: known_codec(name) or name,
    # A quote as escape character means doubled quotes.
    "escape": lambda source, escape: None if escape == source.quote else escape,
    "on_empty": lambda _, on_empty: None if on_empty == KEEP else on_empty,
}
