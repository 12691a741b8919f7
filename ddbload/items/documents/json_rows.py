"""Lines of JSON that are like no others, one by one: what is plain to see, and nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted

from ddbload.contracts.payload import OMIT
from ddbload.dynamodb.attribute_values import check_name
from ddbload.dynamodb.limits import MAX_DIGITS
from ddbload.dynamodb.write_modes import DELETE
from ddbload.items.documents.attribute_templates import encode_one_by_one
from ddbload.items.documents.document_builder import DocumentBuilder, identity
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import compact_json
from ddbload.items.json_values import Members, attribute
from ddbload.rows.columns import to_octets

MAX_NAMES = 10_000
_MARKUP = len('"":{"L":[]},') - 3
"""What is around an attribute's value in JSON, and DynamoDB does not count, at least."""


@dataclass(frozen=True, slots=True)
class Name:
    """What stands before an attribute's value."""

    bare: str
    text: str
    number: str
    is_special: bool
    """Whether its value has to fit something."""


class JsonRows:
    """Encodes rows of a run that takes values as they are."""

    def __init__(self, builder: DocumentBuilder) -> None:
        rules = builder.rules
        self._builder = builder
        self._special = {*builder.declared, *(key.name for key in builder.checked_keys)}
        self._names: dict[str, Name] = {}
        self.possible = (
            rules.changes.none
            and rules.nulls == OMIT
            and not rules.markers
            and rules.mode != DELETE
            and builder.position_attribute is None
        )
        """Whether anything can be made of any row."""

    def made(self, rows: Sequence[Members]) -> EncodedRows:
        """The requests of some rows."""
        return encode_one_by_one(rows, self._encoded, lambda members: -_MARKUP * len(members))

    def _encoded(self, members: Members) -> tuple[str, tuple[Hashable, ...]]:
        """A row's request and key; nothing of what only the builder understands.

        Raises `BadValue` and `UnicodeEncodeError` for the same.
        """
        attributes: list[str] = []
        keys: dict[str, Hashable] = {}
        if len(dict(members)) < len(members):
            return "", ()
        for name, value in members:
            known = self._names.get(name) or self._name(name)
            if value is None and name not in self._builder.key_names:
                continue
            if known.is_special:
                found = self._builder.attribute_of(name, value)
                if found is None:
                    return "", ()
                self._builder.check_key(name, found)
                attributes.append(known.bare + compact_json(found))
                if name in self._builder.key_names:
                    keys[name] = identity(found)
            elif isinstance(value, str):
                attributes.append(f"{known.text}{quoted(value)}}}")
            elif isinstance(value, bytes) and len(value) <= MAX_DIGITS and value.isdigit():
                attributes.append(f'{known.number}{value.decode()}"}}')
            else:
                attributes.append(known.bare + compact_json(attribute(value)))
        if len(keys) < len(self._builder.key_names):
            return "", ()
        put = f'{{"PutRequest":{{"Item":{{{",".join(attributes)}}}}}}}'
        return to_octets(put), tuple(keys[name] for name in self._builder.key_names)

    def _name(self, name: str) -> Name:
        check_name(name)
        if len(self._names) >= MAX_NAMES:
            self._names.clear()
        bare = f"{quoted(name)}:"
        known = Name(bare, f'{bare}{{"S":', f'{bare}{{"N":"', name in self._special)
        # All together then take a few megabytes, whatever comes.
        if len(name) <= 100:
            self._names[name] = known
        return known
