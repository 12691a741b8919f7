"""Compare the CPU time per million rows of ddbload's engines and other clients.

    python -m bench.compare [--rows 400000] [--slow-rows 20000] [--rounds 5] [--seed 1]
        [--shapes ngrams,wide,quoted] [--latencies 0,5] [--wires tls,plain]
        [--clients sync,threads@8,async,batch_writer,pool,aiobotocore]
        [--json bench/results/latest.json]

Each client runs as a process pinned to one core; the sink runs on another core. The clients' order
rotates with each round. Clients that go through botocore read only the first `--slow-rows` rows.
Each client also imports a file of 25 rows, which gives its start-up time; the result for a million
rows counts it once. A round whose items do not match the file's exactly ends the run with an error.
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

from bench.checksum import ItemChecksum, expected_checksum
from bench.clients import RIVALS_PYTHON, ROOT, TABLE, Client, client_names
from bench.medians import ClientMedians, Round, client_medians, table
from bench.native import FLOOR, GO, bodies_path, build, write_bodies
from bench.rounds import Cores, InvalidRound, Scenario, SinkProcess, rotated, run, sink
from bench.shapes import SHAPES, Shape

START_ROWS = 25
BUSY_LOAD = 0.5
"""Load average above which other processes disturb the measurement through shared caches."""
WIRES = {"tls": True, "plain": False}


@dataclass(frozen=True, slots=True)
class File:
    """File to import, with the checksum of its items."""

    path: Path
    due: ItemChecksum

    @classmethod
    def generate(
        cls, folder: Path, shape: Shape, rows: int, seed: int, *, bodies: bool = False
    ) -> File:
        """Generate a file. `bodies`: also generate the requests that the floor sends."""
        path = folder / f"{shape.name}-{rows}{shape.suffix}"
        shape.write(path, rows, seed)
        due = expected_checksum(path, shape)
        if due.items != rows:
            raise RuntimeError(f"{path.name} has {due.items} rows instead of {rows}")
        if bodies:
            write_bodies(path, shape, TABLE)
        return cls(path, due)


def warm_up(
    clients: Sequence[Client],
    scenario: Scenario,
    file: File,
    sink_process: SinkProcess,
    cores: Cores,
) -> None:
    """Run each client once, so that its modules are compiled and cached. Raises `InvalidRound`."""
    for client in clients:
        _say(f"warming up {client.label}")
        run(client, scenario, file.path, file.due, sink_process, cores)


def measure(
    clients: Sequence[Client],
    scenario: Scenario,
    files: dict[int, File],
    rows_of: Callable[[Client], int],
    rounds: int,
    sink_process: SinkProcess,
    cores: Cores,
) -> list[Round]:
    """Run all rounds of a scenario. Raises `InvalidRound`."""
    done: list[Round] = []
    for turn in range(rounds):
        for client in rotated(clients, turn):
            _say(f"{scenario.title}: round {turn + 1} of {rounds}, {client.label}")
            costs = {}
            for rows in (START_ROWS, rows_of(client)):
                file = files[rows]
                costs[rows] = run(client, scenario, file.path, file.due, sink_process, cores)
            rows = rows_of(client)
            done.append(
                Round(client, scenario, turn, START_ROWS, costs[START_ROWS], rows, costs[rows])
            )
    return done


def machine() -> dict[str, Any]:
    """Describe the machine and the versions in use."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: metadata.version(name) for name in ("boto3", "botocore")}
        | _pinned(ROOT / "locks" / "bench.txt", ("aiobotocore", "aiohttp")),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")


def _pinned(lock: Path, packages: Sequence[str]) -> dict[str, str]:
    pins = (line.split(" ")[0].partition("==") for line in lock.read_text().splitlines())
    return {name: version for name, _, version in pins if name in packages}


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _clients(text: str) -> list[Client]:
    try:
        found = [Client.parse(each) for each in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError("a client is named twice")
    return found


def _possible(clients: Sequence[Client]) -> list[Client]:
    """Compile rivals; print and leave out those that cannot be compiled here."""
    possible: list[Client] = []
    for client in clients:
        missing = build(client.name) if client.name in (FLOOR, GO) else None
        if missing is None:
            possible.append(client)
        else:
            print(f"without {client.name}: {missing}")
    if not possible:
        sys.exit("no client is left to measure")
    return possible


def _latencies(text: str) -> list[float]:
    """Parse milliseconds, separated by commas, into seconds."""
    found = [float(each) / 1000 for each in text.split(",")]
    if not all(0 <= each < 60 for each in found):
        raise ValueError(text)
    return found


def _listed(known: Sequence[str]) -> Callable[[str], list[str]]:
    def names_of(text: str) -> list[str]:
        for each in text.split(","):
            if each not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown value {each!r}: choose from {', '.join(known)}"
                )
        return text.split(",")

    return names_of


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    results = ROOT / "bench" / "results"
    parser = argparse.ArgumentParser(
        description="Compare the CPU time of ddbload's engines and other clients.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--rows", type=int, default=400_000, help="rows to import with engines that bypass botocore"
    )
    add(
        "--slow-rows",
        type=int,
        default=20_000,
        help="rows to import with clients that use botocore",
    )
    add("--rounds", type=int, default=5, help="rounds of each scenario")
    add("--seed", type=int, default=1, help="seed of the generated files")
    add("--shapes", type=_listed(list(SHAPES)), default=",".join(SHAPES), help="shapes of files")
    add("--latencies", type=_latencies, default="0,5", help="milliseconds before each response")
    add(
        "--wires",
        type=_listed(list(WIRES)),
        default=",".join(WIRES),
        help="with TLS, without, or both",
    )
    add(
        "--clients",
        type=_clients,
        default=_clients(",".join(client_names())),
        help="clients; threads@8 sends 8 requests at once",
    )
    add("--json", type=Path, default=results / "latest.json", help="file for all figures")
    options = parser.parse_args(words)
    if min(options.rows, options.slow_rows) <= START_ROWS or options.rounds < 1:
        parser.error(
            f"--rows and --slow-rows must be at least {START_ROWS + 1}, --rounds at least 1"
        )
    if not RIVALS_PYTHON.exists() and any(each.name == "aiobotocore" for each in options.clients):
        parser.error(
            f"aiobotocore needs the environment {RIVALS_PYTHON.parents[1].name}: run `make bench`"
        )
    return options


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print tables, and write JSON."""
    options = _arguments(words)
    cores = Cores.for_this_machine()
    on = machine()
    caption = (
        f"{on['python']}, {on['machine']}, {on['processor']}, {on['cores']} cores,"
        f" seed {options.seed}, {options.rounds} rounds"
    )
    print(caption)
    if on["load_before"] > BUSY_LOAD:
        print(f"warning: load average {on['load_before']}: other processes slow every client down")
    if cores.client is None or cores.client == cores.others:
        print("warning: client and sink share a core, so rows/s mean little")

    def rows_of(client: Client) -> int:
        rows: int = options.rows if client.is_fast else options.slow_rows
        return rows

    clients = _possible(options.clients)
    rounds: list[Round] = []
    panels: list[list[ClientMedians]] = []
    with (
        tempfile.TemporaryDirectory(prefix="ddbload-bench-") as folder,
        sink(cores) as sink_process,
    ):
        for name in options.shapes:
            shape = SHAPES[name]
            files = {
                rows: File.generate(
                    Path(folder),
                    shape,
                    rows,
                    options.seed,
                    bodies=any(each.name == FLOOR for each in clients),
                )
                for rows in {START_ROWS, *map(rows_of, clients)}
            }
            for scenario in (
                Scenario(shape, WIRES[wire], latency)
                for wire in options.wires
                for latency in options.latencies
            ):
                # The floor supports only TLS.
                measured = [each for each in clients if scenario.tls or each.name != FLOOR]
                try:
                    if not rounds:
                        warm_up(measured, scenario, files[START_ROWS], sink_process, cores)
                    done = measure(
                        measured,
                        scenario,
                        files,
                        rows_of,
                        options.rounds,
                        sink_process,
                        cores,
                    )
                except InvalidRound as refused:
                    _say("")
                    sys.exit(str(refused))
                _say("")
                rounds += done
                panels.append(client_medians(done))
                print("\n" + table(panels[-1]), flush=True)
            for file in files.values():
                file.path.unlink()
                bodies_path(file.path).unlink(missing_ok=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "seed": options.seed,
        "rounds_each": options.rounds,
        "machine": on,
        "figures": [figure.to_json() for panel in panels for figure in panel],
        "rounds": [each.to_json() for each in rounds],
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{options.json}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
