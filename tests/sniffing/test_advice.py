"""Advice is a law: what is read without options is right, and so is what `best` reads."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from ddbload.cli.commands import run as command
from tests.sniffing.traits import TRAITS, Held, corpus

ASKED = {
    **dict.fromkeys(("no_header", "row_names_of_r", "units_row", "header_of_two_rows"), 10),
    "aligned_by_blanks": 10,
    "pairs_before": 1,
    "dump_without_header": 10,
}
"""Files of a trait that are refused with the right `best`. These numbers may only fall."""
CHOSEN = {
    "other_encoding": 6,
    **dict.fromkeys(("row_names_before_empty_cells", "comment_before_one_column"), 10),
    **dict.fromkeys(("dump_of_postgres_with_words_after_escapes", "short_rows"), 10),
}
"""Files that are refused with options of which only a person sees which is right."""
Ended = tuple[int, dict[str, Any], list[dict[str, str]]]


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `ddbload convert` on a file."""

    def run(data: bytes, name: str, *options: str) -> Ended:
        path, out = tmp_path / name, tmp_path / "out"
        path.write_bytes(data)
        out.unlink(missing_ok=True)
        rejects = ["--rejects", str(tmp_path / "rejects")]
        words = ["convert", str(path), str(out), "--json", *rejects, *options]
        code = command(words, lambda: False)
        shown = json.loads(capsys.readouterr().out)
        lines = out.read_text().splitlines() if code in (0, 3) else []
        items = [json.loads(line)["Item"] for line in lines]
        return code, shown, [{k: v["S"] for k, v in item.items()} for item in items]

    return run


def is_right(file: Held, ended: Ended) -> bool:
    code, shown, items = ended
    return code in (0, 3) and items == file.items and shown["rows"]["rejected"] <= file.extra


def piped(data: bytes, option: dict[str, Any]) -> bytes:
    """Pass a file through the command that an option names."""
    if "pipe" not in option:
        return data
    words = ["sh", "-c", option["pipe"]]
    return subprocess.run(words, check=True, input=data, capture_output=True).stdout


@pytest.mark.parametrize("trait", TRAITS)
def test_file_is_read_right_or_refused_with_the_right_best(trait: str, convert: Any) -> None:
    found: dict[str, list[Held]] = defaultdict(list)
    for file in corpus(only=trait):
        ended = convert(file.data, file.file_name)
        code, shown, _ = ended
        if is_right(file, ended):
            found["right"].append(file)
            continue
        if code == 3 and shown["rows"]["rejected"] > file.extra:
            # Rows of the table are rejected, and said to be.
            assert len(ended[2]) + shown["rows"]["rejected"] >= len(file.rows), file
            found["rejected"].append(file)
            continue
        assert code == 1, ("silently wrong", file, ended)
        options = shown["error"]["options"]
        best = [option for option in options if option["best"]]
        tried = [
            convert(piped(file.data, o), file.file_name, *o["options"]) for o in best or options
        ]
        assert any(is_right(file, each) for each in tried), (file, options, tried)
        found["best" if best else "chosen"].append(file)
    counts = Counter({name: len(files) for name, files in found.items()})
    assert counts["best"] <= ASKED.get(trait, 0), found["best"][:1]
    assert counts["chosen"] <= CHOSEN.get(trait, 0), found["chosen"][:1]
    assert not counts["rejected"], found["rejected"][:1]


def test_corpus_is_large_enough() -> None:
    assert sum(1 for _ in corpus()) >= 300
