"""Functions' code is unpacked once, whoever else unpacks it."""

from __future__ import annotations

import io
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localaws.functions.pool import unpack


def archive(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return data.getvalue()


def test_pools_of_a_changed_function_unpack_the_same_code_at_once(tmp_path: Path) -> None:
    archives = [archive({f"{n}.py": str(n) for n in range(200)}), archive({"0.py": "later"})]
    folder = tmp_path / "code"
    together = threading.Barrier(8)

    def unpack_it(_: int) -> None:
        together.wait()
        unpack(archives, folder)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(unpack_it, range(8)))
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "0.py").read_text() == "later"
    assert len(list(folder.iterdir())) == 200
