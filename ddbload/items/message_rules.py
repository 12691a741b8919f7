"""Rules of messages for the rows of a run into a queue. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from ddbload.contracts.queue_messages import (
    MOST_ID_CHARACTERS,
    SHARED_BYTES,
    id_defect,
    message_body,
)
from ddbload.contracts.target import MESSAGE_DEDUPLICATION, MESSAGE_GROUP, QueueTarget
from ddbload.items.item_builder import Item
from ddbload.items.plain_json import plain_object
from ddbload.rows.columns import to_octets
from ddbload.rows.reject_lines import Defect

_ID_NAMES = {MESSAGE_GROUP: "group", MESSAGE_DEDUPLICATION: "deduplication id"}


class MessageRules:
    """Rules of messages: how long they are, and their ids."""

    def __init__(self, target: QueueTarget, most_bytes: int) -> None:
        """`most_bytes`: of a message of the queue."""
        self._names = list(target.templates)
        self._fifo = target.is_fifo
        self._most_bytes = most_bytes
        # A request's text of a message that is this long has at most twice as many bytes in SQS,
        # where every character is one that only JSON allows.
        self._short = min(most_bytes, SHARED_BYTES) // 2
        self._numbers = itertools.count()

    def keys(self, keys: list[tuple[Hashable, ...]]) -> list[tuple[Hashable, ...]]:
        """Return the groups of a FIFO queue; no two rows for a standard queue have one key."""
        if self._fifo:
            return [key[:1] for key in keys]
        return list(zip(itertools.islice(self._numbers, len(keys))))

    def suspects(self, keys: list[tuple[Hashable, ...]], puts: Sequence[str]) -> list[int]:
        """Return the numbers of rows that are long, or whose ids SQS may refuse."""
        short = self._short
        found = [row for row, put in enumerate(puts) if len(put) > short]
        if self._names:
            found += [
                row
                for row, key in enumerate(keys)
                if any(id_defect(str(text)) is not None for text in key)
            ]
        return found

    def defect(self, item: Item) -> Defect | None:
        """Return why the queue does not take a message; None if it does."""
        for name in self._names:
            wrong = id_defect(item.attributes[name]["S"])
            if wrong is not None:
                return Defect("bad_message_id", f"the message's {_ID_NAMES[name]} {wrong}", name)
        size = self._message_bytes(item)
        if size > self._most_bytes:
            detail = f"{size:,} bytes of JSON; a message of the queue has at most"
            return Defect("message_too_long", f"{detail} {self._most_bytes:,}")
        return None

    def goes_alone(self, item: Item) -> bool:
        """Return whether ten such messages might be more than a request takes."""
        return self._message_bytes(item) > SHARED_BYTES

    def explain(self, defect: Defect) -> Defect:
        """Say what is wrong with an id."""
        name = _ID_NAMES[str(defect.column)]
        if defect.cause == "empty_key":
            detail = f"no text for a column that the message's {name} needs"
            return Defect("empty_key", detail, defect.column)
        if defect.cause == "key_too_long":
            size = defect.detail.split()[0]
            detail = f"the message's {name} has {size} bytes, and SQS takes {MOST_ID_CHARACTERS}"
            return Defect("bad_message_id", f"{detail} characters of ASCII", defect.column)
        return defect

    def _message_bytes(self, item: Item) -> int:
        names = self._names
        document = {name: each for name, each in item.attributes.items() if name not in names}
        return len(message_body(to_octets(plain_object(document))))
