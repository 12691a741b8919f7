"""JSONPath: each path of a definition is parsed once, and not each time it is followed.

moto's parser makes its grammar anew for every path, which is a sixth of what a state costs.
"""

from __future__ import annotations

import functools

from moto.stepfunctions.parser.asl.utils import json_path

_KEPT = 1000


def apply() -> None:
    """Keep what has been parsed: it only ever looks, and so may be shared by threads."""
    parse = json_path.parse  # type: ignore[attr-defined]
    json_path.parse = functools.lru_cache(_KEPT)(parse)  # type: ignore[attr-defined]
