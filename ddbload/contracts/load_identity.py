"""Identity of a load: what was asked of an object version that determines the rows it gives.

Options that determine rows are declared as decisive. They alone answer whether a table has loaded
an object version, whether two runs load the same, and whether a run id belongs to a command.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ddbload.contracts.comparison import Comparison
from ddbload.contracts.dialect import known_codec
from ddbload.contracts.messages import declared
from ddbload.contracts.options import KEEP, Options
from ddbload.contracts.payload import ColumnMapping, NullHandling, Payload
from ddbload.contracts.source import Source

_PARTS = ("source", "mapping", "nulls", "options")


def _decisive(kind: type) -> tuple[str, ...]:
    return tuple(each.field for each in declared(kind) if each.decisive)


DECISIVE: Mapping[type, tuple[str, ...]] = {
    Payload: tuple(
        each.name for each in fields(Payload) if each.name in (*_PARTS, *_decisive(Payload))
    ),
    **{kind: _decisive(kind) for kind in (Source, ColumnMapping, NullHandling, Options)},
    Comparison: ("column", "op", "value"),
}
"""Fields that determine which rows and items an object version gives.

All others are limits, speed, places, and the run's own settings. The table's id and the object
version are the other parts of a load's identity.
"""

_WORDS = {"position_attribute": "position attribute"}
"""Names of fields in messages, where they differ."""


def asked_hash(payload: Payload, hmac_key: bytes | None) -> str:
    """Return the hash of everything asked that determines rows, in hexadecimal.

    `payload`: as it was given, before anything was detected. `hmac_key`: key of the filter hmac,
    which determines rows too; the hash is keyed with it, and does not reveal it.
    """
    text = json.dumps(_asked(payload), sort_keys=True).encode()
    if hmac_key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.new(hmac_key, text, hashlib.sha256).hexdigest()


def differing(payload: Payload, *earlier: Payload) -> list[str]:
    """Name what a payload asks for that none of the earlier ones did, in words for messages."""
    asked, before = _asked(payload), [_asked(each) for each in earlier]
    return [
        _WORDS.get(name, name)
        for name, value in asked.items()
        if all(value != each[name] for each in before)
    ]


def _asked(payload: Payload) -> dict[str, Any]:
    """Return what was asked by the names of its fields; equal for equal meanings."""
    parts: dict[str, Any] = {
        name: _plain(getattr(payload, name))
        for name in DECISIVE[Payload]
        if name not in ("source", "options")
    }
    for part in (payload.source, payload.options):
        parts |= {name: _meant(part, name) for name in DECISIVE[type(part)]}
    return parts


def _plain(value: Any) -> Any:
    """Return a member of a payload as JSON whose lists have no order, which means nothing."""
    if isinstance(value, ColumnMapping | NullHandling | Comparison):
        return {name: _plain(getattr(value, name)) for name in DECISIVE[type(value)]}
    if isinstance(value, tuple):
        plain = {json.dumps(_plain(each), sort_keys=True) for each in value}
        return sorted(plain)
    if isinstance(value, Mapping):
        return dict(value)
    return value


def _meant(part: Source | Options, name: str) -> Any:
    """Return a field of a source or of options, with one spelling for each meaning."""
    value = getattr(part, name)
    spell = _SPELLINGS.get(name)
    if spell is not None:
        return spell(part, value)
    return list(value) if name == "columns" and value is not None else _plain(value)


_SPELLINGS: Mapping[str, Callable[[Any, Any], Any]] = {
    "encoding": lambda _, name: known_codec(name) or name,
    # A quote that escapes a quote is a doubled quote.
    "escape": lambda source, escape: None if escape == source.quote else escape,
    "on_empty": lambda _, on_empty: None if on_empty == KEEP else on_empty,
}
