"""Encoders of rows for a bucket or a queue: the items of a table, with the target's own rules.

What the target needs of a row, such as its object's key, is among the row's attributes, made by a
template, and a key of the stand-in for a table. So the encoders of tables make it, and check that
it is there and not too long. `made_texts` takes it out again when the row is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Protocol

from ddbload.contracts.queue_messages import MOST_BYTES
from ddbload.contracts.run_record import RunRecord
from ddbload.contracts.target import (
    OBJECT_KEY,
    RESERVED_NAMES,
    BucketTarget,
    QueueTarget,
    key_defect,
)
from ddbload.dynamodb.attribute_values import Attributes
from ddbload.items.encode.batch_encoder import EncodedRows
from ddbload.items.encode.request_json import DELETE_BEGIN, RequestBody
from ddbload.items.item_builder import Item
from ddbload.items.row_encoder import RowEncoder
from ddbload.items.row_filter import FILTERED
from ddbload.rows.block_splitter import Block
from ddbload.rows.reject_lines import Defect
from ddbload.rows.row_boundaries import RowBoundaries
from ddbload.rows.row_positions import RowPositions


def _spellings(name: str) -> str:
    """Return a pattern of a name in JSON: any character may be escaped by its number."""
    return "".join(rf"(?:{re.escape(each)}|\\u00(?i:{ord(each):02x}))" for each in name)


_RESERVED_MEMBER = re.compile(
    rf'"({"|".join(map(_spellings, sorted(RESERVED_NAMES)))})"\s*:'.encode()
)


def made_texts(item: Attributes, names: Sequence[str]) -> list[str]:
    """Take the attributes that were made for the target out of an item, and return their texts."""
    return [item.pop(name)["S"] for name in names]


class TargetRules(Protocol):
    """Rules of a kind of target for its rows."""

    def keys(self, keys: list[tuple[Hashable, ...]]) -> list[tuple[Hashable, ...]]:
        """Return what the scheduler tells rows apart by: rows of one key go one after the other."""

    def suspects(self, keys: list[tuple[Hashable, ...]], puts: Sequence[str]) -> list[int]:
        """Return the numbers of rows that only `defect` can judge, by key and encoded row."""

    def defect(self, item: Item) -> Defect | None:
        """Return why the target does not take an item; None if it does."""

    def goes_alone(self, item: Item) -> bool:
        """Return whether an item goes in a request of its own."""

    def explain(self, defect: Defect) -> Defect:
        """Say in the target's words what is wrong with an attribute that is made for it."""


class TargetRows:
    """Encoder of rows by the rules of a target."""

    batches = True

    def __init__(self, encoder: RowEncoder, rules: TargetRules, *, delimited: bool) -> None:
        """Take the encoder that makes the items. `delimited`: from columns, not from documents."""
        self._encoder = encoder
        self._rules = rules
        self._delimited = delimited

    @property
    def ends(self) -> RowBoundaries:
        """Row boundaries of the format."""
        return self._encoder.ends

    @property
    def body(self) -> RequestBody:
        """Function that no target uses: its requests are made from items."""
        return self._encoder.body

    def goes_alone(self, item: Item) -> bool:
        """Return whether an item goes in a request of its own."""
        return self._rules.goes_alone(item)

    def reordered(self, places: Sequence[int]) -> TargetRows:
        """Return the encoder for an object whose columns have these places among the run's."""
        return TargetRows(self._encoder.reordered(places), self._rules, delimited=self._delimited)

    def read(self, block: Block) -> tuple[RowPositions, EncodedRows]:
        """Return the positions of a block's rows, and what is encoded of each."""
        positions, encoded = self._encoder.read(block)
        odd = encoded.odd
        if len(odd) < len(encoded):
            good = encoded.keys if not odd else _without(encoded.keys, odd)
            odd.update(self._rules.suspects(good, encoded.puts))
        if not self._delimited:
            if _may_have_reserved(block.data):
                odd.update(
                    row
                    for row in range(len(encoded))
                    if _RESERVED_MEMBER.search(positions.data(row))
                )
            # Lines of an export may delete items.
            odd.update(row for row, put in enumerate(encoded.puts) if put.startswith(DELETE_BEGIN))
        # Neither S3 nor SQS counts bytes: each row is one unit of the rate at which rows are sent.
        return positions, replace(encoded, keys=self._rules.keys(encoded.keys), units=None)

    def build(self, data: bytes, byte: int) -> Item | Defect:
        """Build the item of one row, which begins at `byte` of the source."""
        if not self._delimited:
            found = _RESERVED_MEMBER.search(data)
            if found is not None:
                name = json.loads(b'"%b"' % found[1])
                return Defect(
                    "duplicate_name", "ddbload makes an attribute of this name; rename it", name
                )
        built = self._encoder.build(data, byte)
        if built is FILTERED:
            return built
        if isinstance(built, Defect):
            return self._rules.explain(built) if built.column in RESERVED_NAMES else built
        if built.deleted:
            return Defect("deletion", "a deletion, and only tables have items to delete")
        defect = self._rules.defect(built)
        if defect is not None:
            return defect
        (key,) = self._rules.keys([built.key])
        return replace(built, key=key, size=1)


class ObjectKeyRules:
    """Rules of objects' keys."""

    def __init__(self, target: BucketTarget) -> None:
        self._target = target

    def keys(self, keys: list[tuple[Hashable, ...]]) -> list[tuple[Hashable, ...]]:
        """Return the keys: rows of one object go one after the other."""
        return keys

    def suspects(
        self,
        keys: list[tuple[Hashable, ...]],
        puts: Sequence[str],  # noqa: ARG002 - protocol
    ) -> list[int]:
        """Return the numbers of rows whose key may have a segment that is not allowed."""
        return [row for row, key in enumerate(keys) if key and _has_dots(str(key[0]))]

    def defect(self, item: Item) -> Defect | None:
        """Return why no object has the key of an item."""
        wrong = key_defect(self._target.prefix + str(item.attributes[OBJECT_KEY]["S"]))
        return None if wrong is None else Defect("bad_object_key", f"the key {wrong}", OBJECT_KEY)

    def goes_alone(self, item: Item) -> bool:  # noqa: ARG002 - protocol
        """Return false: each request has one row anyway."""
        return False

    def explain(self, defect: Defect) -> Defect:
        """Say what is wrong with a key."""
        if defect.cause == "empty_key":
            detail = "no text for a column that the object's key needs"
            return Defect("empty_key", detail, OBJECT_KEY)
        if defect.cause == "key_too_long":
            size = int(defect.detail.split()[0]) + len(self._target.prefix.encode())
            detail = f"{size:,} bytes with the prefix; the key of an object has at most 1,024"
            return Defect("key_too_long", detail, OBJECT_KEY)
        return defect


def target_rows(record: RunRecord, encoder: RowEncoder) -> TargetRows:
    """Return the encoder for rows of a run whose target is not a table."""
    target, delimited = record.payload.target, record.payload.source.delimited
    if isinstance(target, BucketTarget):
        return TargetRows(encoder, ObjectKeyRules(target), delimited=delimited)
    from ddbload.items.message_rules import MessageRules

    assert isinstance(target, QueueTarget), "a target is a table, a bucket or a queue"  # noqa: S101
    rules = MessageRules(target, record.table.message_bytes or MOST_BYTES)
    return TargetRows(encoder, rules, delimited=delimited)


def _may_have_reserved(data: bytes) -> bool:
    # All of them begin with a hyphen. The pattern takes ten times as long.
    return b'"-' in data or b'"\\u002' in data


def _has_dots(key: str) -> bool:
    return ".." in key or "/." in key or key.startswith(".")


def _without(keys: list[tuple[Hashable, ...]], odd: set[int]) -> list[tuple[Hashable, ...]]:
    return [() if row in odd else key for row, key in enumerate(keys)]
