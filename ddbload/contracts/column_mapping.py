"""Columns of a payload: the mapping with its templates, names, and dialects of delimited text."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations
from typing import Self

from ddbload.contracts.messages import is_text
from ddbload.contracts.payload import ColumnMapping, Payload
from ddbload.contracts.run_record import Table
from ddbload.contracts.source import AUTO, Source
from ddbload.contracts.text_encodings import UTF_8, is_single_byte, known_codec
from ddbload.dynamodb.limits import MAX_COLUMNS, MAX_NAME_BYTES
from ddbload.dynamodb.modes import Condition, RowWrites
from ddbload.errors import (
    BadHeader,
    ColumnNameTooLong,
    DuplicateColumn,
    EmptyColumnName,
    InvalidPayload,
    TooManyColumns,
)
from ddbload.records import Record

HMAC = "hmac"
"""Filter that needs the key of `HMAC_KEY`."""
HMAC_KEY = "DDBLOAD_HMAC_KEY"
"""Environment variable: the key of the filter hmac. It is never stored or shown."""
FILTERS: dict[str, Callable[[str], str]] = {
    "trim": str.strip,
    "lower": str.lower,
    "upper": str.upper,
}
"""Filters without a key, by Python's rules for Unicode."""
_KNOWN = (*FILTERS, HMAC)
_PIECE = re.compile(r"\{([^{}]+)\}|(\{\{|\}\}|[{}])")


def shown(name: str) -> str:
    """Quote a name for an error message, and shorten a long one."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


class TemplatePart(Record):
    """A column in a template, and the filters that its text passes."""

    text: str
    """Text in the braces: also the name of the column, if the source has such a one."""
    name: str
    """Name of the column, up to the first filter."""
    filters: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `id|trim|lower`. A doubled bar is a bar of the name."""
        pieces = [""]
        for number, part in enumerate(text.split("||")):
            first, *others = part.split("|")
            pieces[-1] += f"|{first}" if number else first
            pieces += others
        name, *filters = pieces
        return cls(text, name, tuple(each.strip() for each in filters))

    def named(self, columns: Collection[str]) -> Self:
        """Return the part of a source with these columns: one may be named as the whole text."""
        return replace(self, name=self.text, filters=()) if self.text in columns else self


class Template(Record):
    """A text with columns in braces, such as `USER#{id|lower}`; `{{` and `}}` are braces."""

    literals: tuple[str, ...]
    """Texts before, between and after the columns: one more than `parts`."""
    parts: tuple[TemplatePart, ...]
    key: bytes | None = field(default=None, repr=False)
    """Key of the filter hmac; None where nothing is filled in."""

    @classmethod
    def read(cls, text: str, attribute: str) -> Self:
        """Read the template of an attribute. Raises `InvalidPayload`."""
        literal, *others = _PIECE.split(text)
        literals, parts = [literal], list[TemplatePart]()
        for column, brace, literal in zip(others[::3], others[1::3], others[2::3], strict=True):
            if column is not None:
                parts.append(TemplatePart.read(column))
                literals.append(literal)
            elif len(brace) == 2:
                literals[-1] += brace[0] + literal
            else:
                raise InvalidPayload(
                    f"the template of {shown(attribute)} has a single {brace!r}: write a column"
                    " as {name}, and a literal brace as {{ or }}"
                )
        if not is_text(text):
            raise InvalidPayload(f"the template of {shown(attribute)} is not valid UTF-8")
        return cls(tuple(literals), tuple(parts))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(part.name for part in self.parts)

    @property
    def uses_hmac(self) -> bool:
        """True if a part has the filter hmac."""
        return any(HMAC in part.filters for part in self.parts)

    def named(self, columns: Collection[str]) -> Self:
        """Return the template for a source with these columns."""
        if all(part.name == part.text for part in self.parts):
            return self
        return replace(self, parts=tuple(part.named(columns) for part in self.parts))

    def filtered(self, part: TemplatePart, text: str) -> str:
        """Return a part's text after its filters. An empty text stays empty."""
        for each in part.filters:
            if not text:
                return ""
            if each == HMAC:
                assert self.key is not None, "preflight asks for the key"  # noqa: S101
                text = hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()
            else:
                text = FILTERS[each](text)
        return text

    def fill(self, texts: Sequence[str]) -> str:
        """Return the text with the parts filled in, or an empty text if a part is empty."""
        filled = [self.filtered(part, text) for part, text in zip(self.parts, texts, strict=True)]
        if not all(filled):
            return ""
        return self.literals[0] + "".join(map(str.__add__, filled, self.literals[1:]))


def key_fingerprint(key: bytes, salt: str) -> str:
    """Return a text that distinguishes two keys without showing them."""
    return hmac.new(key, f"ddbload key fingerprint {salt}".encode(), hashlib.sha256).hexdigest()[
        :16
    ]


class ColumnChanges(Record):
    """Changes to the columns of a source, or to the members of a JSON row: a checked mapping."""

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    templates: Mapping[str, Template] = field(default_factory=dict)
    """Templates by attribute; a constant has no names. Names are those of the source."""

    @classmethod
    def of(
        cls,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        set: Mapping[str, str] | None = None,
    ) -> Self:
        """Check a payload's `mapping`.

        Raises `InvalidPayload`, `DuplicateColumn`, `EmptyColumnName` and `ColumnNameTooLong`.
        """
        renamed, composed, dropped = dict(rename or {}), dict(set or {}), frozenset(drop)
        for name in (*renamed.values(), *composed):
            _check_name(name)
        for name in renamed.keys() & dropped:
            raise InvalidPayload(
                f"{shown(name)} is both renamed and dropped: remove one of the two"
            )
        seen: dict[str, str] = {}
        for old, new in renamed.items():
            if new in seen:
                raise DuplicateColumn(
                    f"{shown(seen[new])} and {shown(old)} are both renamed to {shown(new)}; one"
                    " would overwrite the other"
                )
            seen[new] = old
            if new in composed:
                raise DuplicateColumn(
                    f"{shown(old)} is renamed to {shown(new)}, which the mapping also sets; one"
                    " would overwrite the other: drop the column, or set another attribute"
                )
        templates = {name: Template.read(text, name) for name, text in composed.items()}
        return cls(renamed, dropped, templates)

    def named(self, columns: Collection[str] = ()) -> Self:
        """Return the changes for a source with these columns, or for rows of JSON.

        Raises `InvalidPayload` for a filter that is not one.
        """
        templates = {name: each.named(columns) for name, each in self.templates.items()}
        for name, template in templates.items():
            unknown = [e for part in template.parts for e in part.filters if e not in _KNOWN]
            if unknown:
                raise InvalidPayload(
                    f"the template of {shown(name)} has the filter {shown(unknown[0])}, and the"
                    f" filters are {', '.join(_KNOWN)}; a | of a column's name is written ||"
                )
        return replace(self, templates=templates)

    @property
    def is_empty(self) -> bool:
        """True if nothing changes."""
        return not (self.rename or self.drop or self.templates)

    @property
    def uses(self) -> dict[str, str]:
        """Names of the source that the mapping uses, each with its use for error messages."""
        parts = {
            part: f"a part of what {shown(name)} is set to"
            for name, template in self.templates.items()
            for part in template.names
        }
        return {
            **parts,
            **dict.fromkeys(self.rename, "to be renamed"),
            **dict.fromkeys(self.drop, "to be dropped"),
        }


def join_names(entries: Iterable[str]) -> str:
    """Join entries into one CSV row, the form in which options take several names."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(entries)
    return row.getvalue()


def name_columns(
    header: Sequence[str], *, number: bool = False, keys: Collection[str] = ()
) -> tuple[tuple[str, ...], frozenset[int], bool]:
    """Name the columns of a header. With `number`, the second `name` becomes `name_2`.

    `keys` keep their names, since either of two columns may be the key. A header without any
    name stays as it is. Returns the names; the places of columns without a name, which are called
    by their number (`c4` is the fourth); and true if a name stood there twice, and got a number.
    """
    taken = set(header)
    unnamed = frozenset(place for place, name in enumerate(header) if not name)
    is_settled = not unnamed and (not number or len(taken) == len(header))
    if is_settled or len(unnamed) == len(header):
        return tuple(header), frozenset(), False
    counts: dict[str, int] = {}
    columns: list[str] = []
    numbered = False
    for place, name in enumerate(header):
        if not name:
            columns.append(_free_name(f"c{place + 1}", taken))
            continue
        counts[name] = count = counts.get(name, 0) + 1
        is_numbered = number and count > 1 and name not in keys
        columns.append(_free_name(f"{name}_{count}", taken) if is_numbered else name)
        numbered = numbered or is_numbered
    return tuple(columns), unnamed, numbered


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name, or one with a number behind it that no column has, and take it."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def column_changes(mapping: ColumnMapping, hmac_key: bytes | None = None) -> ColumnChanges:
    """Check a payload's mapping. Raises what `ColumnChanges.of` raises.

    `hmac_key`: for templates that are filled in.
    """
    changes = ColumnChanges.of(mapping.rename, mapping.drop, mapping.set)
    if hmac_key is None:
        return changes
    keyed = {name: replace(each, key=hmac_key) for name, each in changes.templates.items()}
    return replace(changes, templates=keyed)


def refuse_hmac(changes: ColumnChanges) -> None:
    """Raise `InvalidPayload` for templates that deployed functions cannot fill in."""
    for name, template in changes.templates.items():
        if template.uses_hmac:
            raise InvalidPayload(
                f"the template of {shown(name)} has the filter hmac, whose key no deployed"
                f" function has: run ddbload import or convert where {HMAC_KEY} is set"
            )


def encoded_changes(payload: Payload, hmac_key: bytes | None = None) -> ColumnChanges:
    """Check a payload's mapping, and keep dropped columns that the condition needs.

    They are encoded with their row, and not written. Raises what `ColumnChanges.of` raises.
    """
    changes = column_changes(payload.mapping, hmac_key)
    unwritten = unwritten_columns(payload)
    return replace(changes, drop=changes.drop - unwritten) if unwritten else changes


def unwritten_columns(payload: Payload) -> frozenset[str]:
    """Return the dropped columns that the condition needs."""
    if payload.options.condition is None:
        return frozenset()
    condition = Condition.read(payload.options.condition, payload.mapping.rename)
    return frozenset(payload.mapping.drop) & frozenset(condition.columns.values())


def row_writes(payload: Payload, table: Table) -> RowWrites | None:
    """Return the rules by which rows go one by one; None in modes that have their own requests."""
    options, text = payload.options, payload.options.condition
    if text is None and not options.write_mode.updates:
        return None
    return RowWrites(
        options.write_mode,
        table.name,
        tuple(key.name for key in table.keys),
        frozenset(options.add),
        None if text is None else Condition.read(text, payload.mapping.rename),
        options.only_existing,
        unwritten_columns(payload),
    )


def _check_name(name: str) -> None:
    if not name:
        raise EmptyColumnName("the mapping has an empty attribute name")
    if not is_text(name):
        raise InvalidPayload("the mapping has an attribute name that is not valid UTF-8")
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        raise ColumnNameTooLong(
            f"the mapping's attribute name {shown(name)} has {size} bytes; DynamoDB's limit is"
            f" {MAX_NAME_BYTES}"
        )


def check_column_names(columns: Sequence[str]) -> None:
    """Raise for too many columns, and a name that is empty, repeated, too long, or not UTF-8."""
    if len(columns) > MAX_COLUMNS:
        raise TooManyColumns(
            f"{len(columns):,} columns are named, and {MAX_COLUMNS:,} may be: no item holds as many"
            " attributes"
        )
    seen: dict[str, int] = {}
    for place, name in enumerate(columns, 1):
        if not name:
            raise EmptyColumnName(
                f"column {place} has no name; name all columns with --columns, and say --header"
                " if the first row is to be skipped"
            )
        if not is_text(name):
            raise BadHeader(f"the name of column {place} is not valid UTF-8")
        size = len(name.encode())
        if size > MAX_NAME_BYTES:
            raise ColumnNameTooLong(
                f"the name of column {place} has {size} bytes; DynamoDB's limit is {MAX_NAME_BYTES}"
            )
        if name in seen:
            raise DuplicateColumn(
                f"columns {seen[name]} and {place} have the same name; one would overwrite the"
                " other: number them (--duplicate-columns number) unless they are a key, or name"
                " all columns with --columns, and say --header; --no-header if the row is data"
            )
        seen[name] = place


# Dialects of delimited text.

_LINE_ENDS = ("\r", "\n")


MAX_MARK = 1000
"""Characters of a delimiter or comment mark: patterns are compiled of them."""


class Dialect(Record):
    """RFC 4180 with any Unicode characters for delimiter, quote, escape and comment.

    Rows end with CR, LF or CRLF, also mixed. A quote opens a quoted field only as the field's
    first character, and is doubled inside one; elsewhere it is an ordinary character. Raises
    `InvalidPayload` for ambiguous characters, such as a quote that is the delimiter.
    """

    delimiter: str = ","
    """One or more characters; of overlapping delimiters, the leftmost counts."""
    quote: str | None = '"'
    """One character; None if fields are never quoted."""
    escape: str | None = None
    """One character, which makes the next character ordinary, inside and outside quotes.

    An escaped line end is ordinary, too; of CRLF only the CR. A quote may still be doubled. None
    if there is no escape character.
    """
    comment: str | None = None
    """Text that a comment line begins with. Quotes in a comment line are ordinary characters."""
    encoding: str = UTF_8
    """UTF-8 or a single-byte encoding."""
    program: str | None = None
    """Program by whose rules letters after an escape stand for other characters, or None."""

    def __post_init__(self) -> None:
        if self.escape == self.quote:
            # As in psql: a quote that escapes a quote is a doubled quote.
            object.__setattr__(self, "escape", None)
        marks = {
            name: value
            for name in ("delimiter", "quote", "escape", "comment")
            if (value := getattr(self, name)) is not None
        }
        for name, value in marks.items():
            self._check(name, value)
        for one, other in combinations(marks, 2):
            if marks[one] == marks[other]:
                raise InvalidPayload(f"'source.{one}' and 'source.{other}' are the same character")
        for name in ("quote", "escape"):
            if marks.get(name, "\n") in self.delimiter:
                raise InvalidPayload(f"'source.delimiter' cannot contain 'source.{name}'")

    def _check(self, name: str, value: str) -> None:
        if not value or (len(value) > 1 and name in ("quote", "escape")):
            raise InvalidPayload(f"'source.{name}' must be one character, not {len(value)}")
        if len(value) > MAX_MARK:
            raise InvalidPayload(
                f"'source.{name}' has {len(value):,} characters, and may have {MAX_MARK}"
            )
        if any(line_end in value for line_end in _LINE_ENDS):
            verb = "be" if value in _LINE_ENDS else "contain"
            raise InvalidPayload(f"'source.{name}' cannot {verb} a line end")
        try:
            value.encode(self.encoding)
        except UnicodeEncodeError:
            what = "UTF-8" if self.encoding == UTF_8 else self.encoding
            raise InvalidPayload(f"'source.{name}' is not a character of {what}") from None

    @classmethod
    def of(cls, source: Source) -> Dialect:
        """Make the dialect of a payload's source. Raises `InvalidPayload`.

        Text that is neither UTF-8 nor of a single-byte encoding is transcoded to UTF-8 first.
        """
        encoding = known_codec(source.encoding) or UTF_8
        return cls(
            source.delimiter,
            source.quote,
            source.escape,
            source.comment,
            encoding if is_single_byte(encoding) else UTF_8,
            source.dialect,
        )


def check_dialect(source: Source) -> None:
    """Raise `InvalidPayload` if delimited text cannot be read as the source says."""
    if source.encoding != AUTO and known_codec(source.encoding) is None:
        raise InvalidPayload(
            f"'source.encoding' must be an encoding of text, such as utf-16 or latin-1, not"
            f" {json.dumps(source.encoding)}"
        )
    if source.kind.has_columns or source.kind.is_open:
        if source.delimiter == AUTO:
            source = replace(source, delimiter=placeholder_delimiter(source.quote))
        Dialect.of(source)


def placeholder_delimiter(quote: str | None) -> str:
    """Return a delimiter that is not the quote, for a dialect whose delimiter is not detected."""
    return "," if quote != "," else ";"
