"""CPU seconds of `ddbload import` for a million lines of JSON, by shape, in one or more checkouts.

    python -m bench.json_encoders [--rows 100000] [--rounds 5] [--shapes json-uniform,...]
        [--checkouts .,../other]

Compare two ways to encode by two checkouts. Each round is one process of `ddbload import
--processes 1` against the sink (`bench/sink.py`); variants take turns. A round in which the sink
does not receive exactly the file's items is refused, and ends the run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from bench.checksum import ItemChecksum
from bench.clients import ROOT, TABLE, Client
from bench.compare import machine
from bench.rounds import Cores, InvalidRound, Scenario, run, sink
from bench.shapes import Shape

START_ROWS = 25
Row = dict[str, Any]
_WORDS = (
    *("time", "year", "people", "way", "day", "thing", "life", "child", "world", "school", "state"),
    *("family", "group", "country", "problem", "hand", "part", "place", "case", "week", "company"),
)


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


def _date(rng: random.Random) -> str:
    return f"20{rng.randint(10, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T12:00:00Z"


def _uniform(rng: random.Random) -> Iterator[Row]:
    """Yield orders: 15 attributes in every row, a few of them null."""
    for number in _counted():
        name = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}"
        yield {
            "id": f"order-{number:09}",
            "customer": rng.randint(1, 10**6),
            "name": name,
            "email": f"{name.replace(' ', '.')}@example.com",
            "street": f"{rng.choice(_WORDS)} street {rng.randint(1, 300)}",
            "postcode": str(rng.randint(10000, 99999)),
            "country": rng.choice(("DE", "FR", "JP", "US")),
            "placed": _date(rng),
            "status": rng.choice(("new", "paid", "sent", "returned")),
            "pieces": rng.randint(1, 20),
            "price": rng.randint(1, 10**6) / 100,
            "latitude": round(rng.uniform(-90, 90), 6),
            "gift": rng.random() < 0.5,
            "rating": rng.randint(1, 5) if rng.random() < 0.8 else None,
            "note": _text(rng, 6) if rng.random() < 0.3 else None,
        }


def _five(rng: random.Random) -> Iterator[Row]:
    """Yield events of five kinds, each kind with the same attributes."""
    for number in _counted():
        row = {"id": f"event-{number:09}", "at": _date(rng), "user": rng.randint(1, 10**6)}
        kind = rng.randint(1, 5)
        match kind:
            case 1:
                row |= {"kind": "view", "page": f"/{rng.choice(_WORDS)}", "ms": rng.randint(1, 999)}
            case 2:
                row |= {"kind": "search", "query": _text(rng, 3), "hits": rng.randint(0, 99)}
            case 3:
                row |= {"kind": "cart", "sku": f"sku-{rng.randint(1, 9999)}", "gift": True}
            case 4:
                total = rng.randint(1, 10**6) / 100
                row |= {"kind": "order", "order": rng.randint(1, 10**9), "total": total, "tax": 19}
            case _:
                row |= {"kind": "review", "stars": rng.randint(1, 5), "text": _text(rng, 12)}
        yield row


def _sparse(rng: random.Random) -> Iterator[Row]:
    """Yield products: 24 optional attributes, each in 40 % of the rows: hardly two rows alike."""
    names = [f"{each}_{kind}" for each in _WORDS[:12] for kind in ("text", "count")]
    for number in _counted():
        row: Row = {"id": f"product-{number:09}", "name": _text(rng, 3)}
        for name in names:
            if rng.random() < 0.4:
                row[name] = _text(rng, 2) if name.endswith("text") else rng.randint(0, 10**5)
        yield row


def _nested(rng: random.Random) -> Iterator[Row]:
    """Yield baskets: a map, a list of tags, and a list of one to five maps."""
    for number in _counted():
        yield {
            "id": f"basket-{number:09}",
            "customer": {
                "name": _text(rng, 2),
                "age": rng.randint(18, 99),
                "address": {"street": _text(rng, 2), "city": rng.choice(_WORDS), "zip": "12345"},
            },
            "tags": rng.choices(_WORDS, k=rng.randint(0, 3)),
            "lines": [
                {"sku": f"sku-{rng.randint(1, 9999)}", "pieces": rng.randint(1, 9), "price": 9.99}
                for _ in range(rng.randint(1, 5))
            ],
            "paid": rng.random() < 0.9,
            "total": rng.randint(1, 10**6) / 100,
        }


def _single_table(rng: random.Random) -> Iterator[Row]:
    """Yield a single-table design: five kinds of items, optional attributes, some nested."""
    makers = [_uniform(rng), _five(rng), _nested(rng), _five(rng), _uniform(rng)]
    for number in _counted():
        row = next(makers[rng.randrange(5)])
        yield {**_optional(rng, row), "id": f"item-{number:09}"}


def _optional(rng: random.Random, row: Row) -> Row:
    return {name: value for name, value in row.items() if rng.random() < 0.95}


def _counted() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _value(value: Any) -> dict[str, Any]:
    """Give a value in DynamoDB's JSON."""
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | float() | Decimal():
            return {"N": json.dumps(value)}
        case dict():
            return {"M": _item(value)}
        case list():
            return {"L": [_value(each) for each in value]}
        case _:
            return {"NULL": True}


def _item(row: Row) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A kind of file to import."""

    rows: Callable[[random.Random], Iterator[Row]]
    format: str

    def write(self, path: Path, rows: int) -> ItemChecksum:
        """Write a file of so many rows. Gives the items that must arrive."""
        due = ItemChecksum()
        made: list[Row] = []
        rng = random.Random(f"{self.rows.__name__} 1")
        with path.open("w", encoding="utf-8") as file:
            for row in islice(self.rows(rng), rows):
                item = _item(_without_nulls(row))
                due.add(item)
                if self.format == "parquet":
                    made.append(row)
                    continue
                line = {"json": row, "dynamodb-json": item, "dynamodb-export": {"Item": item}}
                said = json.dumps(line[self.format], ensure_ascii=False, separators=(",", ":"))
                file.write(said + "\n")
        if made:
            from pyarrow import Table, parquet

            parquet.write_table(Table.from_pylist(made), path)
        return due


FILES = {
    "json-uniform": JsonFile(_uniform, "json"),
    "json-5-kinds": JsonFile(_five, "json"),
    "json-sparse": JsonFile(_sparse, "json"),
    "json-nested": JsonFile(_nested, "json"),
    "typed-uniform": JsonFile(_uniform, "dynamodb-json"),
    "typed-5-kinds": JsonFile(_five, "dynamodb-json"),
    "typed-sparse": JsonFile(_sparse, "dynamodb-json"),
    "typed-nested": JsonFile(_nested, "dynamodb-json"),
    "export": JsonFile(_single_table, "dynamodb-export"),
    "parquet": JsonFile(_uniform, "parquet"),
}


@dataclass(frozen=True, slots=True)
class Checkout(Client):
    """`ddbload import` as another folder has it."""

    folder: Path = ROOT
    format: str = "json"

    @property
    def ours(self) -> bool:
        """True: its own counts are checked too."""
        return True

    def command(self, file: Path, shape: Shape, folder: Path) -> list[str]:
        """Import a file of JSON lines."""
        del shape
        return [
            *("env", f"PYTHONPATH={self.folder}", sys.executable, "-P", "-m", "ddbload", "import"),
            *(str(file), TABLE, "--format", self.format, "--processes", "1", "--json"),
            *("--ledger", str(folder)),
        ]


def measure(name: str, asked: argparse.Namespace) -> dict[Path, list[float]]:
    """Compute CPU seconds for a million rows, by round and checkout. Raises `InvalidRound`."""
    kind = FILES[name]
    cores = Cores.of_this_machine()
    table = Shape(name, {"id": "S"}, ("id",), "", header=False, rows=lambda _: iter(()))
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder, sink(cores) as to:
        few, all_rows = Path(folder, "few"), Path(folder, "all")
        files = [(few, kind.write(few, START_ROWS)), (all_rows, kind.write(all_rows, asked.rows))]
        scenario = Scenario(table, tls=True, latency=0.0)
        clients = [Checkout("async", 16, each, kind.format) for each in asked.checkouts]
        for client in clients:
            # Modules are compiled here, not in a round.
            run(client, scenario, *files[0], to, cores)
        found: dict[Path, list[tuple[float, float]]] = {each.folder: [] for each in clients}
        for turn in range(asked.rounds):
            first = turn % len(clients)
            for client in (*clients[first:], *clients[:first]):
                start, cost = (run(client, scenario, *each, to, cores).cpu for each in files)
                found[client.folder].append((start, cost))
    return {checkout: _per_million(rounds, asked.rows) for checkout, rounds in found.items()}


def _per_million(rounds: Sequence[tuple[float, float]], rows: int) -> list[float]:
    start = statistics.median(start for start, _ in rounds)
    return [
        start + (cost - start) / (rows - START_ROWS) * (1_000_000 - START_ROWS)
        for _, cost in rounds
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="CPU of importing JSON, by shape and checkout.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default=",".join(FILES))
    parser.add_argument("--checkouts", default=str(ROOT))
    asked = parser.parse_args(words)
    asked.checkouts = [Path(each).resolve() for each in asked.checkouts.split(",")]
    on = machine()
    print(f"{on['python']}, {on['processor']}, load {on['load_before']}, {asked.rounds} rounds")
    print("CPU seconds of the whole import for a million rows: median (least to most)")
    for name in asked.shapes.split(","):
        try:
            found = measure(name, asked)
        except InvalidRound as refused:
            sys.exit(str(refused))
        for checkout, cpu in found.items():
            figure = f"{statistics.median(cpu):6.2f} ({min(cpu):.2f} to {max(cpu):.2f})"
            print(f"{name:16}{checkout.name:24}{figure}", flush=True)


if __name__ == "__main__":
    main()
