"""Files with the traits of public ones, made from seeds, each with the rows that it holds.

The traits are those of surveys of open data, of CSV Wrangling's labelled files, of the tests of
W3C's CSVW and of DuckDB's comments: nothing is copied, and nothing here parses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

Rows = list[list[str]]
WORDS = [
    "river",
    "stone",
    "maple",
    "north",
    "amber",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "harbor",
    "iris",
]
TOWNS = ["Zürich", "Den Haag", "Saint-Denis", "Bad Homburg", "L'Aquila", "Newcastle", "Łódź"]
CYRILLIC = ["участок", "область", "город Москва", "улица Мира", "северный округ", "посёлок"]
NAMES = ["id", "town", "year", "total", "share", "note", "opened", "code"]


@dataclass(frozen=True, slots=True)
class Held:
    """A file, and the rows that it holds."""

    trait: str
    text: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    encoding: str = "utf-8"
    file_name: str = "data.csv"
    extra: int = 0
    """Lines that are no rows of the table, and may be rejected."""

    @property
    def data(self) -> bytes:
        return self.text.encode(self.encoding)

    @property
    def items(self) -> list[dict[str, str]]:
        """The rows as items without empty cells."""
        return [
            {name: cell for name, cell in zip(self.names, row, strict=True) if cell}
            for row in self.rows
        ]


def cell(rng: random.Random, kind: str, row: int, mark: str = ".") -> str:
    """Make one cell of a column."""
    return {
        "id": lambda: f"{row + 101}",
        "town": lambda: rng.choice(TOWNS),
        "year": lambda: f"{rng.randrange(1990, 2024)}",
        "total": lambda: f"{rng.randrange(1, 90_000)}",
        "share": lambda: f"{rng.randrange(0, 100)}{mark}{rng.randrange(10, 99)}",
        "note": lambda: " ".join(rng.choices(WORDS, k=rng.randrange(1, 4))),
        "opened": lambda: f"20{rng.randrange(10, 24)}-0{rng.randrange(1, 9)}-1{row % 9}",
        "code": lambda: f"{rng.choice('ABC')}-{rng.randrange(100, 999)}",
    }[kind]()


def table(rng: random.Random, *, mark: str = ".", least: int = 3) -> tuple[list[str], Rows]:
    """Make names and rows."""
    names = NAMES[: rng.randrange(least, 9)]
    rows = [[cell(rng, kind, row, mark) for kind in names] for row in range(rng.randrange(5, 40))]
    return names, rows


def text(rows: Sequence[Sequence[str]], delimiter: str, end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in rows)


def quoted(rows: Sequence[Sequence[str]], delimiter: str, quote: str) -> str:
    return text([[f"{quote}{c.replace(quote, 2 * quote)}{quote}" for c in row] for row in rows],
                delimiter)  # fmt: skip


Trait = Callable[[random.Random, list[str], Rows, str], Held]
TRAITS: dict[str, Trait] = {}


def trait(made: Trait) -> Trait:
    TRAITS[made.__name__] = made
    return made


def held(names: Sequence[str], rows: Rows, content: str, **more: object) -> Held:
    return replace(Held("", content, names, rows), **more)  # type: ignore[arg-type]


@trait
def plain(rng, names, rows, d):
    return held(names, rows, text([names, *rows], d))


@trait
def byte_order_mark(rng, names, rows, d):
    return held(names, rows, "\ufeff" + text([names, *rows], d, "\r\n"))


@trait
def trailing_delimiter(rng, names, rows, d):
    return held(names, rows, text([names, *rows], d, d + "\n"))


@trait
def trailing_delimiter_in_rows(rng, names, rows, d):
    return held(names, rows, text([names], d) + text(rows, d, d + "\n"))


@trait
def trailing_delimiter_in_header(rng, names, rows, d):
    return held(names, rows, text([names], d, d + "\n") + text(rows, d))


@trait
def comments_before(rng, names, rows, d):
    mark = rng.choice(["# ", "#", "// ", "% ", "-- "])
    lines = [f"{mark}{rng.choice(WORDS)}{d} made 2021" for _ in range(rng.randrange(1, 5))]
    return held(names, rows, "\n".join(lines) + "\n" + text([names, *rows], d))


@trait
def comments_between(rng, names, rows, d):
    lines = text([names, *rows], d).splitlines()
    for _ in range(4):
        lines.insert(rng.randrange(0, len(lines) + 1), f"# {rng.choice(WORDS)} was here")
    return held(names, rows, "\n".join(lines) + "\n", extra=4)


@trait
def title(rng, names, rows, d):
    lines = [f"{rng.choice(WORDS).title()} report", *["by hand"] * rng.randrange(0, 2)]
    lines += [""] * rng.randrange(0, 2)
    return held(names, rows, "\n".join(lines) + "\n" + text([names, *rows], d))


@trait
def padded_title(rng, names, rows, d):
    lines = text([["Report", *[""] * (len(names) - 1)]], d)
    return held(names, rows, lines + text([names, *rows], d))


@trait
def pairs_before(rng, names, rows, d):
    return held(names, rows, f"Station:{d}Humidity 7\nOperator:{d}K. Meier\n\n"
                + text([names, *rows], d))  # fmt: skip


@trait
def footer(rng, names, rows, d):
    return held(names, rows, text([names, *rows], d) + "\nSource: own work\n", extra=1)


@trait
def repeated_header(rng, names, rows, d):
    half = len(rows) // 2
    return held(names, rows, text([names, *rows[:half], names, *rows[half:]], d), extra=1)


@trait
def apostrophes(rng, names, rows, d):
    return held(names, rows, quoted([names, *rows], d, "'"))


@trait
def apostrophes_below(rng, names, rows, d):
    rows = [[row[0], f"Doe{d} {row[1]}", *row[2:]] for row in rows]
    return held(names, rows, text([names], d) + quoted(rows, d, "'"))


@trait
def quotes(rng, names, rows, d):
    rows = [[row[0], f'{row[1]}{d} "so"', *row[2:]] for row in rows]
    return held(names, rows, quoted([names, *rows], d, '"'))


@trait
def quoted_lines(rng, names, rows, d):
    rows = [[row[0], f"{row[1]}\nFlat{d} 2", *row[2:]] for row in rows]
    return held(names, rows, quoted([names, *rows], d, '"'))


@trait
def lone_quotes_in_cells(rng, names, rows, d):
    rows = [[row[0], f'5" {row[1]}', *row[2:]] for row in rows]
    return held(names, rows, text([names, *rows], d))


@trait
def lone_quotes_between_tabs(rng, names, rows, d):
    rows = [
        [row[0], f'"{row[1]}' if n % 3 else f'{row[1]}"', *row[2:]] for n, row in enumerate(rows)
    ]
    return held(names, rows, text([names, *rows], "\t"), file_name="data")


@trait
def backslash_quotes(rng, names, rows, d):
    rows = [[row[0], f'say "{row[1]}"{d} twice', *row[2:]] for row in rows]
    lines = quoted(rows, d, '"').replace('""', '\\"')
    return held(names, rows, text([names], d) + lines)


@trait
def decimal_commas(rng, names, rows, d):
    rows = [[*row[:4], f"{n},{n % 7}5", *row[5:]] for n, row in enumerate(rows)]
    names = [*names[:4], "share", *names[5:]]
    return held(names, rows, text([names, *rows], ";"))


@trait
def double_bars(rng, names, rows, d):
    return held(names, rows, text([names, *rows], rng.choice(["||", "|~|", "^", "~", "\x01"])))


@trait
def one_column(rng, names, rows, d):
    return held(
        ["town"], [[row[1]] for row in rows], text([["town"], *[[row[1]] for row in rows]], d)
    )


@trait
def one_column_of_prose(rng, names, rows, d):
    kept = [[f"{row[1]}{d} {rng.choice(WORDS)}"] if n % 4 == 1 else [f"so {row[1]}"]
            for n, row in enumerate(rows)]  # fmt: skip
    return held(["note"], kept, text([["note"], *kept], d))


@trait
def one_column_of_times(rng, names, rows, d):
    kept = [[f"2021-03-{n % 28 + 1:02}T{n % 24:02}:10:00Z"] for n, _ in enumerate(rows)]
    if rng.random() < 0.5:
        kept = [[f"{n % 24:02}:{n % 60:02}:00"] for n, _ in enumerate(rows)]
    return held(["opened"], kept, text([["opened"], *kept], d))


@trait
def one_column_of_json(rng, names, rows, d):
    kept = [[f'{{"a": {n}, "b": "{rng.choice(WORDS)}"}}'] for n, _ in enumerate(rows)]
    return held(["the document"], kept, "the document\n" + quoted(kept, d, '"'))


@trait
def trailing_delimiter_in_one_column(rng, names, rows, d):
    kept = [[f"{rng.choice('ABC')}-{rng.randrange(100, 999)}"] for _ in rows]
    return held(["code"], kept, "code\n" + text(kept, d, d + "\n"))


@trait
def comment_before_one_column(rng, names, rows, d):
    kept = [[row[1]] for row in rows]
    return held(["town"], kept, "# made in 2021\n" + text([["town"], *kept], d))


@trait
def comments_between_quoted(rng, names, rows, d):
    names, rows = names[1:3][: rng.randrange(1, 3)], [row[1:3] for row in rows]
    rows = [row[: len(names)] for row in rows]
    lines = quoted([names, *rows], d, '"').splitlines()
    for _ in range(3):
        comment = f"# {rng.choice(WORDS)}{rng.choice(['', d])} was here"
        lines.insert(rng.randrange(0, len(lines) + 1), comment)
    return held(names, rows, "\n".join(lines) + "\n", extra=3)


@trait
def quoted_lines_that_fit(rng, names, rows, d):
    rows = [[f"{row[1]}{d}\n{d}x", row[0]] for row in rows]
    return held(["note", "id"], rows, "note" + d + "id\n" + quoted(rows, d, '"'))


@trait
def no_header(rng, names, rows, d):
    return held([f"c{n + 1}" for n in range(len(names))], rows, text(rows, d))


@trait
def row_names_of_r(rng, names, rows, d):
    lines = quoted([names], d, '"') + text([[f'"r{n}"', *row] for n, row in enumerate(rows)], d)
    return held(["row", *names], [[f"r{n}", *row] for n, row in enumerate(rows)], lines)


@trait
def row_names_before_empty_cells(rng, names, rows, d):
    rows = [[f"r{n}", row[0], row[1], ""] for n, row in enumerate(rows)]
    lines = "".join(f'"{a}"{d}{b}{d}"{c}"{d}\n' for a, b, c, _ in rows)
    return held(["row", *names[:3]], rows, quoted([names[:3]], d, '"') + lines)


@trait
def units_row(rng, names, rows, d):
    names = [*names[:3], "total", *names[4:]]
    rows = [[*row[:2], "12", "7", *row[4:]] for row in rows]
    units = [*["(no)", "(name)", "(a)", "(t)", "(pc)", "(text)", "(day)", "(text)"][: len(names)]]
    return held(names, rows, text([names, units, *rows], d))


@trait
def header_of_two_rows(rng, names, rows, d):
    rows = [[f"r{n}", f"{n}", f"{n * 2}", f"{n * 3}", f"{n * 5}"] for n in range(1, 12)]
    content = text([["", "2019", "", "2020", ""], ["region", "men", "women", "men", "women"]], d)
    found = ["region", "2019 men", "2019 women", "2020 men", "2020 women"]
    return held(found, rows, content + text(rows, d))


@trait
def aligned_by_blanks(rng, names, rows, d):
    names, rows = (
        ["id", "town", "total"],
        [[r[0], r[1].replace(" ", "-"), str(n)] for n, r in enumerate(rows)],
    )
    lines = [f"{a:<8}{b:<16}{c:>8}" for a, b, c in [names, *rows]]
    return held(names, rows, "\n".join(lines) + "\n", file_name="data.txt")


@trait
def excel_line(rng, names, rows, d):
    return held(names, rows, f"sep={d}\r\n" + text([names, *rows], d, "\r\n"))


@trait
def ragged(rng, names, rows, d):
    lines = text([names, *rows], d).splitlines()
    lines.insert(3, d.join(["more"] * (len(names) + 2)))
    return held(names, rows, "\n".join(lines) + "\n", extra=1)


@trait
def years_over_columns(rng, names, rows, d):
    names = ["region", "2019", "2020", "2021"]
    rows = [[rng.choice(WORDS), *(str(rng.randrange(5000, 9000)) for _ in range(3))] for _ in rows]
    return held(names, rows, text([names, *rows], d))


@trait
def other_encoding(rng, names, rows, d):
    words, encoding = rng.choice([(CYRILLIC, "cp1251"), (TOWNS[:6], "cp1252"), (TOWNS[1:], "cp1250"),
                                  (["東京都", "大阪府", "表示"], "shift_jis"), (["北京市", "上海"], "gbk"),
                                  (TOWNS[:6], "mac_roman"), (CYRILLIC, "utf-16")])  # fmt: skip
    rows = [[row[0], words[n % len(words)], *row[2:]] for n, row in enumerate(rows)]
    return held(names, rows, text([names, *rows], d), encoding=encoding)


def dumped(rows: Rows, escapes: dict[str, str], delimiter: str = "\t") -> str:
    """Write rows as a database does: empty cells are null."""
    marks = str.maketrans(escapes)
    return text([[c.translate(marks) or "\\N" for c in row] for row in rows], delimiter)


def dump_with_notes(rows: Rows, notes: list[str], escapes: dict[str, str], file_name: str):
    """Make a dump with a header; the third column has the notes in turn."""
    names = ["id", "town", "note"]
    rows = [[*row[:2], notes[n % len(notes)]] for n, row in enumerate(rows)]
    return held(names, rows, text([names], "\t") + dumped(rows, escapes), file_name=file_name)


@trait
def dump_of_postgres(rng, names, rows, d):
    notes = ["", "one\n\nTwo", "C:\\new\\table", "a\t-", "plain"]
    escapes = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return dump_with_notes(rows, notes, escapes, "data.tsv")


@trait
def dump_of_postgres_with_words_after_escapes(rng, names, rows, d):
    rows = [[row[0], "" if n % 3 else f"{row[1]}\nnext line"] for n, row in enumerate(rows)]
    lines = text([["id", "note"]], "\t") + dumped(rows, {"\n": "\\n"})
    return held(["id", "note"], rows, lines, file_name="data.tsv")


@trait
def dump_of_mysql(rng, names, rows, d):
    notes = ["", "one\ntwo", "C:\\new\\table", "a\tb", "plain"]
    escapes = {"\\": "\\\\", "\n": "\\\n", "\t": "\\\t"}
    return dump_with_notes(rows, notes, escapes, "data.txt")


@trait
def text_of_hive(rng, names, rows, d):
    rows = [[*row[:2], "" if n % 3 else "a, b\tc"] for n, row in enumerate(rows)]
    lines = text([["id", "town", "note"]], "\x01") + dumped(rows, {}, "\x01")
    return held(["id", "town", "note"], rows, lines, file_name="000000_0")


@trait
def dump_without_header(rng, names, rows, d):
    rows = [[row[0], "" if n % 2 == 0 else row[1], row[2]] for n, row in enumerate(rows)]
    return held(["c1", "c2", "c3"], rows, dumped(rows, {}), file_name="data.tsv")


@trait
def paths_between_tabs(rng, names, rows, d):
    paths = ["C:\\new\\table", "\\\\host\\temp\\net", "src\\test\\new", "\\nu + \\rho"]
    rows = [[row[0], paths[n % 4]] for n, row in enumerate(rows)]
    return held(["id", "path"], rows, text([["id", "path"], *rows], "\t"), file_name="data.tsv")


@trait
def json_between_tabs(rng, names, rows, d):
    rows = [[row[0], f'{{"a": "{row[1]}\\nnext", "b": "\\t"}}'] for row in rows]
    return held(["id", "doc"], rows, text([["id", "doc"], *rows], "\t"), file_name="data.tsv")


@trait
def short_rows(rng, names, rows, d):
    rows = [row[:2] for row in rows]
    return held(names[:2], rows, text([["id", "town", "year", "total", "code"], *rows], d))


def corpus(each: int = 10, seed: int = 26, only: str | None = None) -> Iterator[Held]:
    """Make files of each trait, or of one."""
    for name, make in TRAITS.items() if only is None else [(only, TRAITS[only])]:
        for number in range(each):
            rng = random.Random(f"{seed} {name} {number}")
            names, rows = table(rng)
            yield replace(make(rng, names, rows, [",", ";", "\t", "|"][number % 4]), trait=name)
