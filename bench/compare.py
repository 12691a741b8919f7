"""Every engine of ours beside what else there is: CPU seconds a million rows, in one run.

    python -m bench.compare [--rows 400000] [--slow-rows 20000] [--rounds 5] [--seed 1]
        [--shapes ngrams,wide,quoted] [--latencies 0,5] [--wires tls,plain]
        [--clients sync,threads@8,async,batch_writer,pool,aiobotocore]
        [--json bench/results/latest.json] [--svg bench/results/latest.svg]

Each client is a process of its own on a core of its own; the sink is on another. Rounds go in
rotated order. Clients that go through botocore read the file's first `--slow-rows` rows only, and
each imports a file of 25 rows too: so start-up is known, and counted once for a million rows. A
round in which not exactly the file's items arrive is refused, and ends the run with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.charts import svg, table
from bench.checksum import ItemChecksum, expected_checksum
from bench.clients import RIVALS_PYTHON, ROOT, Client, names
from bench.medians import ClientMedians, Round, figures
from bench.rounds import Cores, InvalidRound, Scenario, SinkProcess, run, sink
from bench.shapes import SHAPES, Shape

START_ROWS = 25
BUSY = 0.5
"""Processes that run already, by the system's own average, and share caches with the client."""
WIRES = {"tls": True, "plain": False}


@dataclass(frozen=True, slots=True)
class File:
    """A file to import, and what has to arrive of it."""

    path: Path
    due: ItemChecksum

    @classmethod
    def made(cls, folder: Path, shape: Shape, rows: int, seed: int) -> File:
        """A new one."""
        path = folder / f"{shape.name}-{rows}{shape.suffix}"
        shape.write(path, rows, seed)
        due = expected_checksum(path, shape)
        if due.items != rows:
            raise RuntimeError(f"{path.name} has {due.items} rows")
        return cls(path, due)


def warm_up(
    clients: Sequence[Client], scenario: Scenario, file: File, to: SinkProcess, cores: Cores
) -> None:
    """Have each client's modules compiled, and in the system's cache. Raises `InvalidRound`."""
    for client in clients:
        _say(f"warming up {client.label}")
        run(client, scenario, file.path, file.due, to, cores)


def measure(
    clients: Sequence[Client],
    scenario: Scenario,
    files: dict[int, File],
    rows_of: Callable[[Client], int],
    rounds: int,
    to: SinkProcess,
    cores: Cores,
) -> list[Round]:
    """All rounds of a scenario. Raises `InvalidRound`."""
    done: list[Round] = []
    for turn in range(rounds):
        first = turn % len(clients)
        for client in (*clients[first:], *clients[:first]):
            _say(f"{scenario.title}: round {turn + 1} of {rounds}, {client.label}")
            costs = {}
            for rows in (START_ROWS, rows_of(client)):
                file = files[rows]
                costs[rows] = run(client, scenario, file.path, file.due, to, cores)
            rows = rows_of(client)
            done.append(
                Round(client, scenario, turn, START_ROWS, costs[START_ROWS], rows, costs[rows])
            )
    return done


def machine() -> dict[str, Any]:
    """Where it was measured, and with what."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: metadata.version(name) for name in ("boto3", "botocore")}
        | _pinned(ROOT / "bench" / "requirements.txt", ("aiobotocore", "aiohttp")),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")


def _pinned(requirements: Path, packages: Sequence[str]) -> dict[str, str]:
    pins = (line.split(" ")[0].partition("==") for line in requirements.read_text().splitlines())
    return {name: version for name, _, version in pins if name in packages}


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _clients(text: str) -> list[Client]:
    try:
        found = [Client.named(each) for each in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError("a client is named twice")
    return found


def _latencies(text: str) -> list[float]:
    """Seconds, from milliseconds."""
    found = [float(each) / 1000 for each in text.split(",")]
    if not all(0 <= each < 60 for each in found):
        raise ValueError(text)
    return found


def _listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    def names_of(text: str) -> list[str]:
        for each in text.split(","):
            if each not in known:
                raise argparse.ArgumentTypeError(f"{each!r} is none of {', '.join(known)}")
        return text.split(",")

    return names_of


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    results = ROOT / "bench" / "results"
    parser = argparse.ArgumentParser(
        description="Every engine of ours beside what else there is.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--rows", type=int, default=400_000, help="of a file, for clients with their own wire")
    add("--slow-rows", type=int, default=20_000, help="of a file, for those that use botocore")
    add("--rounds", type=int, default=5)
    add("--seed", type=int, default=1)
    add("--shapes", type=_listed(list(SHAPES)), default=",".join(SHAPES))
    add("--latencies", type=_latencies, default="0,5", help="milliseconds until an answer")
    add("--wires", type=_listed(list(WIRES)), default=",".join(WIRES))
    add(
        "--clients", type=_clients, default=_clients(",".join(names())), help="threads@8: 8 at once"
    )
    add("--json", type=Path, default=results / "latest.json")
    add("--svg", type=Path, default=results / "latest.svg")
    asked = parser.parse_args(words)
    if min(asked.rows, asked.slow_rows) <= START_ROWS or asked.rounds < 1:
        parser.error(f"at least {START_ROWS + 1} rows, and one round")
    if not RIVALS_PYTHON.exists() and any(each.name == "aiobotocore" for each in asked.clients):
        parser.error("aiobotocore has an environment of its own, which `make bench` makes")
    return asked


def main(words: Sequence[str] | None = None) -> None:
    """Measure; print tables, and write JSON and SVG."""
    asked = _arguments(words)
    cores = Cores.for_this_machine()
    on = machine()
    caption = (
        f"{on['python']}, {on['machine']}, {on['processor']}, {on['cores']} cores,"
        f" seed {asked.seed}, {asked.rounds} rounds"
    )
    print(caption)
    if on["load_before"] > BUSY:
        print(
            f"others keep this machine busy (load {on['load_before']}): it costs all of them more"
        )
    if cores.client is None or cores.client == cores.others:
        print("not pinned: client and sink share a core, so rows/s say little")

    def rows_of(client: Client) -> int:
        rows: int = asked.rows if client.quick else asked.slow_rows
        return rows

    rounds: list[Round] = []
    panels: list[list[ClientMedians]] = []
    with tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder, sink(cores) as to:
        for name in asked.shapes:
            shape = SHAPES[name]
            files = {
                rows: File.made(Path(folder), shape, rows, asked.seed)
                for rows in {START_ROWS, *map(rows_of, asked.clients)}
            }
            for scenario in (
                Scenario(shape, WIRES[wire], latency)
                for wire in asked.wires
                for latency in asked.latencies
            ):
                try:
                    if not rounds:
                        warm_up(asked.clients, scenario, files[START_ROWS], to, cores)
                    done = measure(asked.clients, scenario, files, rows_of, asked.rounds, to, cores)
                except InvalidRound as refused:
                    _say("")
                    sys.exit(str(refused))
                _say("")
                rounds += done
                panels.append(figures(done))
                print("\n" + table(panels[-1]), flush=True)
            for file in files.values():
                file.path.unlink()
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.svg.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "seed": asked.seed,
        "rounds_each": asked.rounds,
        "machine": on,
        "figures": [figure.to_json() for panel in panels for figure in panel],
        "rounds": [each.to_json() for each in rounds],
    }
    asked.json.write_text(json.dumps(result, indent=1) + "\n")
    asked.svg.write_text(svg(panels, caption))
    print(f"\n{asked.json}\n{asked.svg}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
