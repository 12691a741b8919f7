"""Templates of `mapping.set`: texts with columns in braces, and filters for these."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from ddbload.errors import InvalidPayload

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
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|[{}]")
_BARS = re.compile(r"\|\||\|")


def shown(name: str) -> str:
    """Quote a name for an error message, and shorten a long one."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


@dataclass(frozen=True, slots=True)
class TemplatePart:
    """A column in a template, and the filters that its text passes."""

    text: str
    """What stands in the braces: also the name of the column, if the source has such a one."""
    name: str
    """Name of the column, up to the first filter."""
    filters: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `id|trim|lower`. A doubled bar is a bar of the name."""
        pieces, position = [""], 0
        for bar in _BARS.finditer(text):
            pieces[-1] += text[position : bar.start()]
            position = bar.end()
            if bar[0] == "||":
                pieces[-1] += "|"
            else:
                pieces.append("")
        pieces[-1] += text[position:]
        name, *filters = pieces
        return cls(text, name, tuple(each.strip() for each in filters))

    def named(self, columns: Collection[str]) -> Self:
        """Return the part of a source with these columns: one may be named as the whole text."""
        return replace(self, name=self.text, filters=()) if self.text in columns else self

    def check(self, attribute: str) -> None:
        """Raise `InvalidPayload` for an unknown filter."""
        for each in self.filters:
            if each not in _KNOWN:
                raise InvalidPayload(
                    f"the template of {shown(attribute)} has the filter {shown(each)}, and the"
                    f" filters are {', '.join(_KNOWN)}; a | of a column's name is written ||"
                )


@dataclass(frozen=True, slots=True)
class Template:
    """A text with columns in braces, such as `USER#{id|lower}`; `{{` and `}}` are braces."""

    literals: tuple[str, ...]
    """Texts before, between and after the columns: one more than `parts`."""
    parts: tuple[TemplatePart, ...]
    key: bytes | None = field(default=None, repr=False)
    """Key of the filter hmac; None where nothing is filled in."""

    @classmethod
    def read(cls, text: str, attribute: str) -> Self:
        """Read the template of an attribute. Raises `InvalidPayload`."""
        literals, parts = [""], []
        position = 0
        for found in _PIECE.finditer(text):
            literals[-1] += text[position : found.start()]
            position = found.end()
            if found[1] is not None:
                parts.append(TemplatePart.read(found[1]))
                literals.append("")
            elif len(found[0]) == 2:
                literals[-1] += found[0][0]
            else:
                raise InvalidPayload(
                    f"the template of {shown(attribute)} has a single {found[0]!r}: write a column"
                    " as {name}, and a literal brace as {{ or }}"
                )
        literals[-1] += text[position:]
        if any("\ud800" <= character <= "\udfff" for character in text):
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
        pieces = [self.literals[0]]
        for text, literal in zip(filled, self.literals[1:], strict=True):
            pieces += (text, literal)
        return "".join(pieces)


def key_fingerprint(key: bytes, salt: str) -> str:
    """Return a text that tells two keys apart, and not what they are."""
    return hmac.new(key, f"ddbload key fingerprint {salt}".encode(), hashlib.sha256).hexdigest()[
        :16
    ]
