"""Attribute names that a statement can hold, and that try to leave it."""

from __future__ import annotations

QUOTABLE = [
    "a",
    "it's",
    "''",
    "'; INSERT INTO \"other\" VALUE {'k':?}--",
    'a "quoted" name',
    "a.b[0]",
    "?",
    ":",
    "{}",
    "-- comment",
    "/* comment */",
    "SELECT",
    " ",
    "Ελληνικά",
    "漢字",
    "😀",
    "n" * 8000,
]
