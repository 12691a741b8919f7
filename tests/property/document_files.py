"""Files of JSON that are hard to read: rows that are nearly alike, and nearly JSON."""

from __future__ import annotations

import json
from random import Random

NAMES = ["a", "b", "é", 'q"', "x%s", "\\", "S", "M", "N", "Item", ""]
TEXTS = [
    "",
    "a",
    "0",
    "-1",
    "é",
    "漢😀",
    '"',
    "\\",
    "\n",
    "\0",
    "%s",
    "%",
    "\\u0041",
    "1.0",
    "x" * 40,
]
NUMBERS = ["0", "-0", "1", "12", "1.0", "-1.5", "1e5", "1E+2", "9e125", "1" * 38]
BAD_NUMBERS = ["1" * 39, "1e126", "01", "1.", ".5", "+1", "NaN", "-", "1e", "0x1", "-01", "1e-131"]
BAD_VALUES = [
    "nul",
    '"\\ud800"',
    '"\\x"',
    '"\t"',
    '"',
    "[1,]",
    '{"a":1,}',
    '{"a":1,"a":1}',
    "[" * 40,
]
BLANKS = [b"", b" ", b"\t\r", b"\r", b" \r"]
JUNK = [b'"', b"\\", b"{", b"}", b",", b":", b"\0", b"\t", b" ", b"\xc3", b"\xff", b"1", b"[", b"]"]


class Maker:
    """Generator of one file."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._space = self._rng.choice(["", "", " ", " \t"])
        self._ascii = self._rng.random() < 0.5
        self._faults = self._rng.choice([0.0, 0.0, 0.02, 0.2])

    def file(self, *, typed: bool) -> bytes:
        """Return the file's bytes."""
        rng = self._rng
        kinds = [self._row(typed) for _ in range(rng.randint(1, 3))]
        lines = []
        for _ in range(rng.randint(0, 9)):
            line = rng.choice(kinds)
            if rng.random() < 0.7:
                line = line.replace(b"key", self._text()[1:-1].encode() or b"k")
            if rng.random() < self._faults:
                at = rng.randrange(len(line))
                line = line[:at] + rng.choice(JUNK) + line[at + rng.randint(0, 1) :]
            if rng.random() < 0.1:
                line = rng.choice([b" " + line, line + b"\r", line + b" "])
            if rng.random() < 0.1:
                lines.append(rng.choice(BLANKS))
            lines.append(line)
        return b"\n".join(lines) + rng.choice([b"\n", b"\n", b"", b"\n\n"])

    def _row(self, typed: bool) -> bytes:
        rng = self._rng
        values = self._typed if typed else self._plain
        names = [name for name in NAMES[:10] if rng.random() < 0.3]
        members = [(name, values(0)) for name in names]
        key = ("id", '{"S":"key"}' if typed else '"key"')
        members.insert(rng.randint(0, len(members)), key)
        if rng.random() < self._faults:
            members.append(rng.choice([(rng.choice(NAMES), values(0)), key]))
        row = self._object(members)
        if typed and rng.random() < 0.5:
            row = self._object([("Item", row)])
        if rng.random() < self._faults:
            row = rng.choice([values(0), f"[{row}]", row * 2])
        return row.encode(errors="replace")

    def _object(self, members: list[tuple[str, str]]) -> str:
        space = self._space
        said = [f"{self._string(name)}{space}:{space}{value}" for name, value in members]
        return f"{{{space}{f',{space}'.join(said)}{space}}}"

    def _string(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._ascii)

    def _text(self) -> str:
        return self._string(self._rng.choice(TEXTS) + self._rng.choice(["", "", "7"]))

    def _number(self) -> str:
        return self._rng.choice(BAD_NUMBERS if self._rng.random() < self._faults / 2 else NUMBERS)

    def _plain(self, depth: int) -> str:
        rng = self._rng
        if rng.random() < self._faults / 2:
            return rng.choice(BAD_VALUES)
        kind = rng.randint(0, 9 if depth < 3 else 7)
        if kind < 3:
            return self._text()
        if kind < 6:
            return self._number()
        if kind < 8:
            return rng.choice(["true", "false", "null"])
        values = [self._plain(depth + 1) for _ in range(rng.randint(0, 3))]
        if kind == 8:
            return f"[{f'{self._space},'.join(values)}]"
        return self._object(list(zip(rng.sample(NAMES[:10], 3), values, strict=False)))

    def _typed(self, depth: int) -> str:
        rng = self._rng
        if rng.random() < self._faults / 2:
            return rng.choice(
                ["{}", '"x"', '{"S":1}', '{"S":"a","N":"1"}', '{"Q":"a"}', '{"NULL":false}']
            )
        kind = rng.choice(["S", "S", "N", "N", "BOOL", "NULL", "L", "M"])
        if depth > 3 and kind in "LM":
            kind = "S"
        if kind == "S":
            content = self._text()
        elif kind == "N":
            content = self._string(self._number())
        elif kind == "BOOL":
            content = rng.choice(["true", "false"])
        elif kind == "NULL":
            content = "true"
        else:
            values = [self._typed(depth + 1) for _ in range(rng.randint(0, 3))]
            content = f"[{f'{self._space},'.join(values)}]"
            if kind == "M":
                named = zip(rng.sample(NAMES[:10], 3), values, strict=False)
                content = self._object(list(named))
        return self._object([(kind, content)])
