"""One good table with one fault at a time, as the Pollock benchmark pollutes its source.

The faults are Pollock's (rebuilt, not copied): another delimiter or line end, another quote, a
preamble or a footnote, rows with more or fewer fields, with another delimiter or quote, a header
of several rows, none, or with empty names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.sniffing.corpus import Sample

HEADER = [
    "DATE",
    "TIME",
    "Qty",
    "PRODUCTID",
    "Price",
    "ProductType",
    "Description",
    "URL",
    "Comments",
]
ROWS = [
    [f"{n % 28 + 1:02}/06/2018", f"{n % 24:02}:30:00", str(n), f"P{n * 37 % 1000:03}", f"{n}.99",
     ("Book", "Toy", "Tool")[n % 3], f'A "fine" thing, no {n}', f"https://example.org/p?id={n}",
     ("", "ok", "late; call, please")[n % 3]]
    for n in range(1, 41)
]  # fmt: skip


def written(
    rows: list[list[str]], delimiter: str = ",", quote: str = '"', end: str = "\r\n"
) -> str:
    """Write rows with every field quoted."""
    return "".join(row_text(row, delimiter, quote) + end for row in rows)


def row_text(row: list[str], delimiter: str = ",", quote: str = '"') -> str:
    """Write one row with every field quoted."""
    return delimiter.join(f"{quote}{cell.replace(quote, 2 * quote)}{quote}" for cell in row)


TABLE = [HEADER, *ROWS]


def polluted() -> Iterator[Sample]:
    """Make the files."""
    yield Sample("source", written(TABLE), ",")
    for name in ("\u00a0", "$.csv", ".csv", "source.pdf", "source.tsv", "source"):
        yield Sample(f"name {name!r}", written(TABLE), ",", file_name=name)
    for encoding in ("latin-1", "utf-16-le"):
        mark = "\ufeff" if encoding.startswith("utf-16") else ""
        yield Sample(encoding, mark + written(TABLE), ",", encoding=encoding)
    for count in (1, 2, 300):
        rows = [[*(row * 40)[:count]] for row in TABLE]
        yield Sample(f"{count} columns", written(rows), "," if count > 1 else None)
    yield Sample("only a header", written(TABLE[:1]), ",")
    yield Sample("one row", written(TABLE[:2]), ",")
    yield Sample("no header", written(ROWS), ",", header=False)
    for delimited in (True, False):
        for empty in (True, False):
            extra = [["Preamble " + str(n), *[""] * 8] for n in range(3)]
            text = written(extra) if delimited else "".join(f'"{row[0]}"\r\n' for row in extra)
            text += ("," * 8 if delimited else "") + "\r\n" if empty else ""
            yield Sample(
                f"preamble {delimited} {empty}", text + written(TABLE), ",", skip_lines=3 + empty
            )
            yield Sample(f"footnote {delimited} {empty}", written(TABLE) + text, ",")
    for end in ("\n", "\r"):
        yield Sample(f"line end {end!r}", written(TABLE, end=end), ",")
    for delimiter in (";", "|", " ", "\t", "\t\t", ":", ", ", "\\t"):
        yield Sample(f"delimiter {delimiter!r}", written(TABLE, delimiter), delimiter)
    yield Sample("quote '", written(TABLE, quote="'"), ",", quote="'")
    for row in (0, 1, 20, 40):
        for count in (0, 5, 15):
            changed = [list(each) for each in TABLE]
            changed[row] = [*changed[row], *["more"] * 6][:count]
            yield Sample(f"row {row} of {count} fields", written(changed), ",")
        texts = written(TABLE).splitlines()
        for name, text in (
            (";", row_text(TABLE[row], ";")),
            ("'", row_text(TABLE[row], ",", "'")),
            ("\\", row_text(TABLE[row]).replace('""', '\\"')),
            ("a lone quote", '"' + row_text(TABLE[row])),
        ):
            lines = [*texts[:row], text, *texts[row + 1 :]]
            yield Sample(f"row {row} with {name}", "".join(line + "\r\n" for line in lines), ",")
    for count in (2, 3):
        more = [[f"HEADER {n}"] * 9 for n in range(count - 1)]
        yield Sample(f"header of {count} rows", written([*more, *TABLE]), ",")
    for place in (0, 4, 8):
        head = [*HEADER[:place], "", *HEADER[place + 1 :]]
        yield Sample(f"no name {place}", written([head, *ROWS]), ",")
    yield Sample("same name twice", written([["A", "A", *HEADER[2:]], *ROWS]), ",")
    for width in (6, 12):
        other = [[f"t{n}"] * width for n in range(10)]
        yield Sample(f"second table of {width}", written([*TABLE, *other]), ",")
    yield Sample("escape \\", written(TABLE).replace('""fine""', '\\"fine\\"'), ",")
