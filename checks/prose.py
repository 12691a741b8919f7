"""Measures the prose of docstrings: `python -m checks.prose [FOLDER ...]`, or `make prose`.

Two shares of all docstrings have a limit: those that begin with a word such as "What" or "Where",
and those that carry a turn such as "is none" or "told of". Prints each such docstring as
`path:line` and both shares. Ends with 1 when a share reaches its limit, or when there is nothing to
measure.

Docstrings are those of modules, classes and functions, and strings that follow an assignment.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("ddbload", "infra", "lambdas", "localaws", "bench", "lab")

FIRST_WORDS = (
    *("what", "where", "how", "who", "whose", "whether", "when", "which", "why"),
    *("of", "as"),
)
"""Words that begin a clause: the sentence that should stand there has a verb or a noun first."""
FIRST_WORD_LIMIT = 2.0
"""Percent of docstrings. Not 0: an example or a name may begin with such a word and be clear."""

TURNS = (
    *("is none", "that is no", "what it was", "told of", "its own", "whoever", "nobody's"),
    "so many",
)
"""Turns that readers have to decode."""
TURN_LIMIT = 4.0
"""Percent of docstrings. Higher than the other limit: "its own" is plain English now and then."""

_FIRST_WORD = re.compile(r"\W*([^\W\d_]+)")
_TURN = re.compile(rf"\b(?:{'|'.join(map(re.escape, TURNS))})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Docstring:
    """A docstring, and the file and line in which it begins."""

    path: Path
    line: int
    text: str

    @property
    def first_word(self) -> str | None:
        """The word of `FIRST_WORDS` that it begins with, as written."""
        found = _FIRST_WORD.match(self.text)
        return found[1] if found is not None and found[1].lower() in FIRST_WORDS else None

    @property
    def turns(self) -> list[str]:
        """The turns in it, as written, line breaks aside."""
        return _TURN.findall(" ".join(self.text.split()))


@dataclass(frozen=True)
class Figure:
    """A share of all docstrings, with the docstrings that make it up and their faults."""

    title: str
    limit: float
    """Percent that the share must stay under."""
    total: int
    offenders: Sequence[tuple[Docstring, str]]

    @property
    def percent(self) -> float:
        """The share."""
        return 100 * len(self.offenders) / self.total

    @property
    def is_over(self) -> bool:
        """True when the share has reached its limit."""
        return self.percent >= self.limit

    def __str__(self) -> str:
        verdict = "too many" if self.is_over else "good"
        return (
            f"{self.title}: {self.percent:.1f} % ({len(self.offenders):,} of {self.total:,}"
            f" docstrings; the limit is under {self.limit:g} %): {verdict}"
        )


def docstrings(path: Path, source: str) -> Iterator[Docstring]:
    """Find the docstrings of a module, in no particular order. Raises SyntaxError."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstring(path, node.body[0] if node.body else None)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            # Of a lambda and a conditional expression it is one expression.
            if isinstance(block, list):
                for before, after in pairwise(block):
                    if isinstance(before, ast.Assign | ast.AnnAssign):
                        yield from _docstring(path, after)


def _docstring(path: Path, statement: ast.stmt | None) -> Iterator[Docstring]:
    match statement:
        case ast.Expr(ast.Constant(str(text))):
            yield Docstring(path, statement.lineno, text)


def read(root: Path, folders: Sequence[str]) -> list[Docstring]:
    """Read the docstrings of all Python files in these folders, by path and line.

    Raises FileNotFoundError for a folder that does not exist.
    """
    found: list[Docstring] = []
    for folder in folders:
        if not (root / folder).is_dir():
            raise FileNotFoundError(f"no folder {folder} in {root}")
        for file in sorted((root / folder).rglob("*.py")):
            each = docstrings(file.relative_to(root), file.read_text("utf-8"))
            found += sorted(each, key=lambda docstring: docstring.line)
    return found


def measure(found: Sequence[Docstring]) -> tuple[Figure, Figure]:
    """Compute both figures, of at least one docstring."""
    first_words = [
        (each, f'begins with "{each.first_word}"') for each in found if each.first_word is not None
    ]
    turns = [(each, ", ".join(f'"{turn}"' for turn in each.turns)) for each in found if each.turns]
    return (
        Figure("Begin with a clause", FIRST_WORD_LIMIT, len(found), first_words),
        Figure("Carry a turn", TURN_LIMIT, len(found), turns),
    )


def main(folders: Sequence[str], root: Path = ROOT) -> int:
    """Print offenders and figures; return the exit status."""
    found = read(root, folders or FOLDERS)
    if not found:
        print("There is no docstring in these folders, so there is nothing to measure.")
        return 1
    figures = measure(found)
    for figure in figures:
        for docstring, fault in figure.offenders:
            print(f"{docstring.path}:{docstring.line}: {fault}")
    for figure in figures:
        print(figure)
    return int(any(figure.is_over for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
